/* gpu_set.c - device sets as people and the store write them: "0-3,7" */
#include "model/gpu_set.h"
#include "base/buf.h"

void gpu_set_format(const struct gpu_set *s, struct buf *out)
{
    const char *sep = "";

    for (int32_t first = gpu_set_next(s, 0), last; first >= 0;) {
        /* Extends the range as far as members follow one another. */
        for (last = first; last + 1 < GPU_SET_MAX && gpu_set_has(s, (uint32_t)last + 1);)
            last++;
        buf_addf(out, last > first ? "%s%d-%d" : "%s%d", sep, first, last);
        sep = ",";
        first = gpu_set_after(s, last);
    }
}

bool gpu_set_parse(struct str text, struct gpu_set *out)
{
    struct gpu_set s = {0};

    while (text.n) {
        struct str to, part = str_cut(text, ',', &text), from = str_cut(part, '-', &to);
        int64_t a, b;
        if (!str_to_i64(from, &a) || (to.n ? !str_to_i64(to, &b) : (b = a, false)))
            return false;
        /* The text may come from a file or a request: indices outside of the set would write
         * beyond it. */
        if (a < 0 || b < a || b >= GPU_SET_MAX)
            return false;
        for (; a <= b; a++)
            gpu_set_add(&s, (uint32_t)a);
    }
    *out = s;
    return true;
}

struct gpu_set gpu_set_lowest(const struct gpu_set *s, int32_t count)
{
    struct gpu_set picked = {0};
    int32_t i = gpu_set_next(s, 0);

    for (; count > 0 && i >= 0; count--) {
        gpu_set_add(&picked, (uint32_t)i);
        i = gpu_set_after(s, i);
    }
    return picked;
}
