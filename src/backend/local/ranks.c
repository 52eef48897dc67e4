/* ranks.c - one process per GPU of one job: the process `berth __ranks N COMMAND…`
 *
 * Owns: the ranks of an attempt on this node.  Each gets RANK, LOCAL_RANK, LOCAL_WORLD_SIZE,
 * WORLD_SIZE and its index in TF_CONFIG; what it prints appears in our output line by line behind
 * "[rank] ".  When one fails, the others are told to end, and its status is ours: a rank that is
 * missing would keep them waiting for ever.  Signals that ask for something are passed on to all.
 *
 * Every rank leads a process group of its own, so that a signal sent to our group reaches it once,
 * through us.  If we are killed, the supervisor of the run ends what is left.
 */
#include "backend/ranks.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/stop_asks.h"
#include "base/util.h"
#include "base/vec.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

enum {
    LINE_MAX_BYTES = 64 << 10, /* a longer line is cut into several */
    GRACE_MS = 5000,           /* for the others, once one has failed */
    NO_COMMAND = 127,
};

struct rank {
    pid_t pid; /* 0 = has ended */
    int fd;    /* its output; -1 = at its end */
    struct buf line;
};
struct ranks {
    struct rank *p;
    size_t n, live;
    int signals;
    int status;        /* of the first that failed; 0 = none yet */
    int64_t kill_at;   /* monotonic; 0 = no need */
    struct buf output; /* of one turn */
};

/* ---- starting ---- */

/* A variable as a number; `otherwise` when it is not set or not a number. */
static int64_t number_of(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    int64_t v;

    return text && str_to_i64(str_of(text), &v) && v >= 0 ? v : otherwise;
}

/* The variables of one rank.  `list` points into `own` and into our environment. */
struct rank_env {
    char own[4][48];
    char *cluster; /* TF_CONFIG with the index of this rank; NULL = as it is */
    VEC(char *) list;
};

static void rank_env_done(struct rank_env *v)
{
    free(v->cluster);
    vec_done(&v->list);
}

/* TF_CONFIG says which of its workers a process is.  A text that does not name one worker for each
 * rank is somebody's own and stays as it is: NULL, as without one. */
static char *cluster_of_rank(int64_t rank, int64_t world)
{
    const char *text = getenv("TF_CONFIG");
    AUTO(json) struct json *all = NULL;
    struct err e;

    if (!text || json_parse(str_of(text), "TF_CONFIG", &all, &e) < 0 ||
        json_len(json_get(json_get(all, "cluster"), "worker")) != (size_t)world)
        return NULL;
    struct json *task = json_new_object();
    json_set_str(task, "type", "worker");
    json_set_int(task, "index", rank);
    json_set_take(all, "task", task);
    AUTO_FREE char *value = json_text_as(all, JSON_PYTHON);
    return xasprintf("TF_CONFIG=%s", value);
}

/* Our environment, with the variables of this rank instead of ours. */
static void rank_env_init(struct rank_env *out, size_t rank, size_t n)
{
    static const char *const names[] = {
        "RANK=", "LOCAL_RANK=", "LOCAL_WORLD_SIZE=", "WORLD_SIZE=", "TF_CONFIG="};
    int64_t nodes = MAX(number_of("NUM_NODES", 1), 1), world = nodes * (int64_t)n,
            global = number_of("NODE_RANK", 0) * (int64_t)n + (int64_t)rank;
    long long values[] = {global, (long long)rank, (long long)n, world};

    *out = (struct rank_env){.cluster = cluster_of_rank(global, world)};
    for (char **v = environ; *v; v++) {
        bool ours = false;
        for (size_t i = 0; i < ARRAY_SIZE(names) - !out->cluster; i++)
            ours |= !strncmp(*v, names[i], strlen(names[i]));
        if (!ours)
            vec_push(&out->list, *v);
    }
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        snprintf(out->own[i], sizeof(out->own[i]), "%s%lld", names[i], values[i]);
        vec_push(&out->list, out->own[i]);
    }
    if (out->cluster)
        vec_push(&out->list, out->cluster);
    vec_push(&out->list, NULL);
}

