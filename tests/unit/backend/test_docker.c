/* test_docker.c - what engines are told and what they answer, without an engine
 *
 * The client is tried against a server in a thread that sends prepared answers in small pieces;
 * real engines are in tests/e2e/test_docker.py.
 */
#include "backend/docker/docker_priv.h"
#include "base/util.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

/* ---- streams ---- */

struct sink {
    struct buf out[2];
};

static bool keep(void *arg, int stream, struct str bytes)
{
    struct sink *s = arg;

    return buf_add(&s->out[stream - 1], bytes.p, bytes.n);
}

static void put_frame(struct buf *b, int stream, const char *text)
{
    size_t n = strlen(text);
    char head[8] = {(char)stream, 0, 0, 0, 0, 0, (char)(n >> 8), (char)n};

    buf_add(b, head, sizeof(head));
    buf_adds(b, text);
}

static void sink_init(struct sink *s, struct frames *f)
{
    buf_init(&s->out[0], 1 << 16);
    buf_init(&s->out[1], 1 << 16);
    *f = (struct frames){.out = keep, .arg = s};
}

static void sink_is(struct sink *s, const char *out, const char *err)
{
    assert_string_equal(buf_str(&s->out[0]).p, out);
    assert_string_equal(buf_str(&s->out[1]).p, err);
    buf_done(&s->out[0]);
    buf_done(&s->out[1]);
}

static void test_frames_in_any_pieces(void **state)
{
    AUTO(buf) struct buf all = {0};

    (void)state;
    buf_init(&all, 1 << 16);
    put_frame(&all, 1, "one ");
    put_frame(&all, 2, "wrong");
    put_frame(&all, 1, "");
    put_frame(&all, 1, "two");
    for (size_t piece = 1; piece <= all.n; piece++) {
        struct sink s;
        struct frames f;
        sink_init(&s, &f);
        for (size_t at = 0; at < all.n; at += piece)
            assert_true(frames_feed(&f, (struct str){all.p + at, MIN(piece, all.n - at)}));
        sink_is(&s, "one two", "wrong");
    }
}

/* Cut anywhere, and the second connection cut as well: every byte goes out once. */
static void test_frames_resume(void **state)
{
    AUTO(buf) struct buf all = {0};

    (void)state;
    buf_init(&all, 1 << 16);
    put_frame(&all, 1, "abc");
    put_frame(&all, 2, "xyz");
    put_frame(&all, 1, "defgh");
    for (size_t first = 0; first <= all.n; first++)
        for (size_t second = 0; second <= all.n; second += 3) {
            struct sink s;
            struct frames f;
            sink_init(&s, &f);
            frames_feed(&f, (struct str){all.p, first});
            frames_again(&f);
            frames_feed(&f, (struct str){all.p, second});
            frames_again(&f);
            assert_true(frames_feed(&f, buf_str(&all)));
            sink_is(&s, "abcdefgh", "xyz");
        }
}

static void test_frames_refuse_other_streams(void **state)
{
    struct sink s;
    struct frames f;

    (void)state;
    sink_init(&s, &f);
    assert_false(frames_feed(&f, STR("plain text of a terminal")));
    sink_is(&s, "", "");
}

/* ---- pulling ---- */

static char said[8][200];
static size_t n_said;

static void say(const char *text)
{
    if (n_said < ARRAY_SIZE(said))
        snprintf(said[n_said++], sizeof(said[0]), "%s", text);
}

static void feed(struct pull *p, const char *text)
{
    for (size_t i = 0; text[i]; i++) /* one byte at a time */
        assert_true(pull_feed(p, (struct str){text + i, 1}));
}

static void test_pull_counts_layers(void **state)
{
    struct pull *p;

    (void)state;
    n_said = 0;
    p = pull_new("example/x:1", say);
    feed(p, "{\"status\":\"Pulling from example/x\",\"id\":\"1\"}\r\n"
            "{\"status\":\"Already exists\",\"id\":\"aa\"}\r\n"
            "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":1024,\"total\":4096},"
            "\"id\":\"bb\"}\n"
            "not json at all\n"
            "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":-5,\"total\":\"x\"},"
            "\"id\":\"an id that is much too long to be one\"}\n"
            "{\"status\":\"Pull complete\",\"id\":\"bb\"}");
    assert_null(pull_trouble(p));
    pull_end(p);
    assert_int_equal(n_said, 2);
    assert_string_equal(said[0], "pulling image example/x:1");
    assert_non_null(strstr(said[1], "pulled image example/x:1: 2 of 2 layers, 4.0K of 4.0K in "));
    pull_free(p);
}

