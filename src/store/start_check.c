/* start_check.c - the check of a database before anything is built upon it
 *
 * Owns: what is looked at with every start, and in which order, within a budget of time.
 *
 * Before the schema is touched: the header, the size of the file against it, and the pages.  A file
 * of up to 32 MiB is checked whole, indexes included (PRAGMA integrity_check).  Of a larger one the
 * tables are walked through from the most important on (PRAGMA quick_check) while there is time.
 * After migrations: the objects of the schema, the counters, and all that is recorded about open
 * jobs.  What the budget did not suffice for is left to the check in the background
 * (back_check.c).
 *
 * SQLite 3.40 walks through one tree without looking at the clock: a tenth of a second for a
 * million jobs.  So a table is begun only while half of the budget is left.  That holds for a file
 * in memory: another one is read into it first (warm.c), and when there is no time for that, the
 * tables that may be large are left to the background too.
 */
#include "base/util.h"
#include "store/check_priv.h"
#include "store/migrate_priv.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

enum {
    HEADER_BYTES = 100,
    WHOLE_BYTES = 32 << 20,
    PAGES_US = 350000, /* the budget: half a second in all */
    ROWS_US = 150000,
    WARM_US = 1200000, /* and this, when the file is not in memory */
    TICK_OPS = 2000,   /* of SQLite's machine, between two looks at the clock */
};

int64_t check_clock_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* SQLite writes a headline above its findings. */
int damage_say(const char *path, struct str what, struct err *e)
{
    struct str rest, line = str_cut(what, '\n', &rest);

    if (line.n && line.p[0] == '*' && rest.n)
        line = str_cut(rest, '\n', &rest);
    return err_set(e, ERR_INTERNAL,
                   "%s is damaged (%.*s); run `berth doctor`, then `berth restore DIR`, or save "
                   "what is readable: sqlite3 berth.db .recover",
                   path, (int)MIN(line.n, (size_t)70), line.p);
}

/* ---- the header ---- */

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* What is wrong with the first bytes of the file; NULL = nothing.  The number of pages is compared
 * only when it is known to be current: without a write-ahead log, whose first page would count. */
static const char *header_fault(const uint8_t *h, int64_t bytes, bool has_log)
{
    uint32_t page = (uint32_t)h[16] << 8 | h[17];

    if (memcmp(h, "SQLite format 3", 16) != 0)
        return "its first bytes are not those of a database";
    page = page == 1 ? 65536 : page;
    if (page < 512 || (page & (page - 1)))
        return "its header has an impossible page size";
    if (h[18] < 1 || h[18] > 2 || h[19] < 1 || h[19] > 2 || h[21] != 64 || h[22] != 32 ||
        h[23] != 32)
        return "its header has impossible values";
    if (bytes % page)
        return "its size is no whole number of pages";
    if (!has_log && be32(h + 24) == be32(h + 92) && (int64_t)be32(h + 28) * page != bytes)
        return "its size is not the one in its header";
    return NULL;
}

static int check_header(const char *path, int64_t *out_bytes, struct err *e)
{
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    AUTO_FREE char *log = xasprintf("%s-wal", path);
    uint8_t head[HEADER_BYTES] = {0};
    struct stat st, wal;

    *out_bytes = 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT ? 0 : err_sys(e, "cannot open the job store %s", path);
    if (!st.st_size)
        return 0;
    if (pread(fd, head, sizeof(head), 0) != sizeof(head))
        return damage_say(path, STR("it has no header"), e);
    const char *fault = header_fault(head, st.st_size, stat(log, &wal) == 0 && wal.st_size > 0);
    *out_bytes = st.st_size;
    return fault ? damage_say(path, str_of(fault), e) : 0;
}

/* ---- statements within the budget ---- */

static int budget_tick(void *arg)
{
    struct check_budget *b = arg;

    if (check_clock_us() < b->until_us)
        return 0;
    b->over = true;
    return 1;
}

/* Runs a statement whose rows are findings.  1 = the first finding is in *e, 0 = none, or the
 * budget is over, -1 = it cannot be read. */
static int check_statement(struct db *d, const char *sql, struct check_budget *b, struct err *e)
{
    sqlite3_stmt *st = b->over ? NULL : db_query_text(d, e, sql, NULL, 0);
    struct str found;
    int rc = b->over ? 0 : check_next(d, st, &found, e);

    if (rc == 1)
        damage_say(d->path, found, e);
    else if (rc < 0 && b->over)
        rc = 0;
    if (st)
        sqlite3_reset(st);
    if (rc == 0 && e)
        *e = (struct err){0};
    return rc;
}

static void budget_begin(struct db *d, struct check_budget *b, int64_t us)
{
    b->until_us = check_clock_us() + us;
    b->over = false;
    sqlite3_progress_handler(d->h, TICK_OPS, budget_tick, b);
}

/* ---- pages ---- */

/* What the daemon cannot work without comes first; points of metrics and events come never.  The
 * tables from LARGE_FROM on may take seconds when they are not in memory. */
static const char *const first_tables[] = {"counter", "tally", "party",    "fact",  "queue",
                                           "node",    "ahead", "schedule", "study", "hook",
                                           "notify",  "dep",   "project",  "batch", "intake",
                                           "trial",   "job",   "run",      "spec",  "study_log"};
enum { LARGE_FROM = 15 };

/* How many of them can be walked through within the budget. */
static size_t tables_in_reach(const char *path, int64_t bytes)
{
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    bool warm = fd >= 0 && file_warm(fd, bytes, check_clock_us() + WARM_US);

    return warm ? ARRAY_SIZE(first_tables) : LARGE_FROM;
}

