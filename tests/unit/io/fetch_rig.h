/* fetch_rig.h - a server on the loop of the test, at three addresses, and what fetches bring */
#pragma once
#include "base/clock.h"
#include "io/fetch.h"
#include "rig.h"

enum { HELD_MAX = 1100, FLOOD_BYTES = 16 << 20, WAIT_MS = 20000 };

struct world {
    struct loop *loop;
    struct timer *tick; /* so that a blocking turn of the loop ends */
    struct http_server *server;
    char dir[64], cert[96], key[96];
    char *targets[3]; /* unix, http, https; NULL: no openssl command here */
    struct http_req *held[HELD_MAX];
    size_t held_n, gone;
    size_t flooded;
    bool down;
};

int world_setup(void **state);
int world_teardown(void **state);
void world_turns(struct world *w, int ms); /* turns the loop for this long */
struct fetcher *world_fetcher(struct world *w, int target);

/* Turns the loop until the condition holds. */
#define UNTIL(w, condition)                                                                        \
    do {                                                                                           \
        int64_t end_ = clock_mono(&clock_system) + WAIT_MS;                                        \
        while (!(condition)) {                                                                     \
            if (clock_mono(&clock_system) > end_)                                                  \
                fail_msg("waited too long for %s", #condition);                                    \
            loop_run_once((w)->loop, true);                                                        \
        }                                                                                          \
    } while (0)

enum { IN_HEAD = 1, IN_BODY, IN_DONE };
struct got {
    struct fetcher *fetcher;
    struct fetch *fetch;
    int heads, pieces, ends;
    struct http_response r; /* of the head; body: what arrived */
    struct err err;         /* code 0: whole */
    int cancel_in;          /* one of the above */
    bool free_fetcher;      /* instead of cancel */
    bool pause;             /* after every piece */
    struct got *other;      /* cancelled too */
};

extern const struct fetch_fns got_fns;
void got_act(struct got *g, int where);
void got_start(struct got *g, struct fetcher *f, const char *method, const char *path,
               const struct fetch_limits *lim);
/* It has ended with this error. */
void got_fails(struct got *g, enum err_code code, const char *say);
void got_collected(void *arg, struct http_response *r, const struct err *why);
/* One whole request; `want` may be NULL. */
void world_collect(struct world *w, struct fetcher *f, struct http_request q, int status,
                   const char *want);