/* 0 or an errno, as posix_spawn returns it.  Both streams of the rank go to `out`. */
static int spawn(char *const *argv, char **env, int out, pid_t *pid)
{
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    sigset_t none;

    sigemptyset(&none);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&fa, out, STDERR_FILENO);
    posix_spawnattr_init(&at);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&at, 0);
    posix_spawnattr_setsigmask(&at, &none);
    int sys = posix_spawnp(pid, argv[0], &fa, &at, argv, env);
    posix_spawnattr_destroy(&at);
    posix_spawn_file_actions_destroy(&fa);
    return sys;
}

/* 0 or an errno.  The pipe is read without blocking, so that no rank can stop the others. */
static int rank_start(struct ranks *r, size_t i, char *const *argv)
{
    struct rank_env env;
    int ends[2];

    r->p[i].fd = -1;
    buf_init(&r->p[i].line, LINE_MAX_BYTES + 1);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    rank_env_init(&env, i, r->n);
    int sys = spawn(argv, env.list.p, ends[1], &r->p[i].pid);
    rank_env_done(&env);
    close(ends[1]);
    if (sys) {
        r->p[i].pid = 0;
        close(ends[0]);
        return sys;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    r->p[i].fd = ends[0];
    r->live++;
    return 0;
}

/* ---- output ---- */

/* The number before the line is the rank over all nodes, not the local one. */
static void line_out(struct ranks *r, size_t i, struct str line)
{
    char head[24];
    int n = snprintf(head, sizeof(head), "[%lld] ",
                     (long long)(number_of("NODE_RANK", 0) * (int64_t)r->n + (int64_t)i));

    buf_add(&r->output, head, (size_t)n);
    buf_add(&r->output, line.p, line.n);
    buf_addc(&r->output, '\n');
}

/* Collects until a newline, or until the line is as long as it may be. */
static void take_bytes(struct ranks *r, size_t i, struct str s)
{
    struct buf *line = &r->p[i].line;

    while (s.n > 0) {
        const char *nl = memchr(s.p, '\n', s.n);
        size_t n = MIN(nl ? (size_t)(nl - s.p) : s.n, (size_t)LINE_MAX_BYTES - line->n);
        buf_add(line, s.p, n);
        bool whole = n < s.n && s.p[n] == '\n';
        if (whole || line->n == LINE_MAX_BYTES) {
            line_out(r, i, buf_str(line));
            buf_reset(line);
        }
        n += whole;
        s = (struct str){s.p + n, s.n - n};
    }
}

/* One piece of its output; false when there is none now, or none any more. */
static bool rank_read(struct ranks *r, size_t i)
{
    char piece[16 << 10];
    ssize_t n;

    if (r->p[i].fd < 0)
        return false;
    do
        n = read(r->p[i].fd, piece, sizeof(piece));
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        take_bytes(r, i, (struct str){piece, (size_t)n});
        return true;
    }
    if (n < 0 && errno == EAGAIN)
        return false;
    if (r->p[i].line.n)
        line_out(r, i, buf_str(&r->p[i].line));
    buf_reset(&r->p[i].line);
    close(r->p[i].fd);
    r->p[i].fd = -1;
    return false;
}

static void flush_output(struct ranks *r)
{
    struct err e;

    if (r->output.n)
        fd_write_all(STDOUT_FILENO, r->output.p, r->output.n, &e); /* nobody left to tell */
    buf_reset(&r->output);
}

/* What the ranks wrote before their end: the pipes may hold it although all ranks are reaped.  A
 * process that a rank has left behind may keep a pipe open, so we wait for no end of it. */
