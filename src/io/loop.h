/* loop.h - the one thread that owns all state, its timers and its helpers
 *
 * Nothing called from here may block.  A callback over 5 ms is logged with its name.
 * uv.h stays inside this room (loop_priv.h gives the uv_loop_t).
 */
#pragma once
#include "base/err.h"
#include <stdint.h>

struct loop;
typedef void (*loop_fn)(void *arg);

/* Also makes the process ignore SIGPIPE: a peer that left is an error of its connection alone. */
struct loop *loop_new(void);
/* Every handle must have been freed; pending closes and work are waited for, posts are dropped. */
void loop_free(struct loop *l);
void loop_run(struct loop *l); /* until loop_stop or nothing is left to wait for */
void loop_run_once(struct loop *l, bool block);
/* Makes loop_run return after the current turn.  Loop thread only; others post a call of it. */
void loop_stop(struct loop *l);
int64_t loop_mono_ms(struct loop *l); /* start of this turn */

/* Runs fn once on the loop thread, soon.  May be called from any thread. */
void loop_post(struct loop *l, loop_fn fn, void *arg);
/* fn runs after the callbacks of every turn, before the loop sleeps; in order of registration. This
 * is where the controller plans and the store hands its batch to the writer.  Up to 8. */
void loop_on_turn_end(struct loop *l, loop_fn fn, void *arg);
void loop_off_turn_end(struct loop *l, loop_fn fn, void *arg);

struct timer;
/* Made stopped.  Timers belong to the loop thread.  repeat_ms 0 = once. */
struct timer *timer_new(struct loop *l, loop_fn fn, void *arg);
void timer_start(struct timer *t, int64_t after_ms, int64_t repeat_ms); /* restarts */
void timer_stop(struct timer *t);
void timer_free(struct timer *t); /* NULL is fine; no callback follows */

enum { WATCH_READ = 1, WATCH_WRITE = 2 };
struct watch;
typedef void (*watch_fn)(void *arg, int events, int error); /* error: negative errno or 0 */
/* Does not own fd, makes it non-blocking.  NULL when epoll cannot watch it (a regular file). */
struct watch *watch_new(struct loop *l, int fd, watch_fn fn, void *arg);
/* Level-triggered, until watch_stop; a further start replaces the events. */
void watch_start(struct watch *w, int events);
void watch_stop(struct watch *w);
void watch_free(struct watch *w); /* removes it from epoll before the caller closes fd */

/* A signal watch alone does not keep loop_run going. */
struct signal_watch;
struct signal_watch *signal_watch_new(struct loop *l, int signo, loop_fn fn, void *arg);
void signal_watch_free(struct signal_watch *s);

/* run(arg) on a worker thread, then done(arg) on the loop thread.  arg carries copies in and
 * results out. */
void work_submit(struct loop *l, loop_fn run, loop_fn done, void *arg);
