/* series_rows.c - points come in and are kept in blocks
 *
 * Owns: the tables series (one row per metric of a job: its last point and what is known of all),
 * block (packed numbers) and word (the last texts).
 *
 * A metric grows by whatever one report brings: one point or thousands.  A new block swallows those
 * before it that are not full and not larger, like the carry of a binary counter.  So a point is
 * written again a dozen times, ever less often, a metric of n points has n / 4096 blocks and a few
 * small ones, and nothing is kept in memory between two commits.
 *
 * A point is known by its index in the order logged, texts counted with numbers; a block by the
 * index of its first.  Blocks hold points of one run and are never changed, only replaced.
 */
#include "store/series_priv.h"
#include <math.h>

static const char find_sql[] =
    "SELECT seq, n, " SERIES_STATS " FROM series WHERE job = ?1 AND name = ?2";

int series_open(struct db *d, uint64_t job, struct str name, struct series_row *row, struct err *e)
{
    sqlite3_stmt *st = db_query(d, e, find_sql, INT(job), TEXT(name));
    int rc;

    rc = db_step(d, st, e);
    if (rc == 1) {
        db_row(st, COL(&row->seq), COL(&row->n), COL(&row->stats));
        sqlite3_reset(st);
    }
    if (rc)
        return rc;
    if (db_run(d, e, "INSERT INTO series(job, name) SELECT seq, ?2 FROM job WHERE seq = ?1",
               INT(job), TEXT(name)) < 0)
        return -1;
    *row = (struct series_row){.seq = (uint64_t)sqlite3_last_insert_rowid(d->h)};
    /* Without the job the INSERT … SELECT has inserted nothing. */
    return sqlite3_changes(d->h) ? 1 : 0;
}

/* ---- blocks ---- */

enum { TAIL_MAX = 2 * SERIES_BLOCK_MAX };
struct tail { /* the points to be written, at the end of `room` */
    struct series_point room[TAIL_MAX];
    size_t n;
    uint64_t first;
};

static struct series_point *tail_points(struct tail *t)
{
    return t->room + TAIL_MAX - t->n;
}

/* 1 = the last block went into the tail, 0 = it stays (or there is none), -1 = error. */
static int swallow(struct db *d, const struct series_row *row, uint32_t run, struct tail *t,
                   struct err *e)
{
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT first, n, run, data FROM block WHERE series = ?1"
                                " ORDER BY first DESC LIMIT 1",
                                INT(row->seq));
    int rc;

    rc = db_step(d, st, e);
    if (rc <= 0)
        return rc;
    uint64_t first = column_u64(st, 0), n = column_u64(st, 1);
    struct str data = {sqlite3_column_blob(st, 3), (size_t)sqlite3_column_bytes(st, 3)};
    bool fits = first + n == t->first && column_u64(st, 2) == run && n <= t->n &&
                n < SERIES_BLOCK_MAX && n + t->n <= TAIL_MAX && series_count(data) == n;
    if (fits) {
        rc = series_unpack(data, tail_points(t) - n, e) < 0 ? -1 : 1;
        t->n += n;
        t->first = first;
    } else {
        rc = 0;
    }
    sqlite3_reset(st);
    return rc;
}

static int drop_block(struct db *d, const struct series_row *row, uint64_t first, struct err *e)
{
    return db_run(d, e, "DELETE FROM block WHERE series = ?1 AND first = ?2", INT(row->seq),
                  INT(first));
}

static int write_block(struct db *d, const struct series_row *row, uint32_t run, uint64_t first,
                       const struct series_point *p, size_t n, struct err *e)
{
    struct series_stats s = {0};
    AUTO(buf) struct buf data = {0};

    buf_init(&data, 1 << 20);
    series_pack(&data, p, n);
    series_stats_add(&s, p, n);
    return db_run(d, e,
                  "INSERT INTO block(series, first, n, run, step_min, step_max, at_min, at_max,"
                  " data) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                  INT(row->seq), INT(first), INT(n), INT(run), INT(s.step_min), INT(s.step_max),
                  INT(s.at_min), INT(s.at_max), BLOB(buf_str(&data)));
}

