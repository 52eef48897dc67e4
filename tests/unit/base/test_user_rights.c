/* test_user_rights.c - files with the rights of another user; only root can take them */
#include "base/file.h"
#include "base/user_rights.h"
#include "base/util.h"
#include "unit.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { A = 65533, B = 65532, GROUP = 65531 };

static char root[] = "/tmp/test-rights-XXXXXX";

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) && chmod(root, 0755) == 0 ? 0 : -1;
}

static int drop_root(void **state)
{
    (void)state;
    return dir_remove_tree(root, NULL);
}

/* Nobody else can take the rights of a user. */
static bool is_root(void)
{
    if (geteuid() != 0)
        print_message("# needs root\n");
    return geteuid() == 0;
}

static char *make_file(const char *name, uint32_t uid, uint32_t gid, mode_t mode)
{
    char *path = path_join(root, name);
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    assert_int_equal(fchown(fd, uid, gid), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    return path;
}

static bool can_read(const char *path)
{
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd >= 0;
}

TEST(a_thread_opens_what_the_user_can_open)
{
    if (!is_root())
        return;
    AUTO_FREE char *mine = make_file("of-a", A, A, 0600), *other = make_file("of-b", B, B, 0600),
                   *group = make_file("of-group", 0, GROUP, 0640),
                   *wheel = make_file("of-root-group", 0, 0, 0640);
    struct err e;

    assert_int_equal(user_rights_enter(&(struct user_rights){A, A, (uint32_t[]){A, GROUP}, 2}, &e),
                     0);
    assert_true(can_read(mine));
    assert_false(can_read(other));
    assert_true(can_read(group));
    assert_false(can_read(wheel));
    assert_false(can_read("/etc/shadow"));
    user_rights_leave();
    assert_true(can_read(other));
    assert_true(can_read("/etc/shadow"));
}

TEST(files_that_are_made_belong_to_the_user)
{
    if (!is_root())
        return;
    AUTO_FREE char *dir = path_join(root, "open"), *path = path_join(dir, "new");
    struct stat st;
    struct err e;

    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chown(dir, A, A), 0);
    assert_int_equal(user_rights_enter(&(struct user_rights){.uid = A, .gid = GROUP}, &e), 0);
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int outside = open(root, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    user_rights_leave();
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(st.st_uid, A);
    assert_int_equal(st.st_gid, GROUP);
    assert_int_equal(outside, -1);
}

/* Groups are kept per thread too, so this thread is given some. */
static void *groups_come_and_go(void *arg)
{
    gid_t had[2] = {GROUP, 0}, seen[8];
    struct err e;

    (void)arg;
    assert_int_equal(syscall(SYS_setgroups, 2, had), 0);
    assert_int_equal(user_rights_enter(&(struct user_rights){.uid = B, .gid = B}, &e), 0);
    assert_int_equal(syscall(SYS_getgroups, 8, seen), 0);
    user_rights_leave();
    assert_int_equal(syscall(SYS_getgroups, 8, seen), 2);
    return NULL;
}

TEST(groups_return)
{
    if (!is_root())
        return;
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, groups_come_and_go, NULL), 0);
    pthread_join(t, NULL);
}

static void *reads_shadow(void *arg)
{
    *(bool *)arg = can_read("/etc/shadow");
    return NULL;
}

/* A thread from before has its own rights all the time: only one thread changed. */
static void *enters(void *arg)
{
    pthread_barrier_t *meet = arg;
    struct err e;

    assert_int_equal(user_rights_enter(&(struct user_rights){.uid = A, .gid = A}, &e), 0);
    pthread_barrier_wait(meet);
    pthread_barrier_wait(meet);
    bool inherited = true;
    pthread_t child;
    assert_int_equal(pthread_create(&child, NULL, reads_shadow, &inherited), 0);
    pthread_join(child, NULL);
    assert_false(inherited);
    user_rights_leave();
    return NULL;
}

TEST(other_threads_keep_their_rights)
{
    if (!is_root())
        return;
    pthread_barrier_t meet;
    pthread_t t;

    pthread_barrier_init(&meet, NULL, 2);
    assert_int_equal(pthread_create(&t, NULL, enters, &meet), 0);
    pthread_barrier_wait(&meet);
    assert_true(can_read("/etc/shadow"));
    pthread_barrier_wait(&meet);
    pthread_join(t, NULL);
    pthread_barrier_destroy(&meet);
}

/* Where the kernel would leave root's rights to the thread, it gets nothing. */
static void *enters_in_vain(void *arg)
{
    enum { NO_SETUID_FIXUP = 1 << 2 };
    struct err e;

    assert_int_equal(prctl(PR_SET_SECUREBITS, NO_SETUID_FIXUP, 0, 0, 0), 0);
    *(bool *)arg = user_rights_enter(&(struct user_rights){.uid = A, .gid = A}, &e) < 0 &&
                   e.code == ERR_DENIED && can_read("/etc/shadow");
    return NULL;
}

