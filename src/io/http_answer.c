/* http_answer.c - llhttp as a thing that is fed */
#include "io/http_answer.h"
#include "base/util.h"
#include <llhttp.h>

struct http_answer {
    llhttp_t parser;
    bool (*on_body)(void *arg, struct str piece);
    void *arg;
    int status;
    bool complete; /* or on_body wanted no more */
};

static bool give(struct http_answer *a, const char *p, size_t n)
{
    if (n && !a->on_body(a->arg, (struct str){p, n}))
        a->complete = true;
    return !a->complete;
}

static int on_head(llhttp_t *p)
{
    struct http_answer *a = p->data;

    if (p->status_code >= 200)
        a->status = p->status_code;
    p->upgrade = 0;
    return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
    return give(p->data, at, n) ? 0 : HPE_PAUSED;
}

static int on_complete(llhttp_t *p)
{
    struct http_answer *a = p->data;

    if (p->status_code < 200)
        return 0; /* an interim answer; the real one follows */
    a->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_complete,
};

struct http_answer *http_answer_new(bool (*fn)(void *arg, struct str piece), void *arg)
{
    struct http_answer *a = xcalloc(1, sizeof(*a));

    a->on_body = fn;
    a->arg = arg;
    llhttp_init(&a->parser, HTTP_RESPONSE, &settings);
    a->parser.data = a;
    return a;
}

void http_answer_free(struct http_answer *a)
{
    free(a);
}

int http_answer_status(const struct http_answer *a)
{
    return a->status;
}

int http_answer_feed(struct http_answer *a, const char *p, size_t n, struct err *e)
{
    if (a->complete)
        return 0;
    llhttp_errno_t error = n > 0 ? llhttp_execute(&a->parser, p, n) : llhttp_finish(&a->parser);
    if (a->complete)
        return 0;
    if (n == 0)
        return err_set(e, ERR_UNAVAILABLE, "the answer ended too early");
    if (error != HPE_OK)
        return err_set(e, ERR_UNAVAILABLE, "the answer is no HTTP: %s", llhttp_errno_name(error));
    return 1;
}
