/* run.h - a batch while it runs: one loop, one thread
 *
 * The loop owns the batch, its files, its port and its log, and the link to the scheduler (link.h),
 * which may be a host on this very loop.  What happens to jobs comes as events of the scheduler and
 * becomes markers, log lines and answers.  Nothing is kept of a job but what its files show, and
 * its number in the scheduler.
 */
#pragma once
#include "base/map.h"
#include "dialect/hyperctl/hyperctl.h"
#include "dialect/hyperctl/link.h"
#include "io/loop.h"

struct hyper_run;
#define SUBMITTED "submitted" /* in .hyperctl: the home jobs were handed to */

/* One signal that ends the run. */
struct hyper_interrupt {
    struct hyper_run *r;
    int signo;
    struct signal_watch *watch;
};
/* The scheduler that runs the jobs. */
struct hyper_sched {
    struct hyper_link *link; /* NULL = not open */
    char *home;              /* of the scheduler */
    char queue[64];          /* all jobs of this batch wait there */
    char key[64];            /* of the submission, so that a repeated one is the same */
    bool own;                /* the home is that of this batch: a host in this process serves it */
    bool leftover;           /* an earlier owner of the batch died: its jobs may still be there */
    bool submitted;          /* by us or an earlier owner: after an error jobs may be left */
    bool active;             /* something may still happen to jobs */
    bool closing;            /* answers are ignored */
    bool cancelling;         /* all jobs were told to stop, and there is no answer yet */
    /* Where the start stands (sched.c). */
    size_t step, resume;
    bool greeted;        /* last_event is known */
    uint64_t last_event; /* heard of; listening resumes behind it */
    /* Jobs that have not ended: number → index in the batch + 1, or UNWANTED. */
    struct map_u64 jobs;
    size_t unwanted;
    struct timer *again;                /* the next attempt to reach the scheduler */
    size_t prepared;                    /* so many jobs of the batch are */
    int64_t give_up_ms;                 /* monotonic; 0 = it answers */
    VEC(struct hyper_repeat *) repeats; /* jobs on their way back into the queue (repeat.c) */
    struct hyper_interrupt interrupts[3];
};

