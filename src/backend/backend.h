/* backend.h - the interface between core and a place where runs run
 *
 * A backend class is a const table of functions; core holds an opaque `struct backend` per node.
 * Core calls every function on the loop thread, and every function returns at once.  A new class is
 * a folder here and a row in registry.c; null/null.c is the smallest one.
 */
#pragma once
#include "base/err.h"
#include "base/json.h"
#include "model/job.h"
#include "model/node.h"
#include "shepherd/run_start.h"

struct loop;
struct backend;

/* What core has recorded about a run of an earlier daemon, for adopt(). */
struct run_belief {
    struct run_key key;
    uint32_t journal;       /* generation the run reports to */
    int64_t pid, pid_start; /* 0 = never seen running */
    uint32_t uid;           /* whose run it is */
    /* The daemon's copies of output and reports, which a node that does not share the daemon's
     * files continues to fill.  As in run_start, but run_dir is always set; all NULL for a node
     * that needs no copies. */
    const char *log_path, *err_path, *run_dir;
};
/* Device memory that a run uses, on the fullest of its devices. */
struct run_memory {
    struct run_key key;
    int64_t bytes;
};
/* What a backend reports.  It calls every member on the loop thread and never from within a call of
 * the class.  For each key that was started or adopted it calls, in this order:
 *   started()  at most once, also for an adopted run that was recorded as running; then
 *   ended()    exactly once; or, instead of ended(), one of
 *   absent()   a withdrawn run that has not started, or an adopted run without a trace: the run
 *              never ran, nothing sent earlier will run, and core may start the same key again;
 *   refused()  nodes behind a network only.
 */
struct backend_events {
    void (*started)(void *owner, struct run_key key, int64_t pid, int64_t pid_start, int64_t at_ms);
    void (*ended)(void *owner, struct run_key key, const struct run_outcome *o, struct str detail);
    void (*absent)(void *owner, struct run_key key);
    /* A sentence for the operator, such as "the journal was cut". */
    void (*notice)(void *owner, struct str text);
    /* The devices of `n` were measured, and these runs were seen on them.  May be NULL. */
    void (*devices)(void *owner, const struct node *n, const struct run_memory *runs,
                    size_t n_runs);
    /* The members below are called by nodes behind a network, and may be NULL. */
    /* The capacity of the node changed, or whether the node can be reached. */
    void (*node)(void *owner, const struct node *n);
    /* The daemon's copy of the run's spool file has more lines. */
    void (*spooled)(void *owner, struct run_key key);
    /* The node could not take the run, with this errno value or 0.  The run never ran and never
     * will under this key. */
    void (*refused)(void *owner, struct run_key key, int sys, struct str why);
    /* A process on the node connects to the daemon, as jobs do over BERTH_SOCKET.  The receiver
     * owns fd, a stream socket.  The caller is unknown until a token proves who it is. */
    void (*call)(void *owner, int fd);
};
/* One setting of a node.  node_conf.c checks what users say against these tables, so that a class
 * with settings of its own needs no edit in the API or the command line. */
enum conf_kind { CONF_TEXT, CONF_TEXTS, CONF_COUNT, CONF_CPUS, CONF_SIZE, CONF_BOOL };
enum conf_keep {
    CONF_RECORDED, /* the store keeps it with the node */
    CONF_FLEETING, /* only for a node that is forgotten when the daemon stops */
    CONF_SECRET    /* the same, because it must never be written to disk */
};
struct conf_key {
    const char *name;
    const char *as; /* key under which a backend finds the value; NULL = name */
    enum conf_kind kind;
    int64_t max; /* longest text, also in a list, or largest number */
    enum conf_keep keep;
};
struct backend_class {
    const char *name;
    bool by_url; /* users add a node of this class with a URL whose scheme is `name` */
    const struct conf_key *keys; /* settings of this class alone, for nodes added by a URL */
    size_t n_keys;
    /* Opens one node.  `home` is the directory of the daemon, `conf` the settings of the node.  A
     * class behind a network returns before it is connected; node()->away is true until then. */
    int (*open)(struct backend **out, const char *home, const struct json *conf, struct loop *l,
                const struct backend_events *ev, void *owner, struct err *e);
    /* Frees the backend.  Its runs continue. */
    void (*close)(struct backend *b);
    /* Capacity of the node.  The devices keep their addresses and their order, and change only
     * before a call of events.devices. */
    const struct node *(*node)(struct backend *b);
    /* Whose runs the node takes, for as long as the backend is open; NULL = everybody's.  The
     * member may be NULL, with the same meaning.  Core asks it when it asks for the node. */
    const struct node_users *(*users)(struct backend *b);
    /* Generation of the journal that new runs report to; at least 1. */
    uint32_t (*journal)(struct backend *b);
    /* Starts a run.  Idempotent: the same key never runs twice, whatever was sent or lost before.
     * Fails only if the request itself is impossible; everything later is an event. */
    int (*start)(struct backend *b, const struct run_start *r, struct err *e);
    /* Sends TERM to all processes of the run, and KILL after grace_ms (negative: the grace time
     * given at start).  A run that has not started ends as cancelled.  Unknown keys are ignored. */
    void (*stop)(struct backend *b, struct run_key key, int64_t grace_ms);
    /* Takes back a run that still waits for the end of another one (run_start.after): absent()
     * follows.  Does nothing to a run whose turn has come.  NULL: the class does not use
     * run_start.after, and core sends no run ahead to its nodes. */
    void (*withdraw)(struct backend *b, struct run_key key);
    /* Sends a signal to the command alone.  Does nothing unless the run is running. */
    void (*signal)(struct backend *b, struct run_key key, int signo);
    /* Takes over runs of an earlier daemon.  Core calls it once after open, with all runs or with
     * none; until then the backend keeps every trace of earlier runs.  Core calls it again for
     * single runs that it learns of later. */
    void (*adopt)(struct backend *b, const struct run_belief *runs, size_t n);
    /* The outcome of this run is durable, so the backend may drop its trace. */
    void (*settled)(struct backend *b, struct run_key key);
};
/* Can the local backend mount directories for a run (run_start.mounts)?  Where it cannot, words of
 * the command that name a place below a mount are rewritten to the host's name of it. */
bool backend_can_mount(void);
extern const struct backend_class backend_local, backend_ssh, backend_null;
const struct backend_class *backend_find(const char *name);
