/* fuzz_import.c - the lines of an export: refused in one sentence, or imported with their ids */
#include "base/id.h"
#include "base/util.h"
#include "store/transfer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int job_came(void *arg, const char *id, uint64_t number, struct err *e)
{
    struct id parsed;
    int64_t *came = arg;

    (void)e;
    ASSERT(id_parse(str_of(id), &parsed) && number > 0);
    ++*came;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    int64_t came = 0;
    struct import_conf conf = {
        .path = ":memory:", .uid = 1, .gid = 1, .wall_ms = 1, .job = job_came, .arg = &came};
    struct import_tally tally;
    struct err e = {0};

    if (store_import(&conf, (struct str){(const char *)data, n}, "f", &tally, &e) < 0)
        ASSERT(e.code && e.text[0]);
    else
        ASSERT(tally.jobs == came);
    return 0;
}
