/* test_explain.c - the reason a job waits, as data and as a sentence */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cluster.h"
#include <stdio.h>

static struct world w;

static int setup(void **state)
{
    (void)state;
    world_init(&w);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_done(&w);
    return 0;
}

static void says(uint64_t job, enum wait_kind kind, const char *text)
{
    struct plan_input s = world_input(&w);
    size_t before = queue_count(w.queue);
    struct wait_reason r = plan_explain(&s, &w.items[job - 1]);
    char out[300];

    wait_reason_text(&r, &s, out, sizeof(out));
    assert_string_equal(out, text);
    assert_int_equal(r.kind, kind);
    assert_int_equal(queue_count(w.queue), before);
}

static const struct resources slot = {.slots = 1};

static void would_start(void **state)
{
    (void)state;
    world_node(&w, 2, 8, 1000, 0);
    for (int i = 0; i < 3; i++)
        world_job(&w, slot);
    says(1, WAIT_NOTHING, "would start now");
    says(2, WAIT_NOTHING, "would start now");
    says(3, WAIT_SLOTS, "waits for 1 more slot on a: 2 of 2 are in use; 2 jobs are before it");
    says(9, WAIT_NOT_QUEUED, "is not waiting in the queue");
    assert_int_equal(world_plan(&w), 2);
    says(3, WAIT_SLOTS, "waits for 1 more slot on a: 2 of 2 are in use");
}

static void lack_of_each_kind(void **state)
{
    (void)state;
    world_node(&w, 8, 8, INT64_C(16) << 30, 2);
    world_job(&w, (struct resources){6000, INT64_C(12) << 30, 2, 1})->limit_s = 180;
    world_plan(&w);
    w.now_ms += 60000;
    world_job(&w, (struct resources){.slots = 1, .mcpu = 4000});
    says(
        2, WAIT_CPUS,
        "waits for 2 more CPUs on a: 6 of 8 are in use; runs that end within 2m at the latest make "
        "room");
    world_job(&w, (struct resources){.slots = 1, .mcpu = 2500});
    says(3, WAIT_CPUS,
         "waits for 0.5 more CPUs on a: 6 of 8 are in use; runs that end within 2m at the latest "
         "make room; 1 job is before it");
    world_job(&w, (struct resources){.slots = 1, .gpus = 1});
    says(4, WAIT_GPUS,
         "waits for 1 more GPU on a: 2 of 2 are in use; runs that end within 2m at the latest make "
         "room; 2 jobs are before it");
    struct wait_item *it =
        world_job(&w, (struct resources){.slots = 1, .mem_bytes = INT64_C(6) << 30});
    struct plan_input s = world_input(&w);
    struct wait_reason r = plan_explain(&s, it);
    assert_int_equal(r.kind, WAIT_MEMORY);
    assert_int_equal(r.missing.mem_bytes, INT64_C(2) << 30);
}

static void too_large(void **state)
{
    char out[300];

    (void)state;
    world_job(&w, slot);
    says(1, WAIT_NEVER_FITS, "there is no node to run on: add one");
    world_node(&w, 8, 8, INT64_C(23) << 30, 1);
    world_job(&w, (struct resources){.slots = 1, .gpus = 2});
    says(2, WAIT_NEVER_FITS,
         "asks for 2 GPUs but the nearest node, a, has 1: lower gpus or add a node");
    world_job(&w, (struct resources){.slots = 1, .mcpu = 64000});
    says(3, WAIT_NEVER_FITS,
         "asks for 64 CPUs but the nearest node, a, has 8: lower cpus or add a node");
    world_job(&w, (struct resources){.slots = 9});
    says(4, WAIT_NEVER_FITS,
         "asks for 9 slots but the nearest node, a, has 8: lower slots or add a node");
    world_job(&w, (struct resources){.slots = 1, .mem_bytes = INT64_C(64) << 30});
    struct plan_input s = world_input(&w);
    struct wait_reason r = plan_explain(&s, &w.items[4]);
    wait_reason_text(&r, &s, out, sizeof(out));
    assert_non_null(strstr(out, "asks for 64"));
    assert_non_null(strstr(out, "lower mem or add a node"));
}

static void held_back(void **state)
{
    (void)state;
    world_node(&w, 8, 8, 1000, 0);
    world_add(&w, slot, 0, 0, 0, 1);
    queue_set_paused(w.queue, 1, true);
    says(1, WAIT_LIMIT, "its queue is paused: resume it to let the job start");
    for (int i = 0; i < 3; i++)
        world_add(&w, slot, 0, 5, 2, 0);
    says(4, WAIT_LIMIT, "its batch is limited to 2 running jobs; 3 jobs are before it");
    w.nodes[0].drained = true;
    says(2, WAIT_NODE_DRAINED, "a is drained and starts nothing new: resume it, or add a node");
}

static void kept_for_another(void **state)
{
    (void)state;
    world_node(&w, 8, 8, 1000, 0);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 5000});
    world_plan(&w);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 8000});
    w.now_ms += w.patience_ms * 2;
    world_job(&w, (struct resources){.slots = 1, .mcpu = 1000});
    says(3, WAIT_RESERVED,
         "room on a is reserved for job 2, which comes first and has waited long; a shorter "
         "timeout could let this job start earlier; 1 job is before it");
}

