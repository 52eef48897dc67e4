/* test_link.c - both links to a scheduler keep the same promises
 *
 * One host, on the loop of the test: one link calls it directly, the other one over its socket.
 */
#include "../../base/unit.h"
#include "base/file.h"
#include "base/util.h"
#include "dialect/hyperctl/link.h"
#include "io/loop.h"

enum { SEEN_MAX = 64 };

struct bench {
    struct loop *loop;
    char home[64];
    struct hyper_link *here, *daemon;
    /* Of the last request. */
    int answers;
    enum err_code code;
    uint64_t number;
    /* What was listed and heard. */
    struct {
        uint64_t number;
        enum job_state state;
        char name[16];
    } jobs[SEEN_MAX], events[SEEN_MAX];
    size_t n_jobs, n_events, n_nodes, gone;
    uint64_t last_event;
};

static void on_answer(void *arg, const struct err *e, uint64_t number)
{
    struct bench *b = arg;

    b->answers++;
    b->code = e ? e->code : ERR_NONE;
    b->number = number;
}

/* An event about a range counts once for each job. */
static void on_heard(void *arg, const struct hyper_event *ev)
{
    struct bench *b = arg;

    assert_true(ev->seq > b->last_event);
    b->last_event = ev->seq;
    for (uint64_t n = ev->first; n <= ev->last; n++) {
        assert_true(b->n_events < SEEN_MAX);
        b->events[b->n_events].number = n;
        b->events[b->n_events++].state = ev->state;
    }
}

static void on_gone(void *arg, const struct err *e)
{
    (void)e;
    ((struct bench *)arg)->gone++;
}

static void on_found(void *arg, const struct hyper_event *f)
{
    struct bench *b = arg;

    b->jobs[b->n_jobs].number = f->first;
    b->jobs[b->n_jobs].state = f->state;
    snprintf(b->jobs[b->n_jobs++].name, sizeof(b->jobs->name), STR_FMT, STR_ARG(f->name));
}

static void on_node(void *arg, const struct hyper_node *n)
{
    struct bench *b = arg;

    b->n_nodes++;
    assert_true(n->name.n > 0);
}

/* Runs the loop until the request is answered. */
static void wait_answer(struct bench *b, enum err_code code)
{
    while (!b->answers)
        loop_run_once(b->loop, true);
    assert_int_equal(b->answers, 1);
    assert_int_equal(b->code, code);
    b->answers = 0;
}

static void wait_events(struct bench *b, size_t n)
{
    while (b->n_events < n)
        loop_run_once(b->loop, true);
}

static int setup(void **state)
{
    struct bench *b = xcalloc(1, sizeof(*b));
    struct hyper_link_conf c = {.queue = "q",
                                .version = "0",
                                .slots = 1,
                                .transient = true,
                                .event = on_heard,
                                .gone = on_gone,
                                .arg = b};
    struct err e = {0};

    snprintf(b->home, sizeof(b->home), "/tmp/hyper-link-XXXXXX");
    assert_non_null(mkdtemp(b->home));
    b->loop = c.loop = loop_new();
    c.home = b->home;
    if (hyper_link_here(&b->here, &c, &e) < 0)
        fail_msg("%s", e.text);
    b->daemon = hyper_link_daemon(&c);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;

    b->daemon->ops->close(b->daemon);
    b->here->ops->close(b->here);
    loop_free(b->loop);
    dir_remove_tree(b->home, NULL);
    free(b);
    return 0;
}

static void submit(struct bench *b, struct hyper_link *l, const char *key)
{
    struct json *body = NULL;
    struct err e;

    assert_int_equal(
        json_parse(STR("{\"command\":\"true\",\"queue\":\"q\",\"jobs\":[{\"name\":\"a\"},"
                       "{\"name\":\"b\"}]}"),
                   "t", &body, &e),
        0);
    l->ops->submit(l, body, "batch", key, on_answer, b);
    wait_answer(b, ERR_NONE);
}

