/* resolve.c - from what people type to a job or batch: a number, an id, the beginning of an id in
 * either of its two forms
 *
 * Owns: the table intake as a map between numbers and ids.  Ids of one submission are consecutive,
 * so the jobs whose ids lie in [lo, hi] are a stretch of numbers in each intake row that overlaps;
 * jobs that were removed since are skipped.
 */
#include "base/util.h"
#include "store/query_priv.h"
#include <errno.h>
#include <stdio.h>

typedef unsigned __int128 wide;

static wide id_wide(struct id id)
{
    return (wide)id.hi << 64 | id.lo;
}

/* ---- functions for SQL ---- */

static void sql_job_id(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    const void *p = sqlite3_value_blob(v[0]);
    char text[ID_TEXT_MAX];
    (void)n;

    if (!p || sqlite3_value_bytes(v[0]) != 16)
        return;
    id_format(id_add(id_from_bytes(p), (uint64_t)sqlite3_value_int64(v[1])), text);
    sqlite3_result_text(ctx, text, ID_TEXT_LEN, SQLITE_TRANSIENT);
}

static void sql_state_name(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    (void)n;
    sqlite3_result_text(ctx, job_state_name((enum job_state)sqlite3_value_int(v[0])), -1,
                        SQLITE_STATIC);
}

int query_functions(struct db *d, struct err *e)
{
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;

    if (sqlite3_create_function(d->h, "job_id", 2, flags, NULL, sql_job_id, NULL, NULL) ||
        sqlite3_create_function(d->h, "state_name", 1, flags, NULL, sql_state_name, NULL, NULL) ||
        sqlite3_create_function(d->h, "param_number", 2, flags, NULL, sql_param_number, NULL, NULL))
        return db_fail(d, e);
    return 0;
}

/* ---- numbers and ids ---- */

int query_range(struct db *d, uint64_t seq, uint64_t *first, uint64_t *last, struct id *id,
                struct err *e)
{
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT first, last, id FROM intake WHERE first <= ?1"
                                " ORDER BY first DESC LIMIT 1",
                                INT(seq));
    int rc = db_step(d, st, e);
    if (rc < 0)
        return -1;
    if (rc == 0 || column_u64(st, 1) < seq) {
        sqlite3_reset(st);
        return err_set(e, ERR_INTERNAL, "job store %s: job %llu has no id; run `berth doctor`",
                       d->path, (unsigned long long)seq);
    }
    *first = column_u64(st, 0);
    *last = column_u64(st, 1);
    *id = column_id(st, 2);
    sqlite3_reset(st);
    return 0;
}

int query_lost_runs(struct db *d, uint64_t job, uint32_t *out, struct err *e)
{
    sqlite3_stmt *st = db_query(d, e, "SELECT count(*) FROM run WHERE job = ?1 AND why IN (?2, ?3)",
                                INT(job), INT(RUN_END_SUPERVISOR_KILLED), INT(RUN_END_NODE_LOST));
    int rc = db_step(d, st, e);

    if (rc == 1)
        *out = (uint32_t)sqlite3_column_int(st, 0);
    sqlite3_reset(st);
    return rc < 0 ? -1 : 0;
}

int query_full_runs(struct db *d, uint64_t job, uint32_t *out, struct err *e)
{
    sqlite3_stmt *st =
        db_query(d, e,
                 "SELECT count(*) FROM run WHERE job = ?1 AND why = ?2 AND sys IN (?3, ?4) AND run"
                 " > (SELECT coalesce(max(run), 0) FROM run WHERE job = ?1 AND why = ?2 AND sys NOT"
                 " IN (?3, ?4))",
                 INT(job), INT(RUN_END_EXITED), INT(ENOSPC), INT(EDQUOT));
    int rc = db_step(d, st, e);

    if (rc == 1)
        *out = (uint32_t)sqlite3_column_int(st, 0);
    sqlite3_reset(st);
    return rc < 0 ? -1 : 0;
}

int query_seq_of_id(struct db *d, struct id id, uint64_t *out, struct err *e)
{
    sqlite3_stmt *st = db_query(
        d, e, "SELECT first, last, id FROM intake WHERE id <= ?1 ORDER BY id DESC LIMIT 1", ID(id));
    int rc = db_step(d, st, e);
    *out = 0;
    if (rc <= 0)
        return rc;
    wide k = id_wide(id) - id_wide(column_id(st, 2));
    if (k <= column_u64(st, 1) - column_u64(st, 0))
        *out = column_u64(st, 0) + (uint64_t)k;
    sqlite3_reset(st);
    return 0;
}

