/* store_bench.c - what the store costs: prints "name value unit", one line each
 *
 * Usage: store_bench [DIR].  DIR should be on a real disk: the commits are durable.
 */
#include "../unit/store/fixture.h"
#include <sys/wait.h>
#include <time.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* CPU of the writer: all of this process but this thread. */
static double cpu_s(void)
{
    struct timespec all, own;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
    return (double)(all.tv_sec - own.tv_sec) + (double)(all.tv_nsec - own.tv_nsec) / 1e9;
}

/* The most this process ever had resident; unlike ru_maxrss it starts afresh with exec. */
static long rss_kb(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[128];
    long kb = 0;

    while (f && fgets(line, sizeof(line), f))
        if (!strncmp(line, "VmHWM:", 6))
            kb = strtol(line + 6, NULL, 10);
    if (f)
        fclose(f);
    return kb;
}

static void print(const char *name, double value, const char *unit)
{
    printf("%-44s %10.3f %s\n", name, value, unit);
    fflush(stdout);
}

static void print_both(const char *name, double wall, double cpu)
{
    printf("%-44s %10.3f ms %10.3f ms of writer CPU\n", name, wall * 1e3, cpu * 1e3);
    fflush(stdout);
}

static void must(struct err e)
{
    if (e.code) {
        fprintf(stderr, "store_bench: %s\n", e.text);
        exit(1);
    }
}

static void submit(struct fixture *f, const char *name, size_t n, size_t specs)
{
    struct built *b = built_new(f, n, specs);
    double start, cpu;

    if (n > 1)
        built_batch(f, b, "bench", 0);
    start = now_s();
    cpu = cpu_s();
    stage_submit(f, b);
    must(fixture_sync(f));
    print_both(name, now_s() - start, cpu_s() - cpu);
}

static void count_job(void *arg, const struct job_record *r)
{
    (void)r;
    ++*(size_t *)arg;
}
static void skip_run(void *arg, const struct run_record *r)
{
    (void)arg;
    (void)r;
}
static void skip_dep(void *arg, const struct dep_record *r)
{
    (void)arg;
    (void)r;
}
static void skip_switch(void *arg, struct str name, bool on)
{
    (void)arg;
    (void)name;
    (void)on;
}
static void skip_node(void *arg, const struct node_record *r)
{
    (void)arg;
    (void)r;
}
static void skip_counters(void *arg, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    (void)arg;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
}

static void load(struct fixture *f, const char *name)
{
    size_t n = 0;
    struct err e = {0};
    struct load_sink sink = {.job = count_job,
                             .run = skip_run,
                             .dep = skip_dep,
                             .queue = skip_switch,
                             .node = skip_node,
                             .counters = skip_counters,
                             .arg = &n};
    double start = now_s();

    f->ledger.load(f->ledger.self, &sink, &e);
    must(e);
    print(name, (now_s() - start) * 1e3, "ms");
}

static bool take_view(void *arg, const struct job_view *v)
{
    *(uint64_t *)arg += v->seq;
    return true;
}

static void page(struct fixture *f, const char *name, const char *filter, const char *sort,
                 uint32_t states)
{
    struct arena a = {0};
    struct filter *parsed = NULL;
    struct err e = {0};
    uint64_t sum = 0;
    double best = 1e9;

    if (filter)
        filter_parse(str_of(filter), f->now_ms, &a, &parsed, &e);
    must(e);
    for (int i = 0; i < 5; i++) {
        char *cursor = NULL;
        struct job_query q = {
            .filter = parsed, .sort = sort, .desc = true, .limit = 100, .state_mask = states};
        double start = now_s();
        store_jobs(f->store, &q, take_view, &sum, &cursor, &e);
        must(e);
        best = MIN(best, now_s() - start);
        free(cursor);
    }
    print(name, best * 1e3, "ms");
    arena_done(&a);
}

