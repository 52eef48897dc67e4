/* parse.c - a request's bytes into a struct http_req
 *
 * llhttp does the grammar in its strict form; what it leaves open is decided here, always the
 * narrow way, because two readers of the same bytes that disagree are how requests are smuggled:
 * one Host, one length, no coding but chunked, no trailer fields, no value that goes on in the next
 * line, no HTTP but 1.0 and 1.1.
 *
 * Callbacks only collect; they refuse by setting c->refuse and returning -1.  The
 * handler is called from http_parse, outside of llhttp, with the parser ready for the next request.
 */
#include "io/http_priv.h"

/* For parser callbacks: -1 makes llhttp stop, and http_parse then sends this refusal. */
static int request_refuse(struct http_conn *c, int status, const char *why)
{
    c->refuse.status = status;
    c->refuse.why = why;
    return -1;
}

static int on_target(llhttp_t *p, const char *at, size_t n)
{
    struct http_req *r = ((struct http_conn *)p->data)->req;

    buf_add(&r->head, at, n);
    r->target.n += (uint32_t)n;
    return 0;
}

static void add_lower(struct buf *b, const char *at, size_t n)
{
    char *to = buf_reserve(b, n);

    for (size_t i = 0; i < n; i++)
        to[i] = at[i] >= 'A' && at[i] <= 'Z' ? (char)(at[i] | 0x20) : at[i];
    b->n += n;
}

/* llhttp may deliver a name or a value in several parts, so a new line begins only after a
 * value. */
static int on_name(llhttp_t *p, const char *at, size_t n)
{
    struct http_conn *c = p->data;
    struct http_req *r = c->req;

    if (r->head_done)
        return request_refuse(c, 400, "trailer fields after a chunked body are not accepted");
    if (r->in_value || r->fields.n == 0) {
        if (r->fields.n == HTTP_FIELDS_MAX)
            return request_refuse(c, 431, "the request has more than 128 header lines");
        buf_addc(&r->head, '\0');
        vec_push(&r->fields, ((struct http_field){.name = (uint32_t)r->head.n}));
        r->in_value = false;
    }
    add_lower(&r->head, at, n);
    vec_last(&r->fields).name_n += (uint32_t)n;
    c->head.part_end = at + n;
    r->line_ended = false;
    return 0;
}

/* Did a line end between the last part of the head and `at`? */
static bool line_ended_before(const struct http_conn *c, const char *at)
{
    return c->req->line_ended || memchr(c->head.part_end, '\n', (size_t)(at - c->head.part_end));
}

static int on_value(llhttp_t *p, const char *at, size_t n)
{
    struct http_conn *c = p->data;
    struct http_req *r = c->req;

    /* An empty value is told of after its line. */
    if (n > 0 && line_ended_before(c, at))
        return request_refuse(c, 400,
                              "a header line that goes on in the next line is not accepted");
    c->head.part_end = at + n;

    if (r->head_done)
        return request_refuse(c, 400, "trailer fields after a chunked body are not accepted");
    if (!r->in_value) {
        buf_addc(&r->head, '\0');
        vec_last(&r->fields).value = (uint32_t)r->head.n;
        r->in_value = true;
    }
    buf_add(&r->head, at, n);
    vec_last(&r->fields).value_n += (uint32_t)n;
    return 0;
}

/* Values end in NUL where they stand, without the blanks before the line end. */
static void end_fields(struct http_req *r)
{
    buf_addc(&r->head, '\0');
    for (size_t i = 0; i < r->fields.n; i++) {
        struct http_field *f = &r->fields.p[i];
        if (f->value == 0)
            f->value = f->name + f->name_n; /* "Name:" and nothing: the NUL after the name */
        while (f->value_n > 0 && (r->head.p[f->value + f->value_n - 1] == ' ' ||
                                  r->head.p[f->value + f->value_n - 1] == '\t'))
            f->value_n--;
        r->head.p[f->value + f->value_n] = '\0';
    }
}