/* Two jobs are enough to know that a prefix is ambiguous, and to name both. */
struct hits {
    uint64_t seq[2];
    size_t n;
};

/* Adds up to two jobs that exist in [first, last]. */
static int add_hits(struct db *d, uint64_t first, uint64_t last, struct hits *h, struct err *e)
{
    int rc = 0;
    sqlite3_stmt *st =
        db_query(d, e, "SELECT seq FROM job WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq LIMIT 2",
                 INT(first), INT(last));
    while (h->n < 2 && (rc = db_step(d, st, e)) == 1)
        h->seq[h->n++] = column_u64(st, 0);
    sqlite3_reset(st);
    return rc < 0 ? -1 : 0;
}

/* Finds up to two jobs whose ids lie in [lo, hi]. */
static int find_prefix(struct db *d, struct id lo, struct id hi, struct hits *h, struct err *e)
{
    int rc = 0;
    /* The row before lo may reach into the interval. */
    sqlite3_stmt *st =
        db_query(d, e,
                 "SELECT first, last, id FROM intake WHERE id <= ?2 AND id >="
                 " ifnull((SELECT max(id) FROM intake WHERE id <= ?1), ?1) ORDER BY id",
                 ID(lo), ID(hi));
    while (h->n < 2 && (rc = db_step(d, st, e)) == 1) {
        uint64_t first = column_u64(st, 0), count = column_u64(st, 1) - first;
        wide base = id_wide(column_id(st, 2)), from = id_wide(lo), to = id_wide(hi) - base;
        from = from > base ? from - base : 0;
        if (from > count)
            continue;
        rc = add_hits(d, first + (uint64_t)from, first + (uint64_t)MIN(to, (wide)count), h, e);
        if (rc < 0)
            break;
    }
    sqlite3_reset(st);
    return rc < 0 ? -1 : 0;
}

/* The numbers of a submission whose ids have a low half in [lo, hi]; false when there are none. The
 * ids of one submission follow each other, and their halves do not overflow in practice. */
static bool low_half_range(struct id base, uint64_t count, struct id lo, struct id hi,
                           uint64_t *from, uint64_t *to)
{
    if (base.hi < lo.hi || base.hi > hi.hi || base.lo > hi.lo)
        return false;
    *from = lo.lo > base.lo ? lo.lo - base.lo : 0;
    *to = MIN(hi.lo - base.lo, count);
    return *from <= *to;
}

/* Finds up to two jobs whose UUIDs begin so.  A UUID begins with the random half of the id, by
 * which nothing is sorted: all submissions are looked at, some 0.2 us for each. */
static int find_uuid_prefix(struct db *d, struct id lo, struct id hi, struct hits *h, struct err *e)
{
    /* A submission of so many jobs may begin before the interval and reach into it. */
    const uint64_t longest = UINT64_C(1) << 32;
    char least[17], most[17];
    int rc = 0;

    snprintf(least, sizeof(least), "%016llX",
             (unsigned long long)(lo.lo > longest ? lo.lo - longest : 0));
    snprintf(most, sizeof(most), "%016llX", (unsigned long long)hi.lo);
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT first, last, id FROM intake WHERE"
                                " hex(substr(id, 9, 8)) BETWEEN ?1 AND ?2 ORDER BY first",
                                TEXT(str_of(least)), TEXT(str_of(most)));
    while (h->n < 2 && (rc = db_step(d, st, e)) == 1) {
        uint64_t first = column_u64(st, 0), from, to;
        if (!low_half_range(column_id(st, 2), column_u64(st, 1) - first, lo, hi, &from, &to))
            continue;
        rc = add_hits(d, first + from, first + to, h, e);
        if (rc < 0)
            break;
    }
    sqlite3_reset(st);
    return rc < 0 ? -1 : 0;
}

/* Few characters would match by chance, and a number that is no job's must not mean another job. */
static bool begins_uuid(struct str text, struct id *lo, struct id *hi)
{
    enum { UUID_MIN = 4, UUID_DIGITS_MIN = 8 };
    int64_t number;

    return text.n >= (str_to_i64(text, &number) ? UUID_DIGITS_MIN : UUID_MIN) &&
           id_parse_uuid_prefix(text, lo, hi);
}

