/* fuzz_tune.c - lines of berth tune: each gets one answer, and what is proposed is legal
 *
 * The first byte chooses the engine; then every line of the input is answered.
 */
#include "base/json.h"
#include "base/util.h"
#include "tune/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { LINES_MAX = 40 };

/* A proposal must be readable as what it is: the parameters that exist, within their ranges. */
static void check_answer(const struct tune_lines *t, struct str text)
{
    struct json *j = NULL;
    struct err e = {0};

    ASSERT(text.n && text.p[text.n - 1] == '\n');
    ASSERT(json_parse(text, "answer", &j, &e) == 0 && json_type(j) == JSON_OBJECT);
    const struct json *params = json_get(j, "params");
    if (params) {
        const struct tune_space *s = tune_study_space(t->study);
        AUTO_FREE double *code = xcalloc(s->n, sizeof(double));
        ASSERT(tune_space_read(s, params, code, &e) == 0);
        ASSERT(tune_space_allows(s, code));
    } else {
        ASSERT(json_get(j, "ok") || json_get(j, "id") || json_str(json_get(j, "error")).n);
    }
    json_free(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const engines[] = {"random", "sobol", "grid",  "tpe",
                                          "gp",     "cmaes", "nsga2", NULL};
    struct tune_lines t = {.engine = engines[n ? data[0] % ARRAY_SIZE(engines) : 0]};
    struct str rest = {(const char *)data + (n > 0), n - (n > 0)};

    for (int i = 0; i < LINES_MAX && rest.n; i++) {
        AUTO(buf) struct buf out = {0};
        if (!tune_lines_answer(&t, str_cut(rest, '\n', &rest), &out))
            break;
        check_answer(&t, buf_str(&out));
    }
    tune_lines_done(&t);
    return 0;
}