static void test_pull_keeps_the_reason(void **state)
{
    static const char *const answers[] = {
        "{\"errorDetail\":{\"message\":\"denied\"},\"error\":\"denied\\nby registry\"}\n",
        "{\"message\":\"denied by registry\"}", "{\"error\":\"denied by registry\"}"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
        struct pull *p = pull_new("x", say);
        feed(p, answers[i]);
        assert_string_equal(pull_trouble(p), "denied by registry");
        pull_free(p);
    }
}

static void test_pull_names_one_image(void **state)
{
    static const struct {
        const char *image, *path;
    } cases[] = {
        {"busybox", "/images/create?fromImage=busybox&tag=latest"},
        {"localhost:5000/a/b", "/images/create?fromImage=localhost%3A5000%2Fa%2Fb&tag=latest"},
        {"r.example/a:1.2", "/images/create?fromImage=r.example%2Fa&tag=1.2"},
        {"a@sha256:00", "/images/create?fromImage=a%40sha256%3A00"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_FREE char *path = pull_path(cases[i].image);
        assert_string_equal(path, cases[i].path);
    }
}

/* ---- creating ---- */

static void facts_of(struct facts *f, const char *more)
{
    AUTO_FREE char *text = xasprintf(
        "{\"home\":\"abcd\",\"job\":7,\"run\":2,\"image\":\"i:1\",\"run_dir\":\"/h/runs/0/7.2\","
        "\"uid\":1000,\"gid\":1001,\"grace_ms\":1500,\"endpoint\":\"127.0.0.1:99\"%s}",
        more);
    struct err e = {0};

    if (facts_parse(f, str_of(text), &e) < 0)
        fail_msg("%s", e.text);
}

static char *body_of(const char *more, const struct engine *g, const struct create_with *w)
{
    struct facts f;

    facts_of(&f, more);
    struct json *body = create_body(&f, g, w);
    char *text = json_text(body);
    json_free(body);
    facts_done(&f);
    return text;
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("%s is not in %s", part, text);
}

static void has_not(const char *text, const char *part)
{
    if (strstr(text, part))
        fail_msg("%s is in %s", part, text);
}

static void test_create_as_the_submitter(void **state)
{
    const struct engine docker = {0};
    const gid_t groups[] = {27, 44};
    AUTO_FREE char *text = body_of(",\"command\":[\"a\",\"b c\"],\"mounts\":[\"/x:/y:ro\"]",
                                   &docker, &(struct create_with){.groups = groups, .n_groups = 2});

    (void)state;
    has(text, "\"Image\":\"i:1\"");
    has(text, "\"Cmd\":[\"a\",\"b c\"]");
    has(text, "\"User\":\"1000:1001\"");
    has(text, "\"GroupAdd\":[\"27\",\"44\"]");
    has(text, "\"Binds\":[\"/x:/y:ro\"]");
    has(text, "\"Type\":\"local\"");
    has(text, "\"Init\":true");
    has(text, "\"berth.home\":\"abcd\",\"berth.job\":\"7\",\"berth.run\":\"2\"");
    has_not(text, "Entrypoint");
    has_not(text, "Memory");
}

static void test_create_by_its_own_words(void **state)
{
    const struct engine podman = {.podman = true};
    AUTO_FREE char *text = body_of(
        ",\"mem\":1048576,\"mcpu\":1500,\"ports\":[\"80:8080\",\"81:8080\"],\"workdir\":\"/w\","
        "\"ports_addr\":\"10.0.0.1\",\"container\":{\"user\":\"image\",\"entrypoint\":\"\","
        "\"network\":\"n\",\"shm_size\":4096,\"ipc\":\"host\",\"init\":false,\"read_only\":true}",
        &podman, &(struct create_with){0});

    (void)state;
    has(text, "\"Memory\":1048576,\"MemorySwap\":1048576");
    has(text, "\"NanoCpus\":1500000000");
    has(text, "\"8080/tcp\":[{\"HostPort\":\"80\",\"HostIp\":\"10.0.0.1\"},"
              "{\"HostPort\":\"81\",\"HostIp\":\"10.0.0.1\"}]");
    has(text, "\"WorkingDir\":\"/w\"");
    has(text, "\"Entrypoint\":[\"\"]");
    has(text, "\"NetworkMode\":\"n\"");
    has(text, "\"ShmSize\":4096");
    has(text, "\"IpcMode\":\"host\"");
    has(text, "\"Init\":false,\"ReadonlyRootfs\":true");
    has(text, "\"Type\":\"k8s-file\"");
    has_not(text, "\"User\"");
    has_not(text, "GroupAdd");
}

static void test_create_variables(void **state)
{
    const struct engine docker = {0};
    struct json *image = NULL;
    struct err e;
    json_parse(STR("{\"Config\":{\"Env\":[\"PATH=/opt/bin\",\"PYTHONPATH=/app\"]}}"), "image",
               &image, &e);
    AUTO_FREE char *text =
        body_of(",\"env\":[\"A=1\",\"PYTHONPATH=/berth\",\"S=127.0.0.1:99\"]", &docker,
                &(struct create_with){.image = image, .endpoint = "10.0.0.1:5", .mark = "m.7.2"});

    (void)state;
    has(text, "\"Env\":[\"A=1\",\"PYTHONPATH=/berth:/app\",\"S=10.0.0.1:5\",\"BERTH_MARK=m.7.2\"]");
    json_free(image);
}

static void test_create_devices(void **state)
{
    const struct engine docker = {0};
    AUTO_FREE char *nvidia =
        body_of(",\"gpus\":{\"nvidia\":[\"GPU-1\",\"GPU-2\"]}", &docker, &(struct create_with){0});
    AUTO_FREE char *amd =
        body_of(",\"gpus\":{\"nvidia\":[],\"amd\":true}", &docker, &(struct create_with){0});
    AUTO_FREE char *host = body_of(",\"ports\":[\"1:2\"],\"container\":{\"network\":\"host\"}",
                                   &docker, &(struct create_with){0});

    (void)state;
    has(nvidia, "\"DeviceRequests\":[{\"DeviceIDs\":[\"GPU-1\",\"GPU-2\"],"
                "\"Capabilities\":[[\"gpu\"]]}]");
    has(amd, "\"PathOnHost\":\"/dev/kfd\"");
    has_not(amd, "DeviceRequests");
    has_not(host, "PortBindings");
}

static void test_facts_must_be_complete(void **state)
{
    static const char *const bad[] = {"", "[]", "{}", "{\"home\":\"a\",\"image\":\"i\"}",
                                      "{\"home\":\"a\",\"job\":0,\"run\":1,\"image\":\"i\","
                                      "\"run_dir\":\"/\"}"};
    struct facts f;
    struct err e;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(facts_parse(&f, str_of(bad[i]), &e), -1);
    facts_of(&f, "");
    assert_string_equal(f.name, "berth-abcd-7-2");
    facts_done(&f);
}

static void test_gateway_of_a_network(void **state)
{
    static const struct {
        const char *network, *address;
    } cases[] = {
        {"{\"IPAM\":{\"Config\":[{\"Subnet\":\"172.17.0.0/16\",\"Gateway\":\"172.17.0.1\"}]}}",
         "172.17.0.1"},
        {"{\"IPAM\":{\"Config\":[{\"Subnet\":\"10.88.0.0/16\"}]}}", "10.88.0.1"},
        {"{\"IPAM\":{\"Config\":[{\"Gateway\":\"fd00::1\"},{\"Gateway\":\"10.0.0.1\"}]}}",
         "10.0.0.1"},
        {"{\"IPAM\":{\"Config\":[{\"Subnet\":\"garbage\"}]}}", NULL},
        {"{}", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct json *n = NULL;
        struct err e;
        char out[64];
        assert_int_equal(json_parse(str_of(cases[i].network), "network", &n, &e), 0);
        assert_int_equal(gateway_address(n, out), cases[i].address != NULL);
        if (cases[i].address)
            assert_string_equal(out, cases[i].address);
        json_free(n);
    }
}

/* ---- the client ---- */

struct canned {
    char dir[32], path[64];
    int fd;
    const char *answer;
    size_t piece;
    pthread_t thread;
    char asked[4096];
};

static void *serve_one(void *arg)
{
    struct canned *c = arg;
    int fd = accept(c->fd, NULL, NULL);
    size_t n = 0;

    while (n + 1 < sizeof(c->asked)) {
        ssize_t got = recv(fd, c->asked + n, sizeof(c->asked) - 1 - n, 0);
        if (got <= 0)
            break;
        n += (size_t)got;
        c->asked[n] = 0;
        if (strstr(c->asked, "\r\n\r\n"))
            break;
    }
    for (size_t at = 0, all = strlen(c->answer); at < all; at += c->piece) {
        (void)!send(fd, c->answer + at, MIN(c->piece, all - at), MSG_NOSIGNAL);
        usleep(200);
    }
    close(fd);
    return NULL;
}

static void canned_open(struct canned *c, const char *answer, size_t piece)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    *c = (struct canned){.dir = "/tmp/berth-engine-XXXXXX", .answer = answer, .piece = piece};
    assert_non_null(mkdtemp(c->dir));
    snprintf(c->path, sizeof(c->path), "%s/sock", c->dir);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", c->path);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(c->fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(c->fd, 5), 0);
    pthread_create(&c->thread, NULL, serve_one, c);
}

static void canned_close(struct canned *c)
{
    pthread_join(c->thread, NULL);
    close(c->fd);
    unlink(c->path);
    rmdir(c->dir);
}

static int ask(const char *answer, size_t piece, int *status, struct json **out, struct err *e)
{
    struct canned c;
    canned_open(&c, answer, piece);
    struct engine g = {.path = c.path};
    int rc = engine_ask(&g, "GET", "/x", NULL, 20000, status, out, e);

    canned_close(&c);
    return rc;
}

static void test_answers(void **state)
{
    static const struct {
        const char *answer, *json;
        int status;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}", "{\"a\":1}", 200},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: "
         "chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
         "{\"a\":1}", 200},
        {"HTTP/1.0 404 Not Found\r\n\r\n{\"message\":\"no\"}\n", "{\"message\":\"no\"}", 404},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "null", 204},
        {"HTTP/1.1 502 Bad\r\nContent-Length: 3\r\n\r\nbad", "{\"message\":\"bad\"}", 502},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (size_t piece = 1; piece < 100; piece += 13) {
            struct json *out = NULL;
            struct err e = {0};
            int status = 0;
            assert_int_equal(ask(cases[i].answer, piece, &status, &out, &e), 0);
            AUTO_FREE char *text = json_text(out);
            assert_int_equal(status, cases[i].status);
            assert_string_equal(text, cases[i].json);
            json_free(out);
        }
}

