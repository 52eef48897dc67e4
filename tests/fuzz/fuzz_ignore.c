/* fuzz_ignore.c - ignore files: any bytes, any path, an answer soon
 *
 * The first line is the path that is asked for, the rest the file.
 */
#include "archive/ignore.h"
#include "base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str rest = {(const char *)data, n};
    struct str line = str_cut(rest, '\n', &rest);
    AUTO_FREE char *path = xstrndup(line.n ? line.p : "x", line.n ? line.n : 1);
    struct ignore *ig = ignore_parse(rest);
    bool as_file = ignore_match(ig, path, false), as_dir = ignore_match(ig, path, true);

    /* Whoever is left out is covered. */
    ASSERT(!as_file || ignore_covers(ig, path, false));
    ASSERT(!as_dir || ignore_covers(ig, path, true));
    ignore_free(ig);
    return 0;
}