/* Origin form is the rule, absolute form must be understood, "*" is for OPTIONS. */
static int split_target(struct http_conn *c, struct http_req *r)
{
    struct str t = {r->head.p, r->target.n};

    if (str_starts(t, STR("http://")) || str_starts(t, STR("https://"))) {
        const char *host = (const char *)memchr(t.p, ':', t.n) + 3;
        const char *end = t.p + t.n;
        const char *path = host;
        while (path < end && *path != '/' && *path != '?')
            path++;
        if (path == host || path == end || *path == '?')
            return request_refuse(c, 400, "the request target needs a host and a path");
        t = (struct str){path, (size_t)(end - path)};
    }
    bool star = str_eq_c(t, "*") && r->method == HTTP_OPTIONS;
    if (!star && (t.n == 0 || t.p[0] != '/'))
        return request_refuse(c, 400, "the request target must start with /");
    if (memchr(t.p, '#', t.n))
        return request_refuse(c, 400, "the request target must not hold a fragment");
    struct str query, path = str_cut(t, '?', &query);
    r->target.query = (uint32_t)(query.p - r->head.p);
    r->target.query_n = (uint32_t)query.n;
    uint32_t raw = (uint32_t)(path.p - r->head.p);

    /* The decoded forms go behind everything else; reserving may move the head. */
    size_t room = t.n + 1;
    buf_reserve(&r->head, room);
    size_t n;
    char *to = r->head.p + r->head.n;
    if (!url_decode((struct str){r->head.p + r->target.query, r->target.query_n}, true, to, &n))
        return request_refuse(c, 400, "the query holds a broken escape, a NUL or invalid UTF-8");
    if (!url_decode((struct str){r->head.p + raw, path.n}, false, to, &n))
        return request_refuse(c, 400, "the path holds a broken escape, a NUL or invalid UTF-8");
    r->target.path = (uint32_t)r->head.n;
    r->target.path_n = (uint32_t)n;
    r->head.n += n;
    buf_addc(&r->head, '\0');
    return 0;
}

static int check_fields(struct http_conn *c, struct http_req *r, bool *out_expect)
{
    unsigned hosts = 0, codings = 0;

    for (size_t i = 0; i < r->fields.n; i++) {
        const struct http_field *f = &r->fields.p[i];
        struct str name = {r->head.p + f->name, f->name_n};
        struct str value = {r->head.p + f->value, f->value_n};
        if (str_eq_c(name, "host")) {
            hosts++;
        } else if (str_eq_c(name, "transfer-encoding")) {
            codings++;
            if (!str_ieq(value, STR("chunked")))
                return request_refuse(c, 501, "the only transfer coding understood is chunked");
        } else if (str_eq_c(name, "expect")) {
            if (!str_ieq(value, STR("100-continue")))
                return request_refuse(c, 417, "the only expectation understood is 100-continue");
            *out_expect = true;
        }
    }
    if (hosts > 1 || (hosts == 0 && !r->http10))
        return request_refuse(c, 400, "the request needs exactly one Host header");
    if (codings > 1 || (codings == 1 && (r->http10 || c->parser.flags & F_CONTENT_LENGTH)))
        return request_refuse(c, 400, "the length of the request's body is ambiguous");
    return 0;
}

/* The head is complete.  Everything that can be refused without the body is refused here,
 * before a client that waits for 100 Continue sends the body. */
