/* rig.c - see rig.h */
#include "rig.h"
#include "base/clock.h"
#include "base/file.h"
#include "shepherd/proto.h"
#include "shepherd/run_lock.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---- what the backend tells ---- */

struct seen *rig_seen(struct rig *r, uint64_t job, uint32_t run)
{
    for (size_t i = 0; i < r->seen.n; i++)
        if (r->seen.p[i]->key.job == job && r->seen.p[i]->key.run == run)
            return r->seen.p[i];
    struct seen *s = xcalloc(1, sizeof(*s));
    s->key = (struct run_key){job, run};
    vec_push(&r->seen, s);
    return s;
}

static void on_started(void *owner, struct run_key k, int64_t pid, int64_t pid_start UNUSED,
                       int64_t at_ms UNUSED)
{
    struct seen *s = rig_seen(owner, k.job, k.run);

    assert_int_equal(s->ended, 0);
    s->started++;
    s->pid = pid;
}

static void on_ended(void *owner, struct run_key k, const struct run_outcome *o, struct str detail)
{
    struct rig *r = owner;
    struct seen *s = rig_seen(r, k.job, k.run);

    s->ended++;
    assert_int_equal(s->ended, 1);
    s->outcome = *o;
    snprintf(s->detail, sizeof(s->detail), STR_FMT, STR_ARG(detail));
    if (r->settle)
        r->cls->settled(r->b, k);
}

static void on_absent(void *owner, struct run_key k)
{
    rig_seen(owner, k.job, k.run)->absent++;
}

static void on_notice(void *owner, struct str text)
{
    struct rig *r = owner;

    buf_add(&r->notices, text.p, text.n);
    buf_addc(&r->notices, '\n');
}

static void on_refused(void *owner, struct run_key k, int sys UNUSED, struct str why)
{
    struct seen *s = rig_seen(owner, k.job, k.run);

    s->refused++;
    snprintf(s->detail, sizeof(s->detail), STR_FMT, STR_ARG(why));
}

static void on_spooled(void *owner, struct run_key k)
{
    rig_seen(owner, k.job, k.run)->spooled++;
}

static void on_node(void *owner, const struct node *n)
{
    struct rig *r = owner;

    r->node_events++;
    assert_true(n == r->cls->node(r->b));
}

static void on_call(void *owner, int fd)
{
    struct rig *r = owner;

    if (r->call_fd >= 0)
        close(r->call_fd);
    r->call_fd = fd;
}

static const struct backend_events events = {.started = on_started,
                                             .ended = on_ended,
                                             .absent = on_absent,
                                             .notice = on_notice,
                                             .node = on_node,
                                             .spooled = on_spooled,
                                             .refused = on_refused,
                                             .call = on_call};

/* ---- life ---- */

static void on_pulse(void *arg UNUSED)
{
}

/* BERTH_TEST_CONF: the configuration of a class that needs one. */
static struct json *read_conf(void)
{
    const char *path = getenv("BERTH_TEST_CONF");
    AUTO_FREE char *text = NULL;
    struct json *conf = NULL;
    struct err e = {0};
    size_t n;

    if (!path)
        return json_new_object();
    if (file_read_all(path, 1 << 20, &text, &n, &e) < 0 ||
        json_parse((struct str){text, n}, path, &conf, &e) < 0)
        fail_msg("%s", e.text);
    return conf;
}

void rig_open(struct rig *r)
{
    rig_open_with(r, read_conf());
    rig_wait_here(r);
}

void rig_open_with(struct rig *r, struct json *conf)
{
    struct err e = {0};

    r->loop = loop_new();
    r->pulse = timer_new(r->loop, on_pulse, NULL);
    timer_start(r->pulse, 5, 5);
    if (r->cls->open(&r->b, r->home, conf, r->loop, &events, r, &e) < 0)
        fail_msg("%s", e.text);
    json_free(conf);
    /* As the host does: supervisors look whether a daemon is there. */
    AUTO_FREE char *path = path_join(r->home, "daemon.lock");
    struct flock l = {.l_type = F_WRLCK, .l_len = 1};
    r->daemon_lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(fcntl(r->daemon_lock, F_OFD_SETLK, &l), 0);
}

void rig_close(struct rig *r)
{
    r->cls->close(r->b);
    r->b = NULL;
    timer_free(r->pulse);
    loop_free(r->loop);
    r->loop = NULL;
    close(r->daemon_lock);
}

void rig_init(struct rig *r, const struct backend_class *cls)
{
    rig_prepare(r, cls);
    rig_open(r);
    cls->adopt(r->b, NULL, 0);
}

