/* writer.c - the one thread that changes the database
 *
 * Owns: the write connection, transactions, checkpoints, and what happens when the disk says no.
 *
 * Everything that was flushed while a commit was under way goes into the next one (group commit).
 * A commit that fails is rolled back; its submissions are refused at once, all other changes are
 * held in order, tried again immediately (the submission may have been all that did not fit, and a
 * checkpoint may make room) and then every 250 ms.  Submissions that arrive in between are refused
 * without a try.  While unhealthy with nothing held, a small write probes for recovery.  A database
 * that is not at its path any more (on_path.c) is treated like a disk that says no.
 *
 * Checkpoints are passive, when the loop is idle or the log exceeds 16 MiB (on a small disk: an
 * eighth of the free space).  If readers keep it
 * from being reused until it has 64 MiB, one that waits for them briefly restarts it, so it cannot
 * grow for ever.
 */
#include "base/fault.h"
#include "store/check_priv.h"
#include "store/identity_priv.h"
#include "store/migrate_priv.h"
#include "store/reseal_priv.h"
#include "store/store_priv.h"
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum {
    RETRY_MS = 250,
    CLOSE_TRIES = 8,       /* 2 s at most; what is not written then is found again by recovery */
    WAL_PAGES_SOFT = 4096, /* 16 MiB of 4 KiB pages */
    WAL_PAGES_STEP = 1024,
    WAL_PAGES_HARD = 16384,
    FRAME_BYTES = 4096 + 24,
    ROOM_STEP = 4 << 20, /* 35 jobs from submission to end, one by one */
    ROOM_NEAR = ROOM_STEP / 8,
    ROOM_MAX = WAL_PAGES_SOFT * 4096, /* journal_size_limit of db.c */
    RESTART_WAIT_MS = 200,
    BUSY_MS = 5000,
};

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* SQLite calls this after each commit with the length of the log. */
static int on_wal(void *arg, sqlite3 *h, const char *name, int pages)
{
    struct writer *w = arg;
    (void)h;
    (void)name;
    w->wal.pages = pages;
    atomic_store(&w->log_pages, pages);
    return SQLITE_OK;
}

/* ---- one transaction ---- */

/* A submission that is at fault itself (a used key, a number taken) is refused alone. */
static bool own_fault(const struct err *e)
{
    return e->code == ERR_CONFLICT || e->code == ERR_INVALID;
}

/* Applies all changes of a batch.  A submission that is at fault itself is refused and the rest
 * goes on; any other error, or a transaction that SQLite has ended, fails the whole commit. */
static int apply_batch(struct writer *w, struct batch *b, struct err *e)
{
    for (size_t i = 0; i < b->changes.n; i++) {
        const struct change *c = &b->changes.p[i];
        struct err ce = {0};
        if (batch_was_refused(c))
            continue;
        if (apply_change(&w->applier, c, &ce) == 0)
            continue;
        if (c->kind != CHANGE_SUBMIT || !own_fault(&ce) || sqlite3_get_autocommit(w->db.h)) {
            if (e)
                *e = ce;
            return -1;
        }
        batch_refuse(b, i, &ce);
    }
    return 0;
}

static bool has_submission(const struct batch *list)
{
    for (; list; list = list->next)
        if (list->submissions.n > list->refused.n)
            return true;
    return false;
}

/* Pages that removed jobs have left in the file are as good as free space. */
static void writer_count_free(struct writer *w)
{
    int64_t n = 0;

    if (db_int(&w->db, "PRAGMA freelist_count", &n, NULL) == 0)
        atomic_store(&w->free_pages, (int)MIN(n, (int64_t)INT32_MAX));
}

/* New pages are written twice: to the log now, and to the database with the next checkpoint.  A
 * submission whose second half has no room would leave a log that can never be emptied, and the
 * last space is kept for what cannot be refused. */
static int leaves_room(struct writer *w, const struct batch *list, struct err *e)
{
    int64_t pages;

    if (!has_submission(list))
        return 0;
    if (db_int(&w->db, "PRAGMA page_count", &pages, e) < 0)
        return -1;
    int64_t more = w->wal.db_pages ? MAX(pages - w->wal.db_pages, (int64_t)0) : 0;
    writer_count_free(w);
    if (!more || wal_has_room(w->db.path, more + pages - wal_db_pages(w->db.path) -
                                              atomic_load(&w->free_pages))) {
        w->wal.db_pages = pages;
        return 0;
    }
    err_set(e, ERR_FULL, "no space left for the job store under %s; free some and try again",
            w->db.path);
    e->sys = ENOSPC;
    return -1;
}

