/* test_local.c - the local backend when things die, fill up or are damaged */
#include "base/clock.h"
#include "base/file.h"
#include "base/rand.h"
#include "rig.h"
#include "shepherd/journal.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static const struct backend_class *const cls = &backend_local;

static char *W(const char *s)
{
    return (char *)(uintptr_t)s;
}

/* Waits until the log of a run has this text: the command has come that far. */
static void wait_log(struct rig *r, uint64_t job, uint32_t run, const char *text)
{
    for (int i = 0; i < PATIENCE_MS / 5; i++) {
        AUTO_FREE char *log = rig_log(r, job, run);
        if (strstr(log, text))
            return;
        rig_turn(r, 5);
    }
    fail_msg("the log of run %llu.%u never said %s", (unsigned long long)job, run, text);
}

static pid_t wait_new_shepherd(struct rig *r, pid_t old)
{
    for (int i = 0; i < PATIENCE_MS / 5; i++) {
        pid_t now = rig_shepherd(r);
        if (now > 0 && now != old)
            return now;
        rig_turn(r, 5);
    }
    fail_msg("no new shepherd came");
    return 0;
}

/* ---- deaths ---- */

static void test_shepherd_killed(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "sleep 0.6; exit 4"});
    rig_start(&r, 2, 1, &(struct rig_run){.shell = "sleep 1000"});
    rig_start(&r, 3, 1, &(struct rig_run){.shell = "exit 3", .after = {1, 1}});
    rig_wait_started(&r, 1, 1);
    rig_wait_started(&r, 2, 1);
    pid_t old = rig_shepherd(&r), sup = rig_supervisor(&r, 2, 1);
    rig_kill(old);
    wait_new_shepherd(&r, old);
    rig_start(&r, 4, 1, &(struct rig_run){.shell = "exit 6"});
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 4, 1)->outcome.wait_status), 6);
    assert_int_equal(rig_seen(&r, 3, 1)->started, 0); /* still gated behind an adopted run */
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 1, 1)->outcome.wait_status), 4);
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 3, 1)->outcome.wait_status), 3);
    assert_int_equal(rig_supervisor(&r, 2, 1), sup);
    cls->stop(r.b, (struct run_key){2, 1}, 100);
    assert_int_equal(rig_wait_ended(&r, 2, 1)->outcome.why, RUN_END_CANCELLED);
    rig_done(&r);
}

/* A start that was taken back never ran: its key is free again, whichever shepherd is asked. */
static void test_withdrawn_start(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "sleep 1000"});
    rig_start(&r, 2, 1, &(struct rig_run){.shell = "exit 9", .after = {1, 1}});
    rig_start(&r, 3, 1, &(struct rig_run){.shell = "exit 7", .after = {2, 1}});
    rig_wait_started(&r, 1, 1);
    cls->withdraw(r.b, (struct run_key){1, 1}); /* too late */
    cls->withdraw(r.b, (struct run_key){3, 1});
    rig_wait_absent(&r, 3, 1);
    cls->settled(r.b, (struct run_key){3, 1});
    rig_start(&r, 3, 1, &(struct rig_run){.shell = "exit 5", .after = {2, 1}});
    rig_start(&r, 4, 1, &(struct rig_run){.shell = "exit 6", .after = {3, 1}});
    pid_t old = rig_shepherd(&r);
    rig_kill(old);
    cls->withdraw(r.b, (struct run_key){4, 1}); /* said to the next shepherd */
    wait_new_shepherd(&r, old);
    rig_wait_absent(&r, 4, 1);
    assert_int_equal(rig_seen(&r, 1, 1)->ended + rig_seen(&r, 2, 1)->started, 0);
    cls->stop(r.b, (struct run_key){1, 1}, 100);
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 2, 1)->outcome.wait_status), 9);
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 3, 1)->outcome.wait_status), 5);
    assert_int_equal(rig_seen(&r, 3, 1)->started, 1);
    assert_int_equal(rig_seen(&r, 3, 1)->absent, 1);
    assert_int_equal(rig_seen(&r, 4, 1)->started + rig_seen(&r, 4, 1)->ended, 0);
    rig_done(&r);
}