void rig_prepare(struct rig *r, const struct backend_class *cls)
{
    *r = (struct rig){.cls = cls, .settle = true, .call_fd = -1};
    snprintf(r->home, sizeof(r->home), "/tmp/berth-test-XXXXXX");
    assert_non_null(mkdtemp(r->home));
    buf_init(&r->notices, 1 << 20);
}

void rig_done(struct rig *r)
{
    if (r->loop)
        rig_close(r);
    if (r->call_fd >= 0)
        close(r->call_fd);
    pid_t shepherd = rig_shepherd(r);
    if (shepherd > 0) {
        kill(shepherd, SIGTERM);
        for (int i = 0; i < 200000 && alive(shepherd); i++)
            usleep(1000);
    }
    AUTO_FREE char *path = path_join(r->home, "shepherd/log"), *text = NULL;
    size_t n;
    if (file_read_all(path, 16 << 20, &text, &n, NULL) == 0 &&
        (strstr(text, "Sanitizer") || strstr(text, "runtime error") || strstr(text, "failed")))
        fail_msg("the shepherd's log says: %s", text);
    for (size_t i = 0; i < r->seen.n; i++)
        free(r->seen.p[i]);
    vec_done(&r->seen);
    buf_done(&r->notices);
    dir_remove_tree(r->home, NULL);
}

/* ---- asking ---- */

