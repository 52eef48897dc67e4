/* scheduled_file.c - a scheduled job as it is kept
 *
 * Owns: $FOUNDATIONS_HOME/scheduled_jobs/<id>.json, one file per scheduled job, and the tree
 * `schedule-<id>` with its bundle.
 *
 * Files and not rows of the store: there are ten at most, each changes as a whole and by itself,
 * they belong to Atlas' home as its bundles do, and an operator can read them.  A file is replaced
 * atomically and synced, so it is there as a whole, before or after a change.
 *
 * A file and a tree cannot come and go together.  So both begin and end with an empty <id>.mark: a
 * server that finds one removes the mark when the definition is there, and else the tree too.
 */
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/scheduled_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

enum { FILE_BYTES_MAX = 8 << 20 };

void scheduled_free(struct scheduled *x)
{
    if (!x)
        return;
    json_free(x->def);
    free(x);
}

struct scheduled *scheduled_copy(const struct scheduled *x)
{
    struct scheduled *y = xmalloc(sizeof(*y));

    *y = *x;
    y->def = json_copy(x->def);
    return y;
}

/* The schedule is kept as the client wrote it, beside the parsed form. */
int scheduled_set_times(struct scheduled *x, const struct json *schedule, struct err *e)
{
    bool timed = schedule && !(json_type(schedule) == JSON_OBJECT && !json_len(schedule));
    struct cron cron = {0};

    if (timed && cron_from_json(schedule, &cron, e) < 0)
        return -1;
    x->timed = timed;
    x->cron = cron;
    json_set_take(x->def, "schedule", schedule ? json_copy(schedule) : json_new_object());
    return 0;
}

void scheduled_tree(const char *id, char out[64])
{
    snprintf(out, 64, "schedule-%.36s", id);
}

/* ---- the file ---- */

static char *path_of(const char *dir, const char *id, const char *end)
{
    return xasprintf("%s/%s%s", dir, id, end);
}

int scheduled_write(const char *dir, const struct scheduled *x, struct err *e)
{
    AUTO_FREE char *path = path_of(dir, x->id, ".json");
    AUTO(buf) struct buf b = {0};
    AUTO(json) struct json *all = json_copy(x->def);
    struct json *owner = json_new_object();

    json_set_str(all, "status", x->paused ? "paused" : "active");
    json_set_int(all, "done", x->done_s);
    json_set_int(owner, "uid", x->owner.uid);
    json_set_int(owner, "gid", x->owner.gid);
    json_set_str(owner, "user", x->owner.user);
    json_set_take(owner, "admin", json_new_bool(x->owner.admin));
    json_set_take(all, "owner", owner);
    buf_init(&b, FILE_BYTES_MAX);
    json_write(&b, all, JSON_PRETTY);
    buf_addc(&b, '\n');
    if (b.overflow)
        return err_set(e, ERR_LIMIT, "the definition of scheduled job %s is too large", x->id);
    if (file_write_atomic(path, b.p, b.n, 0600, e) < 0)
        return err_wrap(e, "keeping scheduled job %s", x->id);
    return 0;
}

/* Status, owner and the last moment are the server's; the rest is the definition of the client. */
static int from_json(struct json *all, struct scheduled *x, struct err *e)
{
    const struct json *owner = json_get(all, "owner"), *user = json_get(owner, "user");
    const struct json *status = json_get(all, "status");
    struct atlas_submission s;

    if (atlas_submission_read(all, &s, e) < 0)
        return -1;
    snprintf(x->id, sizeof(x->id), "%s", s.id);
    x->paused = json_type(status) == JSON_STR && str_eq_c(json_str(status), "paused");
    x->done_s = json_int(json_get(all, "done"));
    x->owner = (struct caller){.uid = (uint32_t)json_int(json_get(owner, "uid")),
                               .gid = (uint32_t)json_int(json_get(owner, "gid")),
                               .admin = json_bool(json_get(owner, "admin"))};
    snprintf(x->owner.user, sizeof(x->owner.user), "%s",
             json_type(user) == JSON_STR ? json_str(user).p : "atlas");
    x->def = json_copy(all);
    json_del(x->def, "status");
    json_del(x->def, "done");
    json_del(x->def, "owner");
    return scheduled_set_times(x, json_get(all, "schedule"), e);
}

int scheduled_read(const char *path, struct scheduled **out, struct err *e)
{
    AUTO_FREE char *text = NULL;
    AUTO(json) struct json *all = NULL;
    size_t n;

    if (file_read_all(path, FILE_BYTES_MAX, &text, &n, e) < 0 ||
        json_parse((struct str){text, n}, path, &all, e) < 0)
        return -1;
    struct scheduled *x = xcalloc(1, sizeof(*x));
    if (from_json(all, x, e) < 0) {
        scheduled_free(x);
        return err_wrap(e, "%s", path);
    }
    *out = x;
    return 0;
}

/* ---- coming and going ---- */

int scheduled_mark(const char *dir, const char *id, struct err *e)
{
    AUTO_FREE char *mark = path_of(dir, id, ".mark");

    return file_write_atomic(mark, "", 0, 0600, e);
}

static int remove_file(const char *path, struct err *e)
{
    if (unlink(path) < 0 && errno != ENOENT)
        return err_sys(e, "cannot remove %s", path);
    return 0;
}

int scheduled_unmark(const char *dir, const char *id, struct err *e)
{
    AUTO_FREE char *mark = path_of(dir, id, ".mark");

    return remove_file(mark, e);
}

/* The definition goes first and is synced, so a crash cannot bring back a job without its
 * bundle. */
int scheduled_erase(struct cas *cas, const char *dir, const char *id, struct err *e)
{
    AUTO_FREE char *file = path_of(dir, id, ".json");
    char tree[64];

    scheduled_tree(id, tree);
    if (remove_file(file, e) < 0)
        return -1;
    AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && fsync(fd) < 0)
        return err_sys(e, "cannot sync %s", dir);
    if (cas_drop_tree(cas, tree, e) < 0)
        return -1;
    return scheduled_unmark(dir, id, e);
}

/* ---- time ---- */

/* Schedules count in the local time of the server, as cron does. */
static int32_t local_offset(void *self, int64_t utc_s)
{
    time_t t = (time_t)utc_s;
    struct tm tm;

    (void)self;
    return localtime_r(&t, &tm) ? (int32_t)tm.tm_gmtoff : 0;
}

int64_t scheduled_after(const struct scheduled *x, int64_t s)
{
    const struct cron_zone zone = {local_offset, NULL};
    int64_t t;

    return x->timed && cron_next(&x->cron, &zone, s, &t) ? t : 0;
}

void scheduled_run_id(const struct scheduled *x, int64_t s, char out[ATLAS_ID_MAX])
{
    time_t t = (time_t)s;
    struct tm tm = {0};

    localtime_r(&t, &tm);
    snprintf(out, ATLAS_ID_MAX, "%s", x->id);
    strftime(out + ID_UUID_LEN, ATLAS_ID_MAX - ID_UUID_LEN, "_%Y%m%d_%H%M%S", &tm);
}