static void world_where(struct wait_item *it, const char *nodes, uint64_t avoid)
{
    queue_remove(w.queue, it);
    it->shape = queue_shape_take(
        w.queue, &(struct shape){.need = slot, .nodes = str_of(nodes), .avoid = avoid});
    queue_push(w.queue, it);
}

static void world_whose(struct wait_item *it, struct resources need, uint32_t uid,
                        const char *nodes)
{
    queue_remove(w.queue, it);
    it->shape = queue_shape_take(w.queue,
                                 &(struct shape){.need = need, .nodes = str_of(nodes), .uid = uid});
    queue_push(w.queue, it);
}

static void away(void **state)
{
    struct node *a = world_node(&w, 1, 8, 1000, 0), *b = world_node(&w, 0, 0, 0, 0);

    (void)state;
    world_job(&w, slot);
    a->away = b->away = true;
    snprintf(a->trouble, sizeof(a->trouble), "connection refused");
    a->again_ms = w.now_ms + 8000;
    assert_int_equal(world_plan(&w), 0);
    says(1, WAIT_NODE_AWAY, "waits: node a is away (connection refused), next attempt in 8s");
    a->drained = true; /* of the other nothing is known but its name */
    says(1, WAIT_NODE_AWAY, "waits: node b is away");
    a->drained = a->away = false;
    says(1, WAIT_NOTHING, "would start now");
}

static void named_nodes(void **state)
{
    struct wait_item *one, *two, *three;

    (void)state;
    world_node(&w, 1, 8, 1000, 0);
    world_node(&w, 3, 8, 1000, 0);
    one = world_job(&w, slot);
    two = world_job(&w, slot);
    three = world_job(&w, slot);
    world_where(one, "b", 0);
    world_where(two, "[ac],x*", 0);
    world_where(three, "", avoid_bit(1)); /* b refused it, and a could take it later */
    says(3, WAIT_SLOTS, "waits for 1 more slot on a: 1 of 1 are in use; 2 jobs are before it");
    assert_int_equal(world_plan(&w), 2);
    assert_int_equal(w.out.p[0].node, 1);
    assert_int_equal(w.out.p[1].node, 0);
    w.nodes[0].away = true; /* now nobody else could */
    assert_int_equal(world_plan(&w), 1);
    assert_int_equal(w.out.p[0].node, 1);
    w.nodes[0].away = false;
    world_where(world_job(&w, slot), "gpu*", 0);
    says(4, WAIT_NO_SUCH_NODE,
         "is restricted to node 'gpu*', which does not exist; add the node or resubmit without "
         "--node");
}

/* Nodes that not every user may use. */
static void nodes_of_some_users(void **state)
{
    const uint32_t owner = 0;
    const struct node_users only_owner = {&owner, 1, false};
    const struct resources two = {.slots = 2};

    (void)state;
    queue_free(w.queue);
    w.queue = queue_new(&(struct limit_conf){.users_apart = true});
    world_node(&w, 1, 8, 1000, 0);
    world_node(&w, 2, 8, 1000, 0);
    w.nodes[1].users = &only_owner;
    world_whose(world_job(&w, slot), slot, 7, "b");
    world_whose(world_job(&w, slot), slot, 7, "");
    world_whose(world_job(&w, slot), slot, 7, "");
    world_whose(world_job(&w, slot), slot, 0, "b");
    world_whose(world_job(&w, two), two, 7, "");
    says(1, WAIT_NO_ACCOUNT,
         "node b has no account for user ; the owner can add one: remove the node, then berth node "
         "add … --as USER=LOGIN");
    says(3, WAIT_SLOTS, "waits for 1 more slot on a: 1 of 1 are in use; 2 jobs are before it");
    says(5, WAIT_NO_ACCOUNT,
         "node b has no account for user ; the owner can add one: remove the node, then berth node "
         "add … --as USER=LOGIN");
    assert_int_equal(world_plan(&w), 2);
    assert_int_equal(w.out.p[0].job, 2);
    assert_int_equal(w.out.p[0].node, 0);
    assert_int_equal(w.out.p[1].job, 4);
    assert_int_equal(w.out.p[1].node, 1);
}

static void what_core_fills_in(void **state)
{
    struct plan_input s = world_input(&w);
    char out[300];

    (void)state;
    wait_reason_text(&(struct wait_reason){.kind = WAIT_DEPENDENCY, .other = 17}, &s, out, 300);
    assert_string_equal(out, "waits for job 17 to succeed");
    wait_reason_text(&(struct wait_reason){.kind = WAIT_BACKOFF, .until_ms = w.now_ms + 8000}, &s,
                     out, 300);
    assert_string_equal(out, "failed; Berth retries it in 8s");
    wait_reason_text(&(struct wait_reason){.kind = WAIT_BACKOFF}, &s, out, 10);
    assert_string_equal(out, "failed; B");
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(would_start), TEST(lack_of_each_kind), TEST(too_large),
        TEST(held_back),   TEST(kept_for_another),  TEST(what_core_fills_in),
        TEST(away),        TEST(named_nodes),       TEST(nodes_of_some_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
