/* fuzz_space.c - short forms of spaces: what is accepted can be drawn from, written and read back
 */
#include "base/json.h"
#include "base/util.h"
#include "tune/space.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { DRAWS = 5 };

static void check_points(const struct tune_space *s)
{
    AUTO_FREE double *code = xcalloc(s->n, sizeof(double));
    AUTO_FREE double *back = xcalloc(s->n, sizeof(double));
    struct rng r;

    rng_seed(&r, 1);
    for (int i = 0; i < DRAWS; i++) {
        AUTO(buf) struct buf text = {0};
        AUTO(json) struct json *params = NULL;
        struct err e = {0};
        if (!tune_space_draw(s, code, &r))
            return;
        tune_space_write(s, code, NULL, &text);
        ASSERT(json_parse(buf_str(&text), "point", &params, &e) == 0);
        ASSERT(tune_space_read(s, params, back, &e) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct tune_space *s = NULL;
    struct err e = {0};
    AUTO(json) struct json *map = NULL;

    if (json_parse((struct str){(const char *)data, n}, "space", &map, &e) < 0)
        return 0;
    if (tune_space_from_short(map, &s, &e) < 0) {
        ASSERT((e.code == ERR_INVALID || e.code == ERR_LIMIT) && *e.text && !strchr(e.text, '\n'));
        ASSERT(!s);
        return 0;
    }
    check_points(s);
    tune_space_free(s);
    return 0;
}
