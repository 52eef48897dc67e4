/* store_priv.h - the parts of a store: staged batches, the writer thread, the readers */
#pragma once
#include "base/arena.h"
#include "base/vec.h"
#include "store/apply_priv.h"
#include "store/store.h"
#include <pthread.h>
#include <stdatomic.h>

/* ---- batch.c: what is staged, on its way to the writer and back ---- */
struct barrier {
    size_t pos; /* changes of its batch that were staged before it */
    ledger_done_fn fn;
    void *arg;
    struct err *refused; /* owned; NULL = durable */
};
struct batch {
    struct batch *next;
    VEC(struct change) changes;
    VEC(struct barrier) barriers;
    VEC(struct submission *) submissions, refused; /* to free once the batch is done */
    struct arena text;                             /* copies of what the changes borrow */
    size_t n_refused;
};
/* An empty batch; the loop thread gathers one per turn. */
struct batch *batch_new(void);
void batch_free(struct batch *b); /* and its submissions; runs no barrier */
bool batch_empty(const struct batch *b);
/* Adds a change and copies its texts; a submission is owned by the batch from now on. */
void batch_stage(struct batch *b, const struct change *c);
/* Submissions and removals can be refused: the controller keeps nothing of them that would have to
 * be undone.  A later try of the same batch skips what was refused. */
bool batch_may_refuse(const struct change *c);
bool batch_was_refused(const struct change *c);
/* The change at changes[i] will not be kept: its barrier, the next one, hears why. */
void batch_refuse(struct batch *b, size_t i, const struct err *e);
/* Takes what was refused and its barriers out into a batch of their own, or NULL. */
struct batch *batch_split_refused(struct batch *b);
/* Appends b with all that hang behind it; b may be NULL. */
void batch_list_append(struct batch **list, struct batch *b);

/* ---- pool.c: read connections, lent for the length of a call ---- */
enum { POOL_IDLE_MAX = 4 };
struct pool {
    pthread_mutex_t lock;
    char *path;
    struct db *idle[POOL_IDLE_MAX];
    size_t n_idle;
};
void pool_init(struct pool *p, const char *path);
void pool_done(struct pool *p);
struct db *pool_borrow(struct pool *p, struct err *e); /* begins a read transaction */
void pool_return(struct pool *p, struct db *d);        /* ends it; NULL is fine */

/* ---- point.c: single jobs, read on the loop thread through a connection of its own ---- */
/* Used by the loop thread only, so it needs no lock. */
struct point {
    struct db db; /* opened on first use */
    char *path;
    char *queue, *nodes, *training; /* texts of the last record */
};
void point_init(struct point *p, const char *path);
void point_done(struct point *p);
/* The open connection; NULL = it cannot be opened, e says why. */
struct db *point_db(struct point *p, struct err *e);
int point_job(struct point *p, uint64_t job, struct job_record *out, struct err *e);
int point_deps(struct point *p, uint64_t job, uint64_t **out, size_t *out_n, struct err *e);
int point_metric(struct point *p, uint64_t job, struct str name, struct metric_facts *out,
                 struct err *e);

/* ---- launch.c ---- */
struct launch_cache;
/* Keeps the specs of the last jobs started; p must outlive the cache. */
struct launch_cache *launch_cache_new(struct point *p);
void launch_cache_free(struct launch_cache *c);
/* See ledger.read_launch. */
int launch_read(struct launch_cache *c, uint64_t job, struct launch *out, struct err *e);

/* ---- wal_room.c: on the writer thread, between transactions ---- */
/* How many pages the log may have before it is emptied: 16 MiB, less where space is scarce. */
int wal_page_limit(const char *db_path);
/* Is so much free, beside the reserve? */
bool wal_has_room(const char *db_path, int64_t pages);
int64_t wal_db_pages(const char *db_path); /* that the file of the database has now */
/* Lengthens the log to `bytes` where that is easily had.  Returns its length, 0 when unknown. */
int64_t wal_make_room(const char *db_path, int64_t bytes);

/* ---- on_path.c: on the writer thread ---- */
struct file_place {
    uint64_t device, inode; /* inode 0 = there was no such file */
};
struct db_place {
    char *path, *log_path;
    struct file_place file, log; /* as they were opened */
};
void on_path_init(struct db_place *p, const char *path); /* once the database is open */
void on_path_done(struct db_place *p);
int on_path_check(const struct db_place *p,
                  struct err *e); /* ERR_UNAVAILABLE: another file, or none */

/* ---- writer.c ---- */
struct writer {
    pthread_t thread;
    bool started;
    /* Guards the members from here to `stats`. */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct batch *queue; /* flushed, not yet with the writer */
    struct batch *done;  /* for store_drain */
    bool working, stopping, idle_asked;
    struct store_stats stats;
    atomic_uint_fast64_t hook_serial; /* see ledger.hook_serial */
    atomic_bool healthy;
    /* Written before the thread starts: whether the start had no time for all of the file, and when
     * a check of all was complete last (wall clock, 0 = never). */
    struct {
        bool partly;
        int64_t at_ms;
    } checked;
    atomic_int free_pages; /* in the file of the database, unused */
    atomic_int log_pages;  /* in the write-ahead log, for readers that should not be in its way */
    /* of the thread alone */
    struct db db;
    struct db_place place;
    struct applier applier;
    struct batch *held;  /* taken from the queue, not yet durable */
    struct batch *limbo; /* committed to a file that is not at its path any more */
    struct err trouble;  /* why it is unhealthy; written under the lock */
    int64_t retry_us;    /* when to try again */
    struct {
        int pages, limit; /* in the log; when to checkpoint next */
        int kept;         /* pages that the file of the log keeps; 0 = as db.c says */
        int64_t db_pages; /* of the database after the last commit; 0 = unknown */
        int64_t room;     /* bytes the log can take without growing */
    } wal;
    store_notify_fn notify;
    void *notify_arg;
};
/* Opens and migrates the database, then starts the thread.  -1: nothing is left to stop. */
int writer_start(struct writer *w, const char *path, struct store_home *home,
                 store_notify_fn notify, void *arg, struct err *e);
void writer_stop(struct writer *w); /* commits what is queued, joins the thread */
/* Any thread.  The writer owns b from now on. */
void writer_queue_take(struct writer *w, struct batch *b);

/* ---- back_check.c ---- */
#define FACT_CHECKED "check.ms"
struct back_check {
    pthread_mutex_t lock;
    struct store_health seen; /* under lock */
    pthread_t thread;
    bool started; /* there is a thread to join; the loop thread's */
    atomic_bool stop;
};
void back_check_init(struct back_check *b, const struct writer *w);
void back_check_done(struct back_check *b); /* gives up a pass that is under way */

struct store {
    char *path;
    struct back_check check;
    struct writer writer;
    struct pool pool;
    struct batch *gather; /* of this turn; the loop thread's */
    struct point point;
    struct launch_cache *launches;
    struct param_names *names;
};
/* hooks.c: the ledger's reads */
int hooks_due(struct db *d, int64_t now_ms, size_t max, delivery_fn fn, void *arg,
              struct hook_due *out, struct err *e);
int hook_read(struct db *d, uint64_t hook, delivery_fn fn, void *arg, struct err *e);
/* See ledger.load; reads through a connection of the pool. */
int store_load(struct store *s, const struct load_sink *sink, struct err *e);
