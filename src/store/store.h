/* store.h - SQLite behind the ledger: one writer thread, group commit, readers beside it
 *
 * The loop thread stages changes and calls store_flush at the end of a turn.  The writer thread
 * applies the batch in one transaction (WAL, synchronous=FULL) and calls notify, from its own
 * thread; the loop thread then calls store_drain, which runs the barriers.  While a commit is under
 * way the next batch gathers.
 */
#pragma once
#include "store/ledger.h"

struct store;
/* Called on the writer thread when batches are done or the health of the store has changed.  It
 * must not block; usually it only wakes the loop thread. */
typedef void (*store_notify_fn)(void *arg);
/* commits, changes and refused count since store_open; times are microseconds of whole commits.
 * The sizes in bytes are those of the files now, 0 = not there. */
struct store_stats {
    uint64_t commits, changes, refused, last_event;
    int64_t last_commit_us, max_commit_us, db_bytes, wal_bytes;
};
struct json;
struct vault;
/* Secrets that programs before this one stored in the clear, sealed while the store is opened. */
struct store_seal {
    const struct vault *vault; /* of the home */
    /* Seals what a schedule of a dialect has; its values are then under `sealed`.  May be NULL. */
    void (*schedule)(void *arg, struct json *def);
    void *arg;
    uint64_t sealed;    /* set by store_open_home: rows that were */
    struct err trouble; /* code 0: nothing is left in the clear; else the next start tries again */
};
/* The home to which a database belongs. */
enum { STORE_ID_MAX = 33 };
struct store_home {
    const char *expect;      /* the id of the home; NULL = it has none yet */
    bool fresh;              /* an empty database is wanted although the home had one */
    struct store_seal *seal; /* NULL = rows stay as they are */
    char id[STORE_ID_MAX];   /* set by store_open_home: the id in the database, made if need be */
};
/* Creates the file or migrates it, and starts the writer thread.  notify may be NULL.  A newer
 * schema than this program knows is ERR_CONFLICT.  -1: *out is not set. */
int store_open(struct store **out, const char *path, store_notify_fn notify, void *arg,
               struct err *e);
/* The same for the database of a home: one that is missing, emptied or of another home is
 * ERR_INVALID, a damaged one ERR_INTERNAL; the text says what to do. */
int store_open_home(struct store **out, const char *path, struct store_home *home,
                    store_notify_fn notify, void *arg, struct err *e);
void store_close(
    struct store *s); /* commits what is staged, checkpoints, PRAGMA optimize; runs no barriers */
/* The store as the controller sees it; valid until store_close.  Its functions belong to the loop
 * thread. */
struct ledger store_ledger(struct store *s);
/* Hands the changes of this turn to the writer thread and returns at once; loop thread. */
void store_flush(struct store *s);
/* Runs the barriers of all batches that are done and frees the batches; loop thread.  A barrier may
 * stage more. */
void store_drain(struct store *s);
bool store_busy(const struct store *s); /* a batch waits for the writer, is with it, or to drain */
void store_idle(
    struct store *s); /* nothing to do right now: passive checkpoint on the writer thread */
struct store_stats store_stats(const struct store *s);
/* Number of the newest committed event: readers see it.  Cheap, unlike store_stats, which looks at
 * files. */
uint64_t store_last_event(const struct store *s);
/* Is there so much space that submissions are accepted?  Any thread. */
bool store_has_room(const struct store *s);
/* Online copy of a live database to a new file; any thread. */
int store_backup(struct store *s, const char *path, struct err *e);
/* A copy that store_backup made, read by one thread. */
struct store_copy;
int store_copy_open(struct store_copy **out, const char *path, struct err *e);
void store_copy_close(struct store_copy *c);
bool store_copy_has_job(struct store_copy *c, uint64_t job);
/* Had the run an outcome of its own, so that its supervisor has closed the log?  False also for
 * runs that were lost, whose node may come back, and for those that are not in the copy. */
bool store_copy_run_ended(struct store_copy *c, struct run_key key);
/* PRAGMA integrity_check and our own cross checks (each line one finding, "" when none); any
 * thread. */
int store_check(const char *path, struct buf *findings, struct err *e);
/* What is known of the soundness of the database. */
struct store_health {
    bool damaged;
    char finding[200];  /* the first one */
    int64_t checked_ms; /* when a check of everything ended well, wall clock; 0 = never */
    uint64_t passes;    /* checks that have ended since store_open */
    bool running;       /* one is under way */
    bool start_partly;  /* the check of store_open_home had no time for everything */
};
/* Checks everything on a thread of its own, slowly; nothing happens when that is under way.  Its
 * end calls notify.  Loop thread. */
void store_check_begin(struct store *s);
struct store_health store_health(const struct store *s);
/* A text that is kept under a name, appended to out; nothing when there is none.  Any thread. */
int store_fact(struct store *s, const char *name, struct buf *out, struct err *e);
void store_fact_set(struct store *s, const char *name, struct str text, int64_t now_ms);
/* The time of the newest event, wall clock; 0 = there is none.  Any thread. */
int store_last_time(struct store *s, int64_t *out_ms, struct err *e);
/* Finished jobs by the time of their end, and by number: those behind `after`. */
struct ended_span {
    int64_t from_ms, before_ms;
    uint64_t after;
};
/* The last runs of at most `limit` of them, in order of their numbers.  Any thread. */
int store_ended(struct store *s, const struct ended_span *span, size_t limit, struct run_key *out,
                size_t *out_n, struct err *e);
/* Deletes events (at most max_events, from the oldest on) and idempotency keys that are older than
 * before_ms, some time soon.  Any thread. */
void store_forget(struct store *s, int64_t before_ms, int64_t max_events);
