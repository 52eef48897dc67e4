/* job_fsm.c - which event may happen to a job in which state, and where it leads
 *
 * Owns: the names of states and events, the one transition table.
 * Does not own: the decision which event it is (core) or what follows from it (side effects).
 *
 * A run may end before anybody saw it start, so every end is legal from `starting` on.  A cancel of
 * a job with a run leads through `stopping`.  A preempted job stays `running` until its run ends;
 * then core decides: `requeue`, or `succeeded` or `failed` when its command finished first.
 */
#include "base/util.h"
#include "model/job.h"

/* Entries are state + 1, because JOB_QUEUED has the number 0. */
#define TO(state) (JOB_##state + 1)
/* Every end of a run, the same from each state that has one. */
#define RUN_ENDS                                                                                   \
    [JOB_EV_SUCCEEDED] = TO(SUCCEEDED), [JOB_EV_FAILED] = TO(FAILED),                              \
    [JOB_EV_CANCELLED] = TO(CANCELLED), [JOB_EV_LOST] = TO(LOST), [JOB_EV_REQUEUE] = TO(QUEUED)

/* 0 means "not legal here"; entries are state + 1. */
static const uint8_t next[JOB_STATE_MAX][JOB_EV_MAX] = {
    [JOB_QUEUED] =
        {[JOB_EV_PLACED] = TO(STARTING), [JOB_EV_CANCEL] = TO(CANCELLED), [JOB_EV_HOLD] = TO(HELD)},
    [JOB_HELD] = {[JOB_EV_RELEASE] = TO(QUEUED), [JOB_EV_CANCEL] = TO(CANCELLED)},
    [JOB_STARTING] = {[JOB_EV_STARTED] = TO(RUNNING), [JOB_EV_CANCEL] = TO(STOPPING), RUN_ENDS},
    [JOB_RUNNING] = {[JOB_EV_CANCEL] = TO(STOPPING), RUN_ENDS},
    /* The report that it started may cross the request to stop it. */
    [JOB_STOPPING] = {[JOB_EV_STARTED] = TO(STOPPING), [JOB_EV_CANCEL] = TO(STOPPING), RUN_ENDS},
    [JOB_SUCCEEDED] = {[JOB_EV_RETRY] = TO(QUEUED)},
    [JOB_FAILED] = {[JOB_EV_RETRY] = TO(QUEUED)},
    [JOB_CANCELLED] = {[JOB_EV_RETRY] = TO(QUEUED)},
    [JOB_LOST] = {[JOB_EV_RETRY] = TO(QUEUED)},
};

const enum job_state job_states[JOB_STATE_MAX] = {
#define X(up, low, number, kind) JOB_##up,
    JOB_STATE_LIST(X)
#undef X
};
const char *const job_state_words[JOB_STATE_MAX + 2] = {
#define X(up, low, number, kind) #low,
    JOB_STATE_LIST(X)
#undef X
        "active",
    "finished"};
/* By number: a number that two states share, or one out of reach, does not compile. */
static const char *const state_names[JOB_STATE_MAX] = {
#define X(up, low, number, kind) [number] = #low,
    JOB_STATE_LIST(X)
#undef X
};

const char *job_state_name(enum job_state s)
{
    return (unsigned)s < JOB_STATE_MAX ? state_names[s] : "unknown";
}

bool job_state_parse(struct str s, enum job_state *out)
{
    for (int i = 0; i < JOB_STATE_MAX; i++) {
        if (str_eq_c(s, state_names[i])) {
            *out = (enum job_state)i;
            return true;
        }
    }
    return false;
}

/* An unknown word gives the empty set and false. */
bool job_state_set_parse(struct str word, uint32_t *out_set)
{
    enum job_state one;

    *out_set = 0;
    if (job_state_parse(word, &one))
        *out_set = UINT32_C(1) << one;
    else if (str_eq_c(word, "finished"))
        *out_set = JOB_STATES_FINAL;
    else if (str_eq_c(word, "active"))
        *out_set = JOB_STATES_ACTIVE;
    return *out_set != 0;
}

bool job_next(enum job_state s, enum job_event ev, enum job_state *out)
{
    ASSERT((unsigned)s < JOB_STATE_MAX && (unsigned)ev < JOB_EV_MAX);
    if (!next[s][ev])
        return false;
    *out = (enum job_state)(next[s][ev] - 1);
    return true;
}
