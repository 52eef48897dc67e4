/* back_check.c - the whole database is checked while the daemon works
 *
 * Owns: a thread of the lowest priority that exists only while it checks, and what it found.
 *
 * It looks at the same things as `berth doctor`, rule by rule and, in a file of more than 256 MiB,
 * table by table, each in a read transaction of its own.  It works a third of the time.  A reader
 * keeps the write-ahead log from being used again, so when the log becomes long the thread gives
 * its transaction up and repeats the step later.
 */
#include "base/clock.h"
#include "base/util.h"
#include "store/check_priv.h"
#include "store/query_priv.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WHOLE_BYTES (INT64_C(256) << 20)
enum {
    TICK_OPS = 5000,
    WORK_US = 5000,
    REST_US = 10000,
    LONG_LOG_PAGES = 8192, /* 32 MiB, twice what starts a checkpoint */
    AGAIN_S = 2,           /* until a step is repeated that was in the way */
    TRIES = 30,
    IOPRIO_IDLE = 3 << 13,
};

/* One pass; `b` outlives it. */
struct pass {
    struct store *s;
    struct back_check *b;
    struct db db;
    struct buf found;
    int64_t worked_us; /* when this stretch of work began */
    bool in_the_way;
};

static void rest(int64_t us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};

    nanosleep(&t, NULL);
}

/* SQLite calls this every few thousand steps of a statement. */
static int back_tick(void *arg)
{
    struct pass *p = arg;

    if (check_clock_us() - p->worked_us > WORK_US) {
        rest(REST_US);
        p->worked_us = check_clock_us();
    }
    p->in_the_way = atomic_load(&p->s->writer.log_pages) > LONG_LOG_PAGES;
    return p->in_the_way || atomic_load(&p->b->stop);
}

/* One statement, or one rule when sql is NULL.  -1: it cannot be read, 0: done, 1: to be repeated.
 */
static int back_step(struct pass *p, const char *sql, size_t rule, struct err *e)
{
    int rc;

    p->in_the_way = false;
    if (!sql) {
        rc = check_rule(&p->db, rule, &p->found, e);
    } else {
        sqlite3_stmt *st = db_query_text(&p->db, e, sql, NULL, 0);
        struct str found;
        rc = check_next(&p->db, st, &found, e);
        if (rc == 1)
            buf_addf(&p->found, STR_FMT "\n", STR_ARG(found));
        if (st)
            sqlite3_reset(st);
        rc = MIN(rc, 0);
        db_forget_text(&p->db, sql);
    }
    return rc < 0 && p->in_the_way && !atomic_load(&p->b->stop) ? 1 : rc;
}

static int back_step_until_done(struct pass *p, const char *sql, size_t rule, struct err *e)
{
    int rc = 1;

    for (int i = 0; rc == 1 && i < TRIES; i++) {
        rc = back_step(p, sql, rule, e);
        for (int k = 0; rc == 1 && k < AGAIN_S * 10 && !atomic_load(&p->b->stop); k++)
            rest(100000);
    }
    if (rc == 1)
        rc = err_set(e, ERR_BUSY, "the job store is too busy to be checked now");
    return rc;
}

/* Every table with its indexes; what no table uses is left out. */
static int back_tables(struct pass *p, struct err *e)
{
    VEC(char *) names = {0};
    sqlite3_stmt *st = db_query(&p->db, e,
                                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT"
                                " LIKE 'sqlite%' ORDER BY name");
    int rc;

    while ((rc = db_step(&p->db, st, e)) == 1)
        vec_push(&names, xasprintf("PRAGMA integrity_check('%s')", sqlite3_column_text(st, 0)));
    for (size_t i = 0; i < names.n; i++) {
        if (rc == 0 && !p->found.n)
            rc = back_step_until_done(p, names.p[i], 0, e);
        free(names.p[i]);
    }
    vec_done(&names);
    return rc;
}

