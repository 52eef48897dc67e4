/* run_state.h - a batch that runs, as the three files that run it share it */
#pragma once
#include "dialect/hyperctl/run.h"

#define SUBMITTED "submitted" /* in .hyperctl: the home jobs were handed to */

/* The scheduler that runs the jobs: a host in this process, or the user's daemon. */
struct hyper_sched {
    struct run_session session;
    bool open;          /* the session is */
    bool embedded;      /* the host is in this process */
    bool leftover;      /* an earlier owner of the batch died: its jobs may still be there */
    bool clean;         /* no job was submitted: the home may be removed even after an error */
    struct json *nodes; /* the machines of a remote batch, with passwords; NULL = none */
    char *home;         /* of the host or daemon */
    char *target;       /* its socket, for http_client_new */
    char queue[64];     /* all jobs of this batch wait there */
    struct hyper_feed *feed;
    size_t calls; /* requests on worker threads that have not ended */
};

/* scheduler.signal_file: scheduling is suspended while the file exists. */
struct hyper_signal {
    struct timer *timer; /* for file systems without inotify */
    struct watch *watch; /* of dir_fd */
    int dir_fd;          /* inotify on its directory; -1 = none */
    bool suspended;
};

/* A program that started this one and follows it: --events-fd and --control-fd. */
struct hyper_watcher {
    int events_fd, control_fd; /* -1 = none */
    struct watch *control;
};

/* Owned by the main thread; run.h says which threads there are. */
struct hyper_run {
    struct hyperctl *h;
    const struct hyper_opts *o;
    struct hyper_batch *b;
    struct hyper_layout l;
    struct loop *loop;
    struct hyper_routes *routes;
    struct hyper_port port;
    struct hyper_sched sched;
    struct hyper_signal signal;
    struct hyper_watcher watcher;
    /* Per job of the batch. */
    bool *pending;     /* it has to run */
    bool *changed;     /* its script is not the one of the last run */
    uint64_t *numbers; /* in the scheduler; 0 = not submitted */
    /* The end. */
    struct watch *interrupts;
    int signo;     /* the signal that ended the run; 0 = none */
    bool finished; /* every job has ended */
    bool failed;   /* err says why */
    bool running;  /* the loop runs */
    bool stopped;  /* the loop has been told to stop, or need not start */
    struct err err;
    /* Monotonic clock. */
    int64_t began_ms;
};

/* ---- life.c ---- */
/* One JSON object a line to a watching program; takes `more`. */
void hyper_tell(struct hyper_run *r, const char *event, const struct hyper_job *j,
                struct json *more);
/* {key: value}; the caller frees it. */
struct json *hyper_one_text(const char *key, const char *value);
/* The next three are the callbacks of the feed, on the loop thread. */
void hyper_on_note(void *arg, struct hyper_note *n);
void hyper_on_say(void *arg, bool bad, const char *text);
void hyper_on_feed_over(void *arg, const struct err *e);
/* A job that cannot even be prepared has failed, and says why where its errors are looked for. */
void hyper_broken(struct hyper_run *r, struct hyper_job *j, const struct err *e);
void hyper_settle(struct hyper_run *r); /* after anything that could be the last thing */
/* The run ends when the current callback returns. */
void hyper_stop_loop(struct hyper_run *r);
/* Ends the run with an error. */
void hyper_leave(struct hyper_run *r, const struct err *e);

/* ---- sched.c ---- */
/* Prepares what is pending, opens the scheduler and hands it over. */
int hyper_start_jobs(struct hyper_run *r, struct err *e);
/* Asks the scheduler to cancel one job; the answer arrives as a note. */
void hyper_on_kill(void *arg, size_t job);
/* Cancels every job in the queue of the batch. */
void hyper_cancel_all(struct hyper_run *r);
/* Closes the session.  The home of an embedded host is removed unless jobs may be left in it. */
void hyper_close_scheduler(struct hyper_run *r);

/* ---- run.c ---- */
void hyper_on_interrupt(void *arg, int events, int error);