/* A command with a child, a double-forked daemon and one that also hides its environment. */
#define ESCAPEES                                                                                   \
    "sleep 98761 & (setsid sleep 98762 &) ; (env -i /usr/bin/setsid /bin/sleep 98763 &) ; "

/* The numbers 98761 … become this process's own: another run of this test on the machine has
 * processes that look the same. */
static const char *own_marks(const char *text)
{
    static char made[4][512];
    static unsigned turn;
    char *out = made[turn++ % 4];
    size_t n = 0;

    for (; *text; text++) {
        assert_true(n + 32 < sizeof(made[0]));
        out[n++] = *text;
        if (n >= 5 && memcmp(out + n - 5, "9876", 4) == 0)
            n += (size_t)snprintf(out + n, 32, ".%d", getpid());
    }
    out[n] = '\0';
    return out;
}

static bool own_mark_alive(const char *number)
{
    return marked_alive(own_marks(number));
}

static void assert_tree_gone(void)
{
    for (int i = 0; i < 20000 &&
                    (own_mark_alive("98761") || own_mark_alive("98762") || own_mark_alive("98763"));
         i++)
        usleep(5000);
    assert_false(own_mark_alive("98761"));
    assert_false(own_mark_alive("98762"));
    assert_false(own_mark_alive("98763"));
}

static void test_supervisor_killed(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = own_marks(ESCAPEES "echo up; sleep 98761")});
    wait_log(&r, 1, 1, "up");
    rig_wait_started(&r, 1, 1);
    rig_kill(rig_supervisor(&r, 1, 1));
    const struct seen *s = rig_wait_ended(&r, 1, 1);
    assert_int_equal(s->outcome.why, RUN_END_SUPERVISOR_KILLED);
    assert_true(s->outcome.started_ms > 0);
    assert_false(own_mark_alive("98761"));
    assert_false(own_mark_alive("98762"));
    assert_false(own_mark_alive("98763"));
    rig_done(&r);
}

static void test_many_supervisors_killed(void **state)
{
    struct rig r;
    enum { N = 50 };
    pid_t pids[N + 1];

    (void)state;
    rig_init(&r, cls);
    for (uint64_t job = 1; job <= N; job++)
        rig_start(&r, job, 1,
                  &(struct rig_run){.shell = own_marks("(setsid sleep 98762 &); sleep 98761")});
    for (uint64_t job = 1; job <= N; job++) {
        rig_wait_started(&r, job, 1);
        pids[job] = rig_supervisor(&r, job, 1);
    }
    for (uint64_t job = 1; job <= N; job++)
        kill(pids[job], SIGKILL);
    for (uint64_t job = 1; job <= N; job++) {
        const struct seen *s = rig_wait_ended(&r, job, 1);
        assert_int_equal(s->outcome.why, RUN_END_SUPERVISOR_KILLED);
    }
    assert_tree_gone();
    rig_done(&r);
}

static void test_both_killed(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(
        &r, 1, 1,
        &(struct rig_run){.shell = own_marks("(setsid sleep 98762 &); echo up; sleep 98761")});
    wait_log(&r, 1, 1, "up");
    rig_wait_started(&r, 1, 1);
    pid_t sup = rig_supervisor(&r, 1, 1);
    rig_kill(rig_shepherd(&r));
    rig_kill(sup);
    const struct seen *s = rig_wait_ended(&r, 1, 1);
    assert_int_equal(s->outcome.why, RUN_END_SUPERVISOR_KILLED);
    assert_tree_gone();
    rig_done(&r);
}

static void test_adopted_supervisor_killed(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = own_marks("sleep 98761")});
    rig_wait_started(&r, 1, 1);
    pid_t old = rig_shepherd(&r), sup = rig_supervisor(&r, 1, 1);
    rig_kill(old);
    wait_new_shepherd(&r, old);
    rig_turn(&r, 100);
    rig_kill(sup);
    assert_int_equal(rig_wait_ended(&r, 1, 1)->outcome.why, RUN_END_SUPERVISOR_KILLED);
    assert_tree_gone();
    rig_done(&r);
}

