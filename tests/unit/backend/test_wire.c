/* test_wire.c - frames between daemon and far program, and what ssh's words mean */
#include "../shepherd/run_start_equal.h"
#include "backend/ssh/ssh_priv.h"
#include "base/util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct str only_frame(const struct buf *b, enum wire_type type)
{
    struct frame_head h;
    struct str body;

    assert_int_equal(wire_next(buf_str(b), &h, &body), 1);
    assert_int_equal(h.type, type);
    assert_int_equal(h.n, b->n);
    for (size_t n = 0; n < b->n && n < 200; n++) /* no part of a frame is a frame */
        assert_int_equal(wire_next((struct str){b->p, n}, &h, &body), 0);
    return body;
}

static void test_start(void **state)
{
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t) "",
                    NULL};
    char *envp[] = {(char *)(uintptr_t) "A=1 2", NULL};
    struct wire_start s = {.offset = {1, 2, 3},
                           .run = {.key = {7, 1, 5},
                                   .journal = 3,
                                   .limits = {.timeout_ms = 5},
                                   .need = {.gpus = 2},
                                   .stage_dir = "runs/x",
                                   .run_dir = "/h/runs/0/7.1",
                                   .make_run_dir = true,
                                   .log_path = "/h/log",
                                   .params_json = STR("{\"a\":1}"),
                                   .argv = argv,
                                   .envp = envp}};
    struct wire_start got = {0};
    struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    assert_true(wire_put_start(&b, &s));
    struct str body = only_frame(&b, WIRE_START);
    assert_true(wire_get_start(body, &got));
    assert_int_equal(got.offset[2], 3);
    assert_true(run_start_equal(&s.run, &got.run));
    wire_start_done(&got);
    for (size_t n = 0; n < body.n; n++) { /* cut anywhere, it is refused */
        struct wire_start cut = {0};
        assert_false(wire_get_start((struct str){body.p, n}, &cut));
        wire_start_done(&cut);
    }
    buf_done(&b);
}

static void test_names(void **state)
{
    (void)state;
    assert_true(wire_name_ok(STR("a/b")));
    assert_true(wire_name_ok(STR("..a/b..")));
    assert_true(wire_name_ok(STR(".")));
    assert_false(wire_name_ok(STR("")));
    assert_false(wire_name_ok(STR("/etc/passwd")));
    assert_false(wire_name_ok(STR("..")));
    assert_false(wire_name_ok(STR("a/../../b")));
    assert_false(wire_name_ok(STR("a/..")));
}

static void test_asset(void **state)
{
    struct wire_asset a = {.key = {7, 1, 5}, .kind = WIRE_FILE, .mode = 0755, .first = 1}, got;
    struct str name, bytes;
    struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    assert_true(wire_put_asset(&b, &a, STR("dir/x"), STR("a\0b")));
    assert_true(wire_get_asset(only_frame(&b, WIRE_ASSET), &got, &name, &bytes));
    assert_true(str_eq_c(name, "dir/x"));
    assert_int_equal(bytes.n, 3);
    assert_int_equal(got.mode, 0755);
    buf_reset(&b);
    assert_true(wire_put_asset(&b, &a, STR("../x"), STR("")));
    assert_false(wire_get_asset(only_frame(&b, WIRE_ASSET), &got, &name, &bytes));
    buf_done(&b);
}

/* A host that was taken over may send anything. */
static void test_hostile(void **state)
{
    struct node n = {.devices = xcalloc(NODE_MAX_GPUS, sizeof(struct device)), .n_devices = 2};
    struct wire_devices counts = {UINT32_MAX, UINT32_MAX};
    struct run_memory *runs = NULL;
    size_t n_runs;
    struct wire_log l = {.key = {7, 1, 5}, .stream = WIRE_STREAMS};
    struct wire_ended e = {.key = {7, 1, 5}, .o = {.why = RUN_END_MAX}};
    struct str rest;
    struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    memset(n.devices[0].kind, 'x', sizeof(n.devices[0].kind));
    n.devices[0].state = (enum device_state)77;
    wire_put_devices(&b, &n, NULL, 0);
    assert_true(wire_get_devices(only_frame(&b, WIRE_DEVICES), &n, &runs, &n_runs));
    assert_int_equal(strlen(n.devices[0].kind), sizeof(n.devices[0].kind) - 1);
    assert_int_equal(n.devices[0].state, DEVICE_UNSEEN);
    assert_false(
        wire_get_devices((struct str){(char *)&counts, sizeof(counts)}, &n, &runs, &n_runs));
    assert_false(wire_get_log((struct str){(char *)&l, sizeof(l)}, &l, &rest));
    assert_false(wire_get_ended((struct str){(char *)&e, sizeof(e)}, &e, &rest));
    buf_done(&b);
    free(n.devices);
}

