/* studies.c - reading the trials of a study */
#include "base/json.h"
#include "base/util.h"
#include "store/query_priv.h"
#include "store/study_priv.h"
#include "store/study_view.h"
#include <math.h>

/* In the order of TRIAL_COLUMNS.  SQL has no NaN: a trial without a value has NULL. */
struct trial_row trial_row_of(sqlite3_stmt *st)
{
    struct trial_row r = {0};
    uint32_t state = 0;

    db_row(st, COL(&r.number), COL(&r.job), COL(&r.params), COL(&r.asked), COL(&r.told),
           COL(&state), COL(&r.value), COL(&r.reason), COL(&r.hold), COL(&r.lease_s),
           COL(&r.values));
    r.state = (enum trial_state)state;
    if (sqlite3_column_type(st, TRIAL_VALUE_AT) == SQLITE_NULL)
        r.value = NAN;
    return r;
}

int store_trials(struct store *s, uint64_t study, uint64_t after, size_t limit, trial_fn fn,
                 void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT " TRIAL_COLUMNS " FROM trial WHERE study = ?1"
                                " AND number > ?2 ORDER BY number LIMIT ?3",
                                INT(study), INT(after), INT(limit));
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        struct trial_row r = trial_row_of(st);
        r.study = study;
        if (!fn(arg, &r))
            break;
    }
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}

/* ---- one study ---- */

static int study_counts(struct db *d, struct study_view *v, struct err *e)
{
    sqlite3_stmt *st = db_query(
        d, e, "SELECT state, count(*) FROM trial WHERE study = ?1 GROUP BY state", INT(v->seq));
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        uint64_t state = column_u64(st, 0);
        if (state < ARRAY_SIZE(v->counts))
            v->counts[state] = column_u64(st, 1);
    }
    return rc;
}

/* The first of equal ones, as the study says it. */
static int study_best(struct db *d, const struct json *objective, struct study_view *v,
                      struct err *e)
{
    bool maximize = json_has(objective, "maximize");
    sqlite3_stmt *st;
    int rc;

    if (json_type(objective) != JSON_OBJECT)
        return 0;
    v->metric = json_get_str(objective, maximize ? "maximize" : "minimize");
    st = db_query(d, e,
                  "SELECT number, value FROM trial WHERE study = ?1 AND state = ?2"
                  " ORDER BY iif(?3, -value, value), told LIMIT 1",
                  INT(v->seq), INT(TRIAL_DONE), INT(maximize));
    rc = db_step(d, st, e);
    if (rc == 1) {
        v->best = column_u64(st, 0);
        v->value = sqlite3_column_double(st, 1);
        sqlite3_reset(st);
    }
    return rc < 0 ? -1 : 0;
}

int store_study(struct store *s, uint64_t seq, void (*fn)(void *arg, const struct study_view *v),
                void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    struct study_view v = {.seq = seq, .value = NAN};
    AUTO_FREE char *name = NULL, *user = NULL;
    AUTO(json) struct json *def = NULL;
    sqlite3_stmt *st = db_query(d, e, "SELECT name, user, def FROM study WHERE seq = ?1", INT(seq));
    int rc = db_step(d, st, e);

    if (rc == 1) {
        struct str a = column_str(st, 0), b = column_str(st, 1);
        name = xstrndup(a.p, a.n);
        user = xstrndup(b.p, b.n);
        json_parse(column_str(st, 2), "study", &def, NULL);
        sqlite3_reset(st);
        v.name = str_of(name);
        v.user = str_of(user);
        rc = study_counts(d, &v, e) < 0 || study_best(d, json_get(def, "objective"), &v, e) < 0;
        if (rc == 0)
            fn(arg, &v);
    } else if (rc == 0) {
        rc = err_set(e, ERR_NOT_FOUND, "the study was removed");
    }
    pool_return(&s->pool, d);
    return rc ? -1 : 0;
}