static void test_all_killed_while_daemon_away(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    uint32_t journal = cls->journal(r.b);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = own_marks("sleep 98761")});
    rig_wait_started(&r, 1, 1);
    pid_t sup = rig_supervisor(&r, 1, 1), shepherd = rig_shepherd(&r);
    rig_close(&r);
    rig_kill(shepherd);
    rig_kill(sup);
    rig_seen(&r, 1, 1)->started = 0;
    rig_open(&r);
    rig_adopt(&r, 1, 1, journal, rig_seen(&r, 1, 1)->pid);
    assert_int_equal(rig_wait_ended(&r, 1, 1)->outcome.why, RUN_END_SUPERVISOR_KILLED);
    assert_tree_gone();
    rig_done(&r);
}

/* Whatever the moment at which the shepherd dies with a START in its hands, it runs exactly once.
 */
static void test_start_survives_shepherd(void **state)
{
    struct rig r;
    struct rng rng;

    (void)state;
    rng_seed(&rng, 7);
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "true"});
    rig_wait_ended(&r, 1, 1);
    for (uint64_t job = 2; job < 32; job++) {
        pid_t shepherd = rig_shepherd(&r);
        rig_start(&r, job, 1, &(struct rig_run){.shell = "echo ran; sleep 0.01; exit 3"});
        rig_start(&r, job, 2, &(struct rig_run){.shell = "echo ran; exit 4", .after = {job, 1}});
        usleep((unsigned)rng_below(&rng, 3000));
        if (shepherd > 0)
            kill(shepherd, SIGKILL);
        for (uint32_t run = 1; run <= 2; run++) {
            const struct seen *s = rig_wait_ended(&r, job, run);
            AUTO_FREE char *log = rig_log(&r, job, run);
            assert_string_equal(log, "ran\n");
            assert_int_equal(s->outcome.why, RUN_END_EXITED);
            assert_int_equal(WEXITSTATUS(s->outcome.wait_status), run + 2);
        }
    }
    rig_done(&r);
}

/* ---- trees ---- */

static void test_leftovers_die_with_the_command(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = ESCAPEES "sleep 0.1; exit 5"});
    const struct seen *s = rig_wait_ended(&r, 1, 1);
    assert_int_equal(s->outcome.why, RUN_END_EXITED);
    assert_int_equal(WEXITSTATUS(s->outcome.wait_status), 5);
    assert_tree_gone();
    rig_done(&r);
}

static void test_stop_reaches_escapees(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(
        &r, 1, 1,
        &(struct rig_run){.shell = "trap '' TERM; " ESCAPEES "echo up; while :; do sleep 1; done"});
    wait_log(&r, 1, 1, "up");
    cls->stop(r.b, (struct run_key){1, 1}, 200);
    assert_int_equal(rig_wait_ended(&r, 1, 1)->outcome.why, RUN_END_CANCELLED);
    assert_tree_gone();
    rig_done(&r);
}

/* ---- files ---- */

static void test_output(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1,
              &(struct rig_run){.shell = "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); "
                                         "echo $i >&2; i=$((i+1)); done"});
    AUTO_FREE char *err_path = path_join(r.home, "runs/0/2.1.err");
    rig_start(&r, 2, 1, &(struct rig_run){.shell = "echo o; echo e >&2", .err_path = err_path});
    rig_wait_ended(&r, 1, 1);
    rig_wait_ended(&r, 2, 1);
    AUTO_FREE char *log = rig_log(&r, 1, 1), *out = rig_log(&r, 2, 1), *err = NULL;
    char *at = log;
    for (long i = 0; i < 200; i++)
        assert_int_equal(strtol(at, &at, 10), i);
    size_t n;
    assert_int_equal(file_read_all(err_path, 4096, &err, &n, NULL), 0);
    assert_string_equal(out, "o\n");
    assert_string_equal(err, "e\n");
    rig_done(&r);
}

