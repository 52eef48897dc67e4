/* runner_priv.h - the process that stands for one container: its state, shared by its two parts */
#pragma once
#include "backend/docker/docker_priv.h"
#include <signal.h>

/* State of the process.  One thread uses it; the gateway's thread has its own state. */
struct runner {
    struct facts f;
    struct engine g;
    int signals;          /* signalfd */
    struct json *image;   /* as the engine describes it */
    const char *endpoint; /* of the library, as seen from inside; NULL = as it is */
    gid_t *groups;        /* of the submitter, its first left out */
    size_t n_groups;
    bool no_init;     /* the engine has no first process to offer */
    bool was_started; /* found running, not started by us */
    /* started: the container runs, so signals are passed on to it.  stopping: a stop was
     * requested, and is repeated when the engine was away. */
    bool started, stopping;
    /* Open connections to the engine: output, the question how the container ends, a stop under
     * way.  NULL = not open. */
    struct engine_stream *output, *wait, *stop;
    struct frames frames;
    /* Answer to the question how the container ended, as far as it has arrived. */
    struct buf wait_text;
    struct buf refusal;     /* what the engine said instead of output */
    bool output_done, lost; /* lost: the engine went away meanwhile */
    int64_t drain_ms;       /* monotonic: output is waited for until then; 0 = not ended yet */
    int code;               /* exit status; -1 = not known yet */
};

/* "berth: …" in the log of the run. */
__attribute__((format(printf, 1, 2))) void runner_say(const char *fmt, ...);
/* Says why, leaves word for the supervisor, removes what was made, ends. */
_Noreturn __attribute__((format(printf, 4, 5))) void
runner_fail(struct runner *r, const char *kind, const char *name, const char *fmt, ...);
void runner_signals(struct runner *r); /* deals with those that came */

/* setup.c */
/* The steps before the start, in this order.  The last three end the process by runner_fail
 * when they cannot succeed; a container that setup_evict cannot remove is only logged. */
void setup_evict(struct runner *r);
void setup_image(struct runner *r);
void setup_network(struct runner *r);
void setup_create(struct runner *r);
/* The engine could not start it for want of its own first process: removed, to be made again. */
bool setup_without_init(struct runner *r, const struct err *e);
