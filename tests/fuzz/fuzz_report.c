/* fuzz_report.c - lines of a spool, as any program may write them; and blocks of points
 *
 * Whatever comes, reading ends, uses whole lines only, and what it made of them is sound: blocks
 * unpack to as many points as were counted, texts are UTF-8 without NUL, JSON is JSON.
 */
#include "base/json.h"
#include "base/util.h"
#include "core/report_lines.h"
#include "core/track.h"
#include "model/series.h"

static void check_item(const struct report_item *it, uint64_t *points)
{
    static struct series_point p[SERIES_BLOCK_MAX];
    struct json *j = NULL;

    ASSERT(it->name.n > 0 && it->name.n <= TRACK_NAME_MAX && str_is_utf8(it->name));
    switch (it->kind) {
    case 'm':
        ASSERT(series_count(it->text) && series_unpack(it->text, p, NULL) == 0);
        *points += series_count(it->text);
        break;
    case 's':
        ++*points;
        ASSERT(str_is_utf8(it->text));
        break;
    case 'p':
        ASSERT(it->text.n && it->text.n <= TRACK_PARAM_MAX);
        ASSERT(json_parse(it->text, "param", &j, NULL) == 0);
        json_free(j);
        break;
    default:
        ASSERT(it->text.n <= TRACK_TEXT_MAX && (!it->text.n || str_is_utf8(it->text)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct series_point p[SERIES_BLOCK_MAX];
    struct str all = {(const char *)data, size};
    struct report_batch b;
    uint64_t points = 0;

    report_read(&b, all, 1700000000000);
    ASSERT(b.used <= size && (!b.used || data[b.used - 1] == '\n'));
    for (size_t i = 0; i < b.items.n; i++)
        check_item(&b.items.p[i], &points);
    ASSERT(points == b.points);
    report_batch_done(&b);
    if (series_count(all))
        series_unpack(all, p, NULL);
    return 0;
}
