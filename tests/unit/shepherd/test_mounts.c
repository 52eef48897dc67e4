/* Directories under other names: nothing is left on the host, nobody else sees them. */
#include "base/util.h"
#include "shepherd/mounts.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static char root[] = "/tmp/berth-mounts-XXXXXX";

static char *at(const char *name)
{
    return xasprintf("%s/%s", root, name);
}

static void put(const char *name, const char *text)
{
    AUTO_FREE char *path = at(name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int setup(void **state)
{
    static const char *const dirs[] = {"code", "data", "stage", "there", "secret", "secret/open"};

    (void)state;
    if (!mkdtemp(root) || chmod(root, 0755) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        AUTO_FREE char *path = at(dirs[i]);
        if (mkdir(path, 0755) < 0)
            return -1;
    }
    AUTO_FREE char *secret = at("secret");
    put("code/train.py", "print");
    put("secret/open/key", "hidden");
    return chmod(secret, 0700);
}

static int teardown(void **state)
{
    AUTO_FREE char *line = xasprintf("rm -rf '%s'", root);
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

/* May this process make mount namespaces? */
static bool allowed(void)
{
    int status = 1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
                  ? 0
                  : 1);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/* A user without root's rights, as after a login: with a /proc/self of their own. */
static bool become_plain(void)
{
    return geteuid() != 0 ||
           (setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0 &&
            prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
}

/* May such a user? */
static bool allowed_plain(void)
{
    int status = 1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(become_plain() && unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
                      mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0
                  ? 0
                  : 1);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/* What `shell` exits with inside the mounts; 100 + errno when they could not be made. */
static int inside(char **list, uint32_t n, const struct run_start *as, const char *shell)
{
    struct mounts m;
    AUTO_FREE char *stage = at("stage");
    int status;

    assert_int_equal(mounts_plan(&m, list, n, stage), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (mounts_enter(&m, as) < 0)
            _exit(100 + errno);
        if (as &&
            (setresgid(as->gid, as->gid, as->gid) < 0 || setresuid(as->uid, as->uid, as->uid) < 0))
            _exit(99);
        execl("/bin/sh", "sh", "-c", shell, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    mounts_done(&m);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_targets_that_the_host_lacks(void **state)
{
    AUTO_FREE char *code = at("code"), *data = at("data");
    AUTO_FREE char *a = xasprintf("%s:/berth-test-custom", code),
                   *b = xasprintf("%s:/berth-test-deep/down/data:ro", data);
    char *list[] = {a, b};

    (void)state;
    assert_int_equal(inside(list, 2, NULL,
                            "test -f /berth-test-custom/train.py && "
                            "echo 1 > /berth-test-custom/made && "
                            "! touch /berth-test-deep/down/data/x 2>/dev/null && "
                            "ls /proc/self >/dev/null && test -e /dev/null && echo ok > /dev/null"),
                     0);
    assert_int_equal(access("/berth-test-custom", F_OK), -1);
    assert_int_equal(access("/berth-test-deep", F_OK), -1);
    AUTO_FREE char *made = at("code/made"), *stage = at("stage");
    assert_int_equal(access(made, F_OK), 0); /* written through, to the host's directory */
    assert_int_equal(rmdir(stage), 0);       /* and the staging directory is empty and free */
    assert_int_equal(mkdir(stage, 0755), 0);
}

static void test_targets_that_exist_are_covered(void **state)
{
    AUTO_FREE char *code = at("code"), *there = at("there");
    AUTO_FREE char *a = xasprintf("%s:%s", code, there), *seen = xasprintf("%s/train.py", there);
    AUTO_FREE char *shell = xasprintf("test -f %s", seen);
    char *list[] = {a};

    (void)state;
    assert_int_equal(inside(list, 1, NULL, shell), 0);
    assert_int_equal(access(seen, F_OK), -1);
}

static void test_a_user_mounts_only_what_they_can_reach(void **state)
{
    struct run_start nobody = {.uid = 65534, .gid = 65534};
    AUTO_FREE char *code = at("code"), *secret = at("secret/open");
    AUTO_FREE char *a = xasprintf("%s:/berth-test-custom", code),
                   *b = xasprintf("%s:/berth-test-secret", secret);
    char *good[] = {a}, *bad[] = {b};

    (void)state;
    assert_int_equal(inside(good, 1, &nobody,
                            "test -f /berth-test-custom/train.py && "
                            "grep -q 'NoNewPrivs:.1' /proc/self/status"),
                     0);
    assert_int_equal(inside(bad, 1, &nobody, "true"), 100 + EACCES);
}

/* Links that a user made below a target: they lead where the command itself would get. */
static void test_links_below_targets_stay_in_the_root_of_the_run(void **state)
{
    struct run_start nobody = {.uid = 65534, .gid = 65534};
    AUTO_FREE char *code = at("code"), *real = at("real"), *link = at("link"), *out = at("out"),
                   *secret = at("secret/open");
    AUTO_FREE char *a = xasprintf("%s:/berth-test-custom", code),
                   *b = xasprintf("%s:%s", code, link), *c = xasprintf("%s:%s:ro", code, link),
                   *d = xasprintf("%s:%s", code, out),
                   *fd = xasprintf("/proc/self/cwd:/berth-test-custom");
    AUTO_FREE char *seen = xasprintf("test -f %s/train.py", real),
                   *ro = xasprintf("test -f %s/train.py && ! touch %s/x 2>/dev/null", real, link);
    char *both[] = {a, b}, *locked[] = {a, c}, *outside[] = {a, d}, *process[] = {fd};

    (void)state;
    assert_int_equal(mkdir(real, 0755), 0);
    assert_int_equal(symlink(real, link), 0);
    assert_int_equal(symlink(secret, out), 0);
    assert_int_equal(inside(both, 2, &nobody, seen), 0);
    assert_int_equal(inside(locked, 2, &nobody, ro), 0);
    assert_int_equal(inside(outside, 2, &nobody, "true"), 100 + EACCES);
    assert_int_equal(inside(process, 1, &nobody, "true"), 100 + ELOOP);
}

/* The same as such a user; it is not root in there either. */
static int inside_plain(char **list, uint32_t n)
{
    static const char shell[] =
        "test -f /berth-test-custom/train.py && echo 1 > /berth-test-deep/data/plain && "
        "! touch /berth-test-custom/x 2>/dev/null && test \"$(id -u)\" != 0 && "
        "grep -q 'CapEff:.0000000000000000' /proc/self/status";
    AUTO_FREE char *stage = at("stage");
    struct mounts m;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (!become_plain() || mounts_plan(&m, list, n, stage) < 0)
            _exit(98);
        if (mounts_enter(&m, NULL) < 0)
            _exit(100 + errno);
        execl("/bin/sh", "sh", "-c", shell, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_without_root(void **state)
{
    (void)state;
    if (!allowed_plain()) {
        print_message("# left out: users may not have namespaces of their own here\n");
        return;
    }
    AUTO_FREE char *code = at("code"), *data = at("data"), *secret = at("secret/open"),
                   *made = at("data/plain");
    AUTO_FREE char *a = xasprintf("%s:/berth-test-custom:ro", code),
                   *b = xasprintf("%s:/berth-test-deep/data", data),
                   *c = xasprintf("%s:/berth-test-secret", secret);
    char *good[] = {a, b}, *bad[] = {c};

    assert_int_equal(chmod(data, 0777), 0);
    assert_int_equal(inside_plain(good, 2), 0);
    assert_int_equal(access(made, F_OK), 0);
    assert_int_equal(access("/berth-test-custom", F_OK), -1);
    if (geteuid() == 0) /* it is root's */
        assert_int_equal(inside_plain(bad, 1), 100 + EACCES);
}

static void test_what_cannot_be(void **state)
{
    static const char *const bad[] = {"code:/x",  "/code",      "/code:x", "/a:/",
                                      "/a:/b:rx", "/a:/b/../c", "/a:/./b"};
    struct mounts m;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char *list[] = {(char *)(uintptr_t)bad[i]};
        assert_int_equal(mounts_plan(&m, list, 1, root), -1);
        assert_int_equal(errno, EINVAL);
        assert_string_equal(m.failed, bad[i]);
        mounts_done(&m);
    }
    AUTO_FREE char *gone = xasprintf("%s/gone:/berth-test-custom", root);
    char *list[] = {gone};
    assert_int_equal(inside(list, 1, NULL, "true"), 100 + ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets_that_the_host_lacks),
        cmocka_unit_test(test_targets_that_exist_are_covered),
        cmocka_unit_test(test_a_user_mounts_only_what_they_can_reach),
        cmocka_unit_test(test_links_below_targets_stay_in_the_root_of_the_run),
        cmocka_unit_test(test_without_root),
        cmocka_unit_test(test_what_cannot_be),
    };

    if (!allowed()) {
        puts("1..0 # SKIP mount namespaces are not allowed here, or / is no mount point");
        return 0;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
