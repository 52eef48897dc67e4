/* study_log.c - logs that libraries of searches keep: appended, read, removed
 *
 * Owns: the table study_log.  Lines are numbered here, by the one thread that writes, so that all
 * clients of a log see the same lines in the same order.
 */
#include "store/study_log.h"
#include "store/apply_priv.h"
#include "store/query_priv.h"
#include <string.h>

int apply_study_log(struct applier *a, const struct change *c, struct err *e)
{
    struct str rest = c->study_log.lines;

    while (rest.n) {
        const char *end = memchr(rest.p, '\n', rest.n);
        struct str line = {rest.p, end ? (size_t)(end - rest.p) : rest.n};
        if (db_run(a->db, e,
                   "INSERT INTO study_log(uid, name, number, line) VALUES(?1, ?2, 1 + COALESCE("
                   "(SELECT max(number) FROM study_log WHERE uid = ?1 AND name = ?2), 0), ?3)",
                   INT(c->study_log.uid), TEXT(c->study_log.name), TEXT(line)) < 0)
            return -1;
        size_t used = MIN(line.n + 1, rest.n);
        rest = (struct str){rest.p + used, rest.n - used};
    }
    return 0;
}

int apply_study_log_gone(struct applier *a, const struct change *c, struct err *e)
{
    return db_run(a->db, e, "DELETE FROM study_log WHERE uid = ?1 AND name = ?2",
                  INT(c->study_log.uid), TEXT(c->study_log.name));
}

static int study_log_rows(struct store *s, struct db *d, sqlite3_stmt *st, study_log_fn fn,
                          void *arg, struct err *e)
{
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        uint64_t number = 0;
        struct str text = {0};
        db_row(st, COL(&number), COL(&text));
        if (!fn(arg, number, text))
            break;
    }
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}

int store_study_log(struct store *s, uint32_t uid, struct str name, uint64_t after, size_t limit,
                    study_log_fn fn, void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);

    return study_log_rows(s, d,
                          db_query(d, e,
                                   "SELECT number, line FROM study_log WHERE uid = ?1 AND name = ?2"
                                   " AND number > ?3 ORDER BY number LIMIT ?4",
                                   INT(uid), TEXT(name), INT(after), INT(limit)),
                          fn, arg, e);
}

int store_study_logs(struct store *s, uint32_t uid, study_log_fn fn, void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);

    return study_log_rows(s, d,
                          db_query(d, e,
                                   "SELECT max(number), name FROM study_log WHERE uid = ?1"
                                   " GROUP BY name ORDER BY name",
                                   INT(uid)),
                          fn, arg, e);
}
