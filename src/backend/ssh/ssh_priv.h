/* ssh_priv.h - the ssh backend's own state; not for other rooms */
#pragma once
#include "backend/backend.h"
#include "backend/ssh/calls.h"
#include "backend/ssh/ssh_link.h"
#include "backend/ssh/wire.h"
#include "base/map.h"
#include "base/vec.h"
#include "io/loop.h"

/* ---- runs (ssh.c) ---- */

enum ssh_run_state {
    SSH_WAITING, /* START was never sent: its connection or its files are not there yet */
    SSH_SENT,    /* sent or adopted, no word of it yet */
    SSH_RUNNING,
    SSH_ENDED,  /* core was told; kept until it is durable */
    SSH_ABSENT, /* core was told that it never ran; it may start it again */
};
/* The daemon's copy of one stream of a run. */
struct ssh_copy {
    char *path; /* here; NULL = this run has none */
    /* Bytes of the copy, which are the first bytes of the original.  Valid only with `known`. */
    uint64_t have;
    bool known; /* `have` was looked up */
};
/* A run that core handed over and has not settled.  It is in backend.runs until then. */
struct ssh_run {
    uint64_t id;
    struct run_key key;
    enum ssh_run_state state;
    uint32_t journal;
    /* Whose run it is, here.  Of an adopted run the group is not known (USER_NO_GROUP), and not
     * needed: its directory was made when it started. */
    uint32_t uid, gid;
    int64_t pid, pid_start;
    /* A stop was requested; it is repeated after every new connection until the run has ended. */
    bool stopping;
    int64_t grace_ms;
    /* Bit N: signal N was requested while the node was away; sent when the run is heard of
     * again. */
    uint64_t signals;
    uint64_t order;
    /* Monotonic time of the start or the adoption; a START that could not be sent for
     * conf.start_timeout_ms is refused. */
    int64_t since_ms;
    char *frame; /* START, kept until there is word of the run */
    size_t frame_n;
    /* Files to be sent before the START, as "from:to"; NULL-terminated, NULL = none. */
    char **assets;
    char *stage_dir; /* "" = none */
    struct ssh_copy copies[WIRE_STREAMS];
    /* The files of the copies were created, so that an empty log exists too. */
    bool touched;
    /* Started by this daemon, not adopted: a second log is then known to exist or not. */
    bool fresh;
    bool ending; /* the end is known, the copies are not complete */
    /* What the far program reported, kept until the copies are complete; valid only with
     * `ending`. */
    struct wire_ended end;
    char detail[WIRE_DETAIL_MAX + 1];
};

/* ---- the connection ---- */

enum ssh_state {
    SSH_IDLE,      /* until the timer */
    SSH_PREPARING, /* the programs to send are being read */
    SSH_DIALING,   /* ssh runs; nothing came from the other side */
    SSH_UPLOADING, /* the programs are being sent, or checked there */
    SSH_GREETING,  /* the far program was started */
    SSH_UP,
    SSH_LEAVING, /* ssh was told to end, or ended: its last words are being collected */
};
/* What is wrong with the connection, in people's words. */
struct trouble {
    bool lasting; /* will not go away by trying again soon */
    char text[160];
};
/* What is sent to the other side, read once for all hosts. */
/* Shared by the backends of one process and counted in `refs`.  `bytes` does not change after
 * it was read; `hash` is in hex and names the directory on the other side. */
struct far_programs {
    char *far, *shepherd; /* paths here */
    char *python_path;
    char *bytes; /* both and the library (library.c), one after the other */
    size_t far_n, shepherd_n, library_n;
    char hash[65];
    struct err e;
    size_t refs;
};
/* The ssh process: its pid and pidfd, and our ends of its stdin, stdout and stderr.  `secrets`
 * is a memory file with the password; -1 stands for every descriptor that is not open. */