/* A database that an older program made need not have every table yet. */
static bool has_table(struct db *d, const char *name)
{
    return sqlite3_table_column_metadata(d->h, NULL, name, NULL, NULL, NULL, NULL, NULL, NULL) ==
           SQLITE_OK;
}

int start_check_pages(const char *path, struct check_budget *b, struct err *e)
{
    int64_t bytes, begun;
    struct db d;
    int rc = 0;

    if (check_header(path, &bytes, e) < 0)
        return -1;
    if (!bytes)
        return 0;
    size_t n_tables = tables_in_reach(path, bytes);
    begun = check_clock_us();
    if (db_open(&d, path, DB_READER, e) < 0)
        return -1;
    budget_begin(&d, b, PAGES_US);
    if (bytes <= WHOLE_BYTES) {
        rc = check_statement(&d, "PRAGMA integrity_check(" FINDINGS_MANY ")", b, e);
    } else {
        b->partly = true;
        for (size_t i = 0; rc == 0 && i < n_tables; i++) {
            char sql[64];
            if (check_clock_us() - begun > PAGES_US / 2)
                break;
            snprintf(sql, sizeof(sql), "PRAGMA quick_check('%s')", first_tables[i]);
            if (has_table(&d, first_tables[i]))
                rc = check_statement(&d, sql, b, e);
        }
    }
    b->partly |= b->over;
    db_done(&d);
    return rc ? -1 : 0;
}

/* ---- schema, counters, open jobs ---- */

#define OPEN_STATES "(0, 1, 2, 3, 8)"
#define OPEN_JOBS "job j INDEXED BY job_lane WHERE j.state IN " OPEN_STATES
static_assert(JOB_STATES_ACTIVE == (1u << 0 | 1u << 1 | 1u << 2 | 1u << 3 | 1u << 8),
              "OPEN_STATES lists the states that are not final");

/* Each returns nothing when all is well. */
static const char *const start_rules[] = {
    "SELECT 'the counters are missing' WHERE NOT EXISTS(SELECT 1 FROM counter WHERE one = 1 AND"
    " job > 0 AND spec > 0 AND batch > 0)",
    "SELECT 'the next job number was given before' FROM counter"
    " WHERE job <= (SELECT max(seq) FROM job)",
    "SELECT 'the next spec number was given before' FROM counter"
    " WHERE spec <= (SELECT max(seq) FROM spec)",
    "SELECT 'the next batch number was given before' FROM counter"
    " WHERE batch <= (SELECT max(seq) FROM batch)",
    "SELECT 'an impossible count of jobs' FROM tally WHERE n < 0 OR NOT EXISTS(SELECT 1 FROM party"
    " WHERE party.seq = tally.party)",
    "SELECT 'open jobs are miscounted' WHERE (SELECT total(n) FROM tally WHERE state "
    "IN " OPEN_STATES ") <> (SELECT count(*) FROM " OPEN_JOBS ")",
    "SELECT 'open job ' || j.seq || ' has a time of its end' FROM " OPEN_JOBS
    " AND j.ended_ms <> 0",
    "SELECT 'open job ' || j.seq || ' has no spec' FROM " OPEN_JOBS
    " AND NOT EXISTS(SELECT 1 FROM spec s WHERE s.seq = j.spec AND s.party = j.party)",
    "SELECT 'open job ' || j.seq || ' has no id' FROM " OPEN_JOBS " AND NOT EXISTS(SELECT 1 FROM"
    " intake i WHERE i.first = (SELECT max(first) FROM intake WHERE first <= j.seq) AND i.last >="
    " j.seq)",
    "SELECT 'job ' || j.seq || ' runs without a run' FROM job j INDEXED BY job_lane WHERE j.state"
    " IN (1, 2, 3) AND NOT EXISTS(SELECT 1 FROM run r WHERE r.job = j.seq AND r.why IS NULL)",
    "SELECT 'finished jobs are miscounted' WHERE (SELECT total(n) FROM tally) <>"
    " (SELECT count(*) FROM job INDEXED BY job_lane)",
};

/* Every table and index of a new database must be in this one, word for word. */
static int check_objects(struct db *d, struct err *e)
{
    static const char list[] = "SELECT name, ifnull(sql, '') FROM sqlite_schema WHERE name NOT LIKE"
                               " 'sqlite%' ORDER BY name";
    struct db model;
    int rc = -1;

    if (db_open(&model, ":memory:", DB_WRITER, e) < 0)
        return -1;
    if (migrate(&model, migrations, n_migrations, e) < 0)
        goto out;
    sqlite3_stmt *want = db_query(&model, e, list);
    while ((rc = db_step(&model, want, e)) == 1) {
        sqlite3_stmt *have =
            db_query(d, e, "SELECT 1 FROM sqlite_schema WHERE name = ?1 AND ifnull(sql, '') = ?2",
                     TEXT(column_str(want, 0)), TEXT(column_str(want, 1)));
        int there = db_step(d, have, e);
        if (there == 0) {
            AUTO_FREE char *text = xasprintf("its table or index %s is missing or changed",
                                             sqlite3_column_text(want, 0));
            damage_say(d->path, str_of(text), e);
        }
        if (there <= 0) {
            rc = -1;
            break;
        }
        sqlite3_reset(have);
    }
    sqlite3_reset(want);
out:
    db_done(&model);
    return rc;
}

int start_check_rows(const char *path, struct check_budget *b, struct err *e)
{
    struct db d;
    int rc;

    if (db_open(&d, path, DB_READER, e) < 0)
        return -1;
    rc = check_objects(&d, e);
    budget_begin(&d, b, ROWS_US);
    for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(start_rules); i++)
        rc = check_statement(&d, start_rules[i], b, e);
    b->partly |= b->over;
    db_done(&d);
    return rc ? -1 : 0;
}
