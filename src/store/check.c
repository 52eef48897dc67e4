/* check.c - is the database sound, by SQLite's rules and by ours
 *
 * Owns: the list of things that must always hold between the tables.  Each rule is one statement
 * that returns nothing when all is well, and otherwise one line of text per finding.
 */
#include "base/util.h"
#include "model/job.h"
#include "store/check_priv.h"
#include "store/migrate_priv.h"
#include "store/query_priv.h"

enum { FINDINGS_PER_RULE = 20, ALL_STATES = JOB_STATES_ACTIVE | JOB_STATES_FINAL };
#define COUNT_STATE(up, low, number, kind) ", sum(state = " #number ")"
#define SUMS JOB_STATE_LIST(COUNT_STATE)

/* ?1 is the most findings of one rule; ?2 the set of states that the rule is about. */
static const struct {
    const char *sql;
    uint32_t states;
} rules[] = {
    {"SELECT integrity_check FROM pragma_integrity_check(" FINDINGS_MANY
     ") WHERE integrity_check NOT IN ('ok', '" FALSE_FINDING "') LIMIT ?1",
     0},
    {"SELECT 'row of ' || \"table\" || ' refers to a missing ' || parent"
     " FROM pragma_foreign_key_check LIMIT ?1",
     0},
    {"SELECT 'job ' || seq || ' has the unknown state ' || state FROM job"
     " WHERE NOT 1 << state & ?2 LIMIT ?1",
     ALL_STATES},
    {"SELECT 'job ' || seq || ' has ended without a time of its end' FROM job"
     " WHERE 1 << state & ?2 AND ended_ms = 0 LIMIT ?1",
     JOB_STATES_FINAL},
    {"SELECT 'job ' || seq || ' has not ended but has a time of its end' FROM job"
     " WHERE 1 << state & ?2 AND ended_ms <> 0 LIMIT ?1",
     JOB_STATES_ACTIVE},
    {"SELECT 'job ' || seq || ' succeeded without a run that did' FROM job j WHERE 1 << state & ?2"
     " AND NOT EXISTS(SELECT 1 FROM run r WHERE r.job = j.seq AND r.why IS NOT NULL) LIMIT ?1",
     1u << JOB_SUCCEEDED},
    {"SELECT 'job ' || j.seq || ' has ended, but its run ' || r.run || ' has no outcome'"
     " FROM run r JOIN job j ON j.seq = r.job WHERE r.why IS NULL AND 1 << j.state & ?2 LIMIT ?1",
     JOB_STATES_FINAL},
    {"SELECT 'job ' || j.seq || ' is ' || state_name(j.state) || ', but its run ' || r.run ||"
     " ' has no outcome' FROM run r JOIN job j ON j.seq = r.job WHERE r.why IS NULL AND 1 << "
     "j.state & ?2 LIMIT ?1",
     JOB_STATES_ACTIVE & ~JOB_STATES_WITH_RUN},
    {"SELECT 'job ' || seq || ' is ' || state_name(state) || ' without a run' FROM job j"
     " WHERE 1 << state & ?2 AND NOT EXISTS(SELECT 1 FROM run r WHERE r.job = j.seq AND r.why IS "
     "NULL) LIMIT ?1",
     JOB_STATES_WITH_RUN},
    {"SELECT 'job ' || job || ' has ' || count(*) || ' runs without an outcome' FROM run"
     " WHERE why IS NULL GROUP BY job HAVING count(*) > 1 LIMIT ?1",
     0},
    {"SELECT 'job ' || r.job || ' has run ' || max(r.run) || ' but counts ' || j.attempt"
     " FROM run r JOIN job j ON j.seq = r.job GROUP BY r.job HAVING max(r.run) > j.attempt"
     " LIMIT ?1",
     0},
    {"SELECT 'run ' || a.run || ' of job ' || a.job || ' was sent ahead, but the job is ' ||"
     " state_name(j.state) || ' and counts ' || j.attempt || ' runs' FROM ahead a JOIN job j"
     " ON j.seq = a.job WHERE NOT (1 << j.state & ?2 AND a.run = j.attempt + 1) LIMIT ?1",
     1u << JOB_QUEUED},
    {"SELECT 'job ' || seq || ' has no spec ' || spec FROM job j"
     " WHERE NOT EXISTS(SELECT 1 FROM spec s WHERE s.seq = j.spec AND s.party = j.party) LIMIT ?1",
     0},
    {"SELECT 'spec ' || s.seq || ' counts ' || s.jobs || ' jobs but has ' || ifnull(n, 0)"
     " FROM spec s LEFT JOIN (SELECT spec, count(*) AS n FROM job GROUP BY spec) ON spec = s.seq"
     " WHERE s.jobs <> ifnull(n, 0) LIMIT ?1",
     0},
    {"SELECT 'job ' || seq || ' has no id' FROM job j WHERE NOT EXISTS(SELECT 1 FROM intake i"
     " WHERE i.first = (SELECT max(first) FROM intake WHERE first <= j.seq) AND i.last >= j.seq)"
     " LIMIT ?1",
     0},
    {"SELECT 'job ' || seq || ' is in no batch ' || batch FROM job j WHERE batch > 0 AND NOT"
     " EXISTS(SELECT 1 FROM batch b WHERE b.seq = j.batch) LIMIT ?1",
     0},
    {"SELECT 'batch ' || b.seq || ' miscounts its jobs' FROM batch b WHERE (0" BATCH_COUNTS ") <>"
     " (SELECT 0" SUMS " FROM job WHERE job.seq BETWEEN b.first_job AND b.first_job + b.n_jobs - 1"
     " AND batch = b.seq) LIMIT ?1",
     0},
    {"SELECT 'party ' || p || ' counts ' || sum(a) || ' jobs in state ' || s || ' but has '"
     " || sum(b) FROM (SELECT party AS p, state AS s, n AS a, 0 AS b FROM tally UNION ALL"
     " SELECT party, state, 0, count(*) FROM job GROUP BY party, state)"
     " GROUP BY p, s HAVING sum(a) <> sum(b) LIMIT ?1",
     0},
    {"SELECT 'the next job number ' || job || ' was given before' FROM counter"
     " WHERE job <= (SELECT max(seq) FROM job) LIMIT ?1",
     0},
    {"SELECT 'the next spec number ' || spec || ' was given before' FROM counter"
     " WHERE spec <= (SELECT max(seq) FROM spec) LIMIT ?1",
     0},
    {"SELECT 'metric ' || name || ' of job ' || job || ' counts ' || numbers || ' numbers but has '"
     " || ifnull(b.n, 0) FROM series s LEFT JOIN (SELECT series, sum(n) AS n FROM block GROUP BY"
     " series) b ON b.series = s.seq WHERE s.numbers <> ifnull(b.n, 0) LIMIT ?1",
     0},
    {"SELECT 'metric ' || s.name || ' of job ' || s.job || ' has points beyond its last'"
     " FROM block b JOIN series s ON s.seq = b.series WHERE b.first + b.n > s.n LIMIT ?1",
     0},
    {"SELECT 'project ' || project || ' has jobs but no record' FROM party p WHERE NOT EXISTS"
     "(SELECT 1 FROM project WHERE name = p.project) LIMIT ?1",
     0},
};

