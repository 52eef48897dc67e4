/* loop_priv.h - what the other files of this room need from the loop */
#pragma once
#include "io/loop.h"
#include <uv.h>

enum { LOOP_READ_BYTES = 64 * 1024 };

/* Handed to libuv as is; lives as long as the loop. */
uv_loop_t *loop_uv(struct loop *l);
/* One read buffer for every stream of the loop: what a read callback gets is gone when it returns.
 */
char *loop_read_buf(struct loop *l);

/* Calls fn(arg) and logs a call that took too long. */
void loop_call(loop_fn fn, void *arg, const char *kind);
/* True while this thread runs the private loop of a blocking call: slow callbacks are not logged.
 */
extern _Thread_local bool loop_slow_is_fine;
void loop_log_slow(uint64_t ns, const char *kind, void (*fn)(void));
enum { LOOP_SLOW_NS = 5 * 1000 * 1000 };
/* The same around a call of another type: uint64_t t0 = uv_hrtime(); fn(…); loop_timed(t0, "watch",
 * fn); */
#define loop_timed(t0, kind, fn)                                                                   \
    do {                                                                                           \
        uint64_t took_ = uv_hrtime() - (t0);                                                       \
        if (took_ > LOOP_SLOW_NS)                                                                  \
            loop_log_slow(took_, kind, (void (*)(void))(fn));                                      \
    } while (0)
