/* snapshot_pack.c - what goes into a snapshot, and whether that is too much */
#include "archive/bundle.h"
#include "archive/snapshot.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/units.h"
#include "base/util.h"
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

enum { IGNORE_MAX = 1 << 20 };

/* Both of the programs's own ignore files have the syntax of .gitignore; the first that exists
 * counts.  A line "!.git" takes the history back in. */
int snapshot_ignore(const char *dir, struct ignore **out, struct err *e)
{
    static const char *const names[] = {".berthignore", ".foundationsignore"};
    AUTO(buf) struct buf text = {0};

    buf_init(&text, 2 * IGNORE_MAX);
    buf_adds(&text, ".git\n");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        AUTO_FREE char *path = path_join(dir, names[i]), *own = NULL;
        struct err why = {0};
        size_t n;
        if (file_read_all(path, IGNORE_MAX, &own, &n, &why) == 0) {
            buf_add(&text, own, n);
            break;
        }
        if (why.sys != ENOENT) {
            *e = why;
            return -1;
        }
    }
    *out = ignore_parse(buf_str(&text));
    return 0;
}

/* The largest entry of the directory, for the message; "" when none can be read.  The sizes are
 * those without the rules of the ignore file inside of directories, so they may be too large; they
 * only tell the user where to look. */
static void largest_entry(const char *dir, const struct ignore *ig, char *out, size_t n)
{
    DIR *d = opendir(dir);
    int64_t most = -1;

    out[0] = 0;
    for (struct dirent *at; d && (at = readdir(d));) {
        AUTO_FREE char *path = path_join(dir, at->d_name);
        struct bundle_size size = {0};
        struct stat st;
        struct err e;
        if (!strcmp(at->d_name, ".") || !strcmp(at->d_name, "..") || lstat(path, &st) < 0 ||
            ignore_match(ig, at->d_name, S_ISDIR(st.st_mode)))
            continue;
        if (S_ISDIR(st.st_mode))
            bundle_estimate(path, NULL, NULL, &size, &e);
        else
            size.bytes = st.st_size;
        if (size.bytes > most) {
            char text[24];
            most = size.bytes;
            size_format(most, text);
            snprintf(out, n, " (%.80s has %s)", at->d_name, text);
        }
    }
    if (d)
        closedir(d);
}

int snapshot_check(const char *dir, const struct ignore *ig, const struct archive_watch *w,
                   int64_t *out_bytes, struct err *e)
{
    struct bundle_size size = {0};
    char have[24], may[24], largest[128];
    struct stat st;

    if (stat(dir, &st) < 0)
        return err_sys(e, "cannot read %s", dir);
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_INVALID, "%.200s is not a directory", dir);
    if (bundle_estimate(dir, ig, w, &size, e) < 0)
        return err_wrap(e, "reading %s", dir);
    *out_bytes = size.bytes;
    if (size.bytes <= SNAPSHOT_BYTES_MAX && size.entries <= SNAPSHOT_ENTRIES_MAX)
        return 0;
    largest_entry(dir, ig, largest, sizeof(largest));
    size_format(size.bytes, have);
    size_format(SNAPSHOT_BYTES_MAX, may);
    return err_set(e, ERR_LIMIT,
                   "%.100s has %s in %lld entries%s; a snapshot may have %s in %d; leave files out "
                   "with a .berthignore",
                   dir, have, (long long)size.entries, largest, may, SNAPSHOT_ENTRIES_MAX);
}
