/* scheduled_priv.h - jobs that run again and again: definitions, firings, requests
 *
 * All of it belongs to the loop thread.  One thing at a time: a request or a firing has the whole
 * list to itself (`busy`), so what its worker threads read does not change under them.
 */
#pragma once
#include "dialect/atlas/atlas_priv.h"
#include "dialect/atlas/translate.h"
#include "model/cron.h"

enum { SCHEDULED_MAX = 10 };

struct scheduled {
    char id[ID_UUID_MAX];
    struct json *def; /* job_id, spec, metadata, gpu_spec, schedule */
    struct cron cron;
    bool timed, paused; /* timed: it has a schedule at all */
    int64_t done_s;     /* firings up to this moment are settled */
    int64_t next_s;     /* the next one; 0 = none */
    struct caller owner;
};
struct schedules_wait { /* a request that waits for its turn */
    struct call *c;
    call_work_fn work;
    call_fn then;
};
struct turn { /* data of a call whose turn it is */
    struct schedules *s;
    struct scheduled *x; /* what it makes of a definition; NULL once that is in the list */
    struct atlas_room room;
};
struct schedules {
    struct atlas *a;
    char *dir;
    struct timer *timer;
    VEC(struct scheduled *) all;
    VEC(struct schedules_wait) waiting;
    bool busy;
};

/* ---- scheduled_file.c: definitions, on disk and in memory; any thread ---- */
void scheduled_free(struct scheduled *x);
struct scheduled *scheduled_copy(const struct scheduled *x);
/* A schedule, or none at all: null or an empty object. */
int scheduled_set_times(struct scheduled *x, const struct json *schedule, struct err *e);
int scheduled_write(const char *dir, const struct scheduled *x, struct err *e);
int scheduled_read(const char *path, struct scheduled **out, struct err *e);
/* Its bundle is kept under this name. */
void scheduled_tree(const char *id, char out[64]);
/* Whatever is left of a definition that is not complete, or is to go, goes. */
int scheduled_mark(const char *dir, const char *id, struct err *e);
int scheduled_unmark(const char *dir, const char *id, struct err *e);
int scheduled_erase(struct cas *cas, const char *dir, const char *id, struct err *e);
/* The first firing after a moment; 0 = none. */
int64_t scheduled_after(const struct scheduled *x, int64_t s);
void scheduled_run_id(const struct scheduled *x, int64_t s, char out[ATLAS_ID_MAX]);

/* ---- scheduled.c ---- */
int64_t schedules_now(void);
/* atlas_work(c, work, then) as soon as no other request and no firing is under way; the turn ends
 * with the call. */
void schedules_turn(struct call *c, call_work_fn work, call_fn then);
struct scheduled *schedules_find(const struct schedules *s, const char *id);
/* Its definition is another one from now on; takes it. */
void schedules_put_take(struct schedules *s, struct scheduled *x);
void schedules_drop(struct schedules *s, const char *id);
