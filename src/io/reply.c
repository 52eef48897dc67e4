/* reply.c - whole replies
 *
 * A reply is a head built in the server's scratch and a body sent from where it lies.  Claiming
 * comes first: from then on the handler is done with the request, whatever becomes of the client.
 */
#include "base/json_out.h"
#include "io/http_priv.h"
#include <stdio.h>

/* Copying so much behind the head is cheaper than a second element of writev. */
enum { JOIN_BYTES = 4096 };

static const char *http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        if (texts[i].status == status)
            return texts[i].text;
    }
    return "Unknown";
}

#define PUT(at, literal) mempcpy(at, literal, sizeof(literal) - 1)

static char *put_number(char *at, uint64_t v)
{
    char text[24];
    size_t i = sizeof(text);

    do
        text[--i] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    return mempcpy(at, text + i, sizeof(text) - i);
}

struct buf *http_head_begin(struct http_req *r, int status, const char *type, int64_t length)
{
    enum { FIXED = 256 }; /* the longest status line, a date, two numbers and the names */
    size_t type_n = type ? strlen(type) : 0;
    struct buf *b = &r->srv->scratch;

    buf_reset(b);
    char *at = buf_reserve(b, FIXED + type_n);
    if (status == 200) {
        at = PUT(at, "HTTP/1.1 200 OK\r\nDate: ");
    } else {
        at = PUT(at, "HTTP/1.1 ");
        at = put_number(at, (uint64_t)status);
        *at++ = ' ';
        at = stpcpy(at, http_status_text(status));
        at = PUT(at, "\r\nDate: ");
    }
    at = stpcpy(at, http_server_date(r->srv));
    if (type) {
        at = PUT(at, "\r\nContent-Type: ");
        at = mempcpy(at, type, type_n);
    }
    if (length >= 0) {
        at = PUT(at, "\r\nContent-Length: ");
        at = put_number(at, (uint64_t)length);
    }
    at = PUT(at, "\r\n");
    b->n = (size_t)(at - b->p);
    return b;
}

/* For browsers, which reach TCP ports only: a page of another site may neither load this answer as
 * an image or a script of its own nor show it in a frame, and no type is guessed. */
#define PAGE_RULES                                                                                 \
    "X-Content-Type-Options: nosniff\r\n"                                                          \
    "X-Frame-Options: SAMEORIGIN\r\n"                                                              \
    "Cross-Origin-Resource-Policy: same-origin\r\n"

void http_head_end(struct http_req *r, struct buf *b)
{
    if (!r->peer.is_unix)
        buf_add(b, PAGE_RULES, sizeof(PAGE_RULES) - 1);
    if (r->extra.n > 0)
        buf_add(b, r->extra.p, r->extra.n);
    if (!r->keep_alive || r->srv->closing)
        buf_adds(b, "Connection: close\r\n");
    else if (r->http10)
        buf_adds(b, "Connection: keep-alive\r\n");
    buf_add(b, "\r\n", 2);
}

void http_reply_header(struct http_req *r, const char *name, const char *value)
{
    /* A line break in a value would end the header and start another one of its author's choice. */
    size_t n = strcspn(value, "\r\n");

    buf_adds(&r->extra, name);
    buf_add(&r->extra, ": ", 2);
    buf_add(&r->extra, value, n);
    buf_add(&r->extra, "\r\n", 2);
}

bool http_reply_claim(struct http_req *r)
{
    if (!r->c) {
        if (!r->reply.replied)
            http_req_free(r);
        return false;
    }
    ASSERT(r->reply.handed && !r->reply.replied);
    r->reply.replied = true;
    return r->c->phase != CONN_CLOSED;
}

/* The claimed request's reply; `own` is the memory of body or NULL. */
static void send_reply(struct http_req *r, int status, const char *type, struct str body, char *own)
{
    struct http_conn *c = r->c;
    bool bare = status == 204 || status == 304 || status < 200;
    bool with_body = !bare && r->method != HTTP_HEAD && body.n > 0;
    struct buf *b = http_head_begin(r, status, bare ? NULL : type, bare ? -1 : (int64_t)body.n);

    http_head_end(r, b);
    bool join = with_body && body.n <= JOIN_BYTES;
    if (join)
        buf_add(b, body.p, body.n);
    if (join || !with_body)
        free(TAKE(own));
    uv_buf_t out[2] = {{.base = b->p, .len = b->n}, {.base = (char *)body.p, .len = body.n}};
    http_send(c, out, with_body && !join ? 2 : 1, own);
    http_conn_finish(c);
}

/* ---- compression ---- */

