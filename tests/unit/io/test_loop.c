/* The loop: timers, posts, turns, descriptors, signals, work. */
#include "base/log.h"
#include "rig.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static int setup(void **state)
{
    log_setup(LOG_ERROR_, false, 2);
    *state = loop_new();
    return 0;
}

static int teardown(void **state)
{
    loop_free(*state);
    return 0;
}

static void count(void *arg)
{
    ++*(int *)arg;
}

static void test_timer(void **state)
{
    int once = 0, many = 0, never = 0;
    struct timer *a = timer_new(*state, count, &once);
    struct timer *b = timer_new(*state, count, &many);
    struct timer *c = timer_new(*state, count, &never);

    timer_start(a, 1, 0);
    timer_start(b, 1, 1);
    timer_start(c, 1, 0);
    timer_stop(c);
    for (int i = 0; i < 200000 && many < 5; i++)
        loop_run_once(*state, true);
    assert_int_equal(once, 1);
    assert_true(many >= 5);
    assert_int_equal(never, 0);
    timer_free(a);
    timer_free(b);
    timer_free(c);
    timer_free(NULL);
    loop_run(*state); /* ends: nothing is left */
}

static void free_itself(void *arg)
{
    struct timer **t = arg;

    timer_free(*t);
    *t = NULL;
}

static void test_timer_frees_itself(void **state)
{
    struct timer *t = NULL;

    t = timer_new(*state, free_itself, &t);
    timer_start(t, 0, 1);
    loop_run(*state);
    assert_null(t);
}

struct order {
    char seen[32];
    size_t n;
    struct loop *loop;
};

static void see(struct order *o, char c)
{
    if (o->n < sizeof(o->seen) - 1)
        o->seen[o->n++] = c;
}

static void see_a(void *arg)
{
    see(arg, 'a');
}

static void see_b(void *arg)
{
    see(arg, 'b');
}

static void see_p(void *arg)
{
    see(arg, 'p');
}

static void test_turn_end(void **state)
{
    struct order o = {.loop = *state};

    loop_on_turn_end(*state, see_a, &o);
    loop_on_turn_end(*state, see_b, &o);
    loop_post(*state, see_p, &o);
    loop_run(*state);
    /* Whatever was posted is followed by both hooks in order. */
    char *p = strchr(o.seen, 'p');
    assert_non_null(p);
    assert_memory_equal(p + 1, "ab", 2);
    loop_off_turn_end(*state, see_a, &o);
    o = (struct order){0};
    loop_run_once(*state, false);
    assert_int_equal(strspn(o.seen, "b"), strlen(o.seen));
    loop_off_turn_end(*state, see_b, &o);
}

static void stop(void *arg)
{
    loop_stop(arg);
}

static void test_stop_runs_the_hooks(void **state)
{
    struct order o = {.loop = *state};
    struct timer *t = timer_new(*state, stop, *state);

    timer_start(t, 0, 1);
    loop_run_once(*state, false);
    loop_on_turn_end(*state, see_a, &o);
    loop_run(*state);
    assert_true(o.n > 0 && o.seen[o.n - 1] == 'a');
    loop_off_turn_end(*state, see_a, &o);
    timer_free(t);
}

enum { POSTS = 2000 };

static void *poster(void *arg)
{
    void **args = arg;

    for (int i = 0; i < POSTS; i++)
        loop_post(args[0], count, args[1]);
    return NULL;
}

static void test_post_from_threads(void **state)
{
    pthread_t threads[4];
    int n = 0;
    void *args[] = {*state, &n};

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, poster, args), 0);
    for (int i = 0; i < 1000000 && n < 4 * POSTS; i++)
        loop_run_once(*state, false);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    loop_run(*state);
    assert_int_equal(n, 4 * POSTS);
}

struct pipe_watch {
    int events, error;
};

static void on_watch(void *arg, int events, int error)
{
    struct pipe_watch *p = arg;

    p->events |= events;
    p->error = error;
}

static void test_watch(void **state)
{
    int fds[2];
    struct pipe_watch seen = {0};

    assert_int_equal(pipe(fds), 0);
    struct watch *w = watch_new(*state, fds[0], on_watch, &seen);
    watch_start(w, WATCH_READ);
    loop_run_once(*state, false);
    assert_int_equal(seen.events, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    loop_run_once(*state, true);
    assert_int_equal(seen.events, WATCH_READ);
    watch_stop(w);
    seen.events = 0;
    loop_run_once(*state, false);
    assert_int_equal(seen.events, 0);
    /* A copy of the descriptor lives on, as in a child before exec: still no callback. */
    watch_start(w, WATCH_READ);
    int copy = dup(fds[0]);
    watch_free(w);
    close(fds[0]);
    for (int i = 0; i < 5; i++)
        loop_run_once(*state, false);
    assert_int_equal(seen.events, 0);
    close(copy);
    close(fds[1]);
    FILE *f = tmpfile();
    assert_null(watch_new(*state, fileno(f), on_watch, &seen));
    fclose(f);
}

static void test_signal(void **state)
{
    int n = 0;
    struct signal_watch *s = signal_watch_new(*state, SIGUSR1, count, &n);

    loop_run(*state); /* does not wait for it */
    raise(SIGUSR1);
    for (int i = 0; i < 200000 && n == 0; i++)
        loop_run_once(*state, false);
    assert_int_equal(n, 1);
    signal_watch_free(s);
}

struct sum {
    pthread_t loop_thread, work_thread;
    int result, done;
};

static void sum_run(void *arg)
{
    struct sum *s = arg;

    s->work_thread = pthread_self();
    for (int i = 0; i <= 100; i++)
        s->result += i;
}

static void sum_done(void *arg)
{
    struct sum *s = arg;

    s->loop_thread = pthread_self();
    s->done++;
}

static void test_work(void **state)
{
    struct sum s = {0};

    work_submit(*state, sum_run, sum_done, &s);
    loop_run(*state); /* waits for it */
    assert_int_equal(s.done, 1);
    assert_int_equal(s.result, 5050);
    assert_true(pthread_equal(s.loop_thread, pthread_self()));
    assert_false(pthread_equal(s.work_thread, pthread_self()));
}

static void dawdle(void *arg UNUSED)
{
    usleep(8000);
}

static void test_slow_callback_is_logged(void **state)
{
    char text[512] = "";
    FILE *f = tmpfile();

    log_setup(LOG_WARN_, false, fileno(f));
    loop_post(*state, dawdle, NULL);
    loop_run(*state);
    log_setup(LOG_ERROR_, false, 2);
    rewind(f);
    assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
    assert_non_null(strstr(text, "posted callback took too long"));
    assert_non_null(strstr(text, "address=0x"));
    fclose(f);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_timer),
        T(test_timer_frees_itself),
        T(test_turn_end),
        T(test_stop_runs_the_hooks),
        T(test_post_from_threads),
        T(test_watch),
        T(test_signal),
        T(test_work),
        T(test_slow_callback_is_logged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
