/* once.c - a request with an Idempotency-Key is carried out once, for every service
 *
 * Owns: the keys under way of a server.  What keys made is in the store.
 */
#include "request/once.h"
#include "base/hash.h"
#include "base/json.h"
#include "model/spec.h"
#include "request/request_priv.h"
#include "store/change.h"
#include "store/query.h"

enum { ONCE_PAGE = 10000 }; /* jobs read at once when a request is compared */

struct once {               /* of one call, in its memory */
    struct str key, holder; /* holder: "uid/key" while this call holds the key */
    struct str print;       /* the client's own fingerprint; p NULL = none */
    uint64_t target;        /* hash of path and query */
    uint64_t hash;          /* of the request; 0 = call_once_body was not called */
    call_fn go;
};
/* The calls that wait for a key, in the order in which they came.  An entry of the map without
 * calls means that one call holds the key and none waits. */
struct once_wait {
    VEC(struct call *) calls;
};

/* Loop thread.  Bodies hold secrets, so their hashes must tell nothing to who has the database
 * without the secret of the home. */
static void once_make_seed(struct request_server *s)
{
    static const uint8_t none[sizeof(s->once_seed)];
    const struct auth *a = s->conf.auth;
    uint8_t mac[32];

    if (memcmp(s->once_seed, none, sizeof(none)) != 0 || !a || !a->has_secret)
        return;
    hmac_sha256(a->secret, sizeof(a->secret), "idempotency", strlen("idempotency"), mac);
    memcpy(s->once_seed, mac, sizeof(s->once_seed));
}

/* Nobody gains by a collision: a user would get the answer to a request of their own. */
static uint64_t once_hash(const struct call *c, struct str s)
{
    return siphash24(c->server->once_seed, s.p, s.n);
}

/* Takes the key, or waits for it.  The uid is part of the key: users do not share keys. */
static void once_begin(struct call *c)
{
    struct once *o = c->once;
    struct map_str *keys = &c->server->keys;
    struct str holder =
        str_of(arena_printf(&c->mem, "%u/" STR_FMT, c->who.caller.uid, STR_ARG(o->key)));
    struct once_wait *w = map_str_get(keys, holder);

    if (!c->req) {
        call_free(c);
    } else if (w) {
        vec_push(&w->calls, c);
    } else {
        map_str_put(keys, holder, xcalloc(1, sizeof(*w)));
        o->holder = holder;
        o->go(c);
    }
}

void call_run_once(struct call *c, call_fn go)
{
    struct str key = http_header(c->req, "idempotency-key");

    if (key.n > ONCE_KEY_MAX) {
        err_set(&c->err, ERR_LIMIT, "Idempotency-Key: is %zu bytes long; at most %d are allowed",
                key.n, ONCE_KEY_MAX);
        call_fail(c, &c->err);
        return;
    }
    c->once = call_alloc(c, sizeof(*c->once));
    *c->once = (struct once){.key = call_copy(c, key), .go = go};
    if (!key.n) {
        go(c);
        return;
    }
    struct str print = http_header(c->req, "idempotency-fingerprint");
    once_make_seed(c->server);
    uint64_t parts[2] = {once_hash(c, http_path(c->req)), once_hash(c, http_query(c->req))};
    if (print.p)
        c->once->print = call_copy(c, print);
    c->once->target = once_hash(c, (struct str){(const char *)parts, sizeof(parts)});
    once_begin(c);
}

/* The next one with this key gets its turn: it takes the key, the others queue up behind it. */
void once_release(struct request_server *s, struct str holder)
{
    struct once_wait *w = map_str_del(&s->keys, holder);

    for (size_t i = 0; i < w->calls.n; i++) {
        if (s->closing)
            call_fail_closing(w->calls.p[i]);
        else
            once_begin(w->calls.p[i]);
    }
    vec_done(&w->calls);
    free(w);
}

struct str once_holder(const struct call *c)
{
    return c->once ? c->once->holder : (struct str){NULL, 0};
}

struct str call_once_key(const struct call *c)
{
    return c->once ? c->once->key : (struct str){NULL, 0};
}

void call_once_body(struct call *c, struct str body)
{
    struct once *o = c->once;

    if (!o || !o->key.n)
        return;
    uint64_t parts[2] = {o->target, once_hash(c, body)};
    struct str all = {(const char *)parts, sizeof(parts)};
    o->hash =
        (once_hash(c, o->print.p ? o->print : all) >> 1) | 1; /* the store has signed numbers */
}

uint64_t call_once_print(const struct call *c)
{
    return c->once ? c->once->hash : 0;
}