static void test_answers_that_are_none(void **state)
{
    static const char *const bad[] = {
        "", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{x",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct json *out = NULL;
        struct err e = {0};
        int status = 0;
        assert_int_equal(ask(bad[i], 5, &status, &out, &e), -1);
        assert_int_equal(e.code, ERR_UNAVAILABLE);
        assert_null(out);
    }
}

static void test_complaints(void **state)
{
    char out[200];
    struct json *j = NULL;
    struct err e;

    (void)state;
    json_parse(
        STR("{\"message\":\"endpoint "
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\\nis busy \"}"),
        "x", &j, &e);
    engine_complaint(j, 500, out, sizeof(out));
    assert_string_equal(out, "endpoint 0123456789ab is busy");
    json_free(j);
    engine_complaint(NULL, 500, out, sizeof(out));
    assert_string_equal(out, "the container engine answered with status 500");
}

static void test_sockets(void **state)
{
    static const char *const forms[] = {"unix:///x/y.sock", "unix:/x/y.sock", "/x/y.sock"};
    struct err e = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        AUTO_FREE char *path = engine_find(forms[i], &e);
        assert_string_equal(path, "/x/y.sock");
    }
    assert_null(engine_find("tcp://10.0.0.1:2375", &e));
    has(e.text, "is not a unix socket");
    setenv("DOCKER_HOST", "unix:///from/env", 1);
    AUTO_FREE char *path = engine_find(NULL, &e);
    assert_string_equal(path, "/from/env");
    unsetenv("DOCKER_HOST");
    struct engine g = {.path = (char *)"/nonexistent/sock"};
    int status;
    assert_int_equal(engine_ask(&g, "GET", "/", NULL, 1000, &status, NULL, &e), -1);
    has(e.text, "does not answer at /nonexistent/sock");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_in_any_pieces),
        cmocka_unit_test(test_frames_resume),
        cmocka_unit_test(test_frames_refuse_other_streams),
        cmocka_unit_test(test_pull_counts_layers),
        cmocka_unit_test(test_pull_keeps_the_reason),
        cmocka_unit_test(test_pull_names_one_image),
        cmocka_unit_test(test_create_as_the_submitter),
        cmocka_unit_test(test_create_by_its_own_words),
        cmocka_unit_test(test_create_variables),
        cmocka_unit_test(test_create_devices),
        cmocka_unit_test(test_facts_must_be_complete),
        cmocka_unit_test(test_gateway_of_a_network),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_answers_that_are_none),
        cmocka_unit_test(test_complaints),
        cmocka_unit_test(test_sockets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