static int parser_on_head(llhttp_t *p)
{
    struct http_conn *c = p->data;
    struct http_req *r = c->req;
    struct http_server *s = c->srv;
    bool expect = false;

    r->head_done = true;
    r->method = p->method;
    r->http10 = p->http_minor == 0;
    r->keep_alive = llhttp_should_keep_alive(p);
    if (p->http_major != 1 || p->http_minor > 1)
        return request_refuse(c, 505, "this server supports HTTP/1.1 only");
    if (p->method == HTTP_CONNECT)
        return request_refuse(c, 501, "this server is not a proxy");
    if (r->head.n > s->lim.head_bytes)
        return request_refuse(c, 431, "the head of the request is too large");
    end_fields(r);
    if (check_fields(c, r, &expect) < 0 || split_target(c, r) < 0)
        return -1;
    p->upgrade = 0; /* an upgrade is an offer; we go on in HTTP/1.1 */
    bool body = p->flags & F_CHUNKED || p->content_length > 0;
    r->body_max = s->lim.body_bytes;
    if (body && s->h.body_max)
        r->body_max = s->h.body_max(s->h.self, r);
    if (!(p->flags & F_CHUNKED) && p->content_length > r->body_max)
        return request_refuse(c, 413, "the body of the request is larger than allowed here");
    r->pieces = body && s->h.in_pieces && s->h.in_pieces(s->h.self, r);
    r->body.max = MAX(r->body_max, 1);
    c->phase = CONN_BODY;
    if (expect && body && !r->http10) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        uv_buf_t b = uv_buf_init((char *)go_on, sizeof(go_on) - 1);
        http_send(c, &b, 1, NULL);
    }
    return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
    struct http_conn *c = p->data;
    struct http_req *r = c->req;

    if (r->pieces) {
        r->body_seen += n;
        if (r->body_seen > r->body_max)
            return request_refuse(c, 413, "the body of the request is larger than allowed here");
        c->srv->h.piece(c->srv->h.self, r, (struct str){at, n});
        return 0;
    }
    if (n > r->body_max - MIN(r->body.n, r->body_max) || !buf_add(&r->body, at, n))
        return request_refuse(c, 413, "the body of the request is larger than allowed here");
    return 0;
}

/* Pauses llhttp, so that the handler is called outside of it and before the next request is
 * parsed. */
static int on_complete(llhttp_t *p)
{
    struct http_conn *c = p->data;

    c->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_target,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = parser_on_head,
    .on_body = on_body,
    .on_message_complete = on_complete,
};

void http_parse_init(struct http_conn *c)
{
    llhttp_init(&c->parser, HTTP_REQUEST, &settings);
    c->parser.data = c;
}

static void refuse_parsed(struct http_conn *c, llhttp_errno_t error)
{
    if (c->refuse.status)
        http_conn_refuse(c, c->refuse.status, c->refuse.why);
    else if (error == HPE_INVALID_METHOD)
        http_conn_refuse(c, 501, "the method of the request is unknown");
    else if (error == HPE_INVALID_VERSION)
        http_conn_refuse(c, 505, "this server supports HTTP/1.1 only");
    else
        http_conn_refuse(c, 400, "the request is not valid HTTP/1.1");
}

/* After the call r may be answered, reused or freed; nothing here may touch it any more. */
static void request_hand_over(struct http_conn *c)
{
    struct http_server *s = c->srv;
    struct http_req *r = c->req;

    c->complete = false;
    c->head.used = 0;
    c->phase = CONN_BUSY;
    c->since_ms = loop_mono_ms(s->loop);
    r->reply.handed = true;
    http_conn_pause(c, false);
    s->stats.requests++;
    uint64_t t0 = uv_hrtime();
    s->h.request(s->h.self, r);
    loop_timed(t0, "request", s->h.request);
}

size_t http_parse(struct http_conn *c, const char *p, size_t n)
{
    struct http_server *s = c->srv;
    int64_t now = loop_mono_ms(s->loop);

    if (c->phase == CONN_IDLE) {
        if (!c->req)
            c->req = http_req_new(c);
        c->phase = CONN_HEAD;
        c->since_ms = now;
    } else if (c->phase == CONN_BODY) {
        c->since_ms = now;
    }
    c->head.part_end = p;
    llhttp_errno_t error = llhttp_execute(&c->parser, p, n);
    if (c->phase == CONN_CLOSED)
        return n;
    if (error == HPE_OK) {
        if (c->phase == CONN_HEAD)
            c->req->line_ended = line_ended_before(c, p + n);
        c->head.used += n;
        if (c->phase == CONN_HEAD && c->head.used > s->lim.head_bytes)
            http_conn_refuse(c, 431, "the head of the request is too large");
        return n;
    }
    if (error != HPE_PAUSED || !c->complete) {
        refuse_parsed(c, error);
        return n;
    }
    size_t used = (size_t)(llhttp_get_error_pos(&c->parser) - p);
    llhttp_resume(&c->parser);
    request_hand_over(c);
    return used;
}