struct ssh_child {
    int pid, pidfd; /* 0, -1 = none */
    int in, out, errs, secrets;
    struct watch *in_watch, *out_watch, *errs_watch, *exit_watch;
};
/* The settings of the node.  All texts belong to the struct; NULL = not given. */
struct ssh_conf {
    char *name, *host, *user, *identity, *known_hosts, *host_key, *agent, *password, *passphrase;
    char *stage_root;          /* NULL = the login's home */
    char *python_path;         /* of our Python packages, here; NULL = none are sent */
    int64_t port;              /* 0 = as ssh has it */
    int64_t connect_timeout_s; /* of TCP and greeting */
    int64_t start_timeout_ms;  /* a run that could not be sent for so long is refused */
    bool accept_new;
    struct json *node; /* {"slots","mcpu","mem_bytes","gpus",…}, as for the local backend */
};
struct upload;
struct loading;

/* The connection to the node (connect.c): the ssh process, the bytes in both directions and the
 * timers that open it again after it broke. */
struct ssh_link {
    enum ssh_state state;
    struct ssh_child child;
    struct far_programs *programs;
    /* The programs are being read by a worker thread; NULL = no. */
    struct loading *loading;
    struct buf in, out, said; /* said: on stderr */
    size_t out_sent;
    size_t uploaded; /* bytes of programs->bytes */
    struct timer *timer, *alive_timer, *more_timer;
    /* Frames are being processed.  connect_send then does nothing, so that the replies to a
     * batch of frames leave in one write. */
    bool taking;
    int64_t again_ms; /* end of the back-off, monotonic */
    /* Next back-off; when the connection came up; when the last byte arrived.  The latter two
     * are monotonic. */
    int64_t backoff_ms, up_since_ms, heard_ms;
    bool was_up; /* at least once */
    struct trouble trouble;
};

struct backend {
    struct loop *loop;
    const struct backend_events *ev;
    void *owner;
    char *home;
    struct ssh_conf conf;
    char controller[64]; /* whose runs these are, there */
    struct node node;
    uint32_t journal;
    struct map_u64 runs; /* by id */
    uint64_t order;
    /* Runs that core settled while the node was away.  The far program is told at the next
     * connection. */
    VEC(struct run_key) unsettled;
    /* Reports what must not be reported from within a call of the class: the runs in `cancelled`
     * and `failed`. */
    struct timer *post_timer;
    VEC(struct run_key) cancelled, failed;
    VEC(char *) failed_why;
    struct timer *refuse_timer, *rewind_timer;
    VEC(struct run_key) rewinds; /* whose copies could not be written */
    bool recalled;               /* core has named the runs from before */
    struct ssh_link link;
    struct calls calls;
    struct upload *upload; /* assets under way; one run at a time */
    /* Runs whose START is to be sent, in this order; each waits for the upload before it. */
    VEC(struct run_key) to_start;
};

/* ---- facts.c ---- */
/* Processes one frame of the far program.  False: the frame makes no sense and the connection
 * is to be dropped. */
bool facts_take(struct backend *b, const struct frame_head *h, struct str body);
void facts_rewind(void *backend); /* asks again for what could not be written */

/* ---- ssh.c ---- */
void ssh_on_up(struct backend *b);   /* greeted: adopt, then start what waits */
void ssh_on_away(struct backend *b); /* state or trouble changed */
/* NULL when core never handed this run over, or has settled it. */
struct ssh_run *ssh_find(struct backend *b, struct run_key key);
void ssh_fail_start(struct backend *b, struct run_key key, const char *why); /* at the next turn */
void ssh_sent(struct backend *b, struct ssh_run *r);                         /* START is out */
void ssh_start_next(struct backend *b); /* START of those whose turn it is */
void ssh_drop_start(struct ssh_run *r); /* what would be needed to send it again */
/* Appends the signals that were requested while the node was away, and clears them. */
void ssh_put_signals(struct backend *b, struct ssh_run *r);
/* Gives the run back to core and frees r.  Only for a run that certainly did not run. */
void ssh_refuse(struct backend *b, struct ssh_run *r, int sys, struct str why);
/* It ended without the host, or before it was heard of there. */
void ssh_end_here(struct backend *b, struct run_key key, enum run_end why, const char *detail);

