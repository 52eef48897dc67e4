/* backup_list.c - the manifest of a backup: one line of JSON per file
 *
 * The first line names the format, so that a newer program can tell what it reads and an older one
 * can refuse.  The next backup reads the manifest to find the files that have not changed, a
 * restore to find those that were written to or removed since.
 */
#include "archive/backup_priv.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/util.h"

enum { FORMAT_VERSION = 1 };
static const size_t MANIFEST_MAX = (size_t)4 << 30;
static const char *const how_names[] = {
    [BACKUP_LINK] = "link", [BACKUP_CLONE] = "clone", [BACKUP_COPY] = "copy"};

void backup_line_head(struct buf *b, const char *home, int64_t wall_ms, const struct json *beside)
{
    jw_object(b, NULL);
    jw_text(b, "format", "berth-backup");
    jw_int(b, "version", FORMAT_VERSION);
    jw_str(b, "home", str_of(home));
    jw_time(b, "taken", wall_ms);
    if (json_len(beside))
        jw_json(b, "beside", beside);
    jw_end_object(b);
    buf_addc(b, '\n');
}

void backup_line_file(struct buf *b, const char *path, const struct backup_entry *x)
{
    if (!str_is_utf8(str_of(path)))
        return;
    jw_object(b, NULL);
    jw_text(b, "path", path);
    jw_int(b, "size", x->size);
    jw_int(b, "mtime_ns", x->mtime_ns);
    jw_int(b, "inode", (int64_t)x->inode);
    jw_text(b, "how", how_names[x->how]);
    jw_end_object(b);
    buf_addc(b, '\n');
}

/* A name becomes part of a path; the path of the home is only compared. */
static int manifest_beside(struct backup_list *l, const struct json *j, const char *name,
                           struct err *e)
{
    for (struct json_it it = {0}; json_next(j, &it);)
        if (!*it.key || strchr(it.key, '/') || path_has_dots(str_of(it.key)) ||
            json_type(it.val) != JSON_STR || !json_str(it.val).n)
            return err_set(e, ERR_INVALID, "%s: `beside` is wrong", name);
    json_free(l->beside);
    l->beside = json_type(j) == JSON_OBJECT ? json_copy(j) : NULL;
    return 0;
}

static int manifest_head(struct backup_list *l, const struct json *j, const char *name,
                         struct err *e)
{
    if (!str_eq_c(json_get_str(j, "format"), "berth-backup"))
        return err_set(e, ERR_INVALID, "%s is no manifest of a berth backup", name);
    if (json_int(json_get(j, "version")) != FORMAT_VERSION)
        return err_set(e, ERR_INVALID,
                       "%s was written by a newer berth (version %lld of the format); use that one",
                       name, (long long)json_int(json_get(j, "version")));
    return manifest_beside(l, json_get(j, "beside"), name, e);
}

/* Paths from a manifest are looked up below directories: none may lead out of them. */
static int manifest_file(struct backup_list *l, const struct json *j, const char *name,
                         struct err *e)
{
    struct str path = json_get_str(j, "path"), how = json_get_str(j, "how");
    struct backup_entry x = {.inode = (uint64_t)json_int(json_get(j, "inode")),
                             .size = json_int(json_get(j, "size")),
                             .mtime_ns = json_int(json_get(j, "mtime_ns")),
                             .how = BACKUP_COPY};

    if (!path.n || path.p[0] == '/' || memchr(path.p, 0, path.n) || path_has_dots(path))
        return err_set(e, ERR_INVALID, "%s names a path that is not inside of the backup", name);
    for (size_t i = 0; i < ARRAY_SIZE(how_names); i++)
        if (str_eq_c(how, how_names[i]))
            x.how = (enum backup_how)i;
    if (backup_list_get(l, path.p))
        return err_set(e, ERR_INVALID, "%s names %.200s twice", name, path.p);
    struct backup_entry *kept = xmalloc(sizeof(*kept));
    *kept = x;
    map_str_put(&l->by_path, path, kept);
    return 0;
}

int backup_list_parse(struct backup_list *l, struct str text, const char *name, struct err *e)
{
    struct str rest = text;
    bool first = true;

    if (!text.n)
        return err_set(e, ERR_INVALID, "%s is empty", name);
    while (rest.n) {
        AUTO(json) struct json *j = NULL;
        struct str line = str_cut(rest, '\n', &rest);
        if (json_parse(line, name, &j, e) < 0)
            return -1;
        if ((first ? manifest_head(l, j, name, e) : manifest_file(l, j, name, e)) < 0)
            return -1;
        first = false;
    }
    return 0;
}

int backup_list_read(struct backup_list *l, const char *copy, struct err *e)
{
    AUTO_FREE char *path = path_join(copy, BACKUP_MANIFEST), *text = NULL;
    size_t n;

    if (file_read_all(path, MANIFEST_MAX, &text, &n, e) < 0)
        return err_wrap(e, "reading %s", path);
    return backup_list_parse(l, (struct str){text, n}, path, e);
}

struct backup_entry *backup_list_get(const struct backup_list *l, const char *path)
{
    return map_str_get(&l->by_path, str_of(path));
}

void backup_list_done(struct backup_list *l)
{
    struct str key;
    void *val;

    for (size_t it = 0; map_str_next(&l->by_path, &it, &key, &val);)
        free(val);
    map_str_done(&l->by_path);
    json_free(l->beside);
    *l = (struct backup_list){0};
}