static void lists(struct fixture *f, const char *when)
{
    char name[96];
    static const struct {
        const char *name, *filter, *sort;
        uint32_t states;
    } pages[] = {
        {"all", NULL, "id", 0},
        {"lr<0.1", "lr<0.1", "id", 0},
        {"name~rai", "name~rai", "id", 0},
        {"state:failed", "state:failed", "id", 0},
        {"active", NULL, "id", 0xf},
        {"project:default", "project:default", "id", 0},
        {"by ended", NULL, "ended", 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
        snprintf(name, sizeof(name), "page of 100, %s, %s", pages[i].name, when);
        page(f, name, pages[i].filter, pages[i].sort, pages[i].states);
    }
}

/* Batches of 50 short runs: three changes each, as under load. */
static void short_runs(struct fixture *f, const char *name, uint64_t first, size_t n)
{
    double start = now_s(), cpu = cpu_s();

    for (size_t i = 0; i < n; i += 50) {
        for (size_t k = i; k < i + 50 && k < n; k++) {
            stage_run_new(f, first + k, 1);
            stage_run_started(f, first + k, 1);
            stage_run_ended(f, first + k, 1, k % 100 == 0);
        }
        must(fixture_sync(f));
    }
    char text[96];
    snprintf(text, sizeof(text), "%s, writer CPU", name);
    print(text, (cpu_s() - cpu) / (double)n * 1e6, "us/run");
    snprintf(text, sizeof(text), "%s, wall", name);
    print(text, (now_s() - start) / (double)n * 1e6, "us/run");
}

static void singles(struct fixture *f, const char *name)
{
    double best = 1e9;

    for (int i = 0; i < 50; i++) {
        double start = now_s();
        stage_submit(f, built_new(f, 1, 1));
        must(fixture_sync(f));
        best = MIN(best, now_s() - start);
    }
    print(name, best * 1e3, "ms");
}

static void cancel(struct fixture *f, const char *name, uint64_t first, uint64_t last)
{
    double start = now_s(), cpu = cpu_s();

    fixture_stage(f, &(struct change){.kind = CHANGE_JOB_STATE,
                                      .at_ms = f->now_ms,
                                      .user = STR("ann"),
                                      .job_state = {.first = first,
                                                    .last = last,
                                                    .from = JOB_QUEUED,
                                                    .to = JOB_CANCELLED,
                                                    .reason = STR("cancelled while it waited")}});
    must(fixture_sync(f));
    print_both(name, now_s() - start, cpu_s() - cpu);
}

static void counts(struct fixture *f, const char *name)
{
    uint64_t n[JOB_STATE_MAX];
    struct job_query q = {0};
    struct err e = {0};
    double start = now_s();

    store_job_counts(f->store, &q, n, &e);
    must(e);
    print(name, (now_s() - start) * 1e3, "ms");
}

/* What an idle daemon with this history costs; a process of its own, so that nothing else counts.
 */
static int reopened(const char *path)
{
    struct fixture f = {.path = xstrdup(path), .now_ms = 1700000000000};
    struct err e = {0};

    print("RSS before", (double)rss_kb() / 1024, "MB");
    fixture_reopen(&f, &e);
    must(e);
    print("RSS after open", (double)rss_kb() / 1024, "MB");
    load(&f, "load, new process");
    print("RSS after load", (double)rss_kb() / 1024, "MB");
    lists(&f, "new process");
    print("RSS after lists", (double)rss_kb() / 1024, "MB");
    store_close(f.store);
    free(f.path);
    return 0;
}

static void reopen_apart(const char *self, const char *path)
{
    pid_t pid = fork();

    if (pid == 0) {
        execl(self, self, "--open", path, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    struct fixture f;
    struct err e = {0};

    if (argc > 2 && !strcmp(argv[1], "--open"))
        return reopened(argv[2]);

    if (!fixture_open_in(&f, argc > 1 ? argv[1] : "/tmp", &e))
        must(e);
    singles(&f, "submit one, empty store");
    submit(&f, "submit 100 000 jobs, 1 spec", 100000, 1);
    lists(&f, "100 000 queued");
    cancel(&f, "cancel 100 000", 51, 100050);
    submit(&f, "submit 100 000 jobs, own specs", 100000, 100000);
    print("peak RSS so far", (double)rss_kb() / 1024, "MB");
    short_runs(&f, "short run", 100051, 10000);
    cancel(&f, "cancel 90 000", 100051, 200050);
    uint64_t million = f.next_job;
    submit(&f, "submit 1 000 000 jobs, 1 spec", 1000000, 1);
    fixture_reopen(&f, &e);
    must(e);
    load(&f, "load 1 000 000 queued");
    cancel(&f, "cancel 1 000 000", million, million + 999999);
    singles(&f, "submit one, 1.2 M finished");
    submit(&f, "submit 10 000, 1.2 M finished", 10000, 1);
    short_runs(&f, "short run, 1.2 M finished", f.next_job - 10000, 5000);
    load(&f, "load 5 000 queued, 1.2 M finished");
    lists(&f, "1.2 M finished");
    counts(&f, "counts, 1.2 M finished");
    struct store_stats st = store_stats(f.store);
    print("disk per job", (double)st.db_bytes / (double)f.next_job, "bytes");
    print("wal", (double)st.wal_bytes / 1e6, "MB");
    print("longest commit", (double)st.max_commit_us / 1e3, "ms");
    print("peak RSS", (double)rss_kb() / 1024, "MB");
    store_close(f.store);
    f.store = NULL;
    reopen_apart("/proc/self/exe", f.path);
    fixture_close(&f);
    return 0;
}
