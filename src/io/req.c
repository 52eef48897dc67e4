/* req.c - what a handler may ask of a request, and the memory behind it
 *
 * A request lives in its connection and is reused for the next one, so an ordinary request costs no
 * allocation.  When the client leaves before the reply, the request either ends with the handler's
 * `gone` call, or, without one, stays behind as an orphan until the handler replies into the void.
 */
#include "io/http_priv.h"

struct http_req *http_req_new(struct http_conn *c)
{
    struct http_req *r = xcalloc(1, sizeof(*r));

    r->c = c;
    r->srv = c->srv;
    r->peer = c->peer;
    buf_reserve(&r->head, 1000); /* a browser's head; curl's takes 80 */
    return r;
}

/* Keeps small buffers for the next request and gives large ones back. */
static void req_buf_shrink(struct buf *b)
{
    b->max = 0;
    if (b->cap > HTTP_KEEP_BYTES)
        buf_done(b);
    else
        buf_reset(b);
}

void http_req_reset(struct http_req *r)
{
    req_buf_shrink(&r->head);
    req_buf_shrink(&r->body);
    req_buf_shrink(&r->extra);
    vec_clear(&r->fields);
    if (r->arena.total_bytes > HTTP_KEEP_BYTES)
        arena_done(&r->arena);
    else
        arena_reset(&r->arena);
    r->job = NULL;
    r->data = r->hooks.gone_arg = r->hooks.drain_arg = NULL;
    r->hooks.gone = r->hooks.drain = NULL;
    r->body_seen = 0;
    r->target = (struct http_target){0};
    r->pieces = false;
    r->in_value = r->head_done = r->reply.handed = r->reply.replied = r->reply.chunked =
        r->reply.cut = false;
}

void http_req_free(struct http_req *r)
{
    if (!r)
        return;
    if (!r->c) {
        if (r->prev)
            r->prev->next = r->next;
        else if (r->srv->orphans == r)
            r->srv->orphans = r->next;
        if (r->next)
            r->next->prev = r->prev;
    }
    buf_done(&r->head);
    buf_done(&r->body);
    buf_done(&r->extra);
    vec_done(&r->fields);
    arena_done(&r->arena);
    free(r);
}

void http_req_orphan(struct http_req *r)
{
    struct http_server *s = r->srv;

    r->c = NULL;
    r->next = s->orphans;
    if (s->orphans)
        s->orphans->prev = r;
    s->orphans = r;
}

void http_req_tell_gone(struct http_req *r)
{
    r->reply.replied = true; /* whatever the callback does with it */
    r->hooks.gone(r->hooks.gone_arg, r);
    http_req_free(r);
}

struct str http_method(const struct http_req *r)
{
    return str_of(llhttp_method_name(r->method));
}

struct str http_path(const struct http_req *r)
{
    return (struct str){r->head.p + r->target.path, r->target.path_n};
}

struct str http_query(const struct http_req *r)
{
    return (struct str){r->head.p + r->target.query, r->target.query_n};
}

bool http_query_next(struct str *rest, struct arena *mem, char **out_key, char **out_value)
{
    while (rest->n > 0) {
        struct str value, key = str_cut(str_cut(*rest, '&', rest), '=', &value);
        char *room = arena_alloc(mem, key.n + 1 + value.n + 1);
        size_t n;

        /* The whole query was found to decode when the head was read; its parts may not, where a
         * separator cuts a character in two. */
        if (!url_decode(key, true, room, &n))
            continue;
        room[n] = '\0';
        *out_key = room;
        *out_value = room + n + 1;
        if (!url_decode(value, true, *out_value, &n))
            continue;
        (*out_value)[n] = '\0';
        return true;
    }
    return false;
}

const char *http_query_param(struct str query, const char *name, struct arena *mem)
{
    char *key, *value;

    while (http_query_next(&query, mem, &key, &value))
        if (!strcmp(key, name))
            return value;
    return NULL;
}

const char *http_param(struct http_req *r, const char *name)
{
    return http_query_param(http_query(r), name, &r->arena);
}

struct str http_header(const struct http_req *r, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < r->fields.n; i++) {
        const struct http_field *f = &r->fields.p[i];
        if (f->name_n == n && memcmp(r->head.p + f->name, name, n) == 0)
            return (struct str){r->head.p + f->value, f->value_n};
    }
    return (struct str){NULL, 0};
}

struct str http_body(const struct http_req *r)
{
    return buf_str(&r->body);
}

char *http_body_take(struct http_req *r, size_t *out_n)
{
    return buf_take(&r->body, out_n);
}

const struct http_peer *http_peer(const struct http_req *r)
{
    return &r->peer;
}

void http_set_data(struct http_req *r, void *data)
{
    r->data = data;
}

void *http_data(const struct http_req *r)
{
    return r->data;
}

void http_on_gone(struct http_req *r, void (*fn)(void *arg, struct http_req *r), void *arg)
{
    r->hooks.gone = fn;
    r->hooks.gone_arg = arg;
    if (!r->c)
        http_server_kick(r->srv); /* the client left while nobody listened */
}

void http_body_pause(struct http_req *r, bool paused)
{
    if (r->c && r->c->phase != CONN_CLOSED)
        http_conn_pause(r->c, paused);
}

void http_on_drain(struct http_req *r, void (*fn)(void *arg, struct http_req *r), void *arg)
{
    r->hooks.drain = fn;
    r->hooks.drain_arg = arg;
}
