/* dispatch_floor.c - what the local backend alone can start: no store, no controller
 *
 *   dispatch_floor [-n jobs] [-k slots] [-r rounds] [-s (split output)]
 *
 * Each slot has a chain of runs, one running and one gated behind it, as the controller does for
 * short jobs.  Before and after each round the bare limit L is measured: posix_spawn of /bin/true,
 * k in flight, reap.  Prints "name value unit" lines; shares are of the mean of the two L.
 */
#include "backend/backend.h"
#include "base/file.h"
#include "base/util.h"
#include "io/loop.h"
#include "shepherd/run_lock.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { SLOTS_MAX = 256 };

static struct {
    struct loop *loop;
    struct backend *b;
    char home[64];
    uint64_t first, next, end, done;
    uint64_t last[SLOTS_MAX]; /* the newest run of each slot */
    int slots;
    bool split;
    bool failed;
} bench;

static char program[] = "/bin/true", path_env[] = "PATH=/usr/bin:/bin";
static char *const command[] = {program, NULL}, *const env[] = {path_env, NULL};

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double rusage_s(int who)
{
    struct rusage u;

    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* ---- the limit ---- */

static double limit_per_s(int n, int k, double *cpu_us)
{
    double t = seconds(), cpu = rusage_s(RUSAGE_CHILDREN) + rusage_s(RUSAGE_SELF);
    int live = 0, started = 0;
    pid_t pid;

    while (started < n || live > 0) {
        while (live < k && started < n) {
            if (posix_spawn(&pid, program, NULL, NULL, command, env) != 0)
                exit(1);
            live++;
            started++;
        }
        if (waitpid(-1, NULL, 0) > 0)
            live--;
    }
    t = seconds() - t;
    *cpu_us = (rusage_s(RUSAGE_CHILDREN) + rusage_s(RUSAGE_SELF) - cpu) / n * 1e6;
    return n / t;
}

/* ---- the backend ---- */

static void start_one(uint64_t slot, uint64_t after)
{
    uint64_t job = bench.next++;
    char log[128], errors[128];
    struct err e = {0};

    snprintf(log, sizeof(log), "%s/runs/%llu/%llu.1.log", bench.home,
             (unsigned long long)job / 1000, (unsigned long long)job);
    snprintf(errors, sizeof(errors), "%s/runs/%llu/%llu.1.err", bench.home,
             (unsigned long long)job / 1000, (unsigned long long)job);
    struct run_start s = {.key = {job, 1},
                          .argv = command,
                          .envp = env,
                          .cwd = "/tmp",
                          .log_path = log,
                          .err_path = bench.split ? errors : NULL,
                          .limits = {.grace_ms = 1000},
                          .journal = backend_local.journal(bench.b),
                          .after = {after, 1}};
    if (backend_local.start(bench.b, &s, &e) < 0) {
        fprintf(stderr, "dispatch_floor: %s\n", e.text);
        exit(1);
    }
    bench.last[slot] = job;
}

static void on_started(void *o UNUSED, struct run_key k UNUSED, int64_t p UNUSED, int64_t ps UNUSED,
                       int64_t at UNUSED)
{
}

static void on_ended(void *o UNUSED, struct run_key k, const struct run_outcome *out,
                     struct str d UNUSED)
{
    uint64_t slot = (k.job - bench.first) % (uint64_t)bench.slots;

    bench.failed |= out->why != RUN_END_EXITED || out->wait_status != 0;
    bench.done++;
    backend_local.settled(bench.b, k);
    /* Job numbers go round the slots, so the next number of this slot is the one to keep. */
    while (bench.next < bench.end && bench.last[slot] <= k.job + (uint64_t)bench.slots) {
        uint64_t s = (bench.next - bench.first) % (uint64_t)bench.slots;
        start_one(s, bench.last[s]);
        if (s == slot)
            break;
    }
    if (bench.done == bench.end - bench.first)
        loop_stop(bench.loop);
}

static void on_absent(void *o UNUSED, struct run_key k UNUSED)
{
    bench.failed = true;
}

static void on_notice(void *o UNUSED, struct str t)
{
    fprintf(stderr, STR_FMT "\n", STR_ARG(t));
}

static pid_t shepherd_pid(void)
{
    AUTO_FREE char *path = path_join(bench.home, "shepherd/lock");
    AUTO_FD fd = open(path, O_RDWR | O_CLOEXEC);

    return fd < 0 ? 0 : run_lock_holder(fd, 0);
}

/* CPU of the shepherd, its supervisors and their commands, all reaped in a row. */
static double shepherd_cpu_s(pid_t pid)
{
    char path[64];
    AUTO_FREE char *text = NULL;
    size_t n;
    unsigned long u = 0, s = 0;
    long cu = 0, cs = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (pid > 0 && file_read_all(path, 4096, &text, &n, NULL) == 0)
        sscanf(strrchr(text, ')') + 2,
               "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", &u, &s, &cu, &cs);
    return (double)(u + s + (unsigned long)(cu + cs)) / (double)sysconf(_SC_CLK_TCK);
}

static void run_jobs(int n)
{
    bench.first = bench.next;
    bench.end = bench.first + (uint64_t)n;
    bench.done = 0;
    for (int i = 0; i < bench.slots && bench.next < bench.end; i++)
        start_one((uint64_t)i, 0);
    for (int i = 0; i < bench.slots && bench.next < bench.end; i++)
        start_one((uint64_t)i, bench.last[i]);
    loop_run(bench.loop);
}

static void round_once(int n)
{
    double cpu_a, cpu_b;
    double a = limit_per_s(n / 4, bench.slots, &cpu_a);
    pid_t shepherd = shepherd_pid();
    double cpu = shepherd_cpu_s(shepherd), own = rusage_s(RUSAGE_SELF), t = seconds();

    run_jobs(n);
    t = seconds() - t;
    own = rusage_s(RUSAGE_SELF) - own;
    cpu = shepherd_cpu_s(shepherd) - cpu;
    double b = limit_per_s(n / 4, bench.slots, &cpu_b), l = (a + b) / 2,
           l_cpu = (cpu_a + cpu_b) / 2;
    printf("dispatch_floor_%d_slots %.0f jobs/s\n", bench.slots, n / t);
    printf("spawn_limit_%d_slots %.0f jobs/s\n", bench.slots, l);
    printf("dispatch_floor_share_%d_slots %.2f L\n", bench.slots, n / t / l);
    printf("dispatch_floor_cpu_%d_slots %.0f us (bare %.0f, ours %.0f of which driver %.0f)\n",
           bench.slots, (cpu + own) / n * 1e6, l_cpu, (cpu + own) / n * 1e6 - l_cpu, own / n * 1e6);
}

int main(int argc, char **argv)
{
    static const struct backend_events events = {on_started, on_ended, on_absent, on_notice};
    int n = 10000, rounds = 3, opt;
    struct err e = {0};

    bench.slots = 2;
    while ((opt = getopt(argc, argv, "n:k:r:s")) != -1) {
        int64_t v = 0;
        if (opt != 's' && (!optarg || !str_to_i64(str_of(optarg), &v) || v < 1 || v > 1000000))
            return 2;
        if (opt == 'n')
            n = (int)v;
        else if (opt == 'k')
            bench.slots = (int)MIN(v, SLOTS_MAX);
        else if (opt == 'r')
            rounds = (int)v;
        else if (opt == 's')
            bench.split = true;
        else
            return 2;
    }
    snprintf(bench.home, sizeof(bench.home), "/tmp/berth-floor-XXXXXX");
    if (!mkdtemp(bench.home))
        return 1;
    bench.loop = loop_new();
    bench.next = 1;
    struct json *conf = json_new_object();
    if (backend_local.open(&bench.b, bench.home, conf, bench.loop, &events, NULL, &e) < 0) {
        fprintf(stderr, "dispatch_floor: %s\n", e.text);
        return 1;
    }
    json_free(conf);
    /* As a host does, or supervisors would sync the journal themselves. */
    AUTO_FREE char *lock = path_join(bench.home, "daemon.lock");
    AUTO_FD lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock l = {.l_type = F_WRLCK, .l_len = 1};
    fcntl(lock_fd, F_OFD_SETLK, &l);
    run_jobs(10); /* the shepherd is up */
    for (int i = 0; i < rounds; i++)
        round_once(n);
    pid_t shepherd = shepherd_pid();
    backend_local.close(bench.b);
    loop_free(bench.loop);
    if (shepherd > 0)
        kill(shepherd, SIGTERM);
    usleep(100000);
    dir_remove_tree(bench.home, NULL);
    return bench.failed;
}
