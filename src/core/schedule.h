/* schedule.h - schedules: definitions that submit their jobs again and again
 *
 * The core decides when a schedule is due, under which moment it submits, and what happens when an
 * earlier job of it is still active (model/schedule.h has the rules).  ops->fire makes the
 * submission.  The jobs and the settled moment are one transaction: a moment submits its job once,
 * wherever a crash comes between.
 *
 * A clock that is set back never repeats a moment: the schedule waits until the clock has passed
 * its last settled moment.  A new definition, or core_schedule_pause(…, false), counts from now.
 */
#pragma once
#include "core/core.h"
#include "model/schedule.h"

/* One schedule.  Owned by the core and read on the loop thread; callers must not change it or keep
 * the pointer beyond the current callback. */
struct schedule {
    uint64_t seq;
    char *name;
    struct caller owner;
    struct json *def; /* cron, timezone, overlap, catch_up, job; `dialect` when a part made it */
    struct schedule_rules rules;
    struct cron_zone zone;
    bool paused;
    int64_t created_ms, settled_s;
    int64_t next_s;            /* the next moment; 0 = none, also while it is paused */
    uint64_t last_job, last_n; /* submitted last: last_job … last_job + last_n - 1; 0 = none */
    char *trouble;             /* why the last moment submitted nothing; NULL = it did */
    struct firing *firing;     /* under way, for a moment; NULL = none */
};

/* One submission on its way, for ops->fire.  Everything is a copy, so that the schedule may change
 * meanwhile and another thread may read. */
struct firing {
    struct core *core;
    uint64_t schedule;
    char *name;
    struct caller owner;
    struct json *def;
    int64_t at_s;     /* its moment; the present time when a person runs the schedule */
    int64_t settle_s; /* see schedule_choice; 0 = a person runs it */
    struct str key;   /* idempotency key of that person's request; empty = none */
    uint64_t print;   /* of that request (submission.idempotency_print) */
    /* Of a person's request: `done` is called after the commit. */
    core_submit_fn done;
    void *arg;
};
/* The answer to ops->fire, on the loop thread: a submission of at least one job, which the core
 * takes, or NULL and the reason.  The firing is the core's again.  A reason that may pass
 * (err_retryable) is tried again later; any other settles the moment. */
void core_fired_take(struct firing *f, struct submission *s, const struct err *e);

/* What a person may say of a schedule.  `def` is copied. */
struct schedule_request {
    struct str name;
    const struct json *def;
    bool paused;
    int64_t settled_s; /* moments up to this one do not count; 0 = up to now */
};
/* A new schedule.  ERR_CONFLICT: the owner has one of this name, with another definition; the same
 * definition again changes nothing.  ERR_INVALID names the member that is wrong. */
void core_schedule_add(struct core *c, const struct schedule_request *r, const struct caller *who,
                       core_act_fn done, void *arg);
/* The schedule gets another definition, is paused, resumed or removed.  `seq` is that of a schedule
 * that the caller may see; 0 and one that is gone are ERR_NOT_FOUND, another user's ERR_DENIED. */
void core_schedule_set(struct core *c, uint64_t seq, const struct json *def, bool paused,
                       const struct caller *who, core_act_fn done, void *arg);
void core_schedule_pause(struct core *c, uint64_t seq, bool paused, const struct caller *who,
                         core_act_fn done, void *arg);
/* Its jobs stay. */
void core_schedule_remove(struct core *c, uint64_t seq, const struct caller *who, core_act_fn done,
                          void *arg);
/* Submits the job of the schedule now, also while it is paused or an earlier job is active.  No
 * moment is settled by it.  key, print: see struct firing. */
void core_schedule_run(struct core *c, uint64_t seq, struct str key, uint64_t print,
                       const struct caller *who, core_submit_fn done, void *arg);

/* ---- questions ---- */
size_t core_schedule_count(const struct core *c);
/* In the order in which they were made; at < core_schedule_count. */
const struct schedule *core_schedule_at(const struct core *c, size_t at);
/* The schedule of this owner; NULL = there is none. */
const struct schedule *core_schedule_find(const struct core *c, struct str name, uint32_t uid);
/* Does a schedule wait for a moment?  Then the daemon must not exit because it is idle. */
bool core_schedules_wait(const struct core *c);
