/* pool.c - read connections beside the writer
 *
 * Owns: idle read connections.  As many are opened as calls overlap, four are kept.  A borrowed one
 * is inside a read transaction, so that all of a call sees one committed state.  During a snapshot
 * the thread keeps the first one it borrowed, and its transaction.
 */
#include "base/util.h"
#include "store/query_priv.h"

static _Thread_local struct {
    struct pool *pool; /* NULL = no snapshot on this thread */
    struct db *db;     /* NULL until the first read */
    bool lent;
} snapshot;

void pool_init(struct pool *p, const char *path)
{
    *p = (struct pool){.path = xstrdup(path)};
    pthread_mutex_init(&p->lock, NULL);
}

static void db_free(struct db *d)
{
    db_done(d);
    free(d);
}

void pool_done(struct pool *p)
{
    for (size_t i = 0; i < p->n_idle; i++)
        db_free(p->idle[i]);
    free(p->path);
    pthread_mutex_destroy(&p->lock);
}

/* Takes an idle connection or opens one, and begins its transaction; NULL = error. */
static struct db *pool_read_begin(struct pool *p, struct err *e)
{
    struct db *d = NULL;

    pthread_mutex_lock(&p->lock);
    if (p->n_idle)
        d = p->idle[--p->n_idle];
    pthread_mutex_unlock(&p->lock);
    if (!d) {
        d = xcalloc(1, sizeof(*d));
        if (db_open(d, p->path, DB_READER, e) < 0 || query_functions(d, e) < 0) {
            db_free(d);
            return NULL;
        }
    }
    if (db_run(d, e, "BEGIN") < 0) {
        db_free(d);
        return NULL;
    }
    return d;
}

/* Ends the transaction.  A connection that fails to do so is closed rather than lent again. */
static void pool_read_end(struct pool *p, struct db *d)
{
    bool sound = db_run(d, NULL, "COMMIT") == 0;

    pthread_mutex_lock(&p->lock);
    if (sound && p->n_idle < POOL_IDLE_MAX) {
        p->idle[p->n_idle++] = d;
        d = NULL;
    }
    pthread_mutex_unlock(&p->lock);
    if (d)
        db_free(d);
}

struct db *pool_borrow(struct pool *p, struct err *e)
{
    /* A read inside the callback of another needs a connection of its own: the first one may stand
     * on a row. */
    if (snapshot.pool != p || snapshot.lent)
        return pool_read_begin(p, e);
    if (!snapshot.db)
        snapshot.db = pool_read_begin(p, e);
    snapshot.lent = snapshot.db != NULL;
    return snapshot.db;
}

void pool_return(struct pool *p, struct db *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < DB_STATEMENTS; i++)
        if (d->cache[i].st && sqlite3_stmt_busy(d->cache[i].st))
            sqlite3_reset(d->cache[i].st);
    if (d == snapshot.db)
        snapshot.lent = false;
    else
        pool_read_end(p, d);
}

void store_snapshot_begin(struct store *s)
{
    ASSERT(!snapshot.pool);
    snapshot.pool = &s->pool;
}

void store_snapshot_end(struct store *s)
{
    ASSERT(snapshot.pool == &s->pool && !snapshot.lent);
    snapshot.pool = NULL;
    if (snapshot.db)
        pool_read_end(&s->pool, TAKE(snapshot.db));
}
