/* run.h - a batch while it runs: three threads and who owns what
 *
 * The main thread runs a loop of its own: it owns the batch, its files, the port and the log.  The
 * feed is a thread that speaks to the scheduler as any client does, submits and then listens to its
 * events; what it learns is posted to the loop.  The scheduler is a host in this process (with a
 * thread and a loop of its own, cli/embed.h), or a daemon that was there before.
 */
#pragma once
#include "cli/run.h"
#include "dialect/hyperctl/hyperctl.h"
#include "io/loop.h"
#include <stdatomic.h>

/* What happened to a job; made by the feed, freed by the loop. */
enum hyper_note_kind {
    NOTE_RUNNING,
    NOTE_QUEUED, /* the job waits again: its run never began */
    NOTE_SUCCEEDED,
    NOTE_FAILED,
    NOTE_CANCELLED,
};
struct hyper_note {
    /* Index in the batch. */
    size_t job;
    enum hyper_note_kind kind;
    uint64_t number;    /* the scheduler's, for killing it */
    int64_t at_ms;      /* when */
    int64_t started_ms; /* 0 = not said */
    /* -1 and 0 = none. */
    int exit_code, signo;
    uint32_t run; /* its number; 0 = not told */
    char node[64], why[160];
};

struct hyper_feed_conf {
    struct cli *c; /* the session's; the feed's alone while it lives */
    struct loop *loop;
    const struct hyper_batch *batch; /* names and commands; the main thread changes other members */
    const struct hyper_layout *layout;
    const char *queue;       /* of the scheduler: all jobs of this batch wait there */
    const bool *changed;     /* per job: its script is not the one of the last time */
    const bool *pending;     /* per job: it shall run */
    bool tell_params;        /* for the listings of a daemon; a file more for every job */
    const struct json *lent; /* machines to tell the daemon of; NULL = none, or it is ours */
    bool leftover;           /* an earlier owner died: its jobs may still be there */
    bool suspended;          /* begin with the queue paused */
    void (*say)(void *arg, bool bad, const char *text); /* on the loop: a line for the log */
    void (*note)(void *arg, struct hyper_note *n); /* on the loop; n is valid during the call */
    void (*over)(void *arg, const struct err *e);  /* on the loop, once; e NULL = all have ended */
    void *arg;
};
struct hyper_feed;
/* Copies *c; what it points to must live until hyper_feed_join.  NULL with e set on failure. */
struct hyper_feed *hyper_feed_start(const struct hyper_feed_conf *c, struct err *e);
/* Submit nothing any more; what was submitted is cancelled by the caller. */
void hyper_feed_stop(struct hyper_feed *f);
/* After `over`: nothing was ever handed to the scheduler. */
bool hyper_feed_idle(const struct hyper_feed *f);
void hyper_feed_join(struct hyper_feed *f); /* after `over`; NULL is fine */

/* ---- submit.c ---- */
/* The body of the submission of all pending jobs that have neither a number nor an end; order[k] is
 * the index of its k-th job.  Yours. */
struct json *hyper_submission(const struct hyper_feed_conf *c, const uint64_t *numbers,
                              const bool *ended, size_t *order, size_t *out_n);

/* ---- far.c: batches on other machines ---- */
/* What the host needs to know of the machines: a list of {"name", "conf"}, with passwords, kept in
 * memory alone.  Yours. */
struct json *hyper_far_nodes(const struct hyper_batch *b);
/* Tells a daemon of the nodes in such a list (NULL = none) unless it knows them; `anew`: those it
 * knows and does not use are told again.  Later: that it need not know them any more. */
int hyper_far_lend(struct cli *c, const struct json *nodes, bool anew, struct err *e);
void hyper_far_take_back(struct cli *c, const struct json *nodes);
/* Waits until one connection to every machine succeeded or failed, and logs which; an error when
 * all of them failed.  On the feed's thread; *stop ends the waiting. */
int hyper_far_test(struct cli *c, const struct hyper_batch *b, const atomic_bool *stop,
                   void (*say)(void *arg, bool bad, const char *text), void *arg, struct err *e);
/* An earlier owner may have used machines that are not in the batch now: what ran there is given
 * up, so that it can run elsewhere. */
int hyper_far_forget(struct cli *c, const struct hyper_batch *b, struct err *e);
/* Makes {J}/stdout and {J}/stderr the output that the scheduler in `home` receives for this run:
 * growing while it runs, files of their own when `ended`. */
int hyper_far_output(const char *home, const struct hyper_job *j, uint64_t number, uint32_t run,
                     bool ended, struct err *e);

/* ---- port.c: the batch's port ---- */
struct hyper_port {
    struct http_server *http;
    char *portal, *job_portal; /* for people; for jobs, with the token where one is needed */
    char *token;
    int port;
    bool loopback;
};
/* Which addresses, and whether a token is needed; makes the token.  Before anything listens. */
int hyper_port_prepare(struct hyper_port *p, const struct hyper_batch *b,
                       const struct hyper_layout *l, struct err *e);
/* Listens on the socket in the batch directory and on the port. */
int hyper_port_listen(struct hyper_port *p, const struct hyper_batch *b,
                      const struct hyper_layout *l, struct err *e);
void hyper_port_close(struct hyper_port *p, struct loop *loop, const struct hyper_layout *l);
