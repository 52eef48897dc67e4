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
           COL(&r.values), COL(&r.parent));
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

/* A trial that was asked to stop and has no result yet runs. */
static int sum_counts(struct db *d, struct study_sum *x, struct err *e)
{
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT iif(state = ?2 AND NOT told, ?3, state) AS now, count(*),"
                                " max(max(asked, told)), sum(lease_s > 0)"
                                " FROM trial WHERE study = ?1 GROUP BY now",
                                INT(x->seq), INT(TRIAL_PRUNED), INT(TRIAL_RUNNING));
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        uint64_t state = column_u64(st, 0);
        if (state < ARRAY_SIZE(x->counts))
            x->counts[state] = column_u64(st, 1);
        x->ops = MAX(x->ops, column_u64(st, 2));
        if (state == TRIAL_RUNNING)
            x->leased = column_u64(st, 3);
    }
    return rc;
}

/* The first of equal ones, as the study itself finds it. */
static int sum_best(struct db *d, bool maximize, struct study_sum *x, char **out_params,
                    struct err *e)
{
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT number, value, job, params FROM trial WHERE study = ?1"
                                " AND state = ?2 ORDER BY iif(?3, -value, value), told LIMIT 1",
                                INT(x->seq), INT(TRIAL_DONE), INT(maximize));
    int rc = db_step(d, st, e);

    if (rc == 1) {
        struct str params = column_str(st, 3);
        x->best = column_u64(st, 0);
        x->value = sqlite3_column_double(st, 1);
        x->best_job = column_u64(st, 2);
        *out_params = xstrndup(params.p, params.n);
        x->params = str_of(*out_params);
        sqlite3_reset(st);
    }
    return rc < 0 ? -1 : 0;
}

int study_sum_read(struct db *d, struct study_sum *x, char **out_metric, char **out_params,
                   struct err *e)
{
    sqlite3_stmt *st = db_query(d, e, "SELECT def FROM study WHERE seq = ?1", INT(x->seq));
    AUTO(json) struct json *def = NULL;
    int rc = db_step(d, st, e);

    if (rc == 1) {
        json_parse(column_str(st, 0), "study", &def, NULL);
        sqlite3_reset(st);
    }
    const struct json *goal = json_get(def, "objective");
    bool maximize = json_has(goal, "maximize"), one = json_type(goal) == JSON_OBJECT;
    struct str metric = one ? json_get_str(goal, maximize ? "maximize" : "minimize") : STR("");
    x->value = NAN;
    *out_metric = xstrndup(metric.p ? metric.p : "", metric.n);
    if (rc < 0 || sum_counts(d, x, e) < 0)
        return -1;
    return one && x->counts[TRIAL_DONE] ? sum_best(d, maximize, x, out_params, e) : 0;
}

int store_study(struct store *s, uint64_t seq, void (*fn)(void *arg, const struct study_view *v),
                void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    struct study_view v = {.sum.seq = seq};
    AUTO_FREE char *name = NULL, *user = NULL, *metric = NULL, *params = NULL;
    sqlite3_stmt *st = db_query(d, e, "SELECT name, user FROM study WHERE seq = ?1", INT(seq));
    int rc = db_step(d, st, e);

    if (rc == 1) {
        struct str a = column_str(st, 0), b = column_str(st, 1);
        name = xstrndup(a.p, a.n);
        user = xstrndup(b.p, b.n);
        sqlite3_reset(st);
        rc = study_sum_read(d, &v.sum, &metric, &params, e);
        v.name = str_of(name);
        v.user = str_of(user);
        v.metric = str_of(metric);
        if (rc == 0)
            fn(arg, &v);
    } else if (rc == 0) {
        rc = err_set(e, ERR_NOT_FOUND, "the study was removed");
    }
    pool_return(&s->pool, d);
    return rc;
}