/* What SQLite cannot read back is not worth asking more about. */
static int pass_run(struct pass *p, struct err *e)
{
    struct stat st;
    int rc;

    if (db_open(&p->db, p->s->path, DB_READER, e) < 0 || query_functions(&p->db, e) < 0)
        return -1;
    p->worked_us = check_clock_us();
    sqlite3_progress_handler(p->db.h, TICK_OPS, back_tick, p);
    rc = stat(p->s->path, &st) == 0 && st.st_size <= WHOLE_BYTES
             ? back_step_until_done(p, "PRAGMA integrity_check(" FINDINGS_MANY ")", 0, e)
             : back_tables(p, e);
    for (size_t i = 1; rc == 0 && !p->found.n && i < check_rule_count(); i++)
        rc = back_step_until_done(p, NULL, i, e);
    return rc;
}

/* The time of the last complete check is a fact: the next daemon knows when the next is due. */
static void record(struct store *s, int64_t now_ms)
{
    char text[32];

    snprintf(text, sizeof(text), "%lld", (long long)now_ms);
    store_fact_set(s, FACT_CHECKED, str_of(text), now_ms);
}

static void pass_report(struct pass *p, int rc, const struct err *e)
{
    struct back_check *b = p->b;
    struct str rest_of, first = str_cut(buf_str(&p->found), '\n', &rest_of);
    bool damaged = p->found.n || (rc < 0 && e->code == ERR_INTERNAL && !atomic_load(&b->stop));

    pthread_mutex_lock(&b->lock);
    b->seen.running = false;
    b->seen.passes++;
    b->seen.damaged = damaged;
    if (damaged)
        snprintf(b->seen.finding, sizeof(b->seen.finding), "%.*s",
                 (int)(p->found.n ? first.n : strlen(e->text)), p->found.n ? first.p : e->text);
    if (rc == 0 && !damaged)
        b->seen.checked_ms = clock_wall(&clock_system);
    pthread_mutex_unlock(&b->lock);
    if (rc == 0 && !damaged)
        record(p->s, clock_wall(&clock_system));
    if (!atomic_load(&b->stop))
        p->s->writer.notify(p->s->writer.notify_arg);
}

static void *back_main(void *arg)
{
    struct store *s = arg;
    struct pass p = {.s = s, .b = &s->check};
    struct err e = {0};

    pthread_setname_np(pthread_self(), "berth-check");
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
    syscall(SYS_ioprio_set, 1, 0, IOPRIO_IDLE); /* of this thread */
    buf_init(&p.found, 1 << 16);
    int rc = pass_run(&p, &e);
    db_done(&p.db);
    pass_report(&p, rc, &e);
    buf_done(&p.found);
    return NULL;
}

/* A pass that has ended leaves a thread to join. */
static void back_join(struct back_check *b)
{
    if (b->started)
        pthread_join(b->thread, NULL);
    b->started = false;
}

void store_check_begin(struct store *s)
{
    struct back_check *b = &s->check;
    sigset_t all, before;

    pthread_mutex_lock(&b->lock);
    bool running = b->seen.running;
    b->seen.running = true;
    pthread_mutex_unlock(&b->lock);
    if (running)
        return;
    back_join(b);
    sigfillset(&all); /* signals are the loop thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    b->started = pthread_create(&b->thread, NULL, back_main, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (b->started)
        return;
    pthread_mutex_lock(&b->lock);
    b->seen.running = false; /* no thread is to be had; the next look tries again */
    pthread_mutex_unlock(&b->lock);
}

struct store_health store_health(const struct store *s)
{
    struct back_check *b = (struct back_check *)&s->check;

    pthread_mutex_lock(&b->lock);
    struct store_health h = b->seen;
    pthread_mutex_unlock(&b->lock);
    return h;
}

void back_check_init(struct back_check *b, const struct writer *w)
{
    pthread_mutex_init(&b->lock, NULL);
    b->seen.checked_ms = w->checked.at_ms;
    b->seen.start_partly = w->checked.partly;
}

void back_check_done(struct back_check *b)
{
    atomic_store(&b->stop, true);
    back_join(b);
    pthread_mutex_destroy(&b->lock);
}
