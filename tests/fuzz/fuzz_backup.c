/* fuzz_backup.c - the manifest of a backup: what is accepted names files inside of it */
#include "archive/backup_priv.h"
#include "base/file.h"
#include "base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct backup_list l = {0};
    struct err e = {0};
    struct str path;
    void *val;

    if (backup_list_parse(&l, (struct str){(const char *)data, n}, "m", &e) < 0)
        ASSERT(e.code && e.text[0]);
    for (size_t it = 0; map_str_next(&l.by_path, &it, &path, &val);) {
        const struct backup_entry *x = val;
        uint64_t job;
        uint32_t run;
        const char *rest;
        AUTO_FREE char *text = xstrndup(path.p, path.n);

        ASSERT(path.n && path.p[0] != '/' && !path_has_dots(path) && strlen(text) == path.n);
        ASSERT(x->how <= BACKUP_COPY);
        if (backup_run_of(text, &job, &run, &rest))
            ASSERT(!*rest || (rest > text && rest < text + path.n));
    }
    backup_list_done(&l);
    return 0;
}