/* One transaction for all batches of the list; -1: it was rolled back and nothing was kept. */
static int try_commit(struct writer *w, struct batch *list, struct err *e)
{
    if (on_path_check(&w->place, e) < 0)
        return -1;
    if (db_exec(&w->db, "BEGIN IMMEDIATE", e) < 0)
        return -1;
    for (struct batch *b = list; b; b = b->next)
        if (apply_batch(w, b, e) < 0)
            goto undo;
    if (apply_finish(&w->applier, e) < 0 || leaves_room(w, list, e) < 0 ||
        db_exec(&w->db, "COMMIT", e) < 0)
        goto undo;
    if (w->applier.hooks.changed)
        atomic_fetch_add(&w->hook_serial, 1);
    w->applier.hooks.changed = false;
    return 0;
undo:
    if (!sqlite3_get_autocommit(w->db.h))
        sqlite3_exec(w->db.h, "ROLLBACK", NULL, NULL, NULL);
    /* Forget the numbers that were not committed; if even reading fails, the next try does. */
    applier_reload(&w->applier, NULL);
    return -1;
}

/* A write nobody reads; it must change something, or SQLite would write no page. */
static int writer_probe(struct writer *w, struct err *e)
{
    if (on_path_check(&w->place, e) < 0)
        return -1;
    return db_exec(&w->db, "UPDATE counter SET probe = probe + 1", e);
}

/* ---- batches to and from the loop ---- */

/* Hands finished batches to store_drain and wakes the loop thread. */
static void publish(struct writer *w, struct batch *b)
{
    fault_sleep("BERTH_FAULT_PUBLISH_MS");
    pthread_mutex_lock(&w->lock);
    batch_list_append(&w->done, b);
    w->working = w->held != NULL;
    pthread_mutex_unlock(&w->lock);
    w->notify(w->notify_arg);
}

/* Whoever waits for the store should look again when this changes. */
static void set_health(struct writer *w, bool healthy)
{
    if (atomic_exchange(&w->healthy, healthy) != healthy)
        w->notify(w->notify_arg);
}

/* Until the next try, this is why. */
static void set_trouble(struct writer *w, const struct err *e)
{
    pthread_mutex_lock(&w->lock);
    w->trouble = *e;
    pthread_mutex_unlock(&w->lock);
    w->retry_us = now_us() + RETRY_MS * 1000;
    set_health(w, false);
}

/* Refuses what can be refused in b and publishes its barriers at once; the other changes stay in b.
 * Returns how many were refused. */
static size_t refuse_changes(struct writer *w, struct batch *b, const struct err *e)
{
    size_t n = 0;

    for (size_t i = 0; i < b->changes.n; i++) {
        if (!batch_may_refuse(&b->changes.p[i]))
            continue;
        batch_refuse(b, i, e);
        n++;
    }
    struct batch *refused = batch_split_refused(b);
    if (refused)
        publish(w, refused);
    return n;
}

static void note_commit(struct writer *w, const struct batch *list, int64_t took_us)
{
    pthread_mutex_lock(&w->lock);
    w->stats.commits++;
    for (const struct batch *b = list; b; b = b->next) {
        w->stats.changes += b->changes.n;
        w->stats.refused += b->refused.n;
    }
    w->stats.last_commit_us = took_us;
    if (took_us > w->stats.max_commit_us)
        w->stats.max_commit_us = took_us;
    w->stats.last_event = w->applier.last_event;
    pthread_mutex_unlock(&w->lock);
}

/* ---- checkpoints ---- */

/* Where space is scarce the file of the log is cut to its limit when it is used again. */
static void shrink_log(struct writer *w)
{
    char sql[64];

    if (w->wal.limit == w->wal.kept)
        return;
    w->wal.kept = w->wal.limit;
    snprintf(sql, sizeof(sql), "PRAGMA journal_size_limit=%lld",
             (long long)MIN((int64_t)w->wal.limit * FRAME_BYTES, (int64_t)ROOM_MAX));
    sqlite3_exec(w->db.h, sql, NULL, NULL, NULL);
}

/* Copies the log into the database.  When readers prevent that, the next try waits for another
 * WAL_PAGES_STEP pages. */
