/* fuzz_spec.c - job specs as JSON: what is accepted reads back as itself, and its command comes out
 * with only what a command may hold */
#include "base/arena.h"
#include "base/util.h"
#include "model/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_round_trip(const struct spec *s)
{
    struct json *first = spec_to_json(s), *second;
    struct spec *again = NULL;
    struct err e = {0};

    ASSERT(spec_parse(first, "", &again, &e) == 0);
    second = spec_to_json(again);
    ASSERT(json_equal(first, second));
    ASSERT(again->limits.timeout_ms == s->limits.timeout_ms &&
           again->limits.grace_ms == s->limits.grace_ms);
    ASSERT(!memcmp(&again->need, &s->need, sizeof(struct resources)));
    json_free(first);
    json_free(second);
    spec_free(again);
}

static void check_command(const struct spec *s, const struct json *params)
{
    struct arena a = {0};
    char **argv = NULL, **env = NULL;
    struct err e = {0};
    bool fits = spec_check_placeholders(s, params, "", &e) == 0;

    if (spec_argv(&s->command, params, &a, &argv, &env, &e) == 0) {
        ASSERT(fits && argv[0] && argv[0][0]);
        for (size_t i = 0; env[i]; i++)
            ASSERT(!strncmp(env[i], "BERTH_PARAM_", 12) && strchr(env[i], '='));
    } else {
        ASSERT(e.text[0]);
    }
    arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str text = {(const char *)data, n};
    struct json *j = NULL;
    struct spec *s = NULL;
    struct err e = {0};

    if (json_parse(text, "spec", &j, &e) < 0)
        return 0;
    if (spec_parse(j, "jobs[0].", &s, &e) == 0) {
        ASSERT(s->name[0] && strlen(s->name) <= SPEC_NAME_MAX && s->command.env);
        check_round_trip(s);
        if (params_check(json_get(j, "params"), "", &e) == 0)
            check_command(s, json_get(j, "params"));
    } else {
        ASSERT(e.code && e.text[0]);
    }
    spec_free(s);
    json_free(j);
    return 0;
}
