/* shepherd_priv.h - the shepherd's own state; not for other rooms */
#pragma once
#include "base/map.h"
#include "base/vec.h"
#include "shepherd/supervisor.h"

/* First member of everything epoll points at. */
enum source { SOURCE_LISTEN, SOURCE_SIGNAL, SOURCE_CONN, SOURCE_RUN };

enum run_state {
    RUN_GATED,   /* waits for another run to end */
    RUN_UNBORN,  /* fork failed, is tried again */
    RUN_OWN,     /* its supervisor is our child */
    RUN_ADOPTED, /* its supervisor was an earlier shepherd's child; watched by pidfd */
    RUN_UNCLEAR, /* somebody holds its lock whom we cannot name yet; looked at again */
    RUN_CLEANUP, /* its supervisor is dead; its processes are being killed */
};
/* A run that has no outcome in the journal yet, as far as the shepherd knows.  It is in
 * shepherd.runs from its START or ADOPT until its outcome is recorded. */
struct run {
    enum source source;
    enum run_state state;
    uint64_t id; /* run_key_pack */
    struct run_key key;
    uint32_t journal;
    uint64_t offset; /* the daemon has read up to here; look for records after it */
    pid_t pid;       /* of the supervisor */
    int pidfd;       /* of an adopted one, else -1 */
    struct {
        bool seen; /* there is a STARTED record; the rest is what it says */
        uint32_t pid, boot;
        uint64_t pid_start;
        int64_t at_ms;
    } started;
    /* The dead supervisor was our child.  Its orphans then became our children too, so unknown
     * children of ours are candidates for cleanup. */
    bool own;
    /* A stop was requested.  It is repeated to the supervisor as soon as there is one; a run
     * that never ran ends as cancelled instead of leaving a VOID. */
    bool stopping;
    int32_t grace_ms;
    /* RUN_UNBORN: monotonic time after which a failing fork ends the run as START_FAILED. */
    int64_t give_up_ms;
    /* RUN_GATED: the run whose end is waited for; NULL in every other state. */
    struct run *after;
    struct run *followers, *next; /* gated runs waiting for this one, oldest first */
    char *frame;                  /* START, kept while it may be needed */
    size_t frame_n;
};

/* A connection from a daemon.  A closed one stays in memory until conn_sweep, because events of
 * the same epoll batch may still point at it. */
struct conn {
    enum source source;
    int fd;
    /* `greeted`: HELLO was received; only then are other frames accepted. */
    bool greeted, closed;
    struct buf in, out;
};

/* An open generation; opened on first use and closed by PROTO_FORGET. */
struct journal_file {
    uint32_t generation;
    int fd;
};

struct shepherd {
    struct run_home home;
    int epoll_fd, listen_fd, signal_fd, dir_fd;
    struct map_u64 runs; /* by id */
    /* Supervisors that are our children, by pid.  Any other child is an orphan of a killed
     * supervisor. */
    struct map_u64 by_pid;
    /* Number of runs that runs_tick has to look at (RUN_UNBORN, RUN_UNCLEAR, RUN_CLEANUP);
     * without any, the shepherd sleeps until the next event. */
    size_t n_todo;
    VEC(struct journal_file) journals;
    VEC(struct conn *) conns;
    struct proto_start start; /* decoded frame of the run being forked */
    /* Monotonic time since which there has been neither a connection nor a run, -1 = busy; and
     * how long that may last before the shepherd exits. */
    int64_t idle_since_ms, idle_exit_ms;
    /* The main loop returns after the current batch of events. */
    bool leave;
};

int64_t mono_ms(void);

/* ---- runs.c ---- */
/* False: `body` is no START. */
bool runs_start(struct shepherd *s, struct str frame, struct str body);
/* TERM, then KILL after grace_ms (-1 = the grace time of the run).  Unknown runs are ignored. */
void runs_stop(struct shepherd *s, struct run_key key, int64_t grace_ms);
/* A gated run is dropped and leaves a VOID; one whose turn has come goes on. */
void runs_withdraw(struct shepherd *s, struct run_key key);
/* To the process group of the command.  Runs without a live supervisor are ignored. */
void runs_signal(struct shepherd *s, struct run_key key, int signo);
/* Finds out what became of a run that an earlier shepherd started, and takes it over. */
void runs_adopt(struct shepherd *s, const struct proto_op *op);
/* Closes a generation that the daemon has deleted, unless one of our runs still reports to it. */
void runs_forget(struct shepherd *s, uint32_t journal);
void runs_reap(struct shepherd *s);                       /* after SIGCHLD */
void runs_pidfd_ready(struct shepherd *s, struct run *r); /* an adopted supervisor died */
void runs_tick(struct shepherd *s);                       /* while n_todo > 0 */
void runs_done(struct shepherd *s);

/* ---- outcome.c ---- */
/* What is known of a run that has no supervisor of ours. */
enum verdict {
    VERDICT_ALIVE,   /* *pid holds its lock */
    VERDICT_UNCLEAR, /* locked by somebody who cannot be named */
    VERDICT_OVER,    /* its outcome is in the journal */
    VERDICT_KILLED,  /* it started and has no outcome: clean up; we hold the lock now */
    VERDICT_NOTHING, /* no trace; we hold the lock now */
};
enum verdict outcome_judge(struct shepherd *s, struct run *r, pid_t *pid);
/* Each appends one record and releases the lock.  False: not now (disk full); try again. */
bool outcome_cleanup(struct shepherd *s, struct run *r,
                     const struct tree_scan *t); /* false also while processes remain */
bool outcome_cancelled(struct shepherd *s, struct run *r);
bool outcome_unborn(struct shepherd *s, struct run *r, int sys);
bool outcome_void(struct shepherd *s, struct run *r);
int journal_fd(struct shepherd *s, uint32_t generation); /* -1 with errno */
void journal_close(struct shepherd *s, uint32_t generation);

/* ---- conn.c ---- */
/* Accepts one connection, of our own user or root only. */
void conn_accept(struct shepherd *s);
void conn_event(struct shepherd *s, struct conn *c, uint32_t events);
void conn_sweep(struct shepherd *s); /* frees the closed ones; between batches of events */
void conn_notice(struct shepherd *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void conn_done(struct shepherd *s);
