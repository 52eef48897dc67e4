/* library.c - what jobs on other hosts find of ours: the Python packages and the command berth
 *
 * One file of asset frames (wire.h), which the far program unpacks beside itself.  It is part of
 * what the hash is taken of, so it is made the same way every time: sorted, sources only, times
 * left out.
 */
#include "backend/ssh/ssh_priv.h"
#include "base/file.h"
#include "base/util.h"
#include <dirent.h>
#include <sys/stat.h>

enum { LIBRARY_MAX = 64 << 20, FILE_MAX = 16 << 20, DEPTH_MAX = 8 };

/* Job and run are 1, because the frame must have a valid key; the far program ignores them. */
static bool library_put_file(struct buf *out, const char *path, const char *name, mode_t mode)
{
    AUTO_FREE char *text = NULL;
    size_t n, at = 0;

    if (file_read_all(path, FILE_MAX, &text, &n, NULL) < 0)
        return false;
    do {
        struct wire_asset a = {.key = {1, 1, 0}, .kind = WIRE_FILE, .mode = mode, .first = at == 0};
        struct str piece = {text + at, MIN(n - at, (size_t)WIRE_PIECE)};
        if (!wire_put_asset(out, &a, str_of(name), piece))
            return false;
        at += piece.n;
    } while (at < n);
    return true;
}

static bool is_source(const char *name)
{
    size_t n = strlen(name);

    return (n > 3 && !strcmp(name + n - 3, ".py")) || !strcmp(name, "py.typed");
}

static int entry_by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* whatever the locale */
}

/* Files at the top are left out (depth > 0): only packages are sent.  Bytecode and hidden files
 * are left out too. */
static void put_tree(struct buf *out, const char *dir, const char *name, int depth)
{
    struct dirent **list = NULL;
    int n = scandir(dir, &list, NULL, entry_by_name);
    struct stat st;

    for (int i = 0; i < n; i++) {
        AUTO_FREE char *path = path_join(dir, list[i]->d_name),
                       *to = xasprintf("%s/%s", name, list[i]->d_name);
        if (list[i]->d_name[0] != '.' && stat(path, &st) == 0) {
            if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
                put_tree(out, path, to, depth + 1);
            else if (S_ISREG(st.st_mode) && depth > 0 && is_source(list[i]->d_name))
                library_put_file(out, path, to, 0644);
        }
        free(list[i]);
    }
    free(list);
}

void library_make(struct buf *out, const char *python_path)
{
    AUTO_FREE char *berth = child_find("BERTH_CLIENT", "berth");

    buf_init(out, LIBRARY_MAX);
    if (python_path)
        put_tree(out, python_path, "python", 0);
    if (berth)
        library_put_file(out, berth, "bin/berth", 0755);
}