static void test_environment(void **state)
{
    struct rig r;
    AUTO_FREE char *big = xmalloc(120001);

    (void)state;
    memset(big, 'x', 120000);
    big[120000] = 0;
    memcpy(big, "BIG=", 4);
    char *env[] = {W("PATH=/nowhere:/bin:/usr/bin"), big, W("A=1"), NULL};
    char *argv[] = {W("sh"), W("-c"),
                    W("echo ${#BIG} $A $BERTH_MARK; pwd; cat \"$0\"; umask; cat | wc -c; readlink "
                      "/proc/self/fd/0"),
                    NULL, NULL};
    rig_init(&r, cls);
    AUTO_FREE char *dir = path_join(r.home, "runs/0/1.1"), *params = path_join(dir, "params.json");
    argv[3] = params;
    rig_start(
        &r, 1, 1,
        &(struct rig_run){
            .argv = argv, .envp = env, .cwd = "/usr", .run_dir = dir, .params = "{\"lr\":0.1}"});
    assert_int_equal(rig_wait_ended(&r, 1, 1)->outcome.wait_status, 0);
    AUTO_FREE char *log = rig_log(&r, 1, 1);
    assert_non_null(strstr(log, "119996 1 "));

    assert_non_null(strstr(log, ".1.1\n/usr\n{\"lr\":0.1}0022\n0\n/dev/null\n"));
    rig_done(&r);
}

static void test_script_without_interpreter(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    AUTO_FREE char *path = path_join(r.home, "script");
    assert_int_equal(file_write_atomic(path, "echo by sh $1\n", 14, 0755, NULL), 0);
    char *argv[] = {path, W("arg"), NULL};
    rig_start(&r, 1, 1, &(struct rig_run){.argv = argv});
    assert_int_equal(rig_wait_ended(&r, 1, 1)->outcome.wait_status, 0);
    AUTO_FREE char *log = rig_log(&r, 1, 1);
    assert_string_equal(log, "by sh arg\n");
    rig_done(&r);
}

static void test_job_user(void **state)
{
    struct rig r;
    struct stat st;

    (void)state;
    if (geteuid() != 0)
        skip();
    rig_init(&r, cls);
    assert_int_equal(chmod(r.home, 0755), 0);
    AUTO_FREE char *dir = path_join(r.home, "runs/0/1.1"),
                   *log = path_join(r.home, "runs/0/1.1.log");
    rig_start(
        &r, 1, 1,
        &(struct rig_run){.shell = "id -u; id -g; id -G; echo x > $0/f; touch $0/../g || echo no",
                          .run_dir = dir,
                          .params = "{}",
                          .uid = 65534,
                          .gid = 65534,
                          .change_user = true});
    rig_wait_ended(&r, 1, 1);
    AUTO_FREE char *text = rig_log(&r, 1, 1);
    assert_true(str_starts(str_of(text), STR("65534\n65534\n65534\n")));
    assert_int_equal(stat(log, &st), 0);
    assert_int_equal(st.st_uid, 65534);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_uid, 65534);
    rig_done(&r);
}

/* ---- limits ---- */

static void test_memory_limit(void **state)
{
    struct rig r;

    (void)state;
    if (geteuid() != 0 || access("/sys/fs/cgroup/memory", W_OK) < 0)
        skip();
    rig_init(&r, cls);
    rig_start(&r, 1, 1,
              &(struct rig_run){.shell = "x=$(head -c 300000000 /dev/zero | tr '\\0' x); exit 1",
                                .need = {.mem_bytes = 64 << 20, .mcpu = 500}});
    rig_start(&r, 2, 1,
              &(struct rig_run){.shell = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); true",
                                .need = {.mem_bytes = 512 << 20}});
    const struct seen *s = rig_wait_ended(&r, 1, 1);
    assert_int_equal(s->outcome.why, RUN_END_OUT_OF_MEMORY);
    assert_in_range(s->outcome.max_rss_bytes, 32 << 20, 80 << 20);
    s = rig_wait_ended(&r, 2, 1);
    assert_int_equal(s->outcome.wait_status, 0);
    assert_true(s->outcome.max_rss_bytes > 10 << 20);
    assert_true(s->outcome.cpu_user_ms + s->outcome.cpu_sys_ms > 0);
    rig_done(&r);
}

