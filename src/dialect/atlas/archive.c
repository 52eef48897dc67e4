/* archive.c - what becomes of a job's files
 *
 * Owns: the layout of a working directory and of an archive.
 *
 *   work_dir/<id>/job_source …            while the job is there (bundle, checked out)
 *   archive/<id>/artifacts              job_source at its end; an image of the tree archive-<id>
 *   archive/<id>/miscellaneous/           job_artifact_listing.pkl and .json
 *   archive/<id>/user_artifacts, synced_directories     written by the job itself
 *
 * The working directory is what says that an archive is still to be made, so it goes last.
 */
#include "dialect/atlas/archive.h"
#include "archive/cas.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/util.h"
#include "base/vec.h"
#include "dialect/atlas/home.h"
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

enum { LISTING_MAX = 256 << 20 };

void atlas_bundle_tree(const char *id, char out[ATLAS_TREE_MAX])
{
    snprintf(out, ATLAS_TREE_MAX, "bundle-%.52s", id);
}

void atlas_archive_tree(const char *id, char out[ATLAS_TREE_MAX])
{
    snprintf(out, ATLAS_TREE_MAX, "archive-%.52s", id);
}

char *atlas_board_link(const char *home, const char *id)
{
    return xasprintf("%s/" ATLAS_DIR_TENSORBOARD "/%.8s%s", home, id,
                     strlen(id) > ID_UUID_LEN ? id + ID_UUID_LEN : "");
}

static char *work_path(const char *home, const char *id, const char *name)
{
    return xasprintf("%s/" ATLAS_DIR_WORK "/%s%s%s", home, id, *name ? "/" : "", name);
}

static char *archive_path(const char *home, const char *id, const char *name)
{
    return xasprintf("%s/" ATLAS_DIR_ARCHIVE "/%s%s%s", home, id, *name ? "/" : "", name);
}

/* Not through a link: what is archived or entered must be below our own directories. */
static bool archive_is_dir(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- check out ---- */

/* What happens to one entry of a directory.  to: where it goes, NULL = nowhere. */
typedef int entry_fn(const char *path, const char *to, struct err *e);

/* Calls fn for each entry of the directory until one fails. */
static int each_entry(const char *dir, const char *to, entry_fn *fn, struct err *e)
{
    DIR *d = opendir(dir);
    int rc = 0;

    if (!d)
        return err_sys(e, "cannot open %s", dir);
    for (struct dirent *n; rc == 0 && (n = readdir(d));) {
        if (!strcmp(n->d_name, ".") || !strcmp(n->d_name, ".."))
            continue;
        AUTO_FREE char *path = path_join(dir, n->d_name);
        AUTO_FREE char *there = to ? path_join(to, n->d_name) : NULL;
        rc = fn(path, there, e);
    }
    closedir(d);
    return rc;
}

static int remove_entry(const char *path, const char *to, struct err *e)
{
    (void)to;
    return dir_remove_tree(path, e);
}

/* The directory itself stays: it may be mounted somewhere already. */
static int empty_dir(const char *path, struct err *e)
{
    return each_entry(path, NULL, remove_entry, e);
}

/* A rename replaces a file of that name; two directories of one name are merged. */
static int move_tree(const char *from, const char *to, struct err *e)
{
    struct stat a, b;

    if (rename(from, to) == 0)
        return 0;
    int why = errno;
    if (lstat(from, &a) == 0 && lstat(to, &b) == 0 && S_ISDIR(a.st_mode) && S_ISDIR(b.st_mode))
        return atlas_move_entries(from, to, e);
    errno = why;
    return err_sys(e, "cannot move %s to %s", from, to);
}

int atlas_move_entries(const char *from, const char *to, struct err *e)
{
    return each_entry(from, to, move_tree, e);
}

int atlas_check_out(const char *home, struct cas *c, const char *id, struct err *e)
{
    /* Another name for each job: ext4 spreads directories over the disk by their names, and
     * cas_check_out.c says why that matters. */
    AUTO_FREE char *work = work_path(home, id, ""), *fresh = xasprintf("%s/.%s", work, id);
    char tree[ATLAS_TREE_MAX];

    atlas_bundle_tree(id, tree);
    if (dir_make_all(work, 0755, e) < 0 || empty_dir(work, e) < 0 ||
        cas_check_out(c, tree, fresh, NULL, e) < 0 || atlas_move_entries(fresh, work, e) < 0 ||
        dir_remove_tree(fresh, e) < 0)
        return err_wrap(e, "preparing the working directory");
    AUTO_FREE char *source = work_path(home, id, "job_source");
    if (!archive_is_dir(source))
        return err_set(e, ERR_INVALID, "the bundle of job %s has no job_source", id);
    return 0;
}

/* ---- listing ---- */

/* One text of the pickle: opcode, length in little-endian order, bytes. */
static void pickle_text(struct buf *b, const char *text)
{
    uint32_t n = (uint32_t)strlen(text);
    const char len[4] = {(char)n, (char)(n >> 8), (char)(n >> 16), (char)(n >> 24)};

    buf_addc(b, 'X'); /* BINUNICODE */
    buf_add(b, len, sizeof(len));
    buf_add(b, text, n);
}

void atlas_pickle_list(struct buf *b, const char *const *texts, size_t n)
{
    buf_add(b, "\x80\x02]", 3); /* protocol 2, empty list */
    buf_addc(b, '(');
    for (size_t i = 0; i < n; i++)
        pickle_text(b, texts[i]);
    buf_add(b, "e.", 2); /* append them, done */
}

struct listing {
    VEC(char *) files;
};

/* Directories are not listed, and neither are names that are not UTF-8: Python could not read
 * them. */
static int on_entry(void *ctx, const char *path, char type, int64_t size, int64_t mtime_ns)
{
    struct listing *l = ctx;

    (void)size;
    (void)mtime_ns;
    if (type != 'd' && str_is_utf8(str_of(path)))
        vec_push(&l->files, xstrdup(path));
    return 0;
}

/* The listing as a pickle for the original's SDK, and as JSON for everybody else. */
static int write_listing(const char *home, struct cas *c, const char *id, struct err *e)
{
    AUTO_FREE char *dir = archive_path(home, id, "miscellaneous");
    AUTO_FREE char *pkl = path_join(dir, "job_artifact_listing.pkl");
    AUTO_FREE char *json = path_join(dir, "job_artifact_listing.json");
    AUTO(buf) struct buf pickled = {0}, text = {0};
    struct listing l = {0};
    char tree[ATLAS_TREE_MAX];

    atlas_archive_tree(id, tree);
    buf_init(&pickled, LISTING_MAX);
    buf_init(&text, LISTING_MAX);
    int rc = cas_list_tree(c, tree, on_entry, &l, e);
    atlas_pickle_list(&pickled, (const char *const *)l.files.p, l.files.n);
    buf_addc(&text, '[');
    for (size_t i = 0; i < l.files.n; i++) {
        buf_adds(&text, i ? ",\n " : "\n ");
        jw_str(&text, NULL, str_of(l.files.p[i]));
        free(l.files.p[i]);
    }
    buf_adds(&text, "\n]\n");
    vec_done(&l.files);
    if (rc < 0 || dir_make_all(dir, 0755, e) < 0 || cas_put_file(c, buf_str(&pickled), pkl, e) < 0)
        return -1;
    return cas_put_file(c, buf_str(&text), json, e);
}

/* ---- archive ---- */

enum { TIDY_S = 10 };

/* The room of removed jobs comes back at once, but not more often than every ten seconds; what is
 * left then, or while the store is in use, goes at the end of the next job. */
static void tidy(struct cas *c, bool dropped)
{
    static atomic_bool dirty;
    static atomic_llong last_s;
    struct timespec now;

    if (dropped)
        atomic_store(&dirty, true);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!atomic_load(&dirty) || now.tv_sec - atomic_load(&last_s) < TIDY_S)
        return;
    atomic_store(&last_s, now.tv_sec);
    atomic_store(&dirty, cas_collect(c, NULL, NULL) < 0);
}

