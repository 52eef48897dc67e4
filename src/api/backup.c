/* backup.c - /v1/backup: a copy of the whole home, or of its database alone, and how far it is
 *
 * The daemon makes the copy on a worker thread, because it alone may read what belongs to all
 * users.  Owns: what a backup tells about itself.
 */
#include "api/backup.h"
#include "api/api_priv.h"
#include "archive/backup.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/vec.h"

enum { WARNINGS_SHOWN = 20 };

struct home_copy {
    struct store *store;
    struct store_copy *copy; /* open once the database has been copied */
    VEC(char *) warnings;
    const struct archive_watch *by;
};

static int copy_database(void *arg, const char *path, struct err *e)
{
    struct home_copy *h = arg;

    if (store_backup(h->store, path, e) < 0)
        return -1;
    return store_copy_open(&h->copy, path, e);
}

static bool copy_ended(void *arg, uint64_t job, uint32_t run)
{
    struct home_copy *h = arg;

    return store_copy_run_ended(h->copy, (struct run_key){job, run});
}

static void copy_warn(void *ctx, const char *sentence)
{
    struct home_copy *h = ctx;

    if (h->warnings.n < WARNINGS_SHOWN)
        vec_push(&h->warnings, xstrdup(sentence));
}

static void copy_progress(void *ctx, int64_t bytes, int64_t entries)
{
    const struct home_copy *h = ctx;

    if (h->by && h->by->progress)
        h->by->progress(h->by->ctx, bytes, entries);
}

static void put_tally(struct buf *b, const char *path, const struct backup_tally *t,
                      const struct home_copy *h)
{
    jw_object(b, NULL);
    jw_text(b, "path", path);
    jw_int(b, "files", t->files);
    jw_int(b, "bytes", t->bytes);
    jw_int(b, "unchanged", t->previous);
    jw_int(b, "linked", t->linked);
    jw_int(b, "cloned", t->cloned);
    jw_int(b, "copied", t->copied);
    jw_int(b, "copied_bytes", t->copied_bytes);
    jw_int(b, "database_bytes", t->database_bytes);
    jw_int(b, "left_out", t->left_out);
    jw_array(b, "warnings");
    for (size_t i = 0; i < h->warnings.n; i++)
        jw_text(b, NULL, h->warnings.p[i]);
    jw_end_array(b);
    jw_end_object(b);
}

int home_backup(const struct home_backup_conf *given, struct buf *out, struct err *e)
{
    struct home_copy h = {.store = given->store, .by = given->watch};
    struct archive_watch mine = {.progress = copy_progress,
                                 .warn = copy_warn,
                                 .ctx = &h,
                                 .cancel = given->watch ? given->watch->cancel : NULL};
    struct backup_conf conf = {.home = given->home,
                               .dir = given->dir,
                               .beside = given->beside,
                               .copy = given->copy,
                               .database = copy_database,
                               .ended = copy_ended,
                               .arg = &h,
                               .watch = &mine};
    struct backup_tally tally;
    AUTO_FREE char *path = NULL;
    int rc = backup_take(&conf, &tally, &path, e);

    if (rc == 0)
        put_tally(out, path, &tally, &h);
    store_copy_close(h.copy);
    for (size_t i = 0; i < h.warnings.n; i++)
        free(h.warnings.p[i]);
    vec_done(&h.warnings);
    return rc;
}

/* ---- POST /v1/backup ---- */

/* A relative path would mean the directory of the daemon. */
static const char *absolute_path(struct call *c, struct str path)
{
    if (path.n == 0 || path.p[0] != '/' || memchr(path.p, 0, path.n))
        return NULL;
    return arena_strndup(&c->mem, path.p, path.n);
}

/* An archive_watch.progress; several backups at once are shown as the one that spoke last. */
static void backup_note(void *ctx, int64_t bytes, int64_t entries)
{
    struct api *a = ctx;

    atomic_store(&a->backup.bytes, bytes);
    atomic_store(&a->backup.files, entries);
}

/* Worker thread. */
static int backup_home(struct call *c, const char *dir, bool copy)
{
    struct api *a = call_api(c);
    const struct api_conf *conf = &a->conf;
    const struct archive_watch watch = {.progress = backup_note, .ctx = a, .cancel = &a->leaving};
    struct backup_places beside = {0};

    if (conf->beside)
        conf->beside(conf->beside_arg, &beside);
    backup_note(a, 0, 0);
    atomic_fetch_add(&a->backup.running, 1);
    int rc = home_backup(&(struct home_backup_conf){.store = conf->store,
                                                    .home = conf->home,
                                                    .dir = dir,
                                                    .copy = copy,
                                                    .beside = &beside,
                                                    .watch = &watch},
                         &c->out, &c->err);
    atomic_fetch_sub(&a->backup.running, 1);
    backup_places_done(&beside);
    return rc;
}

/* Worker thread: the store copies itself while the daemon goes on serving. */
static int backup_run(struct call *c)
{
    AUTO(json) struct json *j = call_json_body(c);
    const struct api_conf *conf = &call_api(c)->conf;

    if (!j)
        return -1;
    const char *path = absolute_path(c, json_get_str(j, "path"));
    const char *dir = absolute_path(c, json_get_str(j, "directory"));
    if (!path == !dir)
        return err_set(&c->err, ERR_INVALID,
                       "give the absolute path of a directory for copies of the home "
                       "(\"directory\"), or of a new file for the database alone (\"path\")");
    if (dir)
        return backup_home(c, dir, json_bool(json_get(j, "copy")));
    if (store_backup(conf->store, path, &c->err) < 0)
        return -1;
    jw_object(&c->out, NULL);
    jw_text(&c->out, "path", path);
    jw_end_object(&c->out);
    return 0;
}

void meta_backup(struct call *c)
{
    call_keep_body(c);
    call_work(c, backup_run, NULL);
}

/* GET /v1/backup: how far a backup under way is, for who waits for it. */
void meta_backup_state(struct call *c)
{
    struct api *a = call_api(c);
    int running = atomic_load(&a->backup.running);

    jw_object(&c->out, NULL);
    jw_bool(&c->out, "running", running > 0);
    jw_int(&c->out, "files", running ? atomic_load(&a->backup.files) : 0);
    jw_int(&c->out, "bytes", running ? atomic_load(&a->backup.bytes) : 0);
    jw_end_object(&c->out);
    call_reply(c);
}
