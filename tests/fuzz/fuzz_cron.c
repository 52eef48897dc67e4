/* fuzz_cron.c - schedules: whatever is accepted has a next moment, and another one after it
 *
 * The first byte chooses the zone: the clock goes forward or back by up to a day.
 */
#include "base/json.h"
#include "base/util.h"
#include "model/cron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { START_S = 1767225600, CHANGE_S = START_S + 40000 };

static int32_t offset(void *self, int64_t t)
{
    int step = *(const uint8_t *)self % 97 - 48;

    return t < CHANGE_S ? 3600 : 3600 + step * 1800;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct cron c;
    struct err e = {0};
    struct json *j = NULL;

    if (n < 1)
        return 0;
    struct str text = {(const char *)data + 1, n - 1};
    bool object = text.n && (text.p[0] == '{' || text.p[0] == '"');
    if (object && json_parse(text, "schedule", &j, &e) < 0)
        return 0;
    int rc = object ? cron_from_json(j, &c, &e) : cron_parse(text, &c, &e);
    json_free(j);
    if (rc < 0) {
        ASSERT(e.code == ERR_INVALID && !strncmp(e.text, "schedule", 8) && !strchr(e.text, '\n'));
        return 0;
    }
    const struct cron_zone z = {offset, (void *)data};
    int64_t t = START_S, next;
    for (int i = 0; i < 4; i++, t = next)
        ASSERT(cron_next(&c, &z, t, &next) && next > t);
    return 0;
}