static void checkpoint(struct writer *w)
{
    int in_log = 0, moved = 0;

    if (!w->wal.pages)
        return;
    w->wal.limit = wal_page_limit(w->db.path);
    writer_count_free(w);
    shrink_log(w);
    if (sqlite3_wal_checkpoint_v2(w->db.h, NULL, SQLITE_CHECKPOINT_PASSIVE, &in_log, &moved) ==
            SQLITE_OK &&
        in_log == moved)
        w->wal.pages = 0;
    else /* readers hold it back, or the disk is full: not again with every commit */
        w->wal.limit = MAX(w->wal.pages, in_log) + WAL_PAGES_STEP;
    if (in_log < WAL_PAGES_HARD)
        return;
    sqlite3_busy_timeout(w->db.h, RESTART_WAIT_MS);
    if (sqlite3_wal_checkpoint_v2(w->db.h, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL) ==
        SQLITE_OK) {
        w->wal.pages = 0;
        w->wal.limit = wal_page_limit(w->db.path);
    }
    sqlite3_busy_timeout(w->db.h, BUSY_MS);
}

/* The first room when idle; more while the log fills, after a commit was answered. */
static void writer_make_room(struct writer *w, bool idle)
{
    int64_t used = (int64_t)w->wal.pages * FRAME_BYTES;

    if (idle && !w->wal.pages && w->wal.room < ROOM_STEP) {
        w->wal.room = wal_make_room(w->db.path, ROOM_STEP);
    } else if (used > ROOM_NEAR && used + ROOM_NEAR > w->wal.room && w->wal.room < ROOM_MAX) {
        int64_t got = wal_make_room(w->db.path, MIN(used + ROOM_STEP, ROOM_MAX));
        w->wal.room = MAX(got, used + ROOM_NEAR); /* where there is none, ask again much later */
    }
}

/* ---- when the disk says no ---- */

/* What can be refused is, in all of these batches and with this error. */
static size_t refuse_all(struct writer *w, struct batch *list, const struct err *e)
{
    size_t n = 0;

    for (struct batch *b = list; b; b = b->next)
        n += refuse_changes(w, b, e);
    pthread_mutex_lock(&w->lock);
    w->stats.refused += n;
    pthread_mutex_unlock(&w->lock);
    return n;
}

/* After a refusal: the rest may fit, above all once the log is emptied into the database. */
static int commit_rest(struct writer *w, struct err *e)
{
    size_t changes = 0;

    if (e->code == ERR_FULL)
        checkpoint(w);
    for (const struct batch *b = w->held; b; b = b->next)
        changes += b->changes.n - b->n_refused;
    if (!changes)
        return writer_probe(w, e);
    return try_commit(w, w->held, e);
}

/* Commits what is held.  False = it must be tried again later. */
static bool commit_held(struct writer *w)
{
    struct err e = {0};
    int64_t start = now_us();

    /* Healthy all the while when only a submission was too large: the next one may fit. */
    if (try_commit(w, w->held, &e) < 0) {
        refuse_all(w, w->held, &e);
        if (commit_rest(w, &e) < 0) {
            set_trouble(w, &e);
            return false;
        }
    }
    if (on_path_check(&w->place, &e) < 0) {
        batch_list_append(&w->limbo, TAKE(w->held));
        set_trouble(w, &e);
        return false;
    }
    if (w->limbo)
        publish(w, TAKE(w->limbo));
    set_health(w, true);
    if (!w->held)
        return true;
    note_commit(w, w->held, now_us() - start);
    publish(w, TAKE(w->held));
    return true;
}

/* ---- the thread ---- */

/* Until there is something to do; while unhealthy, no later than the next try. */
static void wait_for_work(struct writer *w)
{
    while (!w->queue && !w->stopping && !w->idle_asked) {
        if (atomic_load(&w->healthy)) {
            pthread_cond_wait(&w->wake, &w->lock);
            continue;
        }
        struct timespec until = {w->retry_us / 1000000, w->retry_us % 1000000 * 1000};
        if (pthread_cond_timedwait(&w->wake, &w->lock, &until) == ETIMEDOUT)
            return;
    }
}

/* Nothing is held, so only a probe can tell whether the disk takes writes again. */
static void try_probe(struct writer *w)
{
    struct err e = {0};

    if (writer_probe(w, &e) == 0) {
        if (w->limbo)
            publish(w, TAKE(w->limbo));
        set_health(w, true);
    } else {
        set_trouble(w, &e);
    }
}

