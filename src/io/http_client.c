/* http_client.c - the caller's side of a call, and error documents read back
 *
 * The transports are http_client_unix.c (every command line call goes there) and
 * http_client_curl.c (remote servers).  Both hand the body over in pieces; http_call gathers them.
 */
#include "base/json.h"
#include "base/util.h"
#include "io/http_client_priv.h"
#include <stdio.h>
#include <strings.h>

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
    else
        for (size_t n = strlen(target); n > 0 && c->target[n - 1] == '/'; n--)
            c->target[n - 1] = '\0'; /* paths bring their own */
    return c;
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    http_unix_close(c);
    http_curl_close(c);
    free(c->target);
    free(c->path);
    free(c->token);
    free(c->ca_file);
    free(c);
}

int http_client_fd(struct http_client *c)
{
    return c->fd;
}

void http_response_header(struct http_response *r, struct str name, struct str value)
{
    if (name.n == 4 && strncasecmp(name.p, "etag", 4) == 0)
        snprintf(r->etag, sizeof(r->etag), STR_FMT, STR_ARG(value));
    else if (name.n == 12 && strncasecmp(name.p, "content-type", 12) == 0)
        snprintf(r->content_type, sizeof(r->content_type), STR_FMT, STR_ARG(value));
    else if (name.n == 13 && strncasecmp(name.p, "content-range", 13) == 0)
        snprintf(r->content_range, sizeof(r->content_range), STR_FMT, STR_ARG(value));
    else if (name.n == 11 && strncasecmp(name.p, "retry-after", 11) == 0)
        snprintf(r->retry_after, sizeof(r->retry_after), STR_FMT, STR_ARG(value));
}

static int client_exchange(struct http_client *c, struct http_ask *a, struct err *e)
{
    a->request.token = c->token;
    return c->path ? http_unix_call(c, a, e) : http_curl_call(c, a, e);
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
    struct http_ask a = {.request = {method, path, headers}, .source = body};

    ASSERT(!c->path);
    return run_whole(c, a, out, e);
}

void http_client_interrupt(struct http_client *c, bool (*asked)(void *arg), void *arg)
{
    c->asked = asked;
    c->asked_arg = arg;
}

void http_response_done(struct http_response *r)
{
    buf_done(&r->body);
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

/* The code that the server named, else the first code with this status. */
static enum err_code code_named(struct str name, int status)
{
    for (int i = ERR_NONE + 1; i < ERR_CODE_MAX; i++) {
        if (str_eq_c(name, err_code_name(i)))
            return i;
    }
    for (int i = ERR_NONE + 1; i < ERR_CODE_MAX; i++) {
        if (err_http_status(i) == status)
            return i;
    }
    return status >= 500 ? ERR_INTERNAL : ERR_INVALID;
}

int http_response_err(const struct http_response *r, struct err *e)
{
    AUTO(json) struct json *doc = NULL;
    struct err ignored;
    struct str code = STR(""), message = STR("");

    if (r->status < 400)
        return 0;
    if (json_parse(buf_str(&r->body), "reply", &doc, &ignored) == 0 &&
        json_type(doc) == JSON_OBJECT) {
        const struct json *error = json_get(doc, "error");
        if (json_type(error) == JSON_OBJECT) {
            const struct json *c = json_get(error, "code"), *m = json_get(error, "message");
            code = json_type(c) == JSON_STR ? json_str(c) : code;
            message = json_type(m) == JSON_STR ? json_str(m) : message;
        }
    }
    if (message.n > 0)
        err_set(e, code_named(code, r->status), STR_FMT, STR_ARG(message));
    else
        err_set(e, code_named(code, r->status), "the server answered with status %d and no reason",
                r->status);
    return -1;
}

void url_encode(struct buf *b, struct str s)
{
    static const char hex[] = "0123456789ABCDEF";

    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                     c == '-' || c == '.' || c == '_' || c == '~';
        if (plain)
            buf_addc(b, (char)c);
        else
            buf_add(b, (char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
    }
}
