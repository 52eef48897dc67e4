/* What libraries send: the paths, the bodies of the old one and of ours, and nonsense. */
#include "../unit.h"
#include "base/util.h"
#include "dialect/gpu/dialect_priv.h"
#include "dialect/gpu/wire.h"

/* The pattern that takes a path of the library port; "" = none. */
static const char *route_of(const char *method, const char *path, const char *want_id)
{
    struct route_match m;

    if (route_find(gpu_library_routes, gpu_library_n_routes, 0, str_of(method), str_of(path), &m) !=
        ROUTE_FOUND)
        return "";
    assert_true(str_eq_c(m.args[0], want_id));
    return m.route->path;
}

TEST(paths)
{
    assert_string_equal(route_of("GET", "/has_to_stop/abc", "abc"), "/has_to_stop/{job}");
    assert_string_equal(route_of("POST", "/profiling/abc", "abc"), "/profiling/{job}");
    assert_string_equal(route_of("POST", "/end_epoch/abc", "abc"), "/end_epoch/{job}");
    assert_string_equal(route_of("POST", "/signal_end/abc", "abc"), "/signal_end/{job}");
    assert_string_equal(route_of("POST", "/signal_end_profiling/abc/7", "abc"),
                        "/signal_end_profiling/{job}/{config}");
    assert_string_equal(route_of("POST", "/signal_end_profiling/abc", "abc"),
                        "/signal_end_profiling/{job}");
    assert_string_equal(route_of("POST", "/has_to_stop/abc", ""), "");
    assert_string_equal(route_of("GET", "/has_to_stop/", ""), "");
    assert_string_equal(route_of("GET", "/has_to_stop/a/b", ""), "");
    assert_string_equal(route_of("POST", "/signal_end_profiling/a/b/c", ""), "");
    assert_string_equal(route_of("GET", "/has_to_stop", ""), "");
    assert_string_equal(route_of("GET", "/v1/jobs", ""), "");
}

static int read_body(enum gpu_message m, const char *body, struct gpu_report *out, struct err *e)
{
    *e = (struct err){0};
    return gpu_report_read(m, str_of(body), out, e);
}

TEST(the_messages_of_the_old_library)
{
    struct gpu_report r;
    struct err e;

    assert_int_equal(
        read_body(GPU_MESSAGE_PROFILE,
                  "{\"jobid\": \"x\", \"timestamp\": \"2023-04-01T10:00:00.123\", "
                  "\"iternum\": 40, \"nodelist\": \"alpha\", \"numgpu\": 2, \"rank\": 0, "
                  "\"meandur\": 0.125, \"gpumem\": 1536}",
                  &r, &e),
        0);
    assert_true(r.profile.mean_step_s == 0.125);
    assert_true(r.profile.epoch_s == 0);
    assert_int_equal(r.profile.iterations, 40);
    assert_int_equal(r.profile.gpus, 2);
    assert_int_equal(r.profile.rank, 0);
    assert_int_equal(r.profile.local_rank, -1);
    assert_int_equal(r.profile.mem_bytes, INT64_C(1536) << 20);
    assert_int_equal(read_body(GPU_MESSAGE_PROFILE,
                               "{\"meandur\": 0.1, \"gpumem\": 0, \"epochDur\": 12.5}", &r, &e),
                     0);
    assert_true(r.profile.epoch_s == 12.5);
    assert_int_equal(r.profile.mem_bytes, 0); /* not measured */
    assert_int_equal(r.profile.rank, -1);
    assert_int_equal(read_body(GPU_MESSAGE_EPOCH, "{\"done\": 3}", &r, &e), 0);
    assert_int_equal(r.done, 3);
    assert_int_equal(read_body(GPU_MESSAGE_EPOCH, "{\"done\": 3.0}", &r, &e), 0);
    assert_int_equal(r.done, 3);
    assert_int_equal(read_body(GPU_MESSAGE_STOP, "", &r, &e), 0);
    assert_int_equal(read_body(GPU_MESSAGE_END, "anything", &r, &e), 0);
    assert_int_equal(read_body(GPU_MESSAGE_PROFILE, "{\"gpumem\": \"1536 MiB\"}", &r, &e), 0);
    assert_int_equal(r.profile.mem_bytes, INT64_C(1536) << 20);
}

TEST(ours_says_more)
{
    struct gpu_report r;
    struct err e;

    assert_int_equal(
        read_body(GPU_MESSAGE_PROFILE,
                  "{\"meandur\":0.1,\"numgpu\":1,\"gpus\":4,\"rank\":1,\"local_rank\":3,"
                  "\"epoch\":2,\"attempt\":1,\"share\":2,\"new\":{\"x\":[]}}",
                  &r, &e),
        0);
    assert_int_equal(r.profile.gpus, 4);
    assert_int_equal(r.profile.rank, 1);
    assert_int_equal(r.profile.local_rank, 3);
    assert_int_equal(read_body(GPU_MESSAGE_PROFILE, "{\"local_rank\":-1}", &r, &e), 0);
}

TEST(nonsense)
{
    static const char *const profiles[] = {"",
                                           "3",
                                           "[]",
                                           "null",
                                           "{\"meandur\": NaN}",
                                           "{\"meandur\": 1e999}",
                                           "{\"meandur\": -0.1}",
                                           "{\"gpumem\": -1}",
                                           "{\"iternum\": -4}",
                                           "{\"rank\": -2}",
                                           "{\"local_rank\": -2}",
                                           "{\"meandur\": {}}",
                                           "{\"gpumem\": 1e12}",
                                           "{\"meandur\": 1",
                                           "{\"epochDur\": Infinity}"};
    static const char *const epochs[] = {"",
                                         "{}",
                                         "{\"done\": -1}",
                                         "{\"done\": 1.5}",
                                         "{\"done\": \"many\"}",
                                         "{\"done\": null}",
                                         "{\"done\": 1e300}",
                                         "{\"done\": true}"};
    struct gpu_report r = {.done = 77};
    struct err e;

    for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
        if (read_body(GPU_MESSAGE_PROFILE, profiles[i], &r, &e) == 0)
            fail_msg("%s was accepted", profiles[i]);
        assert_int_equal(e.code, ERR_INVALID);
    }
    for (size_t i = 0; i < ARRAY_SIZE(epochs); i++)
        if (read_body(GPU_MESSAGE_EPOCH, epochs[i], &r, &e) == 0)
            fail_msg("%s was accepted", epochs[i]);
    assert_int_equal(r.done, 77); /* untouched */
}

TEST(too_long)
{
    AUTO_FREE char *big = xmalloc(GPU_BODY_MAX + 2);
    struct gpu_report r;
    struct err e = {0};

    memset(big, ' ', GPU_BODY_MAX + 1);
    memcpy(big, "{\"done\":1}", 10);
    assert_int_equal(gpu_report_read(GPU_MESSAGE_EPOCH, (struct str){big, GPU_BODY_MAX}, &r, &e),
                     0);
    assert_int_equal(
        gpu_report_read(GPU_MESSAGE_EPOCH, (struct str){big, GPU_BODY_MAX + 1}, &r, &e), -1);
    assert_int_equal(e.code, ERR_INVALID);
    assert_int_equal(gpu_report_read(GPU_MESSAGE_END, (struct str){big, GPU_BODY_MAX + 1}, &r, &e),
                     -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),          cmocka_unit_test(the_messages_of_the_old_library),
        cmocka_unit_test(ours_says_more), cmocka_unit_test(nonsense),
        cmocka_unit_test(too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
