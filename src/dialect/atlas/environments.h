/* environments.h - the virtual environments of a home: who may use, make and remove one
 *
 *   ROOT/NAME        the environment; the file .complete in it says so, and its time is when a job
 *                    last began to use it
 *   ROOT/NAME.lock   held shared by every job that uses it, exclusively by who makes or removes it
 *
 * The lock is a descriptor that the job inherits, so it ends with the job, however that ends.
 */
#pragma once
#include <stdbool.h>

/* Names begin with one of these.  An environment of one job goes as soon as that job has ended. */
#define ENVIRONMENT_OF_JOB "job-"
#define ENVIRONMENT_SHARED "env-"
/* The others stay this long without a job, and at most so many stay that nobody uses. */
enum { ENVIRONMENT_DAYS = 30, ENVIRONMENT_SPARE = 16 };

struct environment {
    char *dir;
    int lock;   /* the descriptor */
    bool ready; /* complete; otherwise the directory does not exist and is ours to make */
};
/* Uses the environment if it is complete.  False: it is not, and nothing is held. */
bool environment_use(const char *root, const char *name, struct environment *out);
/* Uses it, or gets the right to make it; waits while somebody else makes it.  -1: no lock could be
 * had. */
int environment_get(const char *root, const char *name, struct environment *out);
/* It is made: from now on others may use it too. */
void environment_keep(struct environment *v);
/* It could not be made: removes it and gives it back. */
void environment_drop(struct environment *v);
/* The program that this process becomes goes on using it. */
void environment_inherit(const struct environment *v);
void environment_done(struct environment *v);
/* Removes what nobody needs any more, see above; never one that a job uses. */
void environments_prune(const char *root);
