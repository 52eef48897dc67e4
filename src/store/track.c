/* track.c - reading experiments: marks, metrics, points and buckets of them
 *
 * Blocks are unpacked one at a time into memory of the call.  A question about a part of the axis
 * leaves out the blocks that cannot hold anything of it.
 */
#include "store/track.h"
#include "base/util.h"
#include "store/query_priv.h"
#include <math.h>

/* ---- marks ---- */

static int marks_of(struct db *d, uint64_t job, char kind, mark_fn fn, void *arg, struct err *e)
{
    /* Kind 0: of every kind. */
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT kind, name, text, step, at_ms, run FROM mark WHERE job = ?1"
                                " AND (?2 = 0 OR kind = ?2) ORDER BY seq",
                                INT(job), INT(kind));
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        struct mark_view v = {.job = job};
        db_row(st, COL(&v.kind), COL(&v.name), COL(&v.text), COL(&v.step), COL(&v.at_ms),
               COL(&v.run));
        if (!fn(arg, &v)) {
            sqlite3_reset(st);
            return 1;
        }
    }
    return rc;
}

int store_marks(struct store *s, const uint64_t *jobs, size_t n, char kind, mark_fn fn, void *arg,
                struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    int rc = d ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = marks_of(d, jobs[i], kind, fn, arg, e);
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}

/* A logged parameter replaces the submitted one of the same name. */
static bool params_add(void *arg, const struct mark_view *v)
{
    struct json *o = arg, *value = NULL;
    AUTO_FREE char *name = xstrndup(v->name.p, v->name.n);

    if (json_parse(v->text, "parameter", &value, NULL) == 0)
        json_set_take(o, name, value);
    return true;
}

static bool submitted_params(void *arg, const struct job_view *v)
{
    struct json **out = arg;

    if (v->params.n)
        json_parse(v->params, "parameters", out, NULL);
    return false;
}

int store_params(struct store *s, uint64_t job, struct json **out, struct err *e)
{
    struct json *o = NULL;

    if (store_job(s, job, submitted_params, &o, e) < 0)
        return -1;
    if (!o)
        o = json_new_object();
    return HAND_OUT(store_marks(s, &job, 1, MARK_PARAM, params_add, o, e), out, o, json_free);
}

/* ---- metrics ---- */

#define SERIES_COLUMNS                                                                             \
    "SELECT name, n, value, text, step, at_ms, run, " SERIES_STATS ", seq FROM series"             \
    " WHERE job = ?1"

static struct series_view view_series(sqlite3_stmt *st, uint64_t job)
{
    struct series_view v = {.job = job, .is_text = sqlite3_column_type(st, 3) != SQLITE_NULL};

    db_row(st, COL(&v.name), COL(&v.n), COL(&v.value), COL(&v.text), COL(&v.step), COL(&v.at_ms),
           COL(&v.run), COL(&v.stats));
    if (sqlite3_column_type(st, 2) == SQLITE_NULL)
        v.value = NAN;
    return v;
}

static int series_of(struct db *d, uint64_t job, series_fn fn, void *arg, struct err *e)
{
    sqlite3_stmt *st = db_query(d, e, SERIES_COLUMNS " ORDER BY seq", INT(job));
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        struct series_view v = view_series(st, job);
        if (!fn(arg, &v)) {
            sqlite3_reset(st);
            return 1;
        }
    }
    return rc;
}

int store_series(struct store *s, const uint64_t *jobs, size_t n, series_fn fn, void *arg,
                 struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    int rc = d ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = series_of(d, jobs[i], fn, arg, e);
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}

int series_find(struct db *d, uint64_t job, const char *name, struct series_view *out,
                struct err *e)
{
    sqlite3_stmt *st =
        db_query(d, e, SERIES_COLUMNS " AND name = ?2", INT(job), TEXT(str_of(name)));
    int rc = db_step(d, st, e);

    if (rc == 1)
        *out = view_series(st, job);
    return rc;
}

/* The statement stands on the row: *out borrows from it.  0 = found. */
static int find_series(struct db *d, uint64_t job, struct str name, struct series_view *out,
                       uint64_t *out_seq, struct err *e)
{
    sqlite3_stmt *st = db_query(d, e, SERIES_COLUMNS " AND name = ?2", INT(job), TEXT(name));
    int rc;

    rc = db_step(d, st, e);
    if (rc == 0)
        return err_set(
            e, ERR_NOT_FOUND, "job %llu has no metric '%.*s'; `berth show %llu` lists those it has",
            (unsigned long long)job, (int)MIN(name.n, 60), name.p, (unsigned long long)job);
    if (rc < 0)
        return -1;
    *out = view_series(st, job);
    *out_seq = column_u64(st, 19);
    return 0;
}

int store_series_one(struct store *s, uint64_t job, struct str name, series_fn fn, void *arg,
                     struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    struct series_view v;
    uint64_t seq;
    int rc = d ? find_series(d, job, name, &v, &seq, e) : -1;

    if (rc == 0)
        fn(arg, &v);
    pool_return(&s->pool, d);
    return rc;
}

/* ---- points ---- */

typedef bool (*point_fn)(void *arg, const struct point_view *v);
/* A walk over the points of one metric: numbers from blocks and texts from words, merged by index.
 */
struct walk {
    struct db *db;
    uint64_t seq, first, end; /* indexes */
    sqlite3_stmt *words;      /* stands on the next text, NULL when there is none left */
    point_fn fn;
    void *arg;
    struct series_point points[SERIES_BLOCK_MAX];
};

