/* far_priv.h - the state of the far program
 *
 * It speaks frames (backend/ssh/wire.h) on stdin and stdout and owns an ordinary local backend in a
 * home on its host.  It lives as long as the connection; runs, their logs and their journal stay.
 */
#pragma once
#include "backend/ssh/calls.h"
#include "base/map.h"
#include "base/vec.h"
#include "io/loop.h"

/* Output of a run on its way to the daemon: one per run and kind of stream.  `sent` and `acked`
 * are offsets in the file, so a later connection continues where the daemon's copy ends. */
struct far_stream {
    struct far_run *run;
    enum wire_stream which;
    char *path; /* NULL = the run has no such stream */
    int fd, wd; /* -1 = not open yet, not watched */
    /* Bytes.  The difference is what the daemon has not confirmed yet; it stays below
     * WIRE_WINDOW plus one piece. */
    uint64_t sent, acked;
    bool queued; /* in far.ready */
    bool final;  /* the run has ended: `size` will not change */
    /* The next frame replaces the daemon's copy from offset 0, because the file is no longer the
     * one that the earlier bytes came from. */
    bool anew;
    /* Length of the file in bytes when the run ended.  Valid only with `final`. */
    uint64_t size;
    /* In the queue far.ready; valid only while `queued`. */
    struct far_stream *next;
};
/* A run that this connection has heard of.  runs_get makes it, runs_free frees it; the runs,
 * their logs and their notes on disk outlive it. */
struct far_run {
    uint64_t id;
    struct run_key key;
    char *run_dir; /* BERTH_RUN_DIR there: parameters and spool */
    char *work;    /* where assets go and, unless told otherwise, where the command starts */
    bool keep;     /* log and err lie in a directory that the user named */
    bool handed;   /* the local backend knows it */
    /* `ended`: the local backend reported the outcome.  `told`: the outcome was put into
     * far.out, which happens only after all output was; a rewind by the daemon clears it. */
    bool ended, told;
    int64_t log_limit_bytes;
    char trouble[WIRE_DETAIL_MAX]; /* why it cannot be started; "" = it can */
    int trouble_sys;               /* errno of that; 0 = none */
    /* The file that is being received, open for writing, and its path.  -1 and NULL between
     * files. */
    int asset_fd;
    char *asset_path;
    VEC(char *) kept; /* files to be kept, below run_dir (keep.c) */
    /* Index in `kept` of the file that is sent next, and that file opened for reading (-1 = not
     * open). */
    size_t kept_at;
    int kept_fd;
    /* Outcome and explanation from the local backend; valid only with `ended`. */
    struct run_outcome outcome;
    char detail[WIRE_DETAIL_MAX];
    struct far_stream streams[WIRE_STREAMS];
};
/* State of the process.  All of it belongs to the loop thread; work on worker threads gets
 * copies. */
struct far {
    struct loop *loop;
    struct backend *b; /* NULL until HELLO */
    /* `home` holds the runs of this controller on this host, `login` is the home directory of
     * the user. */
    char *home, *login;
    char *library;     /* unpacked; NULL = none */
    char *python_path; /* of the packages on the daemon's host; NULL = none */
    /* Frames received but not complete, and frames to send; the first `out_sent` bytes of `out`
     * have been written to stdout already. */
    struct buf in, out;
    size_t out_sent;
    struct watch *in_watch, *out_watch;
    struct map_u64 runs;
    /* Runs that WIRE_ADOPT named.  They are handed to the local backend together at
     * WIRE_ADOPTED. */
    VEC(struct run_belief) beliefs;
    bool transient; /* the controller goes away, and with it this home once nothing is left in it */
    /* Generation of the journal that the daemon was last told, so that only changes are sent. */
    uint32_t journal;
    /* socket.c */
    char *sock; /* BERTH_SOCKET of the runs; NULL = it could not be made */
    int sock_fd;
    struct watch *sock_watch;
    struct calls calls;
    /* feed.c: a queue of streams, first in, first out; ready_end points at the `next` of the
     * last one. */
    struct far_stream *ready, **ready_end;
    int inotify_fd;
    struct watch *inotify_watch;
    struct timer *poll_timer;
    struct map_u64 watched; /* inotify descriptor → stream */
};