/* The last point is `p`, or a text; n, the bounds and the last point go to the row. */
static int write_row(struct db *d, const struct series_row *row, uint32_t run,
                     const struct series_point *p, struct str text, struct err *e)
{
    const struct series_stats *s = &row->stats;
    /* SQLite has no NaN: neither value nor text stands for it. */
    bool number = !text.p && !isnan(p->value);

    return db_run(d, e,
                  "UPDATE series SET n = ?2, numbers = ?3, step_min = ?4, step_max = ?5,"
                  " at_min = ?6, at_max = ?7, min = ?8, max = ?9, run = ?10, step = ?11,"
                  " at_ms = ?12, value = ?13, text = ?14, low_step = ?15, high_step = ?16,"
                  " first = ?17, sum = ?18, counted = ?19 WHERE seq = ?1",
                  INT(row->seq), INT(row->n), INT(s->n), INT(s->step_min), INT(s->step_max),
                  INT(s->at_min), INT(s->at_max), REAL(s->min), REAL(s->max), INT(run),
                  INT(p->step), INT(p->at_ms), number ? REAL(p->value) : NONE,
                  text.p ? TEXT(text) : NONE, INT(s->low_step), INT(s->high_step),
                  s->counted ? REAL(s->first) : NONE, isnan(s->sum) ? NONE : REAL(s->sum),
                  INT(s->counted));
}

int series_append(struct db *d, struct series_row *row, uint32_t run, const struct series_point *p,
                  size_t n, struct err *e)
{
    AUTO_FREE struct tail *t = xmalloc(sizeof(*t));
    int rc;

    ASSERT(n > 0 && n <= SERIES_BLOCK_MAX);
    t->n = n;
    t->first = row->n;
    memcpy(tail_points(t), p, n * sizeof(*p));
    while ((rc = swallow(d, row, run, t, e)) == 1)
        if (drop_block(d, row, t->first, e) < 0)
            return -1;
    for (size_t i = 0, k; rc == 0 && i < t->n; i += k) {
        k = MIN(t->n - i, (size_t)SERIES_BLOCK_MAX);
        rc = write_block(d, row, run, t->first + i, tail_points(t) + i, k, e);
    }
    if (rc < 0)
        return -1;
    row->n += n;
    series_stats_add(&row->stats, p, n);
    return write_row(d, row, run, &p[n - 1], (struct str){NULL, 0}, e);
}

/* ---- texts ---- */

int series_append_text(struct db *d, struct series_row *row, uint32_t run, int64_t step,
                       int64_t at_ms, struct str text, struct err *e)
{
    const struct series_point last = {.step = step, .at_ms = at_ms};

    if (db_run(d, e,
               "INSERT INTO word(series, idx, run, step, at_ms, text)"
               " VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
               INT(row->seq), INT(row->n), INT(run), INT(step), INT(at_ms), TEXT(text)) < 0)
        return -1;
    if (db_run(d, e,
               "DELETE FROM word WHERE series = ?1 AND idx <= (SELECT idx FROM word"
               " WHERE series = ?1 ORDER BY idx DESC LIMIT 1 OFFSET ?2)",
               INT(row->seq), INT(WORDS_KEPT)) < 0)
        return -1;
    row->n++;
    return write_row(d, row, run, &last, text.p ? text : STR(""), e);
}

/* ---- from schema 18, which did not keep first, mean and the steps of min and max ---- */

/* A file of schema 3 has them since it was brought to schema 4: points go through series_append. */
static int series_add_columns(struct db *d, struct err *e)
{
    int64_t there;

    if (db_int(d, "SELECT count(*) FROM pragma_table_info('series') WHERE name = 'counted'", &there,
               e) < 0)
        return -1;
    return there ? 0
                 : db_exec(d,
                           "ALTER TABLE series ADD COLUMN low_step INTEGER NOT NULL DEFAULT 0;"
                           "ALTER TABLE series ADD COLUMN high_step INTEGER NOT NULL DEFAULT 0;"
                           "ALTER TABLE series ADD COLUMN first REAL;"
                           "ALTER TABLE series ADD COLUMN sum REAL;"
                           "ALTER TABLE series ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;",
                           e);
}

