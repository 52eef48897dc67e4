/* link.h - the scheduler that runs the jobs of a batch, behind one interface
 *
 * There are two: a host in this process (link_here.c), whose core is called directly, and a daemon
 * (link_daemon.c), which is asked over its socket.  Both belong to the loop of the batch, and their
 * functions never wait.  A request is answered by its `done`, once, either before the function
 * returns or in a later turn.
 */
#pragma once
#include "base/err.h"
#include "base/json.h"
#include "model/job.h"

struct hyper_link;
struct host_part;
struct loop;

/* A transition of jobs, after its commit; or one job of the queue as an earlier owner of the batch
 * left it.  Texts are borrowed for the call. */
struct hyper_event {
    uint64_t seq;         /* its number: where listening resumes; 0 = a job that was found */
    uint64_t first, last; /* the jobs it is about */
    enum job_state state; /* their state now */
    int64_t at_ms;        /* of a job that was found: when it ended, or started */
    int exit_code;        /* -1 = none */
    /* The run and its node, and why the state is this one; 0 and empty = not said. */
    uint32_t run;
    struct str node, reason;
    /* Of a job that was found. */
    struct str name;
    struct id id;
    int64_t started_ms; /* 0 = not yet */
};
typedef void (*hyper_event_fn)(void *arg, const struct hyper_event *ev);
struct hyper_node {
    struct str name, trouble;
    bool away;   /* no connection now */
    bool failed; /* the last attempt to connect failed; the next one comes later */
};

struct hyper_link_conf {
    struct loop *loop;
    const char *home;  /* of the scheduler */
    const char *queue; /* all jobs of the batch wait there */
    /* Of a host in this process. */
    const char *version;
    const struct host_part *const *parts; /* ends with NULL; NULL = none */
    int slots;                            /* 0 = number of CPUs */
    bool transient;                       /* the home is removed afterwards */
    /* Every event about jobs, in order, while listening. */
    hyper_event_fn event;
    /* Listening ended by itself, because the connection to the daemon broke. */
    void (*gone)(void *arg, const struct err *e);
    /* The scheduler starts nothing for now (full disk, …), or starts jobs again. */
    void (*troubled)(void *arg, struct str text);
    void *arg;
};

/* number: what the request asked for; 0 with an error and for requests that ask for nothing. */
typedef void (*hyper_done_fn)(void *arg, const struct err *e, uint64_t number);
typedef void (*hyper_node_fn)(void *arg, const struct hyper_node *n);

struct hyper_link_ops {
    bool stays; /* the scheduler outlives the batch: nodes have to be taken back */
    /* The number of the newest event.  ERR_UNAVAILABLE: nobody answers. */
    void (*hello)(struct hyper_link *l, hyper_done_fn done, void *arg);
    /* Events after this one are delivered from now on; until mute, or `gone`. */
    void (*listen)(struct hyper_link *l, uint64_t after);
    void (*mute)(struct hyper_link *l);
    /* Every job of the queue, oldest first; `places`: with its last run. */
    void (*list)(struct hyper_link *l, bool places, hyper_event_fn row, hyper_done_fn done,
                 void *arg);
    /* Takes the body.  The number is that of the first job, the others follow.  The same key
     * submits once, however often it is used. */
    void (*submit)(struct hyper_link *l, struct json *body_take, const char *batch, const char *key,
                   hyper_done_fn done, void *arg);
    void (*cancel)(struct hyper_link *l, const uint64_t *jobs, size_t n, hyper_done_fn done,
                   void *arg);
    void (*pause)(struct hyper_link *l, bool paused, hyper_done_fn done, void *arg);
    /* From now on jobs of the queue start only while this link is there, also after a crash of
     * either side.  May be repeated. */
    void (*keep)(struct hyper_link *l, hyper_done_fn done, void *arg);
    /* A job that has ended is queued again. */
    void (*retry)(struct hyper_link *l, uint64_t job, hyper_done_fn done, void *arg);
    void (*nodes)(struct hyper_link *l, hyper_node_fn row, hyper_done_fn done, void *arg);
    /* conf is that of POST /v1/nodes.  ERR_CONFLICT: there is a node of this name. */
    void (*lend)(struct hyper_link *l, const struct json *conf, hyper_done_fn done, void *arg);
    /* ERR_CONFLICT: it has runs, and not `force`, which gives them up. */
    void (*forget)(struct hyper_link *l, struct str node, bool force, hyper_done_fn done,
                   void *arg);
    /* Not from inside `event`.  A host in this process runs the loop until all that was begun is
     * committed; a daemon's answers are not waited for: the requests fail. */
    void (*close)(struct hyper_link *l);
};
/* First member of both implementations. */
struct hyper_link {
    const struct hyper_link_ops *ops;
    struct hyper_link_conf conf; /* borrows its texts */
    struct id submitted;         /* id of the first job of the last submission; for its `done` */
};

/* Opens a host in this process.  ERR_CONFLICT: another one serves the home. */
int hyper_link_here(struct hyper_link **out, const struct hyper_link_conf *c, struct err *e);
/* A link to whoever serves the home; no traffic yet. */
struct hyper_link *hyper_link_daemon(const struct hyper_link_conf *c);

/* For both: fills in all but seq, jobs and time.  False: the event is not about jobs. */
bool hyper_event_read(struct str kind, const struct json *data, struct hyper_event *out);
