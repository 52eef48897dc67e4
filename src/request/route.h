/* route.h - tables of what can be asked, and the search in them
 *
 * A path is a pattern of segments.  "{job}" stands for one whole segment that is not empty; a last
 * "{file...}" stands for the rest of the path, slashes included.  What stood for them is handed to
 * the handler in their order.  A literal segment wins over a placeholder when its row comes first.
 */
#pragma once
#include "base/str.h"
#include "request/auth.h"

enum { ROUTE_ARGS_MAX = 3, ROUTE_ALLOW_MAX = 64 };

struct call;
typedef void (*call_fn)(struct call *c); /* loop thread */

enum route_flag {
    ROUTE_PORT = 1 << 0,   /* the row exists on service.port only, and gives no 405 there */
    ROUTE_PIECES = 1 << 1, /* the body goes to service.piece as it arrives */
};

struct route {
    const char *method, *path;
    call_fn handler;
    enum auth_class who; /* who may call it */
    size_t body_max;     /* 0 = what the service says */
    unsigned flags;      /* of enum route_flag */
    const void *arg;     /* what sets this row apart from others with the same handler */
};

enum route_result { ROUTE_FOUND, ROUTE_NO_PATH, ROUTE_NO_METHOD };
struct route_match {
    const struct route *route;       /* NULL unless ROUTE_FOUND */
    struct str args[ROUTE_ARGS_MAX]; /* borrowed from the path */
    char allow[ROUTE_ALLOW_MAX];     /* ROUTE_NO_METHOD: the methods that the path takes */
};
/* HEAD is found as GET.  Slashes at the end of `path` do not count.  When the first pattern that
 * fits has no row with this method, later patterns are not tried: GET /v1/jobs/cancel is a wrong
 * method, not a job called "cancel".  Rows with a flag of `without` are skipped. */
enum route_result route_find(const struct route *table, size_t n, unsigned without,
                             struct str method, struct str path, struct route_match *out);
/* The path of the table that `path` was probably meant to be; NULL when none is near. */
const char *route_nearest(const struct route *table, size_t n, struct str path);
