/* atlas.h - Atlas' scheduler and tracker beside our own interface
 *
 * One instance per home.  Its jobs are ordinary jobs of the queue `atlas`, which runs them strictly
 * in order on so many workers; bundles and archives are in a store of contents below
 * $FOUNDATIONS_HOME.  It answers the paths of Atlas on the home's server and on ports of its own,
 * and hands every other path on.  docs/atlas.md is the user's view.
 */
#pragma once
#include "core/core.h"
#include "io/http_server.h"

#define ATLAS_DIALECT "atlas"
#define ATLAS_QUEUE "atlas"
/* Command of our program that prepares and starts a job: src/cli/atlas_worker.c. */
#define ATLAS_WORKER_COMMAND "__atlas_worker"

struct api;
struct request_server;
struct atlas;
struct loop;
struct store;
struct atlas_conf {
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
    const char *archive_url, *tensorboard_url; /* what links begin with; NULL = loopback */
    int archive_port;                          /* where paths are those of archives; 0 = nowhere */
    /* Removes a directory in which a container left files that are not ours.  Any thread.  May be
     * NULL. */
    int (*clean)(void *arg, const char *dir, struct err *e);
    void *clean_arg;
};
int atlas_open(const struct atlas_conf *c, struct atlas **out, struct err *e);
void atlas_free(struct atlas *a);
/* After core_recover: work that a crash left is taken up again. */
void atlas_recover(struct atlas *a);
void atlas_committed(struct atlas *a); /* after every commit */
/* The two steps of closing; in between run the loop while atlas_busy. */
void atlas_shut(struct atlas *a);
bool atlas_busy(const struct atlas *a);
/* core_ops.dress */
int atlas_dress(struct atlas *a, const struct launch *l, const struct launch_facts *f,
                struct arena *mem, char ***before, struct env_sink *out, struct err *e);