void rig_start(struct rig *r, uint64_t job, uint32_t run, const struct rig_run *o)
{
    char *sh[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
                  (char *)(uintptr_t)o->shell, NULL};
    char *env[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", NULL};
    AUTO_FREE char *log = xasprintf("%s/runs/%llu/%llu.%u.log", r->home,
                                    (unsigned long long)job / 1000, (unsigned long long)job, run);
    struct run_start s = {.key = {job, run},
                          .argv = o->argv ? o->argv : sh,
                          .envp = o->envp ? o->envp : env,
                          .cwd = o->cwd ? o->cwd : "/tmp",
                          .log_path = log,
                          .err_path = o->err_path,
                          .run_dir = o->run_dir,
                          .make_run_dir = o->run_dir != NULL,
                          .params_json = str_of(o->params),
                          .uid = o->change_user ? o->uid : geteuid(),
                          .gid = o->gid,
                          .change_user = o->change_user,
                          .limits = {.timeout_ms = o->timeout_ms,
                                     .grace_ms = o->grace_ms ? o->grace_ms : 2000,
                                     .log_limit_bytes = o->log_limit_bytes},
                          .need = o->need,
                          .journal = r->cls->journal(r->b),
                          .after = o->after,
                          .assets = o->assets,
                          .stage_dir = o->stage_dir};
    struct err e = {0};

    if (o->anywhere)
        s.cwd = NULL;

    if (r->cls->start(r->b, &s, &e) < 0)
        fail_msg("%s", e.text);
}

void rig_adopt(struct rig *r, uint64_t job, uint32_t run, uint32_t journal, int64_t pid)
{
    AUTO_FREE char *dir = xasprintf("%s/runs/%llu/%llu.%u", r->home, (unsigned long long)job / 1000,
                                    (unsigned long long)job, run);
    AUTO_FREE char *log = xasprintf("%s.log", dir), *errs = xasprintf("%s.err", dir);
    struct run_belief b = {.key = {job, run},
                           .uid = geteuid(),
                           .journal = journal,
                           .pid = pid,
                           .pid_start = 1,
                           .log_path = log,
                           .err_path = errs,
                           .run_dir = dir};

    r->cls->adopt(r->b, &b, 1);
}

void rig_turn(struct rig *r, int64_t ms)
{
    int64_t until = clock_mono(&clock_system) + ms;

    while (clock_mono(&clock_system) < until)
        loop_run_once(r->loop, true);
}

#define WAIT_FOR(r, cond, ...) WAIT_SO_LONG(r, PATIENCE_MS, cond, __VA_ARGS__)
#define WAIT_SO_LONG(r, ms, cond, ...)                                                             \
    do {                                                                                           \
        int64_t until_ = clock_mono(&clock_system) + (ms);                                         \
        while (!(cond)) {                                                                          \
            if (clock_mono(&clock_system) > until_)                                                \
                fail_msg(__VA_ARGS__);                                                             \
            loop_run_once((r)->loop, true);                                                        \
        }                                                                                          \
    } while (0)

void rig_wait_here(struct rig *r)
{
    /* A first login, with programs to send, takes a while on a busy machine. */
    WAIT_SO_LONG(r, 4 * PATIENCE_MS, !r->cls->node(r->b)->away, "the node is away: %s",
                 r->cls->node(r->b)->trouble);
}

void rig_wait_trouble(struct rig *r, const char *part)
{
    WAIT_FOR(r, strstr(r->cls->node(r->b)->trouble, part), "no trouble says \"%s\" but \"%s\"",
             part, r->cls->node(r->b)->trouble);
}

void rig_wait_refused(struct rig *r, uint64_t job, uint32_t run)
{
    struct seen *s = rig_seen(r, job, run);

    WAIT_FOR(r, s->refused, "run %llu.%u was not refused", (unsigned long long)job, run);
}

const struct seen *rig_wait_started(struct rig *r, uint64_t job, uint32_t run)
{
    struct seen *s = rig_seen(r, job, run);

    WAIT_FOR(r, s->started, "run %llu.%u did not start", (unsigned long long)job, run);
    return s;
}

const struct seen *rig_wait_ended(struct rig *r, uint64_t job, uint32_t run)
{
    struct seen *s = rig_seen(r, job, run);

    WAIT_FOR(r, s->ended, "run %llu.%u did not end", (unsigned long long)job, run);
    return s;
}

void rig_wait_absent(struct rig *r, uint64_t job, uint32_t run)
{
    struct seen *s = rig_seen(r, job, run);

    WAIT_FOR(r, s->absent, "run %llu.%u was not reported absent", (unsigned long long)job, run);
}

void rig_wait_notice(struct rig *r, const char *part)
{
    WAIT_FOR(r, r->notices.p && strstr(r->notices.p, part), "no notice said \"%s\"", part);
}

char *rig_log(struct rig *r, uint64_t job, uint32_t run)
{
    AUTO_FREE char *path = xasprintf("%s/runs/%llu/%llu.%u.log", r->home,
                                     (unsigned long long)job / 1000, (unsigned long long)job, run);
    char *text = NULL;
    size_t n;

    return file_read_all(path, 64 << 20, &text, &n, NULL) < 0 ? xstrdup("") : text;
}

static bool log_has(struct rig *r, uint64_t job, uint32_t run, const char *part)
{
    AUTO_FREE char *text = rig_log(r, job, run);

    return strstr(text, part);
}

void rig_wait_log(struct rig *r, uint64_t job, uint32_t run, const char *part)
{
    WAIT_FOR(r, log_has(r, job, run, part), "run %llu.%u does not write \"%s\"",
             (unsigned long long)job, run, part);
}

/* ---- processes ---- */

static pid_t lock_holder(struct rig *r, const char *name, uint64_t id)
{
    AUTO_FREE char *path = xasprintf("%s/shepherd/%s", r->home, name);
    AUTO_FD fd = open(path, O_RDWR | O_CLOEXEC);

    return fd < 0 ? 0 : run_lock_holder(fd, id);
}

pid_t rig_shepherd(struct rig *r)
{
    return lock_holder(r, "lock", 0);
}

pid_t rig_supervisor(struct rig *r, uint64_t job, uint32_t run)
{
    uint64_t id;

    assert_true(run_key_pack((struct run_key){job, run}, &id));
    return lock_holder(r, "runs.lock", id);
}

/* Zombies count as gone: whoever should reap them is not always us. */
bool alive(pid_t pid)
{
    AUTO_FREE char *path = xasprintf("/proc/%d/stat", (int)pid), *text = NULL;
    size_t n;

    if (file_read_all(path, 4096, &text, &n, NULL) < 0)
        return false;
    const char *state = strrchr(text, ')');
    return state && state[2] != 'Z' && state[2] != 'X';
}

void rig_kill(pid_t pid)
{
    assert_true(pid > 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    for (int i = 0; i < 200000 && alive(pid); i++)
        usleep(1000);
    assert_false(alive(pid));
}

bool marked_alive(const char *word)
{
    DIR *d = opendir("/proc");
    struct dirent *ent;
    bool found = false;

    while (!found && (ent = readdir(d))) {
        int64_t pid;
        if (!str_to_i64(str_of(ent->d_name), &pid) || !alive((pid_t)pid) || pid == getpid())
            continue;
        AUTO_FREE char *path = xasprintf("/proc/%s/cmdline", ent->d_name), *text = NULL;
        size_t n = 0;
        if (file_read_all(path, 1 << 20, &text, &n, NULL) == 0)
            found = memmem(text, n, word, strlen(word)) != NULL;
    }
    closedir(d);
    return found;
}