TEST(rights_that_cannot_be_taken_are_a_failure)
{
    if (!is_root())
        return;
    pthread_t t;
    bool refused = false;

    assert_int_equal(pthread_create(&t, NULL, enters_in_vain, &refused), 0);
    pthread_join(t, NULL);
    assert_true(refused);
}

TEST(own_rights_change_nothing)
{
    struct err e;

    assert_int_equal(user_rights_enter(&(struct user_rights){.uid = geteuid()}, &e), 0);
    assert_int_equal(syscall(SYS_setfsuid, -1), geteuid());
    user_rights_leave();
    user_rights_leave();
}

TEST(a_process_without_rights_takes_none)
{
    struct err e;

    if (geteuid() == 0)
        return;
    assert_int_equal(user_rights_enter(&(struct user_rights){.uid = geteuid() + 1}, &e), -1);
    assert_int_not_equal(e.code, 0);
}

TEST(files_of_the_process_are_not_opened)
{
    struct err e;

    assert_int_equal(user_open("/proc/self/maps", O_RDONLY, &e), -1);
    assert_int_equal(user_open("/proc/self/fd/0", O_RDONLY, &e), -1);
    assert_int_equal(user_open("/proc/self/cwd", O_RDONLY, &e), -1);
    AUTO_FD fd = user_open("/etc/passwd", O_RDONLY, &e);
    assert_true(fd >= 0);
}

/* 0, or the number of the check that failed. */
static int check_beneath(const char *name)
{
    AUTO_FREE char *dir = path_join(root, name), *link = path_join(dir, "link"),
                   *up = path_join(dir, "up"), *below = path_join(dir, "a/b");
    static const char *const bad[] = {"link", "up", "up/x", "../tree", "/etc/passwd", "a/../a"};
    struct err e;

    if (mkdir(dir, 0755) < 0 || symlink("/etc/passwd", link) < 0 || symlink("..", up) < 0)
        return 1;
    AUTO_FD top = user_open(dir, O_RDONLY | O_DIRECTORY, &e);
    AUTO_FD same = user_open_beneath(top, "", O_RDONLY | O_DIRECTORY, &e);
    AUTO_FD made = user_make_beneath(top, "a/b/c", O_WRONLY, 0600, &e);
    AUTO_FD read = user_open_beneath(top, "a/b/c", O_RDONLY, &e);
    AUTO_FD path = user_open_beneath(top, "a/b", O_PATH | O_DIRECTORY, &e);
    if (top < 0 || same < 0 || made < 0 || read < 0 || path < 0 || access(below, X_OK) < 0)
        return 2;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (user_open_beneath(top, bad[i], O_RDONLY, &e) >= 0 && strcmp(bad[i], "a/../a") != 0)
            return 10 + (int)i;
    return user_open_beneath(top, "link", O_PATH, &e) >= 0 ||
                   user_make_beneath(top, "up/new", O_WRONLY, 0600, &e) >= 0 ||
                   user_make_beneath(top, "../new", O_WRONLY, 0600, &e) >= 0 ||
                   user_make_beneath(top, "link", O_WRONLY | O_TRUNC, 0600, &e) >= 0
               ? 3
               : 0;
}

TEST(nothing_outside_of_the_directory_is_opened)
{
    assert_int_equal(check_beneath("tree"), 0);
}

/* Linux before 5.6 does not know openat2: a filter makes this one such. */
TEST(old_kernels_open_nothing_outside_either)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {ARRAY_SIZE(code), code};
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0 ||
            syscall(SYS_openat2, -1, "", NULL, 0) >= 0 || errno != ENOSYS)
            _exit(99);
        _exit(check_beneath("old-tree"));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

TEST(everyone_has_a_group)
{
    AUTO_FREE uint32_t *nobody = NULL, *self = NULL;

    assert_int_equal(user_groups(4000000000u, 7, &nobody), 1);
    assert_int_equal(nobody[0], 7);
    assert_true(user_groups(geteuid(), getegid(), &self) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_opens_what_the_user_can_open),
        cmocka_unit_test(files_that_are_made_belong_to_the_user),
        cmocka_unit_test(groups_return),
        cmocka_unit_test(other_threads_keep_their_rights),
        cmocka_unit_test(rights_that_cannot_be_taken_are_a_failure),
        cmocka_unit_test(own_rights_change_nothing),
        cmocka_unit_test(a_process_without_rights_takes_none),
        cmocka_unit_test(files_of_the_process_are_not_opened),
        cmocka_unit_test(nothing_outside_of_the_directory_is_opened),
        cmocka_unit_test(old_kernels_open_nothing_outside_either),
        cmocka_unit_test(everyone_has_a_group),
    };

    return cmocka_run_group_tests_name("user_rights", tests, make_root, drop_root);
}
