/* err.c - filling the one error type
 *
 * Owns: the table from error code to name, HTTP status, exit code and retry policy; nobody
 * invents a status elsewhere.  A text that does not fit is cut at a character boundary.
 */
#include "base/err.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int http, cli;
    bool retry;
} codes[ERR_CODE_MAX] = {
#define X(name, http, cli, retry) [ERR_##name] = {http, cli, retry},
    ERR_LIST(X)
#undef X
};

/* The names go out in answers of the API, and io/http_client.c turns them into codes again. */
static const char *const code_names[ERR_CODE_MAX] = {
    [ERR_NONE] = "none",
    [ERR_INVALID] = "invalid",
    [ERR_DENIED] = "denied",
    [ERR_UNAUTHENTICATED] = "unauthenticated",
    [ERR_MISDIRECTED] = "misdirected",
    [ERR_NOT_FOUND] = "not_found",
    [ERR_CONFLICT] = "conflict",
    [ERR_LIMIT] = "limit",
    [ERR_BUSY] = "busy",
    [ERR_FULL] = "full",
    [ERR_UNAVAILABLE] = "unavailable",
    [ERR_INTERNAL] = "internal",
};

/* A cut text may end inside a UTF-8 sequence: drop the incomplete one. */
static void trim_partial_utf8(char *text, size_t n)
{
    size_t i = n;

    while (i > 0 && n - i < 3 && ((unsigned char)text[i - 1] & 0xC0) == 0x80)
        i--;
    if (i == 0 || (unsigned char)text[i - 1] < 0xC0)
        return;
    unsigned char lead = (unsigned char)text[i - 1];
    size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (n - (i - 1) < want)
        text[i - 1] = '\0';
}

/* `wanted` is the length that the text would have had without the limit. */
static void err_finish_text(struct err *e, size_t wanted)
{
    if (wanted >= sizeof(e->text))
        trim_partial_utf8(e->text, sizeof(e->text) - 1);
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    va_list ap;

    if (!e)
        return -1;
    char text[sizeof(e->text)]; /* the arguments may point into e->text */
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    e->code = code;
    e->sys = 0;
    memcpy(e->text, text, sizeof(text));
    err_finish_text(e, n < 0 ? 0 : (size_t)n);
    return -1;
}

static enum err_code code_of_errno(int sys)
{
    switch (sys) {
    case ENOENT:
        return ERR_NOT_FOUND;
    case EACCES:
    case EPERM:
        return ERR_DENIED;
    case ENOSPC:
    case EDQUOT:
        return ERR_FULL;
    default:
        return ERR_INTERNAL;
    }
}

/* Sets e to "head: tail", where the head is formatted.  The tail may be the text of e itself;
 * NULL stands for the text of the errno `sys`. */
static int err_set_headed(struct err *e, enum err_code code, int sys, const char *tail,
                          const char *fmt, va_list ap)
{
    if (!e)
        return -1;
    char head[sizeof(e->text)];
    vsnprintf(head, sizeof(head), fmt, ap);
    errno = sys;
    if (tail)
        err_set(e, code, "%s: %s", head, tail);
    else
        err_set(e, code, "%s: %m", head);
    e->sys = sys;
    return -1;
}

int err_sys(struct err *e, const char *fmt, ...)
{
    int sys = errno;
    va_list ap;

    va_start(ap, fmt);
    err_set_headed(e, code_of_errno(sys), sys, NULL, fmt, ap);
    va_end(ap);
    errno = sys;
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    va_list ap;

    if (!e)
        return -1;
    va_start(ap, fmt);
    err_set_headed(e, e->code, e->sys, e->text, fmt, ap);
    va_end(ap);
    return -1;
}

/* A value outside of the table must not be used as an index; it counts as an internal error. */
static enum err_code checked(enum err_code code)
{
    return (unsigned)code < ERR_CODE_MAX ? code : ERR_INTERNAL;
}

const char *err_code_name(enum err_code code)
{
    return code_names[checked(code)];
}

int err_http_status(enum err_code code)
{
    return codes[checked(code)].http;
}

int err_exit_code(enum err_code code)
{
    return codes[checked(code)].cli;
}

bool err_retryable(enum err_code code)
{
    return codes[checked(code)].retry;
}