static void test_disk_full(void **state)
{
    struct rig r;

    (void)state;
    if (geteuid() != 0)
        skip();
    rig_init(&r, cls);
    rig_done(&r);
    assert_int_equal(mkdir(r.home, 0700), 0);
    if (mount("none", r.home, "tmpfs", 0, "size=4m") < 0) {
        rmdir(r.home);
        skip();
    }
    buf_init(&r.notices, 1 << 20);
    rig_open(&r);
    for (uint64_t job = 1; job <= 50; job++)
        rig_start(&r, job, 1, &(struct rig_run){.shell = "sleep 0.5; echo no room; exit 5"});
    for (uint64_t job = 1; job <= 50; job++)
        rig_wait_started(&r, job, 1);
    AUTO_FREE char *fill = path_join(r.home, "fill");
    AUTO_FD fd = open(fill, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    static const char zeros[4096];
    while (write(fd, zeros, sizeof(zeros)) > 0)
        ;
    for (uint64_t job = 1; job <= 50; job++)
        assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, job, 1)->outcome.wait_status), 5);
    rig_close(&r);
    kill(rig_shepherd(&r), SIGTERM);
    for (int i = 0; i < 10000 && rig_shepherd(&r) > 0; i++)
        usleep(10000);
    usleep(50000);
    umount2(r.home, MNT_DETACH);
    rig_done(&r);
}

/* ---- the journal ---- */

static char *journal_path(struct rig *r, uint32_t generation)
{
    char name[JOURNAL_FILE_MAX];

    journal_file_name(generation, name);
    return xasprintf("%s/shepherd/%s", r->home, name);
}

static void append_bytes(const char *path, const void *p, size_t n)
{
    AUTO_FD fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

    assert_int_equal(write(fd, p, n), n);
}

static void test_garbage_is_cut(void **state)
{
    struct rig r;
    struct stat st;

    (void)state;
    rig_init(&r, cls);
    r.settle = false;
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "exit 2"});
    rig_wait_ended(&r, 1, 1);
    AUTO_FREE char *path = journal_path(&r, 1);
    rig_close(&r);
    append_bytes(path, "BRJ1 this is no record, it is only garbage", 42);
    rig_seen(&r, 1, 1)->started = rig_seen(&r, 1, 1)->ended = 0;
    rig_open(&r);
    rig_adopt(&r, 1, 1, 1, 0);
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 1, 1)->outcome.wait_status), 2);
    rig_wait_notice(&r, "ended in 42 bytes that are no record and was cut");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 2 * JOURNAL_RECORD_BYTES);
    rig_start(&r, 2, 1, &(struct rig_run){.shell = "exit 3"});
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 2, 1)->outcome.wait_status), 3);
    rig_done(&r);
}

static void test_garbage_under_live_runs(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "sleep 0.5; exit 2"});
    rig_wait_started(&r, 1, 1);
    rig_close(&r);
    AUTO_FREE char *path = journal_path(&r, 1);
    append_bytes(path, "BRJ1 garbage, and somebody will still append behind it", 54);
    rig_seen(&r, 1, 1)->started = 0;
    rig_open(&r);
    rig_adopt(&r, 1, 1, 1, 0);
    rig_wait_notice(&r, "ended in 54 bytes that are no record; they are skipped");
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 1, 1)->outcome.wait_status), 2);
    assert_int_equal(cls->journal(r.b), 2);
    rig_turn(&r, 50);
    assert_int_equal(access(path, F_OK), -1); /* settled and not the newest */
    rig_done(&r);
}

/* An owner that is behind a network tells late which runs there are. */
static void test_nothing_is_dropped_before_it_was_asked_for(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    r.settle = false;
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "exit 2"});
    rig_wait_ended(&r, 1, 1);
    rig_close(&r);
    AUTO_FREE char *old = journal_path(&r, 1), *newer = journal_path(&r, 2);
    append_bytes(newer, "", 0);
    append_bytes(old, "garbage", 7);
    rig_seen(&r, 1, 1)->started = rig_seen(&r, 1, 1)->ended = 0;
    rig_open(&r);
    rig_turn(&r, 100);
    assert_int_equal(r.notices.n, 0);
    rig_adopt(&r, 1, 1, 1, 0);
    r.settle = true;
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 1, 1)->outcome.wait_status), 2);
    rig_wait_notice(&r, "ended in 7 bytes that are no record and was cut");
    rig_turn(&r, 50);
    assert_int_equal(access(old, F_OK), -1); /* settled and not the newest */
    rig_done(&r);
}

