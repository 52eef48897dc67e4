/* job.h - the nouns of a job's life: states, events, runs, and the one transition table */
#pragma once
#include "base/id.h"
#include "base/str.h"
#include "model/run_key.h"
#include <stdbool.h>
#include <stdint.h>

/* Every state of a job: its name, its word, its number on disk, and what kind of state it is:
 *   WAITS  the job may still change and has no run,
 *   RUNS   the job has a run that has not ended,
 *   FINAL  nothing more happens unless somebody retries the job.
 * Numbers are stored: none is changed or used again, and a new state takes the next free one.  The
 * order of the lines is only the order in which people read the states. */
#define JOB_STATE_LIST(X)                                                                          \
    X(QUEUED, queued, 0, WAITS)                                                                    \
    X(HELD, held, 8, WAITS)                                                                        \
    X(STARTING, starting, 1, RUNS)                                                                 \
    X(RUNNING, running, 2, RUNS)                                                                   \
    X(STOPPING, stopping, 3, RUNS)                                                                 \
    X(SUCCEEDED, succeeded, 4, FINAL)                                                              \
    X(FAILED, failed, 5, FINAL)                                                                    \
    X(CANCELLED, cancelled, 6, FINAL)                                                              \
    X(LOST, lost, 7, FINAL)
enum job_state {
#define X(up, low, number, kind) JOB_##up = (number),
    JOB_STATE_LIST(X)
#undef X
#define X(up, low, number, kind) +1
        JOB_STATE_MAX = JOB_STATE_LIST(X) /* how many there are; numbers are below it */
#undef X
};
enum job_state_kind { JOB_KIND_WAITS, JOB_KIND_RUNS, JOB_KIND_FINAL };
/* Sets of states: bits 1 << state. */
enum {
#define X(up, low, number, kind) | (JOB_KIND_##kind == JOB_KIND_FINAL ? 1u << (number) : 0u)
    JOB_STATES_FINAL = 0u JOB_STATE_LIST(X),
#undef X
#define X(up, low, number, kind) | (JOB_KIND_##kind == JOB_KIND_RUNS ? 1u << (number) : 0u)
    JOB_STATES_WITH_RUN = 0u JOB_STATE_LIST(X),
#undef X
    JOB_STATES_ACTIVE = ((1u << JOB_STATE_MAX) - 1) & ~(unsigned)JOB_STATES_FINAL,
};

enum job_event {
    JOB_EV_PLACED,    /* a run was recorded and will be handed to a backend */
    JOB_EV_STARTED,   /* the command is running */
    JOB_EV_SUCCEEDED, /* exit status 0 */
    JOB_EV_FAILED,    /* any other end, or the run could not start; no retry left */
    JOB_EV_CANCEL,    /* asked for by a person */
    JOB_EV_CANCELLED, /* the run of a cancelled job has ended */
    JOB_EV_HOLD,      /* a person keeps a waiting job from starting */
    JOB_EV_RELEASE,   /* a person lets a held job start */
    JOB_EV_LOST,      /* the run vanished without an outcome; no retry left */
    JOB_EV_REQUEUE,   /* run ended, the job goes back: retry left, preempted, or start undone */
    JOB_EV_RETRY,     /* a person asks for another attempt of a finished job */
    JOB_EV_MAX
};

/* "unknown" for a number that is no state. */
const char *job_state_name(enum job_state s);
/* The lower-case name only; *out is unchanged when there is no such state. */
bool job_state_parse(struct str s, enum job_state *out);
/* All states, in the order in which people read them. */
extern const enum job_state job_states[JOB_STATE_MAX];
/* The words people have for states: each by its name, "active" for all that may still change,
 * "finished" for the others.  A word gives a set of states. */
extern const char *const job_state_words[JOB_STATE_MAX + 2];
bool job_state_set_parse(struct str word, uint32_t *out_set);
#define JOB_STATE_WORDS_TEXT                                                                       \
    "queued, held, starting, running, stopping (all of them: active), succeeded, failed, "         \
    "cancelled and lost (finished)"
static inline bool job_state_final(enum job_state s)
{
    return JOB_STATES_FINAL >> s & 1;
}
static inline bool job_state_has_run(enum job_state s)
{
    return JOB_STATES_WITH_RUN >> s & 1;
}
/* Has it no run, and may it get one? */
static inline bool job_state_waits(enum job_state s)
{
    return !job_state_final(s) && !job_state_has_run(s);
}
/* Is ev legal in s?  *out is the next state; untouched when not. */
bool job_next(enum job_state s, enum job_event ev, enum job_state *out);

/* Why a run ended, beyond its wait status.  Stored on disk: append only. */
#define RUN_END_LIST(X)                                                                            \
    X(EXITED, exited)             /* by itself, with wait status */                                \
    X(CANCELLED, cancelled)       /* we were told to stop it */                                    \
    X(TIMEOUT, timeout)           /* wall-clock limit reached */                                   \
    X(START_FAILED, start_failed) /* command not found, no such directory, …; detail says */     \
    X(SUPERVISOR_KILLED, supervisor_killed)                                                        \
    X(NEVER_RAN, never_ran) /* recorded, but no trace of it anywhere after a crash */              \
    X(NODE_LOST, node_lost) /* the machine went away or rebooted */                                \
    X(OUT_OF_MEMORY, out_of_memory)
enum run_end {
#define X(up, low) RUN_END_##up,
    RUN_END_LIST(X)
#undef X
        RUN_END_MAX
};
/* "unknown" for a number that is no end. */
const char *run_end_name(enum run_end r);
/* Does it count against the retries?  A run that never had its chance does not. */
static inline bool run_end_is_a_try(enum run_end r)
{
    return r != RUN_END_NEVER_RAN && r != RUN_END_CANCELLED;
}
/* Did the run vanish without an outcome, because its supervisor or its node died? */
static inline bool run_end_is_lost(enum run_end r)
{
    return r == RUN_END_SUPERVISOR_KILLED || r == RUN_END_NODE_LOST;
}

struct run_outcome {
    enum run_end why;
    int wait_status; /* as from waitpid; meaningless for SUPERVISOR_KILLED, NEVER_RAN, NODE_LOST,
                        START_FAILED */
    int sys;         /* errno of START_FAILED; of EXITED: ENOSPC or EDQUOT, a disk was full then */
    bool no_dir;     /* START_FAILED: its working directory is not there, or may not be entered */
    /* started_ms is 0 when the command never started. */
    int64_t started_ms, ended_ms; /* wall clock */
    int64_t max_rss_bytes, cpu_user_ms, cpu_sys_ms;
};
/* 0–255, 128+signal, 127 or 126 for START_FAILED (not found or not startable), -1 when there is
 * none; and one sentence for people, "" for a clean exit. */
int run_outcome_exit_code(const struct run_outcome *o);
void run_outcome_text(const struct run_outcome *o, char *out, size_t n);
/* The same with what the job asked for, so that the sentence can name it: "ran longer than its
 * limit of 2h", "out of memory (limit 4G)".  Fields that are 0 or empty are left out. */
struct run_facts {
    int64_t timeout_ms, mem_bytes;
    struct str detail; /* of START_FAILED: the whole sentence, "command not found: pythn" */
};
void run_outcome_describe(const struct run_outcome *o, const struct run_facts *f, char *out,
                          size_t n);
