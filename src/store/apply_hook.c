/* apply_hook.c - hooks come and go, entries of `notify` too, and messages are done
 *
 * Owns: writing the tables hook and notify, and deleting from delivery.
 */
#include "base/util.h"
#include "store/apply_priv.h"
#include "store/hook.h"

/* Jobs that wait now count for `waiting` as well; older ones have ended or run. */
int apply_hook(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_hook *h = &c->hook;

    if (db_run(a->db, e,
               "INSERT INTO hook(uid, gid, user, name, action, filter, secret, events, wait_ms,"
               " scope, everyone, enabled, seen_job) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
               " ?10, ?11, ?12, ifnull((SELECT min(seq) FROM job WHERE state = ?13),"
               " (SELECT job FROM counter)) - 1 WHERE true"
               " ON CONFLICT(name, uid) DO UPDATE SET gid = ?2, user = ?3, action = ?5,"
               " filter = ?6, secret = iif(?14, secret, ?7), events = ?8, wait_ms = ?9,"
               " scope = ?10, everyone = ?11, enabled = ?12, tries = 0, next_ms = 0",
               INT(h->uid), INT(h->gid), TEXT(c->user), TEXT(h->name), TEXT(h->action),
               TEXT(h->filter), TEXT(h->secret), INT(h->on.events), INT(h->on.wait_ms),
               INT(h->on.scope), INT(h->everyone), INT(h->enabled), INT(JOB_QUEUED),
               INT(h->keep_secret)) < 0)
        return -1;
    a->hooks.changed = true;
    return hooks_reload(a, e);
}

int apply_hook_gone(struct applier *a, const struct change *c, struct err *e)
{
    if (db_run(a->db, e, "DELETE FROM hook WHERE seq = ?1", INT(c->hook_gone.hook)) < 0)
        return -1;
    a->hooks.changed = true;
    return hooks_reload(a, e);
}

/* A summary may have counted more events while it was on its way: they become another message. */
static int message_done(struct applier *a, const struct change_delivered *d, int64_t at_ms,
                        struct err *e)
{
    if (d->n > 1 &&
        db_run(a->db, e,
               "INSERT INTO delivery(hook, event, scope, subject, last, n, bad, at_ms, next_ms)"
               " SELECT hook, event, scope, subject, last, n - ?2, bad - ?3, ?4, ?5 FROM delivery"
               " WHERE seq = ?1 AND n > ?2",
               INT(d->delivery), INT(d->n), INT(d->bad), INT(at_ms), INT(at_ms + HOOK_RATE_MS)) < 0)
        return -1;
    if (db_run(a->db, e, "DELETE FROM delivery WHERE seq = ?1", INT(d->delivery)) < 0)
        return -1;
    return db_run(a->db, e,
                  "UPDATE hook SET sent = sent + 1, tries = 0, next_ms = 0, last_ms = ?2,"
                  " last_error = '', last_error_ms = 0 WHERE seq = ?1",
                  INT(d->hook), INT(at_ms));
}

int apply_delivered(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_delivered *d = &c->delivered;

    a->hooks.changed = true;
    if (!d->error.n)
        return message_done(a, d, c->at_ms, e);
    if (db_run(a->db, e, "DELETE FROM delivery WHERE hook = ?1 AND (at_ms < ?2 OR seq = ?3)",
               INT(d->hook), INT(d->drop_before_ms), INT(d->refused ? d->delivery : 0)) < 0)
        return -1;
    return db_run(a->db, e,
                  "UPDATE hook SET failed = failed + 1, tries = iif(?5, 0, tries + 1),"
                  " next_ms = iif(?5, 0, ?2), last_error = ?3, last_error_ms = ?4 WHERE seq = ?1",
                  INT(d->hook), INT(d->retry_ms), TEXT(d->error), INT(c->at_ms), INT(d->refused));
}

/* ---- notify ---- */

/* The user's own hook, or one for everyone.  An action that the user has not used before becomes a
 * hook, so that the limits of a hook hold for all submissions that name the same target. */