/* In a paused queue nothing starts, so every step is the test's. */
static void check_jobs(struct bench *b, struct hyper_link *l, const char *key)
{
    l->ops->hello(l, on_answer, b);
    wait_answer(b, ERR_NONE);
    b->last_event = b->number;
    b->n_jobs = b->n_events = b->n_nodes = 0;
    l->ops->pause(l, true, on_answer, b);
    wait_answer(b, ERR_NONE);
    submit(b, l, key);
    uint64_t first = b->number;
    submit(b, l, key);
    assert_int_equal(b->number, first); /* the same key submits once */
    l->ops->list(l, true, on_found, on_answer, b);
    wait_answer(b, ERR_NONE);
    assert_int_equal(b->jobs[b->n_jobs - 2].number, first);
    assert_string_equal(b->jobs[b->n_jobs - 1].name, "b");
    assert_int_equal(b->jobs[b->n_jobs - 1].state, JOB_QUEUED);
    l->ops->listen(l, b->last_event);
    l->ops->cancel(l, (uint64_t[]){first, first + 1}, 2, on_answer, b);
    wait_answer(b, ERR_NONE);
    wait_events(b, 2);
    assert_int_equal(b->events[1].number, first + 1);
    assert_int_equal(b->events[1].state, JOB_CANCELLED);
    /* Listening resumes behind any event. */
    l->ops->mute(l);
    submit(b, l, "another");
    first = b->number;
    l->ops->cancel(l, (uint64_t[]){first, first + 1}, 2, on_answer, b);
    wait_answer(b, ERR_NONE);
    assert_int_equal(b->n_events, 2);
    l->ops->listen(l, b->last_event);
    wait_events(b, 4);
    assert_int_equal(b->events[2].number, first);
    l->ops->mute(l);
    assert_int_equal(b->gone, 0);
}

static void check_nodes(struct bench *b, struct hyper_link *l, const char *name)
{
    AUTO(json) struct json *conf = json_new_object();

    json_set_str(conf, "name", name);
    json_set_str(conf, "url", "ssh://nobody@127.0.0.1:1");
    json_set_take(conf, "recorded", json_new_bool(false));
    l->ops->lend(l, conf, on_answer, b);
    wait_answer(b, ERR_NONE);
    l->ops->lend(l, conf, on_answer, b);
    wait_answer(b, ERR_CONFLICT);
    b->n_nodes = 0;
    l->ops->nodes(l, on_node, on_answer, b);
    wait_answer(b, ERR_NONE);
    assert_int_equal(b->n_nodes, 2);
    l->ops->forget(l, str_of(name), false, on_answer, b);
    wait_answer(b, ERR_NONE);
    l->ops->forget(l, str_of(name), false, on_answer, b);
    wait_answer(b, ERR_NOT_FOUND);
}

static void the_host_in_this_process(void **state)
{
    struct bench *b = *state;

    check_jobs(b, b->here, "one");
    check_nodes(b, b->here, "n1");
}

static void the_daemon(void **state)
{
    struct bench *b = *state;

    check_jobs(b, b->daemon, "two");
    check_nodes(b, b->daemon, "n2");
}

/* A request that is under way when the link is closed fails; nobody waits for ever. */
static void a_closed_link_answers(void **state)
{
    struct bench *b = *state;
    struct hyper_link_conf c = b->daemon->conf;
    struct hyper_link *l = hyper_link_daemon(&c);

    l->ops->hello(l, on_answer, b);
    l->ops->listen(l, 0);
    l->ops->close(l);
    assert_int_equal(b->answers, 1);
    assert_int_equal(b->code, ERR_UNAVAILABLE);
    b->answers = 0;
}

/* A socket that nobody serves is ERR_UNAVAILABLE, and a stream that cannot begin is gone. */
static void nobody_answers(void **state)
{
    struct bench *b = *state;
    struct hyper_link_conf c = b->daemon->conf;

    c.home = "/nowhere";
    struct hyper_link *other = hyper_link_daemon(&c);
    other->ops->hello(other, on_answer, b);
    wait_answer(b, ERR_UNAVAILABLE);
    other->ops->listen(other, 0);
    while (!b->gone)
        loop_run_once(b->loop, true);
    other->ops->close(other);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {T(the_host_in_this_process), T(the_daemon),
                                       T(a_closed_link_answers), T(nobody_answers)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
