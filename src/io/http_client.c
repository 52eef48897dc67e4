/* http_client.c - the caller's side of a call
 *
 * The transports are http_client_unix.c (every command line call goes there) and
 * http_client_url.c (remote servers).  Both hand the body over in pieces; http_call gathers them.
 */
#include "base/util.h"
#include "io/http_client_priv.h"

/* Replies beyond this many bytes are an error; http_call_stream has no such limit. */
static const size_t BODY_MAX = (size_t)1 << 30;

struct http_client *http_client_new(const char *target, const char *token, const char *ca_file)
{
    struct http_client *c = xcalloc(1, sizeof(*c));

    c->fd = -1;
    c->target = xstrdup(target);
    c->token = xstrdup(token);
    c->ca_file = xstrdup(ca_file);
    if (strncmp(target, "unix:", 5) == 0)
        c->path = xstrdup(target + 5);
    return c;
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    http_unix_close(c);
    http_url_close(c);
    free(c->target);
    free(c->path);
    free(c->token);
    free(c->ca_file);
    free(c);
}

static int client_exchange(struct http_client *c, struct http_ask *a, struct err *e)
{
    a->request.token = c->token;
    return c->path ? http_unix_call(c, a, e) : http_url_call(c, a, e);
}

static bool client_gather(void *arg, struct str piece)
{
    return buf_add(arg, piece.p, piece.n);
}

/* The whole reply of a call. */
static int run_whole(struct http_client *c, struct http_ask a, struct http_response *out,
                     struct err *e)
{
    struct http_response r = {0};

    buf_init(&r.body, BODY_MAX);
    a.on_bytes = client_gather;
    a.arg = &r.body;
    a.out = &r;
    int result = client_exchange(c, &a, e);
    if (result == 0 && a.stopped)
        result = err_set(e, ERR_LIMIT, "the reply of %s is larger than 1 GiB", c->target);
    if (result < 0)
        http_response_done(&r);
    else
        *out = r;
    return result;
}

int http_call(struct http_client *c, const char *method, const char *path,
              const char *const *headers, struct str body, struct http_response *out, struct err *e)
{
    struct http_ask a = {.request = {method, path, headers, .body = body}};

    return run_whole(c, a, out, e);
}

int http_call_upload(struct http_client *c, const char *method, const char *path,
                     const char *const *headers, const struct http_source *body,
                     struct http_response *out, struct err *e)
{
    struct http_ask a = {.request = {method, path, headers, .source = body}};

    return run_whole(c, a, out, e);
}

void http_client_interrupt(struct http_client *c, bool (*asked)(void *arg), void *arg)
{
    c->asked = asked;
    c->asked_arg = arg;
}

int http_call_stream(struct http_client *c, const char *method, const char *path,
                     const char *const *headers, struct str body, int *out_status,
                     bool (*on_bytes)(void *arg, struct str piece), void *arg, struct err *e)
{
    struct http_response r = {0};
    struct http_ask a = {.request = {method, path, headers, .body = body},
                         .on_bytes = on_bytes,
                         .arg = arg,
                         .out = &r,
                         .live_status = out_status};

    return client_exchange(c, &a, e);
}
