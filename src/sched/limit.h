/* limit.h - how many of something may run at once
 *
 * A limit counts the running jobs of one queue, one batch or one user.  Every job counts against
 * each limit of its shape (queue.h), and may start only while all of them are open.  This is the
 * only place that answers "may one more of this start?": the planner, the planner of GPUs, the
 * restart of runs and explain ask limit_open.  A new kind of limit is one more row here and in
 * limit.c, and the line in queue.c that says which jobs count against it.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum limit_kind { LIMIT_QUEUE, LIMIT_BATCH, LIMIT_USER, LIMIT_KINDS };

struct limit {
    enum limit_kind kind;
    int32_t max;     /* 0 = as many as there is room for */
    int32_t running; /* jobs that hold resources now */
    int32_t planned; /* started by the planning pass under way; 0 between passes */
    bool paused;     /* nothing starts, whatever the numbers say */
    bool kept;       /* nothing starts while there is no keeper */
    int32_t keepers;
};

/* Limits that hold for everybody, from the configuration of the daemon. */
struct limit_conf {
    int32_t per_user; /* running jobs of one user; 0 = no limit */
    bool users_apart; /* nodes may differ for users, so their jobs never share a shape */
};

/* May one more job start, as far as this limit is concerned? */
static inline bool limit_open(const struct limit *l)
{
    return !l->paused && (!l->kept || l->keepers) && (!l->max || l->running + l->planned < l->max);
}

/* Why a limit that is not open refuses: "queue_paused", "queue_kept", "batch_slots", … as the API
 * says it. */
const char *limit_word(const struct limit *l);
/* The same as a sentence without an end: "its batch is limited to 4 running jobs".  `user` is the
 * owner of the job that asks. */
void limit_text(const struct limit *l, const char *user, char *out, size_t n);