/* ---- conf.c ---- */
/* On failure c may be partly filled; ssh_conf_done is safe then. */
int ssh_conf_read(struct ssh_conf *c, const struct json *conf, struct err *e);
void ssh_conf_done(struct ssh_conf *c);
char *ssh_conf_where(const struct ssh_conf *c); /* "user@host:port", for people */

/* ---- connect.c ---- */
/* Returns before anything is connected; the first attempt is made from the loop. */
int connect_open(struct backend *b, struct err *e);
/* Waits up to a second for a connected ssh to deliver what was sent last, then kills it. */
void connect_close(struct backend *b);
void connect_now(struct backend *b); /* does not wait out the back-off */
/* Writes what is in link.out as far as the pipe takes it, without blocking. */
void connect_send(struct backend *b);
/* Ends the connection for this reason ("" = what ssh says itself).  `lasting`: trying again
 * soon is of no use.  Does nothing when the connection is already ending. */
void connect_drop(struct backend *b, bool lasting, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- bootstrap.c ---- */
/* The script that ssh runs, without single quotes; the caller frees it. */
char *bootstrap_script(const struct backend *b);
/* Takes lines off b->in until the far program speaks.  False: connect_drop was called. */
bool bootstrap_read(struct backend *b);
bool bootstrap_waits(const struct backend *b); /* for room in the pipe */
void bootstrap_feed(struct backend *b);        /* more of the programs, as the pipe takes them */

/* ---- child.c ---- */
/* Starts ssh with pipes.  0, or -1 with an error and nothing left open. */
int child_start(struct backend *b, const char *script, struct err *e);
/* SIGKILL; whoever watches or closes the connection reaps the process. */
void child_kill(struct backend *b);
void child_close(struct backend *b); /* descriptors and watches; the process is reaped or gone */
char *child_find(const char *variable, const char *name); /* path of a program of ours, or NULL */

/* ---- trouble.c ---- */
/* From what ssh and the shell there said, and how ssh ended. */
void trouble_of(const struct ssh_conf *c, struct str said, int wait_status, struct trouble *out);

/* ---- programs.c ---- */
void programs_load(struct backend *b, loop_fn done); /* b->programs is set when done is called */
/* Gives up this backend's share of the programs, also while they are still being read. */
void programs_drop(struct backend *b);

/* ---- library.c ---- */
/* Initialises out with the Python packages and the command berth, as a sequence of WIRE_ASSET
 * frames. */
void library_make(struct buf *out, const char *python_path);

/* ---- copies.c ---- */
/* Sets the paths of the copies; nothing is opened.  NULL = no such copy. */
void copies_set(struct ssh_run *r, const char *log, const char *err, const char *run_dir);
/* Forgets the paths; the files stay. */
void copies_done(struct ssh_run *r);
void copies_reset(struct ssh_run *r); /* a new start: from the beginning */
/* How much of each stream is here, in bytes: the far program continues there. */
void copies_sizes(struct ssh_run *r, uint64_t out[WIRE_STREAMS]);
/* Writes a piece; false when that is not possible now. */
bool copies_write(struct ssh_run *r, const struct wire_log *l, struct str bytes, struct err *e);
/* A file that the run wants kept. */
int copies_keep(struct ssh_run *r, const struct wire_asset *a, struct str name, struct str bytes,
                struct err *e);
void copies_touch(struct ssh_run *r); /* the log exists, even if nothing was printed */
/* Are the copies at least as long as the sizes that came with the end of the run? */
bool copies_complete(struct ssh_run *r, const uint64_t size[WIRE_STREAMS]);

/* ---- assets.c ---- */
/* Checks the names before the run is accepted.  0, or -1 with an error. */
int assets_check(char *const *assets, struct err *e);
void assets_begin(struct backend *b, struct ssh_run *r); /* ends in ssh_sent or ssh_fail_start */
void assets_more(struct backend *b);                     /* the pipe has room */
void assets_abort(struct backend *b);                    /* the connection is gone */
bool assets_wait(const struct backend *b);               /* for room in the pipe */
/* Are the files of this run being sent now? */
bool assets_on_the_way(const struct backend *b, struct run_key key);
