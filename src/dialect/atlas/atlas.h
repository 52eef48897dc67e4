/* atlas.h - Atlas' scheduler and tracker beside our own interface
 *
 * One instance per home.  Its jobs are ordinary jobs of the queue `atlas`, which runs them strictly
 * in order on so many workers; bundles and archives are in a store of contents below
 * $FOUNDATIONS_HOME.  It answers the paths of Atlas on the home's server and on ports of its own,
 * and hands every other path on.  docs/atlas.md is the user's view.
 */
#pragma once
#include "host/part.h"

#define ATLAS_DIALECT "atlas"
#define ATLAS_QUEUE "atlas"
/* Command of this program that prepares and starts a job: cmd_worker.c. */
#define ATLAS_WORKER_COMMAND "__atlas_worker"

struct atlas;
struct atlas_conf {
    const struct host_env *env;
    struct loop *loop;
    struct core *core;
    struct store *store;
    struct api *api;
    struct request_server *requests; /* the routes are added to it */
    const char *home;                /* $FOUNDATIONS_HOME */
    const char *program;             /* ours, to start workers with */
    const char *python;              /* of the built-in worker; NULL = the first python3 of PATH */
    uint32_t uid;                    /* the daemon's */
    bool mounts;                     /* the backend can mount directories for a run */
    int32_t workers;                 /* 0 = as many as there were, at first one */
    bool backfill;                   /* smaller jobs may pass one that waits for GPUs */
    bool authenticate;               /* nobody without a token */
    const char *tensorboard_url;     /* what links begin with; NULL = loopback */
    int archive_port;                /* where paths are those of archives; 0 = nowhere */
};
int atlas_open(const struct atlas_conf *c, struct atlas **out, struct err *e);
extern const struct host_part atlas_part;
/* Operations of atlas_part; self is the struct atlas. */
int atlas_launch(void *self, const struct launch *l, const struct launch_facts *f,
                 struct launch_extras *x, struct err *e);
int atlas_ended(void *self, const struct host_ended *job, struct err *e);
void atlas_recovered(void *self);
void atlas_committed(void *self);
void atlas_shut(void *self);
void atlas_free(void *self); /* NULL is fine */
