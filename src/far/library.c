/* library.c - unpacking what came with this program: Python packages, the command berth
 *
 * Beside the program, in a directory that is named by the hash of all of it: what is there is
 * right.  It is made under another name first, so that whoever sees it sees all of it.
 */
#include "base/file.h"
#include "base/util.h"
#include "far/far_priv.h"
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <sys/stat.h>

enum { LIBRARY_MAX = 64 << 20 };

/* The directory of this program's executable; the caller frees it.  NULL when /proc is not
 * mounted. */
static char *library_own_dir(void)
{
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    exe[MAX(n, 0)] = 0;
    return n > 0 ? xstrdup(dirname(exe)) : NULL;
}

/* `in` is a sequence of WIRE_ASSET frames.  They are written below `to` by the code that
 * receives the files of a run (stage.c), so `r` is a run in name only.  -1 when any byte of
 * `in` is left over. */
static int library_unpack(struct str in, const char *to)
{
    struct far_run r = {.asset_fd = -1, .work = (char *)(uintptr_t)to};
    struct frame_head head;
    struct wire_asset a;
    struct str body, name, bytes;
    int got = 1;

    if (dir_make_all(to, 0700, NULL) < 0)
        return -1;
    while (!r.trouble[0] && (got = wire_next(in, &head, &body)) == 1) {
        if (head.type != WIRE_ASSET || !wire_get_asset(body, &a, &name, &bytes))
            break;
        stage_take(&r, &a, name, bytes);
        in.p += head.n;
        in.n -= head.n;
    }
    stage_end(&r);
    return in.n == 0 && !r.trouble[0] ? 0 : -1;
}

char *library_open(void)
{
    AUTO_FREE char *dir = library_own_dir(), *text = NULL;
    struct stat st;
    size_t n;

    if (!dir)
        return NULL;
    AUTO_FREE char *file = path_join(dir, "library");
    AUTO_FREE char *there = path_join(dir, "lib"),
                   *fresh = xasprintf("%s.%d", there, (int)getpid());
    if (stat(there, &st) == 0)
        return TAKE(there);
    if (file_read_all(file, LIBRARY_MAX, &text, &n, NULL) < 0 || n == 0)
        return NULL;
    /* Somebody else may have been faster: his is as good. */
    bool ok = library_unpack((struct str){text, n}, fresh) == 0 &&
              (rename(fresh, there) == 0 || errno == ENOTEMPTY || errno == EEXIST);
    dir_remove_tree(fresh, NULL);
    return ok ? TAKE(there) : NULL;
}
