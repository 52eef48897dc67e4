/* rig.h - a server on a loop, driven by the test itself over socket pairs
 *
 * Everything happens in one thread: the test writes bytes, then turns the loop until what it waits
 * for is there.  The handler knows a few paths, see rig.c.
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/util.h"
#include "io/http_server.h"
#include "io/loop.h"
#include <cmocka.h>

enum { RIG_HELD_MAX = 64 };

struct rig {
    struct loop *loop;
    struct http_server *server;
    struct http_req *held[RIG_HELD_MAX]; /* /hold and /stream wait here for the test */
    size_t held_n;
    size_t requests, gone, drained;
    const char *file; /* /file */
    bool done;
};

/* Small sizes (4 KB heads, 64 KB bodies) and times nobody meets, however crowded the machine. */
extern const struct http_limits rig_limits;
extern const struct http_limits rig_hasty; /* the same with a fifth of a second for anything */

void rig_init(struct rig *r, const struct http_limits *lim);
void rig_done(struct rig *r); /* shuts the server down, frees everything */
int rig_connect(struct rig *r);
/* Turns the loop until *flag or ms have passed. */
bool rig_until(struct rig *r, const bool *flag, int ms);
void rig_turn(struct rig *r, int ms);

void rig_send(struct rig *r, int fd, const char *bytes);
void rig_send_n(struct rig *r, int fd, const void *p, size_t n);

struct answer {
    int status;
    char *head;      /* with the status line */
    struct buf body; /* unchunked */
    bool whole;      /* by its length or last chunk */
};
/* The next reply on fd; status 0 when the connection ended first. */
struct answer rig_answer(struct rig *r, int fd);
struct answer rig_answer_head(struct rig *r, int fd); /* to a HEAD request: no body follows */
void answer_done(struct answer *a);
char *answer_header(const struct answer *a, const char *name); /* yours, NULL when absent */
/* Sends and reads in one go. */
int rig_status(struct rig *r, int fd, const char *request);
bool rig_is_closed(struct rig *r, int fd, int ms); /* waits for the end of the connection */
/* Everything that arrives within ms, yours. */
char *rig_read(struct rig *r, int fd, int ms, size_t *out_n);

/* A server with one connection to it: what most tests begin with. */
struct one {
    struct rig rig;
    int fd; /* -1 when the test closed it */
};
int one_setup_with(void **state, const struct http_limits *lim);
int one_setup(void **state);       /* rig_limits */
int one_setup_hasty(void **state); /* rig_hasty */
int one_teardown(void **state);