static int walk_next_word(struct walk *w, struct err *e)
{
    int rc = db_step(w->db, w->words, e);

    if (rc != 1)
        w->words = NULL;
    return rc < 0 ? -1 : 0;
}

/* Texts with an index below `index`.  1 = enough. */
static int tell_words(struct walk *w, uint64_t index, struct err *e)
{
    while (w->words && column_u64(w->words, 0) < MIN(index, w->end)) {
        struct point_view v = {.value = NAN, .is_text = true};
        db_row(w->words, COL(&v.index), COL(&v.run), COL(&v.step), COL(&v.at_ms), COL(&v.text));
        if (!w->fn(w->arg, &v))
            return 1;
        if (walk_next_word(w, e) < 0)
            return -1;
    }
    return 0;
}

/* series_count is 0 for a block that claims more than SERIES_BLOCK_MAX points, so a damaged block
 * cannot write beyond the array. */
static int walk_unpack(struct walk *w, sqlite3_stmt *st, int column, size_t n, struct err *e)
{
    struct str data = {sqlite3_column_blob(st, column), (size_t)sqlite3_column_bytes(st, column)};

    if (series_count(data) != n)
        return err_set(e, ERR_INTERNAL,
                       "job store %s: a block of points is damaged; run "
                       "`berth doctor`",
                       w->db->path);
    return series_unpack(data, w->points, e);
}

/* Tells the points of a block that are in range, and the texts before them.  1 = enough. */
static int tell_block(struct walk *w, sqlite3_stmt *st, struct err *e)
{
    uint64_t first = column_u64(st, 0), n = column_u64(st, 1);
    uint32_t run = (uint32_t)sqlite3_column_int64(st, 2);
    int rc = walk_unpack(w, st, 3, n, e);

    if (rc == 0)
        rc = tell_words(w, first, e);
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        if (first + i < w->first)
            continue;
        if (first + i >= w->end)
            return 1;
        struct point_view v = {.index = first + i,
                               .run = run,
                               .step = w->points[i].step,
                               .at_ms = w->points[i].at_ms,
                               .value = w->points[i].value};
        if (!w->fn(w->arg, &v))
            return 1;
    }
    return rc;
}

static int walk_blocks(struct walk *w, struct err *e)
{
    int rc;
    sqlite3_stmt *st = db_query(w->db, e,
                                "SELECT first, n, run, data FROM block WHERE series = ?1"
                                " AND first >= ifnull((SELECT max(first) FROM block"
                                "  WHERE series = ?1 AND first <= ?2), 0) AND first < ?3"
                                " ORDER BY first",
                                INT(w->seq), INT(w->first), INT(w->end));
    while ((rc = db_step(w->db, st, e)) == 1) {
        rc = tell_block(w, st, e);
        if (rc)
            break;
    }
    return rc ? rc : tell_words(w, w->end, e);
}

static int walk_blob(struct walk *w, struct err *e)
{
    w->words = db_query(w->db, e,
                        "SELECT idx, run, step, at_ms, text FROM word WHERE series = ?1"
                        " AND idx >= ?2 ORDER BY idx",
                        INT(w->seq), INT(w->first));
    return walk_next_word(w, e) < 0 ? -1 : walk_blocks(w, e);
}

int store_points(struct store *s, uint64_t job, struct str name, uint64_t first, size_t limit,
                 point_fn fn, void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    AUTO_FREE struct walk *w = xmalloc(sizeof(*w));
    struct series_view v;
    int rc;

    *w = (struct walk){.db = d, .first = MIN(first, (uint64_t)INT64_MAX), .fn = fn, .arg = arg};
    w->end = limit && limit < INT64_MAX - w->first ? w->first + limit : INT64_MAX;
    rc = d ? find_series(d, job, name, &v, &w->seq, e) : -1;
    if (rc == 0)
        rc = walk_blob(w, e);
    pool_return(&s->pool, d); /* resets what still stands on a row */
    return rc < 0 ? -1 : 0;
}

/* ---- buckets ---- */

/* Reads only the blocks that overlap the axis. */
static int fill_buckets(struct walk *w, const struct series_axis *a, struct series_bucket *out,
                        struct err *e)
{
    int rc;
    sqlite3_stmt *st =
        db_query(w->db, e,
                 a->by_time ? "SELECT n, data FROM block WHERE series = ?1 AND at_max >= ?2"
                              " AND at_min <= ?3 ORDER BY first"
                            : "SELECT n, data FROM block WHERE series = ?1 AND step_max >= ?2"
                              " AND step_min <= ?3 ORDER BY first",
                 INT(w->seq), INT(a->from), INT(a->to));
    while ((rc = db_step(w->db, st, e)) == 1) {
        size_t n = (size_t)column_u64(st, 0);
        if (walk_unpack(w, st, 1, n, e) < 0)
            return -1;
        series_fill(a, out, w->points, n);
    }
    return rc;
}

int store_buckets(struct store *s, uint64_t job, struct str name, struct series_axis *a,
                  struct series_bucket *out, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    AUTO_FREE struct walk *w = xmalloc(sizeof(*w));
    struct series_view v;
    int rc;

    memset(out, 0, a->n * sizeof(*out));
    *w = (struct walk){.db = d};
    rc = d ? find_series(d, job, name, &v, &w->seq, e) : -1;
    if (rc == 0 && a->from > a->to) {
        a->from = a->by_time ? v.stats.at_min : v.stats.step_min;
        a->to = a->by_time ? v.stats.at_max : v.stats.step_max;
    }
    if (rc == 0)
        rc = fill_buckets(w, a, out, e);
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}
