/* schedule.h - when a schedule submits its job, as pure rules: no clock, no I/O
 *
 * A schedule is a definition (JSON), of which this noun reads the members about time:
 *
 *   {"cron": "30 6 * * 1-5", "timezone": "Europe/Paris", "overlap": "skip", "catch_up": "latest"}
 *
 * Every time at which the schedule is to submit is a moment.  A moment is settled once: its job was
 * submitted, or the moment was skipped.  Moments are settled in their order, so one number, the
 * last settled moment, says which moments are left.
 */
#pragma once
#include "model/cron.h"
#include <stdbool.h>

struct json;

/* What happens at a moment while the job of an earlier moment has not ended. */
enum schedule_overlap {
    OVERLAP_SKIP,    /* the moment is skipped */
    OVERLAP_QUEUE,   /* the new job is submitted all the same */
    OVERLAP_REPLACE, /* the earlier job is cancelled, the new one is submitted */
    OVERLAP_KINDS
};
/* What happens to moments at which no daemon was running, or the machine slept. */
enum schedule_catch_up {
    CATCH_UP_LATEST, /* one run for all of them, under the last of these moments */
    CATCH_UP_ALL,    /* one run for each of them */
    CATCH_UP_NONE,   /* they are skipped; less than SCHEDULE_LATE_S late is not missed */
    CATCH_UP_KINDS
};
extern const char *const schedule_overlap_names[OVERLAP_KINDS];
extern const char *const schedule_catch_up_names[CATCH_UP_KINDS];

enum { SCHEDULE_LATE_S = 60, SCHEDULE_ZONE_MAX = 64 };

struct schedule_rules {
    struct cron cron;
    bool timed;                       /* false: there is no `cron` yet, and no moment ever comes */
    char timezone[SCHEDULE_ZONE_MAX]; /* "" = local time of the daemon */
    enum schedule_overlap overlap;
    enum schedule_catch_up catch_up;
};
/* Other members of `def` are left to their owners.  On failure *out is unchanged. */
int schedule_rules_read(const struct json *def, struct schedule_rules *out, struct err *e);

/* The first moment after `s`; 0 = none. */
int64_t schedule_after(const struct schedule_rules *r, const struct cron_zone *z, int64_t s);

/* What is to be done about the moments in (settled_s, now_s]. */
struct schedule_choice {
    int64_t fire_s;   /* the moment to submit a job for; 0 = none of them */
    int64_t settle_s; /* all moments up to this one are settled then; 0 = there is no moment */
    int64_t missed_s; /* the first moment that is skipped because it was missed; 0 = none */
};
struct schedule_choice schedule_choose(const struct schedule_rules *r, const struct cron_zone *z,
                                       int64_t settled_s, int64_t now_s);