struct compress_job {
    struct http_job job;
    enum http_coding coding;
    int status;
    char *type;
    char *body;
    size_t n;
    char *small; /* NULL: it would not get smaller */
    size_t small_n;
};

static void set_coding(struct http_req *r, enum http_coding coding)
{
    http_reply_header(r, "Content-Encoding", http_coding_name(coding));
}

/* The worker may still be using the job; compress_done frees it when it finds r NULL. */
static void compress_drop(struct http_job *j)
{
    j->r = NULL;
}

static void compress_run(void *arg)
{
    struct compress_job *j = arg;
    struct compressor *z = compressor_new();

    j->small = compress_bytes(z, j->coding, (struct str){j->body, j->n}, &j->small_n);
    compressor_free(z);
}

static void compress_done(void *arg)
{
    struct compress_job *j = arg;
    struct http_req *r = j->job.r;

    if (r) {
        r->job = NULL;
        char *body = j->small ? j->small : j->body;
        if (j->small)
            set_coding(r, j->coding);
        free(j->small ? j->body : NULL);
        send_reply(r, j->status, j->type, (struct str){body, j->small ? j->small_n : j->n}, body);
    } else {
        free(j->small);
        free(j->body);
    }
    free(j->type);
    free(j);
}

static void compress_later(struct http_req *r, enum http_coding coding, int status,
                           const char *type, char *body, size_t n)
{
    struct compress_job *j = xcalloc(1, sizeof(*j));

    j->job = (struct http_job){.r = r, .drop = compress_drop};
    j->coding = coding;
    j->status = status;
    j->type = xstrdup(type);
    j->body = body;
    j->n = n;
    r->job = &j->job;
    work_submit(r->srv->loop, compress_run, compress_done, j);
}

/* Adds Vary whenever the reply could have been compressed: a cache must keep the variants apart. */
static enum http_coding coding_for(struct http_req *r, int status, const char *type, size_t n)
{
    if (n < HTTP_COMPRESS_MIN || !http_type_compresses(type))
        return CODING_NONE;
    buf_adds(&r->extra, "Vary: Accept-Encoding\r\n");
    if (status == 204 || status == 304 || r->method == HTTP_HEAD)
        return CODING_NONE;
    return http_coding_pick(http_header(r, "accept-encoding"));
}

/* own NULL: body is borrowed. */
static void reply_any(struct http_req *r, int status, const char *type, struct str body, char *own)
{
    if (!http_reply_claim(r)) {
        free(own);
        return;
    }
    enum http_coding coding = coding_for(r, status, type, body.n);
    if (coding != CODING_NONE && body.n > HTTP_COMPRESS_HERE) {
        if (!own)
            own = memcpy(xmalloc(body.n), body.p, body.n);
        compress_later(r, coding, status, type, own, body.n);
        return;
    }
    if (coding != CODING_NONE) {
        struct http_server *s = r->srv;
        size_t n;
        if (!s->compressor)
            s->compressor = compressor_new();
        char *small = compress_bytes(s->compressor, coding, body, &n);
        if (small) {
            free(own);
            set_coding(r, coding);
            send_reply(r, status, type, (struct str){small, n}, small);
            return;
        }
    }
    send_reply(r, status, type, body, own);
}

void http_reply(struct http_req *r, int status, const char *content_type, struct str body)
{
    reply_any(r, status, content_type, body, NULL);
}

void http_reply_take(struct http_req *r, int status, const char *content_type, char *body, size_t n)
{
    reply_any(r, status, content_type, (struct str){body, n}, body);
}

void http_error_body(struct buf *b, const char *code, const char *message)
{
    jw_object(b, NULL);
    jw_object(b, "error");
    jw_text(b, "code", code);
    jw_text(b, "message", message);
    jw_end_object(b);
    jw_end_object(b);
    buf_addc(b, '\n');
}

void http_reply_err(struct http_req *r, const struct err *e)
{
    AUTO(buf) struct buf b = {0};

    http_error_body(&b, err_code_name(e->code), e->text);
    if (e->code == ERR_UNAUTHENTICATED && r->c)
        http_reply_header(r, "WWW-Authenticate", "Bearer");
    http_reply(r, err_http_status(e->code), "application/json", buf_str(&b));
}

bool http_not_modified(struct http_req *r, const char *etag)
{
    struct str known = http_header(r, "if-none-match");

    http_reply_header(r, "ETag", etag);
    if (!known.p || !http_etag_matches(known, str_of(etag)))
        return false;
    http_reply(r, 304, NULL, STR(""));
    return true;
}
