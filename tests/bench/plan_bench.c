/* plan_bench.c - what planning and reading specs cost in CPU time: prints "name count value unit"
 */
#include "base/util.h"
#include "model/sweep.h"
#include "sched/plan.h"
#include <stdio.h>
#include <time.h>

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void print(const char *name, size_t n, double value, const char *unit)
{
    printf("%-40s %8zu %10.3f %s\n", name, n, value, unit);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

enum { ROUNDS = 2000, SLOTS = 8, SHAPES_MAX = 1000 };

static void report(const char *name, size_t n, double *us)
{
    char text[80];

    qsort(us, ROUNDS, sizeof(*us), by_value);
    snprintf(text, sizeof(text), "%s, median", name);
    print(text, n, us[ROUNDS / 2], "us");
    snprintf(text, sizeof(text), "%s, 99th percentile", name);
    print(text, n, us[ROUNDS * 99 / 100], "us");
}

struct bench {
    struct node node;
    struct usage usage;
    struct queue *queue;
    struct wait_item *items;
    size_t n;
    decisions out;
    int64_t patience_ms;
};

static void fill(struct bench *b, size_t n, size_t shapes)
{
    double t = now_us();

    b->node =
        (struct node){.name = "here", .slots = SLOTS, .mcpu = 64000, .mem_bytes = INT64_C(1) << 40};
    b->usage = (struct usage){0};
    b->queue = queue_new(NULL);
    b->items = xcalloc(n, sizeof(*b->items));
    b->n = n;
    for (size_t i = 0; i < n; i++) {
        struct resources need = {.slots = 1, .mem_bytes = (int64_t)(1 + i % shapes) << 20};
        b->items[i] =
            (struct wait_item){.job = i + 1,
                               .since_ms = (int64_t)i,
                               .priority = (int32_t)(i % 7),
                               .shape = queue_shape_take(b->queue, &(struct shape){.need = need})};
        queue_push(b->queue, &b->items[i]);
    }
    print("waiting jobs put in, each", n, (now_us() - t) / (double)n, "us");
}

static void empty(struct bench *b)
{
    queue_free(b->queue);
    free(b->items);
    vec_done(&b->out);
}

static double plan_once(struct bench *b)
{
    struct plan_input s = {.now_ms = 2000000,
                           .nodes = &b->node,
                           .usage = &b->usage,
                           .n_nodes = 1,
                           .queue = b->queue,
                           .max_starts = 64,
                           .patience_ms = b->patience_ms};
    double t = now_us();

    vec_clear(&b->out);
    plan(&s, &b->out);
    return now_us() - t;
}

/* One slot is free: who gets it? */
static void one_freed_slot(struct bench *b, const char *name)
{
    static double us[ROUNDS];

    b->usage.slots = SLOTS - 1;
    for (size_t i = 0; i < ROUNDS; i++) {
        us[i] = plan_once(b);
        ASSERT(b->out.n == 1);
    }
    report(name, b->n, us);
}

static void nothing_fits(struct bench *b, const char *name)
{
    static double us[ROUNDS];

    b->usage.slots = 1;
    b->usage.mem_bytes = b->node.mem_bytes;
    for (size_t i = 0; i < ROUNDS; i++) {
        us[i] = plan_once(b);
        ASSERT(b->out.n == 0);
    }
    report(name, b->n, us);
}

static void explain_last(struct bench *b)
{
    struct plan_input s = {.now_ms = 2000000,
                           .nodes = &b->node,
                           .usage = &b->usage,
                           .n_nodes = 1,
                           .queue = b->queue,
                           .patience_ms = b->patience_ms};
    struct wait_item *it = &b->items[b->n - 1];
    double t = now_us();

    ASSERT(plan_explain(&s, it).kind == WAIT_MEMORY);
    print("explain the last", b->n, now_us() - t, "us");
}

static void plans(size_t n)
{
    static const size_t shapes[] = {1, SHAPES_MAX};

    for (size_t k = 0; k < ARRAY_SIZE(shapes); k++) {
        struct bench b = {.patience_ms = 300000};
        char name[80];

        fill(&b, n, shapes[k]);
        snprintf(name, sizeof(name), "one freed slot, %zu shapes", shapes[k]);
        one_freed_slot(&b, name);
        b.patience_ms = INT64_MAX;
        snprintf(name, sizeof(name), "the same, nobody waited long");
        one_freed_slot(&b, name);
        b.patience_ms = 300000;
        snprintf(name, sizeof(name), "nothing fits, %zu shapes", shapes[k]);
        nothing_fits(&b, name);
        explain_last(&b);
        empty(&b);
    }
}

static void specs(const char *name, const char *text)
{
    enum { N = 100000 };
    struct json *j = NULL;
    struct err e = {0};
    double t = now_us();

    for (int i = 0; i < N / 10; i++) {
        json_free(j);
        ASSERT(json_parse(str_of(text), "spec", &j, &e) == 0);
    }
    print("JSON of a spec", strlen(text), (now_us() - t) / (N / 10), "us");
    t = now_us();
    for (int i = 0; i < N; i++) {
        struct spec *s;
        ASSERT(spec_parse(j, "", &s, &e) == 0);
        spec_free(s);
    }
    print(name, strlen(text), (now_us() - t) / N, "us");
    json_free(j);
}

static void many_variables(void)
{
    struct buf b = {0};

    buf_adds(&b, "{\"command\":[\"python\",\"train.py\"],\"env\":{");
    for (int i = 0; i < 40; i++)
        buf_addf(&b, "%s\"VARIABLE_%d\":\"/usr/local/some/value/of/it\"", i ? "," : "", i * 7 % 40);
    buf_adds(&b, "}}");
    specs("spec with 40 variables", b.p);
    buf_done(&b);
}

static void sweeps(void)
{
    enum { N = 1000000 };
    struct json *j = NULL;
    struct sweep *s = NULL;
    struct err e = {0};
    struct buf params = {0}, name = {0};
    size_t spec;
    double t;

    ASSERT(
        json_parse(
            STR("{\"command\":\"x {lr} {index}\",\"params\":{\"lr\":[0.1,0.01]},\"array\":500000}"),
            "sweep", &j, &e) == 0);
    ASSERT(sweep_parse(j, &s, &e) == 0);
    t = now_us();
    for (size_t i = 0; i < N; i++) {
        buf_reset(&params);
        sweep_job(s, i, &spec, &params, &name);
    }
    print("job of a grid", N, (now_us() - t) / N, "us");
    sweep_free(s);
    json_free(j);
    buf_done(&params);
    buf_done(&name);
}

int main(void)
{
    plans(100000);
    plans(1000000);
    specs("spec",
          "{\"name\":\"a\",\"command\":[\"python\",\"train.py\",\"--lr\",\"0.1\"],\"cwd\":\"/tmp\","
          "\"resources\":{\"cpus\":1,\"mem\":\"2G\"},\"timeout\":\"2h\",\"retries\":2}");
    many_variables();
    sweeps();
    return 0;
}
