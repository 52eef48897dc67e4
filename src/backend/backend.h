/* backend.h - where runs run
 *
 * A backend is a const table; instances are opaque.  Everything happens on the loop thread and
 * returns at once.  Registration is the array in registry.c.
 */
#pragma once
#include "base/err.h"
#include "base/json.h"
#include "model/job.h"
#include "model/node.h"
#include "shepherd/run_start.h"

struct loop;
struct backend;

/* What core believes when it asks the world at start. */
struct run_belief {
    struct run_key key;
    uint32_t journal;
    int64_t pid, pid_start; /* 0 = never seen running */
    /* Where a node that does not share our files goes on with its copies; as in run_start, but
     * run_dir is always given.  NULL where the node needs none. */
    const char *log_path, *err_path, *run_dir;
};
/* Device memory of a run, on the fullest of its devices. */
struct run_memory {
    struct run_key key;
    int64_t bytes;
};
/* Every member is called on the loop thread, never from within a call of the class.  Exactly one
 * ended() follows each start() or adopt(), or absent() for an adopted run of which there is no
 * trace: it never ran, nothing sent for it before will run, and it may be started again under the
 * same key.  started() comes at most once before that, also for an adopted run that was believed to
 * be running. */
struct backend_events {
    void (*started)(void *owner, struct run_key key, int64_t pid, int64_t pid_start, int64_t at_ms);
    void (*ended)(void *owner, struct run_key key, const struct run_outcome *o, struct str detail);
    void (*absent)(void *owner, struct run_key key);
    void (*notice)(void *owner,
                   struct str text); /* something an operator should read: journal cut, … */
    /* The devices were looked at: those of the node are up to date, and the runs seen on them use
     * so much.  May be NULL. */
    void (*devices)(void *owner, const struct node *n, const struct run_memory *runs,
                    size_t n_runs);
    /* Those below are for nodes behind a network, and may be NULL. */
    /* Capacity, or whether it can be reached, is not as before. */
    void (*node)(void *owner, const struct node *n);
    /* More lines are in the local copy of the run's spool file. */
    void (*spooled)(void *owner, struct run_key key);
    /* Instead of ended(): the node could not take it.  It never ran and will not under this key. */
    void (*refused)(void *owner, struct run_key key, struct str why);
    /* Somebody on the node calls the daemon, as jobs do over BERTH_SOCKET.  fd is a stream socket
     * to serve, and yours: a stranger's, who has to prove with a token who he is. */
    void (*call)(void *owner, int fd);
};
struct backend_class {
    const char *name;
    bool by_url; /* a node of this class is added by a URL whose scheme is the class's name */
    bool far;    /* behind a network: it may be away, and may refuse; run_start.after is not used */
    int (*open)(struct backend **out, const char *home, const struct json *conf, struct loop *l,
                const struct backend_events *ev, void *owner, struct err *e);
    /* Leaves runs running. */
    void (*close)(struct backend *b);
    /* Capacity found on this host.  Its devices stay where they are in memory, each in its place,
     * and change only before a call of events.devices. */
    const struct node *(*node)(struct backend *b);
    uint32_t (*journal)(struct backend *b); /* generation new runs report to */
    /* Idempotent: the same key never runs twice, whatever was sent or lost before. */
    int (*start)(struct backend *b, const struct run_start *r, struct err *e);
    /* TERM to the whole tree, after grace_ms KILL (negative: the grace given at start).  A run that
     * has not started yet ends as cancelled. */
    void (*stop)(struct backend *b, struct run_key key, int64_t grace_ms);
    /* To the command only.  Nothing happens for a run that is not running. */
    void (*signal)(struct backend *b, struct run_key key, int signo);
    /* Runs from before.  Called after open with all of them, or with none: until then nothing that
     * earlier runs left is dropped.  Later for runs that come to this node. */
    void (*adopt)(struct backend *b, const struct run_belief *runs, size_t n);
    /* The outcome of this run is durable; its trace may be dropped. */
    void (*settled)(struct backend *b, struct run_key key);
};
/* Can the local backend mount directories for a run (run_start.mounts)?  Where it cannot, words of
 * the command that name a place below a mount are rewritten to the host's name of it. */
bool backend_can_mount(void);
extern const struct backend_class backend_local, backend_ssh;
const struct backend_class *backend_find(const char *name);
