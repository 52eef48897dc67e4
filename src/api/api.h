/* api.h - REST under /v1: one file per resource, one table of routes */
#pragma once
#include "base/err.h"
#include "io/http_server.h"
#include "model/job.h"

struct api;
struct core;
struct store;
struct loop;
struct request_server;
/* What the handlers use.  The pointers are borrowed, the texts are copied. */
struct backup_places;
struct api_conf {
    struct request_server *requests; /* the routes are added to it */
    struct loop *loop;
    struct core *core;
    struct store *store;
    const char *home;
    uint32_t uid;    /* the user who runs the daemon: an admin, as root is */
    bool multi_user; /* others may submit through the unix socket */
    const char *version;
    /* Wall clock, in milliseconds: when the daemon started. */
    int64_t started_ms;
    void (*shutdown)(void *arg); /* POST /v1/shutdown by an admin */
    void *shutdown_arg;
    /* What a backup takes beside the home; any thread; NULL = nothing. */
    void (*beside)(void *arg, struct backup_places *out);
    void *beside_arg;
};
/* Never NULL.  All functions of this header run on the loop thread. */
struct api *api_new(const struct api_conf *c);
void api_free(struct api *a); /* after the server: calls under way hold it */
/* The host is about to close: work that takes long, as a backup, gives up. */
void api_leave(struct api *a);
/* Separate from api_new, because the host makes the server after the api. */
void api_attach(struct api *a, struct http_server *s); /* for statistics */
/* Takes over a request whose caller may see this run: its output from byte `at` (negative: from
 * the end) as it grows, or with `once` what there is.  Run 0: the job's next one. */
void api_follow(struct api *a, struct http_req *r, struct run_key key, int64_t at, bool once);
/* A study wants a trial: its job is read on a worker thread, then the controller takes it
 * (core/study.h). */
struct trial_launch;
void api_trial(struct api *a, struct trial_launch *t);
/* A schedule that is no dialect's submits: its job is read on a worker thread, then the controller
 * takes it (core/schedule.h). */
struct firing;
void api_fire(struct api *a, struct firing *f);
/* After every drained commit: new events go out to the streams. */
void api_committed(struct api *a);
/* Any thread.  Is a job on its way to disk that names a snapshot?  No row names the snapshot yet,
 * and its mark is gone already. */
bool api_claims_snapshots(const struct api *a);
/* A trouble of the machine (core/trouble.h) has begun, or is over. */
void api_troubled(struct api *a, struct str text);