static void drain(struct ranks *r)
{
    for (size_t i = 0; i < r->n; i++) {
        while (rank_read(r, i))
            flush_output(r);
        if (r->p[i].line.n)
            line_out(r, i, buf_str(&r->p[i].line));
        flush_output(r);
    }
}

/* ---- ends and signals ---- */

/* Each rank leads a process group, so the signal reaches the processes that the rank started.  A
 * rank that asks whether it has to stop ends those itself. */
static void signal_all(struct ranks *r, int signo)
{
    pid_t asks[STOP_ASKS_MAX];
    size_t n = signo == SIGTERM ? stop_asks_read(getenv("BERTH_RUN_DIR"), asks) : 0;

    for (size_t i = 0; i < r->n; i++)
        if (r->p[i].pid > 0)
            kill(ints_have(asks, n, r->p[i].pid) ? r->p[i].pid : -r->p[i].pid, signo);
}

/* Only the first failure counts: the ranks that end because of it would hide the cause. */
static void failed(struct ranks *r, size_t i, int status)
{
    if (r->status)
        return;
    r->status = status;
    if (r->live == 0)
        return;
    fprintf(stderr, "berth: rank %zu exited with status %d; stopping the other %zu\n", i, status,
            r->live);
    signal_all(r, SIGTERM);
    r->kill_at = clock_mono(&clock_system) + GRACE_MS;
}

/* A rank that a signal ended has the status that a shell would give it: 128 and the signal. */
static void reap(struct ranks *r)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (size_t i = 0; i < r->n; i++) {
            if (r->p[i].pid != pid)
                continue;
            r->p[i].pid = 0;
            r->live--;
            int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            if (code)
                failed(r, i, code);
        }
}

static void on_signals(struct ranks *r)
{
    struct signalfd_siginfo info;

    while (read(r->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            signal_all(r, (int)info.ssi_signo);
    reap(r);
}

static int watch_signals(void)
{
    static const int passed_on[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++)
        sigaddset(&set, passed_on[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void wait_for_all(struct ranks *r)
{
    AUTO_FREE struct pollfd *fds = xcalloc(r->n + 1, sizeof(*fds));

    while (r->live > 0) {
        int timeout = -1;
        if (r->kill_at) {
            int64_t left = r->kill_at - clock_mono(&clock_system);
            if (left <= 0)
                signal_all(r, SIGKILL);
            /* After the SIGKILL the loop waits for SIGCHLD; the timeout only repeats the
             * SIGKILL. */
            timeout = left > 0 ? (int)left : GRACE_MS;
        }
        fds[r->n] = (struct pollfd){.fd = r->signals, .events = POLLIN};
        for (size_t i = 0; i < r->n; i++)
            fds[i] = (struct pollfd){.fd = r->p[i].fd, .events = POLLIN};
        if (poll(fds, r->n + 1, timeout) < 0 && errno != EINTR)
            break;
        for (size_t i = 0; i < r->n; i++)
            if (fds[i].revents)
                rank_read(r, i);
        flush_output(r);
        on_signals(r);
    }
    drain(r);
}

int ranks_run(size_t n, char *const *argv)
{
    struct ranks r = {.p = xcalloc(n, sizeof(*r.p)), .n = n, .signals = watch_signals()};

    buf_init(&r.output, 64 << 20);
    for (size_t i = 0; i < n && !r.status; i++) {
        int sys = rank_start(&r, i, argv);
        if (sys) {
            fprintf(stderr, "berth: cannot start rank %zu, %s: %s\n", i, argv[0],
                    strerrordesc_np(sys));
            failed(&r, i, NO_COMMAND);
        }
    }
    wait_for_all(&r);
    for (size_t i = 0; i < n; i++) {
        if (r.p[i].fd >= 0)
            close(r.p[i].fd);
        buf_done(&r.p[i].line);
    }
    buf_done(&r.output);
    close(r.signals);
    free(r.p);
    return r.status;
}
