/* err.h - the one error type: caller-owned, no allocation, one sentence */
#pragma once
#include <stdbool.h>

/* code, HTTP status, CLI exit code, may the caller try again unchanged */
#define ERR_LIST(X)                                                                                \
    X(NONE, 200, 0, false)                                                                         \
    X(INVALID, 400, 2, false)                                                                      \
    X(DENIED, 403, 77, false)                                                                      \
    X(UNAUTHENTICATED, 401, 77, false)                                                             \
    X(MISDIRECTED, 421, 77, false)                                                                 \
    X(NOT_FOUND, 404, 66, false)                                                                   \
    X(CONFLICT, 409, 75, false)                                                                    \
    X(LIMIT, 413, 65, false)                                                                       \
    X(BUSY, 429, 75, true)                                                                         \
    X(FULL, 507, 74, true)                                                                         \
    X(UNAVAILABLE, 503, 69, true)                                                                  \
    X(INTERNAL, 500, 70, false)

enum err_code {
#define X(name, http, cli, retry) ERR_##name,
    ERR_LIST(X)
#undef X
        ERR_CODE_MAX
};

struct err {
    enum err_code code;
    int sys;        /* errno, or 0 */
    char text[240]; /* one sentence, lower case, names the thing and the remedy */
};

/* Each returns -1, so that `return err_set(e, …);` reads well.  `e` may be NULL. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends ": <strerror(errno)>" and maps errno to a code (ENOENT → NOT_FOUND, EACCES → DENIED,
 * ENOSPC and EDQUOT → FULL, the rest INTERNAL). */
int err_sys(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prefixes the existing text: "reading x.yaml: file is larger than 4 MiB". */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The four functions below accept any value; one that is no code counts as ERR_INTERNAL. */
const char *err_code_name(enum err_code code); /* "invalid", "not_found", … */
int err_http_status(enum err_code code);
int err_exit_code(enum err_code code);
/* True when the same request may succeed later without a change. */
bool err_retryable(enum err_code code);