/* What the blocks of one series say of all its points. */
static int series_recount_one(struct db *d, uint64_t seq, struct series_point *room, struct err *e)
{
    struct series_stats s = {0};
    sqlite3_stmt *st =
        db_query(d, e, "SELECT data FROM block WHERE series = ?1 ORDER BY first", INT(seq));
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        struct str data = {sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0)};
        size_t n = series_count(data);
        if (n <= SERIES_BLOCK_MAX && series_unpack(data, room, NULL) == 0)
            series_stats_add(&s, room, n);
    }
    if (rc < 0)
        return -1;
    return db_run(d, e,
                  "UPDATE series SET low_step = ?2, high_step = ?3, first = ?4, sum = ?5,"
                  " counted = ?6 WHERE seq = ?1",
                  INT(seq), INT(s.low_step), INT(s.high_step), s.counted ? REAL(s.first) : NONE,
                  isnan(s.sum) ? NONE : REAL(s.sum), INT(s.counted));
}

int series_recount(struct db *d, uint64_t job, struct err *e)
{
    AUTO_FREE struct series_point *room = xcalloc(SERIES_BLOCK_MAX, sizeof(*room));
    VEC(uint64_t) all = {0};
    sqlite3_stmt *st =
        db_query(d, e, "SELECT seq FROM series WHERE ?1 = 0 OR job = ?1 ORDER BY seq", INT(job));
    int rc;

    while ((rc = db_step(d, st, e)) == 1)
        vec_push(&all, column_u64(st, 0));
    for (size_t i = 0; rc == 0 && i < all.n; i++)
        rc = series_recount_one(d, all.p[i], room, e);
    vec_done(&all);
    return rc;
}

int series_migrate_stats(struct db *d, struct err *e)
{
    if (series_add_columns(d, e) < 0 || series_recount(d, 0, e) < 0)
        return -1;
    return db_exec(d,
                   "DROP INDEX IF EXISTS series_name;"
                   "CREATE INDEX IF NOT EXISTS series_read ON series(name, job, value, counted, "
                   "min, max, first,"
                   " sum);",
                   e);
}

/* ---- from schema 3, which had a row per point ---- */

struct moving {
    VEC(struct series_point) points;
    uint64_t job;
    uint32_t run;
    char *name;
};

static int move_points(struct db *d, struct moving *m, struct err *e)
{
    struct series_row row;
    int rc = m->points.n ? series_open(d, m->job, str_of(m->name), &row, e) : 0;

    if (rc == 1)
        rc = series_append(d, &row, m->run, m->points.p, m->points.n, e);
    vec_clear(&m->points);
    return rc < 0 ? -1 : 0;
}

int series_migrate(struct db *d, struct err *e)
{
    if (series_add_columns(d, e) < 0)
        return -1;

    struct moving m = {0};
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT job, name, run, step, at_ms, value FROM report"
                                " WHERE kind = ?1 ORDER BY job, kind, name, seq",
                                INT('m'));
    int rc = 0;

    while (rc >= 0 && (rc = db_step(d, st, e)) == 1) {
        uint64_t job = column_u64(st, 0);
        struct str name = column_str(st, 1);
        uint32_t run = (uint32_t)sqlite3_column_int64(st, 2);
        if (m.points.n == SERIES_BLOCK_MAX || job != m.job || run != m.run || !m.name ||
            !str_eq_c(name, m.name)) {
            rc = move_points(d, &m, e);
            free(m.name);
            m.name = xstrndup(name.p, name.n);
            m.job = job;
            m.run = run;
        }
        vec_push(&m.points,
                 ((struct series_point){sqlite3_column_int64(st, 3), sqlite3_column_int64(st, 4),
                                        sqlite3_column_double(st, 5)}));
    }
    if (rc == 0)
        rc = move_points(d, &m, e);
    vec_done(&m.points);
    free(m.name);
    return rc < 0 ? -1 : db_exec(d, "DROP TABLE report", e);
}