static void test_rotation(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1,
              &(struct rig_run){.shell = "while [ ! -e /tmp/no/$0 ] && ! [ -e go ]; do "
                                         "sleep 0.02; done; exit 9",
                                .cwd = r.home});
    rig_wait_started(&r, 1, 1);
    AUTO_FREE char *path = journal_path(&r, 1), *go = path_join(r.home, "go");
    AUTO_FD fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    struct journal_record rec[64] = {0};
    for (size_t i = 0; i < 64; i++) {
        AUTO_FD one = open("/dev/null", O_WRONLY | O_APPEND | O_CLOEXEC);
        rec[i] = (struct journal_record){.job = 1000 + i, .run = 1, .kind = JOURNAL_VOID};
        assert_int_equal(journal_append(one, &rec[i]), 0); /* seals it */
    }
    for (size_t n = 0; n < JOURNAL_ROTATE_BYTES; n += sizeof(rec))
        assert_int_equal(write(fd, rec, sizeof(rec)), sizeof(rec));
    for (int i = 0; i < 200000 && cls->journal(r.b) == 1; i++)
        rig_turn(&r, 5);
    assert_int_equal(cls->journal(r.b), 2);
    rig_start(&r, 2, 1, &(struct rig_run){.shell = "exit 3"});
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 2, 1)->outcome.wait_status), 3);
    assert_int_equal(access(path, F_OK), 0); /* run 1 still reports there */
    assert_int_equal(file_write_atomic(go, "", 0, 0600, NULL), 0);
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 1, 1)->outcome.wait_status), 9);
    rig_turn(&r, 50);
    assert_int_equal(access(path, F_OK), -1);
    rig_done(&r);
}

/* ---- the shepherd itself ---- */

static int run_shepherd(const char *home, const char *idle_ms)
{
    const char *program = getenv("BERTH_SHEPHERD");
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        execl(program, program, home, idle_ms, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return status;
}

static void test_one_shepherd_per_home(void **state)
{
    struct rig r;

    (void)state;
    if (!getenv("BERTH_SHEPHERD"))
        skip();
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "true"});
    rig_wait_ended(&r, 1, 1);
    pid_t first = rig_shepherd(&r);
    assert_int_equal(run_shepherd(r.home, NULL), 0);
    assert_int_equal(rig_shepherd(&r), first);
    rig_start(&r, 2, 1, &(struct rig_run){.shell = "true"});
    rig_wait_ended(&r, 2, 1);
    rig_done(&r);
}

static void test_idle_shepherd_leaves(void **state)
{
    struct rig r;

    (void)state;
    if (!getenv("BERTH_SHEPHERD"))
        skip();
    rig_init(&r, cls);
    rig_done(&r);
    assert_int_equal(mkdir(r.home, 0700), 0);
    assert_int_equal(run_shepherd(r.home, "100"), 0);
    pid_t pid = rig_shepherd(&r);
    assert_true(pid > 0);
    for (int i = 0; i < 20000 && rig_shepherd(&r) > 0; i++)
        usleep(10000);
    assert_int_equal(rig_shepherd(&r), 0);
    buf_init(&r.notices, 1 << 20);
    rig_open(&r);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "exit 3"}); /* a new one comes when needed */
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 1, 1)->outcome.wait_status), 3);
    rig_done(&r);
}

static void test_shepherd_refuses_noise(void **state)
{
    struct rig r;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char byte;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "sleep 0.3; exit 3"});
    rig_wait_started(&r, 1, 1);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/shepherd/sock", r.home);
    AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    assert_int_equal(read(fd, &byte, 1), 0);
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 1, 1)->outcome.wait_status), 3);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shepherd_killed),
        cmocka_unit_test(test_withdrawn_start),
        cmocka_unit_test(test_supervisor_killed),
        cmocka_unit_test(test_many_supervisors_killed),
        cmocka_unit_test(test_both_killed),
        cmocka_unit_test(test_adopted_supervisor_killed),
        cmocka_unit_test(test_all_killed_while_daemon_away),
        cmocka_unit_test(test_start_survives_shepherd),
        cmocka_unit_test(test_leftovers_die_with_the_command),
        cmocka_unit_test(test_stop_reaches_escapees),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_script_without_interpreter),
        cmocka_unit_test(test_job_user),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_garbage_is_cut),
        cmocka_unit_test(test_garbage_under_live_runs),
        cmocka_unit_test(test_nothing_is_dropped_before_it_was_asked_for),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_one_shepherd_per_home),
        cmocka_unit_test(test_idle_shepherd_leaves),
        cmocka_unit_test(test_shepherd_refuses_noise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