/* ---- main.c ---- */
/* Writes what is in f->out as far as stdout takes it, without blocking.  The rest is written
 * when stdout becomes writable. */
void far_send(struct far *f);
/* Tells the daemon that this run, for its `trouble`, did not start and never will under this key.
 */
void far_refuse(struct far *f, const struct far_run *r);

/* ---- orders.c ---- */
/* Carries out one frame of the daemon.  False when the frame is malformed, unknown or comes
 * before HELLO: the caller ends the connection. */
bool orders_take(struct far *f, const struct frame_head *h, struct str body);

/* ---- runs.c ---- */
extern const struct backend_events far_events;
/* NULL when this connection has not heard of the run. */
struct far_run *runs_find(struct far *f, struct run_key key);
/* The same, but makes the run when it is missing.  The key must be one that run_key_pack
 * accepts. */
struct far_run *runs_get(struct far *f, struct run_key key);
/* Decides where the files of the run are.  `stage_dir` is relative to the login's home, "" =
 * none; the log files get the given names only inside stage_dir; err_name NULL = one log for
 * both streams. */
void runs_place(struct far *f, struct far_run *r, const char *stage_dir, const char *log_name,
                const char *err_name);
/* Writes the note that runs_recall reads in a later connection.  0, or -1 with an error. */
int runs_remember(const struct far *f, const struct far_run *r, struct err *e);
/* Sets the paths of a run that an earlier connection started, from its note.  Without a usable
 * note the run gets the paths of one without a stage_dir. */
void runs_recall(struct far *f, struct far_run *r);
/* The daemon no longer needs the run: frees r and removes the files of the run on a worker
 * thread. */
void runs_settle(struct far *f, struct far_run *r);
/* Frees the memory only; files stay. */
void runs_free(struct far *f, struct far_run *r);
/* Sends the end of the run if the run has ended and all of its output was sent; otherwise, or
 * when the end was sent before, it does nothing. */
void runs_finish(struct far *f, struct far_run *r);
void runs_done(struct far *f);
bool runs_left(const char *home); /* has it a run that is not settled? */
void runs_sweep(struct far *f);   /* on a worker: files nobody has asked about for a week */

/* ---- feed.c ---- */
/* Always 0.  Without inotify the output is found by the timer alone. */
int feed_open(struct far *f);
void feed_close(struct far *f);
void feed_watch(struct far *f, struct far_run *r); /* its files are there now */
void feed_forget(struct far *f, struct far_stream *s);
void feed_ready(struct far *f, struct far_stream *s); /* there may be something to send */
void feed_end(struct far *f, struct far_run *r);      /* nothing more will be written */
void feed_pump(struct far *f);

/* ---- socket.c ---- */
void socket_open(struct far *f, const char *controller);
void socket_close(struct far *f);

/* ---- stage.c ---- */
/* Notes why it cannot be started, unless an earlier reason is noted. */
void stage_trouble(struct far_run *r, const struct err *e, const char *behind);
void stage_begin(struct far *f, struct far_run *r);
void stage_take(struct far_run *r, const struct wire_asset *a, struct str name, struct str bytes);
void stage_end(struct far_run *r); /* closes the file that is open */

/* ---- keep.c ---- */
void keep_list(struct far_run *r);
bool keep_send(struct far *f, struct far_run *r); /* a piece; true when there is more */
void keep_done(struct far_run *r);

/* ---- stray.c ---- */
/* Tells the daemon which runs live here that it has not named. */
void stray_look(struct far *f);

/* ---- library.c ---- */
char *library_open(void); /* its directory, yours; NULL when there is none */

/* ---- login.c ---- */
struct arena;
/* The submitter's environment as it is of use here. */
char **login_env(const struct far *f, const struct far_run *r, char *const *envp,
                 const char *submitted_dir, struct arena *a);
