/* fuzz_gpu_dialect.c - what strangers send in the words of the GPU scheduler
 *
 * The first byte chooses: a path, a message of a training library, or a submission.  A submission
 * that is accepted must survive the trip through its own JSON, and its translation must be a job
 * that the model accepts too: nobody may be told 201 and fail later.
 */
#include "base/util.h"
#include "dialect/gpu/dialect_priv.h"
#include "dialect/gpu/translate.h"
#include "dialect/gpu/wire.h"
#include "model/spec.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void path(struct str s)
{
    struct route_match m;
    struct port_pair p;

    if (route_find(gpu_library_routes, gpu_library_n_routes, 0, STR("POST"), s, &m) ==
        ROUTE_FOUND) {
        struct str id = m.args[0];
        ASSERT(id.n > 0 && id.p >= s.p && id.p + id.n <= s.p + s.n);
        ASSERT(!memchr(id.p, '/', id.n));
    }
    if (port_pair_parse(s, &p))
        ASSERT(p.node > 0 && p.node < 65536 && p.container > 0 && p.container < 65536);
}

static void message(enum gpu_message m, struct str body)
{
    struct gpu_report r;
    struct err e = {0};

    if (gpu_report_read(m, body, &r, &e) < 0) {
        ASSERT(e.code == ERR_INVALID && e.text[0]);
        return;
    }
    ASSERT(r.done >= 0 && r.profile.mem_bytes >= 0);
    ASSERT(isfinite(r.profile.mean_step_s) && r.profile.mean_step_s >= 0);
    ASSERT(isfinite(r.profile.epoch_s) && r.profile.epoch_s >= 0);
}

static void translated(const struct gpu_submission *s)
{
    const struct gpu_world w = {.max_gpus = 8,
                                .max_mem_bytes = INT64_C(1) << 40,
                                .python = "python3",
                                .snapshots_dir = "/s",
                                .user = "u"};
    struct json *form = NULL;
    struct spec *spec = NULL;
    struct err e = {0};

    if (gpu_translate(s, &w, &form, &e) < 0)
        return;
    if (spec_parse(form, "", &spec, &e) < 0)
        assert_fail(e.text, __FILE__, __LINE__);
    spec_free(spec);
    json_free(form);
}

static void submission(const struct json *body, bool options)
{
    struct gpu_submission s, again;
    struct arena a = {0};
    struct err e = {0};

    if (gpu_submission_read(body, options, &a, &s, &e) < 0) {
        ASSERT(e.code == ERR_INVALID && e.text[0] && !strchr(e.text, '\n'));
        arena_done(&a);
        return;
    }
    struct json *j = gpu_submission_json(&s, false);
    ASSERT(gpu_submission_read(j, false, &a, &again, &e) == 0);
    struct json *k = gpu_submission_json(&again, false);
    ASSERT(json_equal(j, k));
    json_free(j);
    json_free(k);
    translated(&s);
    gpu_submission_done(&s);
    gpu_submission_done(&again);
    arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct json *j = NULL;
    struct err e = {0};

    if (n < 1)
        return 0;
    struct str rest = {(const char *)data + 1, n - 1};
    switch (data[0] % 4) {
    case 0:
        path(rest);
        break;
    case 1:
        message(GPU_MESSAGE_PROFILE, rest);
        message(GPU_MESSAGE_EPOCH, rest);
        break;
    default:
        if (json_parse(rest, "body", &j, &e) == 0)
            submission(j, data[0] & 4);
        json_free(j);
    }
    return 0;
}
