/* studies.c - reading the trials of a study */
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