static int notify_hook(struct applier *a, const struct submission *s, struct str name,
                       uint64_t *out, struct err *e)
{
    static const char find[] = "SELECT seq FROM hook WHERE name = ?1 AND (uid = ?2 OR everyone)"
                               " ORDER BY uid = ?2 DESC LIMIT 1";

    for (int made = 0;; made++) {
        sqlite3_stmt *st = db_query(a->db, e, find, TEXT(name), INT(s->uid));
        int rc = db_step(a->db, st, e);
        if (rc == 1)
            *out = column_u64(st, 0);
        sqlite3_reset(st);
        if (rc || made)
            return rc < 0 ? -1 : 0;
        if (!memchr(name.p, ':', name.n))
            return err_set(e, ERR_INVALID,
                           "notify: there is no hook '%.*s'; `berth hook ls` lists the hooks",
                           (int)MIN(name.n, 100), name.p);
        if (db_run(a->db, e,
                   "INSERT INTO hook(uid, gid, user, name, action, filter, secret, events, wait_ms,"
                   " scope, everyone, enabled, seen_job)"
                   " VALUES(?1, ?2, ?3, ?4, ?4, '', '', 0, 0, 0, 0, 1, 0)",
                   INT(s->uid), INT(s->gid), TEXT(s->user), TEXT(name)) < 0)
            return -1;
    }
}

static int notify_row_add(struct applier *a, enum hook_scope scope, uint64_t first, uint64_t last,
                          uint64_t hook, uint32_t events, int64_t wait_due_ms, struct err *e)
{
    return db_run(a->db, e,
                  "INSERT INTO notify(scope, first, last, hook, events, wait_due_ms)"
                  " VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
                  INT(scope), INT(first), INT(last), INT(hook), INT(events), INT(wait_due_ms));
}

/* One entry for the jobs first … last.  In a batch, an entry without a scope is about the batch,
 * except for `waiting`, which is about jobs always. */
static int notify_entry(struct applier *a, const struct submission *s, struct str text,
                        uint64_t first, uint64_t last, int64_t at_ms, struct err *e)
{
    struct hook_notify n;
    uint64_t hook = 0;
    const struct batch_row *b = &s->batch;

    if (hook_notify_parse(text, &n, e) < 0 || notify_hook(a, s, n.hook, &hook, e) < 0)
        return -1;
    bool batch = b->seq && (!n.scope_given || n.on.scope == HOOK_SCOPE_BATCH);
    uint32_t events = n.on.events & ~(1u << HOOK_WAITING);
    if (n.on.wait_ms && notify_row_add(a, HOOK_SCOPE_JOB, first, last, hook, 1u << HOOK_WAITING,
                                       at_ms + n.on.wait_ms, e) < 0)
        return -1;
    if (!events)
        return 0;
    return batch ? notify_row_add(a, HOOK_SCOPE_BATCH, b->first_job, b->first_job + b->n_jobs - 1,
                                  hook, events, 0, e)
                 : notify_row_add(a, HOOK_SCOPE_JOB, first, last, hook, events, 0, e);
}

static const struct spec_row *spec_of(const struct submission *s, uint64_t seq)
{
    for (size_t i = 0; i < s->n_specs; i++)
        if (s->specs[i].seq == seq)
            return &s->specs[i];
    return NULL;
}

int notify_insert(struct applier *a, const struct submission *s, int64_t at_ms, struct err *e)
{
    bool any = false;

    for (size_t i = 0; i < s->n_specs; i++)
        any |= s->specs[i].notify.n > 0;
    for (size_t i = 0, end; any && i < s->n_jobs; i = end) {
        const struct spec_row *spec = spec_of(s, s->jobs[i].spec);
        for (end = i + 1; end < s->n_jobs && s->jobs[end].spec == s->jobs[i].spec; end++)
            ;
        struct str rest = spec ? spec->notify : STR("");
        while (rest.n)
            if (notify_entry(a, s, str_cut(rest, '\n', &rest), s->jobs[i].seq, s->jobs[end - 1].seq,
                             at_ms, e) < 0)
                return -1;
    }
    a->hooks.notifies |= any;
    a->hooks.changed |= any;
    return 0;
}

int notify_forget_job(struct applier *a, uint64_t job, struct err *e)
{
    for (int scope = 0; scope < HOOK_SCOPE_SUMMARY; scope++)
        if (db_run(a->db, e,
                   "DELETE FROM notify WHERE scope = ?2 AND first = (SELECT max(first) FROM notify"
                   " WHERE scope = ?2 AND first <= ?1) AND NOT EXISTS(SELECT 1 FROM job WHERE seq"
                   " BETWEEN notify.first AND notify.last)",
                   INT(job), INT(scope)) < 0)
            return -1;
    return 0;
}

int hooks_forget(struct applier *a, struct err *e)
{
    return db_run(a->db, e,
                  "DELETE FROM hook WHERE instr(name, ':')"
                  " AND NOT EXISTS(SELECT 1 FROM notify WHERE hook = hook.seq)"
                  " AND NOT EXISTS(SELECT 1 FROM delivery WHERE hook = hook.seq)");
}
