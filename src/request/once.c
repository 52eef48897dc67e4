/* once.c - a request with an Idempotency-Key is carried out once, for every service
 *
 * Owns: the keys under way of a server.  What keys made is in the store.
 */
#include "request/once.h"
#include "base/json.h"
#include "request/request_priv.h"
#include "store/change.h"
#include "store/query.h"

struct once {               /* of one call, in its memory */
    struct str key, holder; /* holder: "uid/key" while this call holds the key */
    call_fn go;
};
struct once_wait {
    VEC(struct call *) calls;
};

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
    if (key.n)
        once_begin(c);
    else
        go(c);
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

int call_once_find(struct call *c, struct once_made *out)
{
    struct str key = call_once_key(c);

    return key.n ? store_idempotent(c->server->conf.store, c->who.caller.uid, key, &out->first,
                                    &out->n, &out->batch, &c->err)
                 : 0;
}

static bool same_member(const struct json *a, const struct json *b, const char *key)
{
    AUTO_FREE char *x = json_text(json_get(a, key)), *y = json_text(json_get(b, key));

    return !strcmp(x, y);
}

struct once_compare {
    struct str params;
    bool same;
};

static bool compare_params(void *arg, const struct job_view *v)
{
    struct once_compare *k = arg;

    k->same = str_eq(v->params.n ? v->params : STR("{}"), k->params.n ? k->params : STR("{}"));
    return false;
}

int call_once_check(struct call *c, const struct once_made *made, const struct submission *s)
{
    struct once_compare k = {.params = s->jobs[0].params, .same = true};
    AUTO_FREE char *text = NULL;
    struct json *was = NULL, *is = NULL;
    struct store *store = c->server->conf.store;
    bool same = s->n_jobs == made->n;
    int rc = 0;

    if (store_job(store, made->first, compare_params, &k, &c->err) < 0 ||
        store_job_spec(store, made->first, &text, &c->err) < 0 ||
        json_parse(str_of(text), "spec", &was, &c->err) < 0 ||
        json_parse(s->specs[s->jobs[0].spec].body, "spec", &is, &c->err) < 0)
        rc = -1;
    else if (!same || !k.same || !same_member(was, is, "command"))
        rc = err_set(&c->err, ERR_CONFLICT,
                     "Idempotency-Key '%.60s' was used for another request, which made job %llu; "
                     "use a new key",
                     call_once_key(c).p, (unsigned long long)made->first);
    json_free(was);
    json_free(is);
    return rc;
}