int check_next(struct db *d, sqlite3_stmt *st, struct str *out, struct err *e)
{
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        *out = column_str(st, 0);
        if (!str_eq_c(*out, "ok") && !str_eq_c(*out, FALSE_FINDING))
            return 1;
    }
    return rc;
}

size_t check_rule_count(void)
{
    return ARRAY_SIZE(rules);
}

/* A rule without states has one parameter only. */
int check_rule(struct db *d, size_t rule, struct buf *findings, struct err *e)
{
    uint32_t states = rules[rule].states;
    sqlite3_stmt *st =
        db_query_args(d, e, rules[rule].sql, (struct db_arg[]){INT(FINDINGS_PER_RULE), INT(states)},
                      states ? 2 : 1);
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        struct str line = column_str(st, 0);
        buf_add(findings, line.p, line.n);
        buf_addc(findings, '\n');
    }
    return rc;
}

int check_db(struct db *d, struct buf *findings, struct err *e)
{
    if (query_functions(d, e) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        size_t before = findings->n;
        if (check_rule(d, i, findings, e) < 0)
            return -1;
        /* What SQLite cannot read back is not worth asking more about. */
        if (i == 0 && findings->n > before)
            return 0;
    }
    return 0;
}

int store_check(const char *path, struct buf *findings, struct err *e)
{
    struct db d;
    int64_t version;
    int rc;

    if (db_open(&d, path, DB_READER, e) < 0)
        return -1;
    rc = db_int(&d, "PRAGMA user_version", &version, e);
    if (rc == 0 && (size_t)version != n_migrations)
        rc = err_set(e, ERR_CONFLICT,
                     "the job store %s has schema %lld, this berth checks %zu; start the daemon "
                     "once to upgrade it, or use a newer berth",
                     path, (long long)version, n_migrations);
    /* One transaction: all rules look at the same state, while the daemon may go on writing. */
    if (rc == 0)
        rc = db_exec(&d, "BEGIN", e);
    if (rc == 0)
        rc = check_db(&d, findings, e);
    db_done(&d);
    return rc;
}