static void expect(const char *said, bool lasting, const char *part)
{
    struct ssh_conf c = {
        .host = (char *)(uintptr_t) "gpu1", .user = (char *)(uintptr_t) "ann", .port = 2222};
    struct trouble t;

    trouble_of(&c, str_of(said), 255 << 8, &t);
    if (!strstr(t.text, part) || t.lasting != lasting)
        fail_msg("\"%s\" became \"%s\" (%d)", said, t.text, t.lasting);
}

static void test_trouble(void **state)
{
    (void)state;
    expect("ssh: connect to host gpu1 port 2222: Connection refused\r\n", false,
           "gpu1 refuses connections on port 2222");
    expect("ssh: connect to host gpu1 port 22: Connection timed out", false, "does not answer");
    expect("ssh: Could not resolve hostname gpu1: Name or service not known", false,
           "the name gpu1 is not known");
    expect(
        "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.",
        true, "has changed, perhaps by an attack");
    expect(
        "No ED25519 host key is known for [gpu1]:2222 and you have requested strict checking.\r\n"
        "Host key verification failed.\r\n",
        true, "--accept-new");
    expect("ann@gpu1: Permission denied (publickey,password).", true,
           "ann@gpu1:2222 refused the login");
    expect("mkdir: cannot create directory: Read-only file system\nBERTH-FAR FAILED store\n", true,
           "read-only");
    expect("head: error writing: No space left on device\nBERTH-FAR FAILED store\n", true,
           "no space left");
    expect("/f: /lib/libc.so.6: version `GLIBC_2.38' not found\nBERTH-FAR FAILED check 1\n", true,
           "C library of ann@gpu1:2222 is older");
    expect("sh: 1: /f: not found\nBERTH-FAR FAILED check 127\n", true, "no GNU C library");
    expect("sh: 1: /f: Permission denied\nBERTH-FAR FAILED check 126\n", true, "noexec");
    expect("something else\nquite new\n\n", false, "quite new");
    expect("", false, "the connection to ann@gpu1:2222 was lost");
}

static void read_conf(const char *text, const char *host, const char *user, int64_t port)
{
    struct json *j = NULL;
    struct ssh_conf c;
    struct err e = {0};

    assert_int_equal(json_parse(str_of(text), "conf", &j, &e), 0);
    int rc = ssh_conf_read(&c, j, &e);
    if (host && rc < 0)
        fail_msg("%s: %s", text, e.text);
    if (!host)
        assert_int_equal(rc, -1);
    if (host) {
        assert_string_equal(c.host, host);
        assert_string_equal(c.user ? c.user : "", user);
        assert_int_equal(c.port, port);
    }
    ssh_conf_done(&c);
    json_free(j);
}

static void test_conf(void **state)
{
    (void)state;
    read_conf("{\"url\":\"ssh://ann@gpu1:2222\"}", "gpu1", "ann", 2222);
    read_conf("{\"url\":\"ssh://gpu1/\"}", "gpu1", "", 0);
    read_conf("{\"url\":\"ssh://ann@[::1]:22\"}", "::1", "ann", 22);
    read_conf("{\"host\":\"h\",\"user\":\"u\",\"port\":3}", "h", "u", 3);
    read_conf("{\"url\":\"ssh://ann:secret@h\"}", NULL, NULL, 0);
    read_conf("{\"url\":\"http://h\"}", NULL, NULL, 0);
    read_conf("{\"host\":\"-oProxyCommand=touch /tmp/x\"}", NULL, NULL, 0);
    read_conf("{\"host\":\"a b\"}", NULL, NULL, 0);
    read_conf("{\"host\":\"h\",\"user\":\"-x\"}", NULL, NULL, 0);
    read_conf("{\"url\":\"ssh://h:99999\"}", NULL, NULL, 0);
    read_conf("{}", NULL, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start),   cmocka_unit_test(test_names),
        cmocka_unit_test(test_asset),   cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_trouble), cmocka_unit_test(test_conf),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
