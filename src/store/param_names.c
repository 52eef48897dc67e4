/* param_names.c - which names parameters were submitted under, for the order of lists
 *
 * Whether `acc` is a parameter or a metric only the jobs can tell.  Asked of each job, a list by a
 * metric reads the parameters of all of them; so the names are collected once and then from the
 * jobs that came since.  Parameters never change after the submission, and a name whose last job
 * was removed costs time only.
 */
#include "base/map.h"
#include "base/util.h"
#include "store/query_priv.h"
#include <pthread.h>

enum { NAMES_MAX = 20000 }; /* with more, any name may be one */

struct param_names {
    pthread_mutex_t lock;
    struct map_str seen;
    uint64_t up_to; /* jobs 1 … up_to were read */
    bool any;       /* some job has names that were not collected */
};

struct param_names *param_names_new(void)
{
    struct param_names *n = xcalloc(1, sizeof(*n));

    pthread_mutex_init(&n->lock, NULL);
    return n;
}

void param_names_free(struct param_names *n)
{
    if (!n)
        return;
    pthread_mutex_destroy(&n->lock);
    map_str_done(&n->seen);
    free(n);
}

static void note_name(void *arg, struct str name)
{
    struct param_names *n = arg;

    if (map_str_get(&n->seen, name))
        return;
    if (n->seen.n >= NAMES_MAX)
        n->any = true;
    else
        map_str_put(&n->seen, name, n);
}

static int read_names(struct param_names *n, struct db *d, struct err *e)
{
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT seq, params FROM job NOT INDEXED WHERE seq > ?1"
                                " AND params IS NOT NULL ORDER BY seq",
                                INT(n->up_to));
    int rc;

    while (!n->any && (rc = db_step(d, st, e)) == 1) {
        n->up_to = column_u64(st, 0);
        n->any = !param_keys(column_str(st, 1), note_name, n);
    }
    if (n->any) {
        sqlite3_reset(st);
        return 0;
    }
    return rc;
}

int param_names_has(struct param_names *n, struct db *d, const char *name, bool *out, struct err *e)
{
    struct str whole = str_of(name), top;
    int rc;

    pthread_mutex_lock(&n->lock);
    rc = n->any ? 0 : read_names(n, d, e);
    top = str_cut(whole, '.', &(struct str){0});
    *out = n->any || map_str_get(&n->seen, whole) || map_str_get(&n->seen, top);
    pthread_mutex_unlock(&n->lock);
    return rc;
}