static int once_conflict(struct call *c, uint64_t first)
{
    return err_set(&c->err, ERR_CONFLICT,
                   "Idempotency-Key '%.60s' was used for another request, which made job %llu; "
                   "use a new key",
                   call_once_key(c).p, (unsigned long long)first);
}

int call_once_find(struct call *c, struct once_made *out)
{
    struct str key = call_once_key(c);
    struct idempotent was;

    if (!key.n)
        return 0;
    int rc = store_idempotent(c->server->conf.store, c->who.caller.uid, key, &was, &c->err);
    if (rc != 1)
        return rc;
    bool compared = was.print && call_once_print(c);
    if (compared && was.print != call_once_print(c))
        return once_conflict(c, was.first);
    *out = (struct once_made){was.first, was.n, was.batch, compared};
    return 1;
}

/* ---- is it the same request? ---- */

struct once_compare {
    const struct submission *s;
    uint64_t first; /* number of the first job that the key made */
    bool same;
};

/* Compares one recorded job with the row of the submission that would make it. */
static bool once_compare_job(void *arg, const struct job_view *v)
{
    struct once_compare *k = arg;

    if (v->seq < k->first || v->seq - k->first >= k->s->n_jobs)
        return true;
    const struct job_row *row = &k->s->jobs[v->seq - k->first];
    k->same =
        str_eq(v->params.n ? v->params : STR("{}"), row->params.n ? row->params : STR("{}")) &&
        (!row->name.n || str_eq(v->name, row->name));
    return k->same;
}

/* Jobs that were removed since are not compared; the first must be there. */
static int once_compare_jobs(struct call *c, const struct once_made *made, struct once_compare *k)
{
    struct store *store = c->server->conf.store;
    struct job_query q = {.batch = made->batch, .sort = "id", .limit = ONCE_PAGE};
    AUTO_FREE char *cursor = NULL;

    if (store_job(store, made->first, once_compare_job, k, &c->err) < 0)
        return -1;
    if (!made->batch)
        return 0;
    do {
        char *next = NULL;
        q.cursor = cursor;
        if (store_jobs(store, &q, once_compare_job, k, &next, &c->err) < 0)
            return -1;
        free(cursor);
        cursor = next;
    } while (cursor && k->same);
    return 0;
}

/* A spec in its canonical form; one that cannot be read any more stays as it is. */
static void once_canonical(struct json **j)
{
    struct spec *s = NULL;
    struct err e;

    if (spec_parse(*j, "", &s, &e) < 0)
        return;
    json_free(*j);
    *j = spec_to_json(s);
    spec_free(s);
}

/* Compares as JSON, so that the order of members and white space do not matter.  A spec with
 * secrets is stored in its canonical form, other specs as they were sent. */
static int once_compare_spec(struct call *c, uint64_t job, struct str body,
                             const char *const *without, bool *out_same)
{
    AUTO_FREE char *text = NULL;
    AUTO(json) struct json *was = NULL, *is = NULL;

    if (store_job_spec(c->server->conf.store, job, &text, &c->err) < 0 ||
        json_parse(str_of(text), "spec", &was, &c->err) < 0 ||
        json_parse(body, "spec", &is, &c->err) < 0)
        return -1;
    for (; *without; without++) {
        json_del(was, *without);
        json_del(is, *without);
    }
    *out_same = json_equal(was, is);
    if (*out_same)
        return 0;
    once_canonical(&was);
    once_canonical(&is);
    *out_same = json_equal(was, is);
    return 0;
}

/* Every spec once, by the first job that has it. */
static int once_compare_specs(struct call *c, const struct once_made *made,
                              const char *const *without, struct once_compare *k)
{
    AUTO_FREE bool *seen = xcalloc(k->s->n_specs + 1, sizeof(*seen));

    for (size_t i = 0; i < k->s->n_jobs && k->same; i++) {
        size_t spec = k->s->jobs[i].spec;
        if (seen[spec])
            continue;
        seen[spec] = true;
        if (once_compare_spec(c, made->first + i, k->s->specs[spec].body, without, &k->same) < 0) {
            if (c->err.code != ERR_NOT_FOUND)
                return -1;
            c->err = (struct err){0};
        }
    }
    return 0;
}

int call_once_check(struct call *c, const struct once_made *made, const struct submission *s,
                    const char *const *without)
{
    struct once_compare k = {.s = s, .first = made->first, .same = s->n_jobs == made->n};

    if (k.same && (once_compare_jobs(c, made, &k) < 0 ||
                   (k.same && once_compare_specs(c, made, without, &k) < 0)))
        return -1;
    if (k.same)
        return 0;
    return once_conflict(c, made->first);
}
