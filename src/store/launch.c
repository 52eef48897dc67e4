/* launch.c - what is needed to start a job, read when it is placed
 *
 * Owns: the parsed specs of the last jobs started.  A
 * sweep starts thousands of jobs of one spec: it is parsed once.  A spec is shared by the cache and
 * the launches that use it, counted, and freed with the last of them; all on the loop thread.
 */
#include "base/util.h"
#include "store/store_priv.h"

enum { LAUNCH_SPECS = 32 };

/* A parsed spec with its owner.  `used` is the clock of the cache at its last use. */
struct launch_spec {
    uint64_t seq;
    struct spec *spec;
    struct json *sealed; /* NULL = no secrets */
    uint32_t uid, gid;
    char *name, *user;
    size_t holders; /* the cache and each launch */
    uint64_t used;
};
struct launch_cache {
    struct point *point;
    struct launch_spec *specs[LAUNCH_SPECS];
    uint64_t clock;
};

struct launch_cache *launch_cache_new(struct point *p)
{
    struct launch_cache *c = xcalloc(1, sizeof(*c));
    c->point = p;
    return c;
}

static void launch_spec_release(struct launch_spec *s)
{
    if (!s || --s->holders)
        return;
    spec_free(s->spec);
    json_free(s->sealed);
    FREE_EACH(s->name, s->user, s);
}

void launch_cache_free(struct launch_cache *c)
{
    for (size_t i = 0; i < LAUNCH_SPECS; i++)
        launch_spec_release(c->specs[i]);
    free(c);
}

void launch_done(struct launch *l)
{
    if (l->shared)
        launch_spec_release(l->shared);
    else
        spec_free(l->spec);
    json_free(l->params);
    FREE_EACH(l->name, l->batch_name, l->user);
    *l = (struct launch){0};
}

static char *column_dup(sqlite3_stmt *st, int i)
{
    struct str s = column_str(st, i);

    return xstrndup(s.p, s.n);
}

/* A spec that was accepted once may be refused by a newer version of this program: then the job
 * cannot start, and the error names the spec. */
static int parse_spec(sqlite3_stmt *st, uint64_t seq, struct launch_spec **out, struct err *e)
{
    AUTO(json) struct json *body = NULL, *sealed = NULL;
    struct str hidden = column_str(st, 5);
    struct spec *spec = NULL;
    char name[48];

    snprintf(name, sizeof(name), "spec %llu", (unsigned long long)seq);
    if (json_parse(column_str(st, 4), name, &body, e) < 0 ||
        (hidden.n && json_parse(hidden, name, &sealed, e) < 0))
        return -1;
    if (spec_parse(body, "", &spec, e) < 0)
        return err_wrap(e, "%s", name);
    struct launch_spec *s = xcalloc(1, sizeof(*s));
    *s = (struct launch_spec){.seq = seq, .spec = spec, .sealed = TAKE(sealed), .holders = 1};
    s->uid = (uint32_t)sqlite3_column_int64(st, 0);
    s->gid = (uint32_t)sqlite3_column_int64(st, 1);
    s->user = column_dup(st, 2);
    s->name = column_dup(st, 3);
    *out = s;
    return 0;
}

static int launch_read_spec(struct launch_cache *c, uint64_t seq, struct launch_spec **out,
                            struct err *e)
{
    struct db *d = &c->point->db;
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT p.uid, s.gid, p.user, s.name, s.body, s.sealed FROM spec s"
                                " JOIN party p ON p.seq = s.party WHERE s.seq = ?1",
                                INT(seq));
    int rc = db_step(d, st, e);
    if (rc == 0)
        rc =
            err_set(e, ERR_NOT_FOUND, "spec %llu is not in the job store", (unsigned long long)seq);
    if (rc > 0)
        rc = parse_spec(st, seq, out, e);
    sqlite3_reset(st);
    return rc;
}

/* Finds the spec in the cache, or reads it in place of the one not used for longest. */
static int launch_find_spec(struct launch_cache *c, uint64_t seq, struct launch_spec **out,
                            struct err *e)
{
    size_t victim = 0;

    for (size_t i = 0; i < LAUNCH_SPECS; i++) {
        struct launch_spec *s = c->specs[i];
        if (s && s->seq == seq) {
            s->used = ++c->clock;
            *out = s;
            return 0;
        }
        if (!s || (c->specs[victim] && s->used < c->specs[victim]->used))
            victim = i;
    }
    struct launch_spec *fresh;
    if (launch_read_spec(c, seq, &fresh, e) < 0)
        return -1;
    launch_spec_release(c->specs[victim]);
    c->specs[victim] = fresh;
    fresh->used = ++c->clock;
    *out = fresh;
    return 0;
}

/* Fills *out from the row of the job; *out is left alone on error. */
static int launch_fill(struct launch_cache *c, sqlite3_stmt *st, struct launch *out, struct err *e)
{
    struct launch l = {0};
    struct str name = column_str(st, 4), params = column_str(st, 3);
    uint64_t first = column_u64(st, 6);
    struct launch_spec *s;

    if (params.n && json_parse(params, "params", &l.params, e) < 0)
        return -1;
    if (launch_find_spec(c, column_u64(st, 0), &s, e) < 0) {
        json_free(l.params);
        return -1;
    }
    s->holders++;
    l.shared = s;
    l.spec = s->spec;
    l.sealed = s->sealed;
    l.uid = s->uid;
    l.gid = s->gid;
    l.user = xstrdup(s->user);
    l.name = name.n ? xstrndup(name.p, name.n) : xstrdup(s->name);
    l.batch = column_u64(st, 1);
    l.index = sqlite3_column_int64(st, 2);
    l.batch_name = sqlite3_column_type(st, 5) == SQLITE_NULL ? NULL : column_dup(st, 5);
    l.id = id_add(column_id(st, 7), column_u64(st, 8) - first);
    *out = l;
    return 0;
}

int launch_read(struct launch_cache *c, uint64_t job, struct launch *out, struct err *e)
{
    struct db *d = point_db(c->point, e);

    if (!d)
        return -1;
    sqlite3_stmt *st = db_query(
        d, e,
        "SELECT j.spec, j.batch, j.idx, j.params, j.name, b.name, i.first, i.id, j.seq FROM job j"
        " LEFT JOIN batch b ON b.seq = j.batch LEFT JOIN intake i ON i.first ="
        " (SELECT max(first) FROM intake WHERE first <= ?1) WHERE j.seq = ?1",
        INT(job));
    int rc = db_step(d, st, e);
    if (rc == 0)
        rc = err_set(e, ERR_NOT_FOUND, "job %llu is not in the job store", (unsigned long long)job);
    if (rc > 0)
        rc = launch_fill(c, st, out, e);
    sqlite3_reset(st);
    return rc < 0 ? -1 : 0;
}
