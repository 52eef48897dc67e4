/* run_state.h - a batch that runs, as the three files that run it share it */
#pragma once
#include "dialect/hyperctl/run.h"

#define SUBMITTED "submitted" /* in .hyperctl: the home jobs were handed to */

struct hyper_run {
    struct hyperctl *h;
    const struct hyper_opts *o;
    struct hyper_batch *b;
    struct hyper_layout l;
    struct loop *loop;
    struct hyper_routes *routes;
    struct hyper_port port;
    /* the scheduler */
    struct run_session session;
    bool session_open, embedded, leftover;
    bool clean;         /* nothing was handed over: its home may go whatever went wrong */
    struct json *nodes; /* the machines, for the host in this process; NULL = none */
    char *home, *target, queue[64];
    struct hyper_feed *feed;
    bool *pending, *changed;
    uint64_t *numbers;
    size_t calls; /* under way on worker threads */
    /* what may end it */
    struct watch *interrupts, *control;
    int signo; /* that ended it; 0 = none */
    bool finished, failed;
    bool running, stopped; /* the loop: it runs; it need not, or not any more */
    struct err err;
    /* scheduler.signal_file */
    struct timer *look;
    struct watch *dir_watch;
    int dir_fd;
    bool suspended;
    /* a program that watches us */
    int events_fd, control_fd;
    int64_t began_ms;
};

/* ---- hyperctl_life.c ---- */
/* One JSON object a line to a watching program; takes `more`. */
void hyper_tell(struct hyper_run *r, const char *event, const struct hyper_job *j,
                struct json *more);
struct json *hyper_one_text(const char *key, const char *value);
void hyper_on_note(void *arg, struct hyper_note *n);
void hyper_on_say(void *arg, bool bad, const char *text);
void hyper_on_feed_over(void *arg, const struct err *e);
/* A job that cannot even be prepared has failed, and says why where its errors are looked for. */
void hyper_broken(struct hyper_run *r, struct hyper_job *j, const struct err *e);
void hyper_settle(struct hyper_run *r); /* after anything that could be the last thing */
void hyper_stop_loop(struct hyper_run *r);
void hyper_leave(struct hyper_run *r, const struct err *e);

/* ---- hyperctl_sched.c ---- */
/* Prepares what is pending, opens the scheduler and hands it over. */
int hyper_start_jobs(struct hyper_run *r, struct err *e);
void hyper_on_kill(void *arg, size_t job);
void hyper_cancel_all(struct hyper_run *r);
void hyper_close_scheduler(struct hyper_run *r);

/* ---- hyperctl_run.c ---- */
void hyper_on_interrupt(void *arg, int events, int error);
