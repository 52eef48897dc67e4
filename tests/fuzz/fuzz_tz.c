/* fuzz_tz.c - time zones that people name: whatever is accepted has an offset at every moment */
#include "base/tz.h"
#include "base/util.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    enum { MOST_S = 169 * 3600 }; /* 167:59:59, and an hour of summer time */
    AUTO_FREE char *name = xstrndup((const char *)data, n);
    struct tz *t = NULL;
    struct err e = {0};

    if (tz_load(name, &t, &e) < 0) {
        ASSERT(e.code == ERR_INVALID && strstr(e.text, "timezone"));
        return 0;
    }
    for (int64_t s = -4000000000; s < 8000000000; s += 86400 * 100 + 7) {
        int32_t offset = tz_offset(t, s);
        ASSERT(offset >= -MOST_S && offset <= MOST_S);
    }
    tz_free(t);
    return 0;
}