/* The machines of a remote batch, while the scheduler is told or asked about them (far.c). */
struct hyper_far {
    struct json *confs; /* one for each machine, with passwords; NULL = none */
    VEC(char *) names;  /* nodes that are to be forgotten */
    size_t at;          /* in confs or names: the one at hand */
    bool told;          /* the scheduler was told before: those it knows are ours */
    bool strict;        /* a node that cannot be forgotten is an error */
    hyper_done_fn then;
    /* The test of the connections. */
    struct timer *timer;
    bool *known; /* per machine: how it went was said */
    size_t open, good;
    int64_t until_ms;
    char last[160]; /* the last failure */
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

/* The batch's port. */
struct hyper_port {
    struct http_server *http;
    char *portal, *job_portal; /* for people; for jobs, with the token where one is needed */
    char *token;
    int port;
    bool loopback;
};

struct hyper_run {
    struct hyperctl *h;
    const struct hyper_opts *o;
    struct hyper_batch *b;
    struct hyper_layout l;
    struct loop *loop;
    struct hyper_routes *routes;
    struct hyper_port port;
    struct hyper_sched sched;
    struct hyper_far far;
    struct hyper_life *life; /* events on their way to the files; NULL = none yet */
    struct hyper_signal signal;
    struct hyper_watcher watcher;
    /* The end. */
    int signo;     /* the signal that ended the run; 0 = none */
    bool finished; /* every job has ended */
    bool failed;   /* err says why */
    bool leaves;   /* a second signal came */
    bool running;  /* the loop runs */
    bool stopped;  /* the loop has been told to stop, or need not start */
    struct err err;
    /* Monotonic clock. */
    int64_t began_ms;
    /* There is no space: it was said, and the next attempt to begin. */
    bool full;
    struct timer *go;
};

/* ---- port.c ---- */
/* Which addresses, and whether a token is needed; makes the token.  Before anything listens. */
int hyper_port_prepare(struct hyper_port *p, const struct hyper_batch *b,
                       const struct hyper_layout *l, struct err *e);
/* Listens on the socket in the batch directory and on the port. */
int hyper_port_listen(struct hyper_port *p, const struct hyper_batch *b,
                      const struct hyper_layout *l, struct err *e);
void hyper_port_close(struct hyper_port *p, struct loop *loop, const struct hyper_layout *l);

/* ---- run.c ---- */
/* The first signal stops the jobs, the second one this process, as soon as the jobs are told. */
void hyper_interrupted(struct hyper_run *r, int signo);
/* After the second signal; does not return. */
void hyper_leave_now(struct hyper_run *r);
enum { HYPER_GRACE_S = 5 }; /* from SIGTERM to SIGKILL when a job is killed */

/* How often is tried again what the disk has no space for. */
enum { SPACE_MS = 500 };
/* One line when the batch begins to wait for space, and one when it goes on. */
void hyper_space_missing(struct hyper_run *r, const struct err *e);
void hyper_space_found(struct hyper_run *r);

/* ---- life.c ---- */
/* One JSON object a line to a watching program; takes `more`. */
void hyper_tell(struct hyper_run *r, const char *event, const struct hyper_job *j,
                struct json *more);
/* {key: value}; the caller frees it. */
struct json *hyper_one_text(const char *key, const char *value);
/* The job has a new state in the scheduler: files, log and API follow, in this order. */
void hyper_job_event(struct hyper_run *r, struct hyper_job *j, const struct hyper_event *ev);
/* Events are on their way to the files; hyper_lives_written follows. */
bool hyper_life_busy(const struct hyper_run *r);
void hyper_life_free(struct hyper_run *r); /* waits for the files */
/* A job that cannot even be prepared has failed, and says why where its errors are looked for. */
void hyper_broken(struct hyper_run *r, struct hyper_job *j, const struct err *e);
/* Nothing happens to jobs any more; e NULL = all that were submitted have ended. */
void hyper_over(struct hyper_run *r, const struct err *e);
void hyper_settle(struct hyper_run *r); /* after anything that could be the last thing */
/* The run ends when the current callback returns. */
void hyper_stop_loop(struct hyper_run *r);
/* Ends the run with an error. */
void hyper_leave(struct hyper_run *r, const struct err *e);

/* ---- sched.c ---- */
/* Prepares what is pending, opens the scheduler and begins the steps to hand it over. */
int hyper_start_jobs(struct hyper_run *r, struct err *e);
/* A hyper_done_fn: the step at hand has ended. */
void hyper_step_done(void *run, const struct err *e, uint64_t number);
/* The files of all events so far are written. */
void hyper_lives_written(struct hyper_run *r);
/* From now on events of this number are events of the job. */
void hyper_track(struct hyper_run *r, struct hyper_job *j, uint64_t number, struct id id);
/* Asks the scheduler to cancel one job; its end arrives as an event. */
void hyper_on_kill(void *arg, size_t job);
/* Cancels every job of the batch that has not ended. */
void hyper_cancel_all(struct hyper_run *r);
/* Closes the link.  The batch's own home is removed unless jobs may be left in it. */
void hyper_close_scheduler(struct hyper_run *r);

/* ---- repeat.c: jobs that may have failed because nobody served their port ---- */
/* The job, whose run overlaps a gap, has failed: it runs once more instead. */
void hyper_repeat(struct hyper_run *r, struct hyper_job *j, const struct hyper_event *ev);
void hyper_repeat_again(
    struct hyper_run *r); /* the link is there: what was not answered is asked */
void hyper_repeats_free(struct hyper_run *r);

/* ---- signal_file.c ---- */
bool hyper_signal_there(const struct hyper_run *r);
void hyper_signal_watch(struct hyper_run *r);
void hyper_signal_close(struct hyper_run *r);

/* ---- adopt.c: the jobs that an earlier owner left ---- */
void hyper_step_adopt(struct hyper_run *r);
/* An unwanted job has ended. */
void hyper_unwanted_ended(struct hyper_run *r, uint64_t number);
enum { UNWANTED = -1 }; /* in hyper_sched.jobs */

/* ---- submit.c ---- */
/* Is it to be handed to the scheduler? */
bool hyper_job_waits(const struct hyper_job *j);
/* The body of the submission of all of them; yours.  NULL = there are none. */
struct json *hyper_submission(const struct hyper_run *r);

/* ---- far.c: batches on other machines ---- */
void hyper_far_init(struct hyper_run *r);
void hyper_far_done(struct hyper_run *r);
/* Steps.  The first tells the scheduler of the machines, unless it knows them.  The second waits
 * until one connection to every machine succeeded or failed, and logs which; an error when all of
 * them failed.  The third gives up what an earlier owner runs on machines that are not in the batch
 * now, so that it can run elsewhere. */
void hyper_step_lend(struct hyper_run *r);
void hyper_step_test(struct hyper_run *r);
void hyper_step_forget(struct hyper_run *r);
/* The scheduler need not know the machines any more. */
void hyper_far_take_back(struct hyper_run *r, hyper_done_fn then);
/* Makes {J}/stdout and {J}/stderr the output that the scheduler in `home` receives for this run:
 * growing while it runs, files of their own when `ended`. */
int hyper_far_output(const char *home, const struct hyper_job *j, uint32_t run, bool ended,
                     struct err *e);
