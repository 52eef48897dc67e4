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

/* Output of a run on its way to the daemon. */
struct far_stream {
    struct far_run *run;
    enum wire_stream which;
    char *path;           /* NULL = the run has no such stream */
    int fd, wd;           /* -1 = not open yet, not watched */
    uint64_t sent, acked; /* bytes */
    bool queued;          /* in far.ready */
    bool final;           /* the run has ended: `size` will not change */
    bool anew;            /* the next frame replaces what the daemon has */
    uint64_t size;
    struct far_stream *next;
};
struct far_run {
    uint64_t id;
    struct run_key key;
    char *run_dir; /* BERTH_RUN_DIR there: parameters and spool */
    char *work;    /* where assets go and, unless told otherwise, where the command starts */
    bool keep;     /* log and err lie in a directory that the user named */
    bool handed;   /* the local backend knows it */
    bool ended, told;
    int64_t log_limit_bytes;
    char trouble[WIRE_DETAIL_MAX]; /* why it cannot be started; "" = it can */
    int asset_fd;                  /* of the file that is being received */
    char *asset_path;
    VEC(char *) kept; /* files to be kept, below run_dir (keep.c) */
    size_t kept_at;
    int kept_fd;
    struct run_outcome outcome;
    char detail[WIRE_DETAIL_MAX];
    struct far_stream streams[WIRE_STREAMS];
};
struct far {
    struct loop *loop;
    struct backend *b;  /* NULL until HELLO */
    char *home, *login; /* of this controller's runs here; of the login */
    char *library;      /* unpacked; NULL = none */
    char *python_path;  /* of the packages on the daemon's host; NULL = none */
    struct buf in, out;
    size_t out_sent;
    struct watch *in_watch, *out_watch;
    struct map_u64 runs;
    VEC(struct run_belief) beliefs; /* named, but not all of them yet */
    bool transient; /* the controller goes away, and with it this home once nothing is left in it */
    uint32_t journal; /* as last told */
    /* socket.c */
    char *sock; /* BERTH_SOCKET of the runs; NULL = it could not be made */
    int sock_fd;
    struct watch *sock_watch;
    struct calls calls;
    /* feed.c */
    struct far_stream *ready, **ready_end;
    int inotify_fd;
    struct watch *inotify_watch;
    struct timer *poll_timer;
    struct map_u64 watched; /* inotify descriptor → stream */
};

/* ---- main.c ---- */
void far_send(struct far *f); /* what is in f->out, as far as stdout takes it */
void far_refuse(struct far *f, struct run_key key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- orders.c ---- */
/* False when the daemon does not speak our language: the connection is of no use. */
bool orders_take(struct far *f, const struct wire_head *h, struct str body);

/* ---- runs.c ---- */
extern const struct backend_events far_events;
struct far_run *runs_find(struct far *f, struct run_key key);
struct far_run *runs_get(struct far *f, struct run_key key); /* made when missing */
/* stage_dir "" = none; err: has it a second log? */
void runs_place(struct far *f, struct far_run *r, const char *stage_dir, const char *log_name,
                const char *err_name);
int runs_remember(const struct far *f, const struct far_run *r, struct err *e);
void runs_recall(struct far *f, struct far_run *r); /* where its files are, from an earlier life */
void runs_settle(struct far *f, struct far_run *r);
void runs_free(struct far *f, struct far_run *r);
void runs_finish(struct far *f, struct far_run *r); /* tells the end when all output was sent */
void runs_done(struct far *f);
bool runs_left(const char *home); /* has it a run that is not settled? */
void runs_sweep(struct far *f);   /* on a worker: files nobody has asked about for a week */

/* ---- feed.c ---- */
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
void stage_begin(struct far *f, struct far_run *r);
void stage_take(struct far_run *r, const struct wire_asset *a, struct str name, struct str bytes);
void stage_end(struct far_run *r); /* closes the file that is open */

/* ---- keep.c ---- */
void keep_list(struct far_run *r);
bool keep_send(struct far *f, struct far_run *r); /* a piece; true when there is more */
void keep_done(struct far_run *r);

/* ---- library.c ---- */
char *library_open(void); /* its directory, yours; NULL when there is none */

/* ---- login.c ---- */
struct arena;
/* The submitter's environment as it is of use here. */
char **login_env(const struct far *f, const struct far_run *r, char *const *envp,
                 const char *submitted_dir, struct arena *a);
