/* tail.c - the end of a log without the rest of it
 *
 * Larger and larger pieces of the end are asked for until one holds enough lines.
 */
#include "cli/tail.h"
#include "base/util.h"
#include <stdio.h>

enum { TAIL_FIRST = 64 << 10, TAIL_MAX = 64 << 20 };

/* Where the last n lines of text begin; false when they begin before it. */
static bool lines_start(struct str text, int64_t n, size_t *out)
{
    size_t i = text.n;

    if (i && text.p[i - 1] == '\n')
        i--;
    for (; i > 0; i--)
        if (text.p[i - 1] == '\n' && --n == 0) {
            *out = i;
            return true;
        }
    *out = 0;
    return false;
}

/* The last `want` bytes.  A file without any has no such range: then it is asked for whole. */
static int fetch_tail(struct cli *c, const struct follow_log *f, size_t want,
                      struct http_response *out, struct err *e)
{
    const struct follow_log whole = {.ref = f->ref, .run = f->run, .err_file = f->err_file};
    AUTO(buf) struct buf path = {0};
    char range[64];
    const char *headers[] = {range, NULL};

    log_path(&path, &whole);
    snprintf(range, sizeof(range), "Range: bytes=-%zu", want);
    if (cli_fetch(c, "GET", path.p, headers, STR(""), out, e) == 0)
        return 0;
    return e->code == ERR_INVALID ? cli_fetch(c, "GET", path.p, NULL, STR(""), out, e) : -1;
}

/* *at comes from Content-Range: the log may have grown since, and those bytes follow later. */
int log_tail(struct cli *c, const struct follow_log *f, int64_t lines, struct buf *out, int64_t *at,
             struct err *e)
{
    for (size_t want = TAIL_FIRST;; want *= 4) {
        long long first = 0, last = -1;
        struct http_response r;
        size_t start;

        if (fetch_tail(c, f, want, &r, e) < 0)
            return -1;
        bool enough = lines_start(buf_str(&r.body), lines, &start);
        if (!enough && r.body.n >= want && want < TAIL_MAX) {
            http_response_done(&r);
            continue;
        }
        bool part = sscanf(r.content_range, "bytes %lld-%lld", &first, &last) == 2;
        *at = part ? last + 1 : (int64_t)r.body.n;
        if (lines > 0)
            buf_add(out, r.body.p + start, r.body.n - start);
        http_response_done(&r);
        return 0;
    }
}