/* The working directory is removed last: while it exists, a restart archives the job again. */
int atlas_archive_job(const char *home, struct cas *c, const char *id, const atomic_bool *cancel,
                      struct err *e)
{
    const struct archive_watch watch = {.cancel = cancel};
    AUTO_FREE char *work = work_path(home, id, ""), *source = work_path(home, id, "job_source");
    AUTO_FREE char *kept = archive_path(home, id, ""), *image = archive_path(home, id, "artifacts");
    char tree[ATLAS_TREE_MAX];
    struct err trouble = {0};

    if (!archive_is_dir(work))
        return 0; /* it was done before */
    if (!archive_is_dir(source) && atlas_check_out(home, c, id, e) < 0) {
        if (e->code != ERR_FULL)
            dir_remove_tree(work, NULL); /* there is nothing to archive, now or later */
        return err_wrap(e, "archiving job %s", id);
    }
    atlas_archive_tree(id, tree);
    if (dir_make_all(kept, 0755, e) < 0 || dir_remove_tree(image, e) < 0 ||
        cas_keep_tree(c, tree, source, image, CAS_SOURCE_ENDS, &watch, NULL, e) < 0 ||
        write_listing(home, c, id, e) < 0)
        return err_wrap(e, "archiving job %s", id);
    if (dir_remove_tree(work, &trouble) < 0)
        return err_set(e, trouble.code, "removing the working directory: %s", trouble.text);
    tidy(c, false);
    return 0;
}

/* Each step accepts that its files are gone, so a call that failed can be repeated. */
int atlas_discard_job(const char *home, struct cas *c, const char *id, struct err *e)
{
    AUTO_FREE char *work = work_path(home, id, ""), *kept = archive_path(home, id, "");
    AUTO_FREE char *link = atlas_board_link(home, id);
    char bundle[ATLAS_TREE_MAX], archive[ATLAS_TREE_MAX];

    atlas_bundle_tree(id, bundle);
    atlas_archive_tree(id, archive);
    unlink(link);
    if (dir_remove_tree(kept, e) < 0 || dir_remove_tree(work, e) < 0 ||
        cas_drop_tree(c, archive, e) < 0 || cas_drop_tree(c, bundle, e) < 0)
        return err_wrap(e, "removing the files of job %s", id);
    tidy(c, true);
    return 0;
}
