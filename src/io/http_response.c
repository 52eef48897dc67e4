/* http_response.c - header values that callers use, and error documents read back */
#include "io/http_response.h"
#include "base/json.h"
#include "base/util.h"
#include <stdio.h>
#include <strings.h>

void http_response_done(struct http_response *r)
{
    buf_done(&r->body);
}

void http_response_header(struct http_response *r, struct str name, struct str value)
{
    const struct {
        const char *name;
        char *at;
        size_t n;
    } known[] = {
        {"etag", r->etag, sizeof(r->etag)},
        {"content-type", r->content_type, sizeof(r->content_type)},
        {"content-range", r->content_range, sizeof(r->content_range)},
        {"retry-after", r->retry_after, sizeof(r->retry_after)},
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (name.n == strlen(known[i].name) && strncasecmp(name.p, known[i].name, name.n) == 0)
            snprintf(known[i].at, known[i].n, STR_FMT, STR_ARG(value));
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
