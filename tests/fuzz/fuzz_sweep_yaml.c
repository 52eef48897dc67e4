/* fuzz_sweep_yaml.c - sweep files: every job of what is accepted has params that are JSON and a
 * name that is short enough */
#include "base/util.h"
#include "base/yaml.h"
#include "model/sweep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_job(const struct sweep *s, size_t i)
{
    AUTO(buf) struct buf params = {0}, name = {0};
    struct json *j = NULL;
    struct err e = {0};
    size_t spec = SIZE_MAX;

    buf_init(&params, SIZE_MAX / 2);
    buf_init(&name, SIZE_MAX / 2);
    sweep_job(s, i, &spec, &params, &name);
    ASSERT(spec < sweep_n_specs(s));
    ASSERT(name.n <= SPEC_NAME_MAX);
    if (!params.n)
        return;
    ASSERT(json_parse(buf_str(&params), "params", &j, &e) == 0);
    ASSERT(json_type(j) == JSON_OBJECT);
    ASSERT(spec_check_placeholders(sweep_spec(s, spec), j, "", &e) == 0);
    json_free(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct json *j = NULL;
    struct sweep *s = NULL;
    struct err e = {0};

    if (yaml_parse((struct str){(const char *)data, n}, "sweep.yaml", &j, &e) < 0)
        return 0;
    if (sweep_parse(j, &s, &e) < 0)
        ASSERT(e.code && e.text[0]);
    json_free(j);
    if (!s)
        return 0;
    size_t count = sweep_count(s);
    ASSERT(count >= 1 && count <= SWEEP_MAX_JOBS && sweep_name(s)[0] && sweep_slots(s) >= 0);
    for (size_t i = 0; i < MIN(count, (size_t)8); i++)
        check_job(s, i);
    check_job(s, count / 2);
    check_job(s, count - 1);
    sweep_after(s, count - 1);
    sweep_free(s);
    return 0;
}