/* One round with what was just taken from the queue. */
static void writer_work(struct writer *w, struct batch *taken, bool idle_asked, bool stopping)
{
    bool healthy = atomic_load(&w->healthy);

    if (!healthy && !stopping && now_us() < w->retry_us) {
        refuse_all(w, taken, &w->trouble);
        return;
    }
    if (w->held) {
        if (!commit_held(w))
            return;
    } else if (!healthy) {
        try_probe(w);
    }
    if (w->wal.pages >= w->wal.limit || (idle_asked && atomic_load(&w->healthy)))
        checkpoint(w);
    writer_make_room(w, idle_asked);
}

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    int tries_left = CLOSE_TRIES;

    pthread_setname_np(pthread_self(), "berth-store");
    pthread_mutex_lock(&w->lock);
    for (;;) {
        wait_for_work(w);
        bool idle_asked = w->idle_asked && !w->queue, stopping = w->stopping;
        struct batch *taken = TAKE(w->queue);
        w->idle_asked = false;
        batch_list_append(&w->held, taken);
        w->working = w->held != NULL;
        pthread_mutex_unlock(&w->lock);
        writer_work(w, taken, idle_asked, stopping);
        pthread_mutex_lock(&w->lock);
        w->working = w->held != NULL;
        /* The close does not wait for a full disk for ever; recovery finds out what was not
         * written. */
        if (stopping && !w->queue && (!w->held || --tries_left == 0))
            break;
        if (stopping && w->held) {
            pthread_mutex_unlock(&w->lock);
            usleep(RETRY_MS * 1000);
            pthread_mutex_lock(&w->lock);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void writer_queue_take(struct writer *w, struct batch *b)
{
    pthread_mutex_lock(&w->lock);
    batch_list_append(&w->queue, b);
    pthread_mutex_unlock(&w->lock);
    pthread_cond_signal(&w->wake); /* not inside: it would wake up only to wait for the lock */
}

static int writer_start_thread(struct writer *w, struct err *e)
{
    sigset_t all, before;
    pthread_condattr_t attr;
    int rc;

    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all); /* signals are the loop thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&w->thread, NULL, writer_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        errno = rc;
        return err_sys(e, "cannot start the store's writer thread");
    }
    w->started = true;
    return 0;
}

/* Opens the file, and refuses one that is not the database of this home. */
static int writer_open_db(struct writer *w, const char *path, struct store_home *home,
                          struct err *e)
{
    struct check_budget budget = {0};
    bool is_new = access(path, F_OK) < 0;

    if (identity_look(path, home, e) < 0 ||
        (home && !is_new && start_check_pages(path, &budget, e) < 0) ||
        db_open(&w->db, path, DB_WRITER, e) < 0)
        return -1;
    bool sound = identity_check(&w->db, home, e) == 0 &&
                 migrate(&w->db, migrations, n_migrations, e) == 0 &&
                 (!home || is_new || start_check_rows(path, &budget, e) == 0) &&
                 identity_record(&w->db, home, e) == 0;
    if (sound && home)
        reseal_once(&w->db, home->seal);
    if (sound && applier_init(&w->applier, &w->db, e) == 0) {
        w->checked.partly = budget.partly;
        db_int(&w->db,
               "SELECT ifnull((SELECT CAST(value AS INTEGER) FROM fact WHERE name ="
               " '" FACT_CHECKED "'), 0)",
               &w->checked.at_ms, NULL);
        return 0;
    }
    db_done(&w->db);
    return -1;
}

int writer_start(struct writer *w, const char *path, struct store_home *home,
                 store_notify_fn notify, void *arg, struct err *e)
{
    *w = (struct writer){.notify = notify, .notify_arg = arg};
    atomic_init(&w->healthy, true);
    atomic_init(&w->hook_serial, 1); /* so that messages from before are looked for */
    if (writer_open_db(w, path, home, e) < 0)
        return -1;
    on_path_init(&w->place, path);
    db_int(&w->db, "PRAGMA page_count", &w->wal.db_pages, NULL);
    w->wal.limit = wal_page_limit(path);
    sqlite3_wal_hook(w->db.h, on_wal, w);
    w->stats.last_event = w->applier.last_event;
    if (writer_start_thread(w, e) < 0) {
        applier_done(&w->applier);
        on_path_done(&w->place);
        db_done(&w->db);
        return -1;
    }
    return 0;
}

void writer_stop(struct writer *w)
{
    if (!w->started)
        return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    struct batch **lists[] = {&w->held, &w->limbo, &w->done};
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        while (*lists[i]) {
            struct batch *b = *lists[i];
            *lists[i] = b->next;
            batch_free(b);
        }
    applier_done(&w->applier);
    /* Both are a courtesy to the next start; neither may fail the close. */
    sqlite3_exec(w->db.h, "PRAGMA analysis_limit=400; PRAGMA optimize", NULL, NULL, NULL);
    sqlite3_wal_checkpoint_v2(w->db.h, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    db_done(&w->db);
    on_path_done(&w->place);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
}