static int job_exists(struct db *d, uint64_t seq, struct err *e)
{
    struct hits h = {0};

    if (add_hits(d, seq, seq, &h, e) < 0)
        return -1;
    return h.n == 1;
}

static int resolve_id_text(struct db *d, uint64_t seq, char out[ID_TEXT_MAX], struct err *e)
{
    uint64_t first, last;
    struct id id;

    if (query_range(d, seq, &first, &last, &id, e) < 0)
        return -1;
    id_format(id_add(id, seq - first), out);
    return 0;
}

static int ref_ambiguous(struct db *d, struct str text, const struct hits *h, struct err *e)
{
    char a[ID_TEXT_MAX], b[ID_TEXT_MAX];

    if (resolve_id_text(d, h->seq[0], a, e) < 0 || resolve_id_text(d, h->seq[1], b, e) < 0)
        return -1;
    return err_set(e, ERR_CONFLICT,
                   "\"" STR_FMT "\" begins several ids, such as %s (job %llu) and %s (job %llu); "
                   "write more of it, or the job's number",
                   STR_ARG(text), a, (unsigned long long)h->seq[0], b,
                   (unsigned long long)h->seq[1]);
}

static int ref_not_found(struct str text, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "there is no job \"%.*s\"; `berth ls` lists the jobs",
                   (int)MIN(text.n, 60), text.p);
}

static int ref_resolve(struct db *d, struct str text, uint64_t *out, struct err *e)
{
    struct hits h = {0};
    struct id lo, hi;
    int64_t number;

    /* Up to 19 digits are a number; only one that no job has may begin a UUID. */
    if (text.n < 20 && str_to_i64(text, &number)) {
        int rc = number > 0 ? job_exists(d, (uint64_t)number, e) : 0;
        if (rc == 1)
            *out = (uint64_t)number;
        if (rc != 0)
            return rc < 0 ? -1 : 0;
    } else if (id_parse_prefix(text, &lo, &hi) && find_prefix(d, lo, hi, &h, e) < 0) {
        return -1;
    }
    if (h.n == 0 && begins_uuid(text, &lo, &hi) && find_uuid_prefix(d, lo, hi, &h, e) < 0)
        return -1;
    if (h.n == 0)
        return ref_not_found(text, e);
    if (h.n == 2)
        return ref_ambiguous(d, text, &h, e);
    *out = h.seq[0];
    return 0;
}

int store_resolve(struct store *s, struct str text, uint64_t *out_seq, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    int rc = d ? ref_resolve(d, text, out_seq, e) : -1;
    pool_return(&s->pool, d);
    return rc;
}

/* ---- batches: the newest of that name, else a number, else the newest whose id begins so ---- */

static int ref_find_batch(struct db *d, struct str text, uint64_t *out, struct err *e)
{
    struct id lo = {0}, hi = {0};
    int64_t number = 0;
    bool prefix = id_parse_prefix(text, &lo, &hi);

    str_to_i64(text, &number);
    sqlite3_stmt *st =
        db_query(d, e,
                 "SELECT seq FROM (SELECT max(seq) AS seq, 1 AS rank FROM batch"
                 " WHERE name = ?1 UNION ALL SELECT seq, 2 FROM batch"
                 " WHERE seq = ?2 UNION ALL SELECT seq, 3 FROM batch"
                 " WHERE id BETWEEN ?3 AND ?4)"
                 " WHERE seq IS NOT NULL ORDER BY rank, seq DESC LIMIT 1",
                 TEXT(text), INT(number), prefix ? ID(lo) : NONE, prefix ? ID(hi) : NONE);
    int rc = db_step(d, st, e);
    if (rc == 1)
        *out = column_u64(st, 0);
    sqlite3_reset(st);
    if (rc == 0)
        return err_set(e, ERR_NOT_FOUND, "there is no batch \"%.*s\"", (int)MIN(text.n, 60),
                       text.p);
    return rc < 0 ? -1 : 0;
}

int store_batch_find(struct store *s, struct str name_or_id, uint64_t *out_seq, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    int rc = d ? ref_find_batch(d, name_or_id, out_seq, e) : -1;
    pool_return(&s->pool, d);
    return rc;
}
