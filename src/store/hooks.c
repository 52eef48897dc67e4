/* hooks.c - reading hooks, and what is due for them
 *
 * store_hooks and store_hook run on any thread and never read secrets.  The ledger's reads run on
 * the loop thread, through its own connection.
 */
#include "base/util.h"
#include "store/hook.h"
#include "store/query_priv.h"

#define HOOK_COLUMNS                                                                               \
    "SELECT seq, uid, user, name, action, filter, events, wait_ms, scope, everyone, enabled,"      \
    " secret <> '', (SELECT ifnull(sum(n), 0) FROM delivery WHERE hook = hook.seq), sent, failed," \
    " last_ms, last_error_ms, last_error, gid FROM hook"

static struct hook_view hook_view_of(sqlite3_stmt *st)
{
    struct hook_view v = {0};

    db_row(st, COL(&v.seq), COL(&v.uid), COL(&v.user), COL(&v.name), COL(&v.action), COL(&v.filter),
           COL(&v.on.events), COL(&v.on.wait_ms), COL(&v.on.scope), COL(&v.everyone),
           COL(&v.enabled), COL(&v.has_secret), COL(&v.pending), COL(&v.sent), COL(&v.failed),
           COL(&v.last_ms), COL(&v.last_error_ms), COL(&v.last_error), COL(&v.gid));
    return v;
}

int store_hooks(struct store *s, bool only_uid, uint32_t uid, hook_fn fn, void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    sqlite3_stmt *st =
        db_query(d, e, HOOK_COLUMNS " WHERE NOT ?1 OR uid = ?2 OR everyone ORDER BY name, uid",
                 INT(only_uid), INT(uid));
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        struct hook_view v = hook_view_of(st);
        if (!fn(arg, &v))
            break;
    }
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}

int store_hook(struct store *s, uint32_t uid, bool any, struct str name, hook_fn fn, void *arg,
               struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    sqlite3_stmt *st = db_query(d, e,
                                HOOK_COLUMNS " WHERE name = ?1 AND (uid = ?2 OR everyone OR ?3)"
                                             " ORDER BY uid = ?2 DESC, everyone DESC LIMIT 1",
                                TEXT(name), INT(uid), INT(any));
    int rc = db_step(d, st, e);

    if (rc == 1) {
        struct hook_view v = hook_view_of(st);
        fn(arg, &v);
    } else if (rc == 0) {
        rc = err_set(e, ERR_NOT_FOUND, "there is no hook '%.*s'; `berth hook ls` lists the hooks",
                     (int)MIN(name.n, 100), name.p);
    }
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}

/* ---- what is due ---- */

#define DELIVERY_HOOK "h.seq, h.tries, h.uid, h.gid, h.user, h.name, h.action, h.secret"

static struct delivery_record delivery_of(sqlite3_stmt *st)
{
    return (struct delivery_record){.hook = column_u64(st, 0),
                                    .tries = (uint32_t)column_u64(st, 1),
                                    .uid = (uint32_t)sqlite3_column_int64(st, 2),
                                    .gid = (uint32_t)sqlite3_column_int64(st, 3),
                                    .user = column_str(st, 4),
                                    .name = column_str(st, 5),
                                    .action = column_str(st, 6),
                                    .secret = column_str(st, 7)};
}

static int due_messages(struct db *d, int64_t now_ms, size_t max, delivery_fn fn, void *arg,
                        struct err *e)
{
    int rc;
    sqlite3_stmt *st =
        db_query(d, e,
                 "SELECT " DELIVERY_HOOK ", d.seq, d.event, d.scope, d.subject, d.last, d.n, d.bad,"
                 " d.at_ms FROM delivery d JOIN hook h ON h.seq = d.hook WHERE d.seq IN (SELECT"
                 " min(seq) FROM delivery WHERE next_ms <= ?1 GROUP BY hook) AND h.enabled"
                 " AND h.next_ms <= ?1 ORDER BY d.seq LIMIT ?2",
                 INT(now_ms), INT(max));

    while ((rc = db_step(d, st, e)) == 1) {
        struct delivery_record r = delivery_of(st);
        r.seq = column_u64(st, 8);
        r.event = (enum hook_event)sqlite3_column_int(st, 9);
        r.scope = (enum hook_scope)sqlite3_column_int(st, 10);
        r.subject = column_u64(st, 11);
        r.last = column_u64(st, 12);
        r.n = sqlite3_column_int64(st, 13);
        r.bad = sqlite3_column_int64(st, 14);
        r.at_ms = sqlite3_column_int64(st, 15);
        fn(arg, &r);
    }
    return rc;
}

/* The earliest of the times that the rows of the statement have; -1 = none. */
static int due_earliest(struct db *d, sqlite3_stmt *st, int64_t *out, struct err *e)
{
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        int64_t at = sqlite3_column_int64(st, 0);
        if (sqlite3_column_type(st, 0) != SQLITE_NULL && (*out < 0 || at < *out))
            *out = at;
    }
    return rc;
}

/* A stored hook for `waiting` is due when the first job that it has not seen is old enough. Without
 * such a job, none can be old enough before wait_ms from now. */
int hooks_due(struct db *d, int64_t now_ms, size_t max, delivery_fn fn, void *arg,
              struct hook_due *out, struct err *e)
{
    int64_t wait = -1, next = -1, pending = -1;

    if (due_messages(d, now_ms, max, fn, arg, e) < 0 ||
        due_earliest(d,
                     db_query(d, e,
                              "SELECT min(max(d.next_ms, h.next_ms)) FROM delivery d JOIN hook h"
                              " ON h.seq = d.hook WHERE h.enabled AND max(d.next_ms, h.next_ms)"
                              " > ?1",
                              INT(now_ms)),
                     &next, e) < 0 ||
        due_earliest(d,
                     db_query(d, e,
                              "SELECT min(d.at_ms) FROM delivery d JOIN hook h ON h.seq = d.hook"
                              " WHERE h.enabled"),
                     &pending, e) < 0 ||
        due_earliest(d, db_query(d, e, "SELECT min(wait_due_ms) FROM notify WHERE wait_due_ms > 0"),
                     &wait, e) < 0 ||
        due_earliest(
            d,
            db_query(d, e,
                     "SELECT h.wait_ms + ifnull((SELECT j.created_ms FROM job j NOT INDEXED"
                     " WHERE j.seq > h.seen_job ORDER BY j.seq LIMIT 1), ?1) FROM hook h"
                     " WHERE h.enabled AND h.events & ?2",
                     INT(now_ms), INT(1u << HOOK_WAITING)),
            &wait, e) < 0)
        return -1;
    out->pending = pending >= 0;
    out->waited = wait >= 0 && wait <= now_ms;
    if (out->waited)
        wait = -1; /* CHANGE_WAITED changes the serial, and then this is asked again */
    out->next_ms = next < 0 ? wait : wait < 0 ? next : MIN(next, wait);
    return 0;
}

int hook_read(struct db *d, uint64_t hook, delivery_fn fn, void *arg, struct err *e)
{
    sqlite3_stmt *st =
        db_query(d, e, "SELECT " DELIVERY_HOOK " FROM hook h WHERE h.seq = ?1", INT(hook));
    int rc = db_step(d, st, e);

    if (rc == 1) {
        struct delivery_record r = delivery_of(st);
        r.event = HOOK_TEST;
        fn(arg, &r);
        sqlite3_reset(st);
    }
    return rc == 0 ? err_set(e, ERR_NOT_FOUND, "the hook was removed") : rc < 0 ? -1 : 0;
}
