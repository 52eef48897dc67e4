/* scheduled_import.c - scheduled jobs of earlier versions become schedules of the core
 *
 * Earlier versions kept each scheduled job as $FOUNDATIONS_HOME/scheduled_jobs/<id>.json, with its
 * bundle in the tree schedule-<id>, and an empty <id>.mark while a definition came or went.  A file
 * is removed once its schedule is durable.  A file whose schedule exists already is the rest of a
 * crash between the two; the schedule may have changed since, so the schedule counts.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "dialect/atlas/scheduled_priv.h"
#include <dirent.h>
#include <stdio.h>

enum { FILE_BYTES_MAX = 8 << 20 };

void scheduled_old_done(struct scheduled_old *x)
{
    json_free(x->def);
}

/* Status, owner and the last moment were the server's; the rest is the definition of the client. */
int scheduled_old_read(const char *path, struct scheduled_old *out, struct err *e)
{
    AUTO_FREE char *text = NULL;
    AUTO(json) struct json *all = NULL;
    struct atlas_submission s;
    char tree[64];
    size_t n;

    if (file_read_all(path, FILE_BYTES_MAX, &text, &n, e) < 0 ||
        json_parse((struct str){text, n}, path, &all, e) < 0)
        return -1;
    if (atlas_submission_read(all, &s, e) < 0)
        return err_wrap(e, "%s", path);
    struct json *owner = json_copy(json_get(all, "owner"));
    struct str user = json_get_str(owner, "user");
    *out = (struct scheduled_old){.paused = str_eq_c(json_get_str(all, "status"), "paused"),
                                  .settled_s = MAX(json_int(json_get(all, "done")), INT64_C(1)),
                                  .owner = {.uid = (uint32_t)json_int(json_get(owner, "uid")),
                                            .gid = (uint32_t)json_int(json_get(owner, "gid"))}};
    snprintf(out->id, sizeof(out->id), "%s", s.id);
    snprintf(out->owner.user, sizeof(out->owner.user), "%s", user.n ? user.p : "atlas");
    snprintf(tree, sizeof(tree), "schedule-%.36s", s.id);
    json_del(all, "status");
    json_del(all, "done");
    json_del(all, "owner");
    out->def = scheduled_def_take(TAKE(all), tree);
    json_free(owner);
    return 0;
}

/* The schedule is durable, or was there before: its file has served. */
static void import_done(void *arg, const struct err *e, const struct acted *r)
{
    AUTO_FREE char *path = arg;

    (void)r;
    if (e && e->code != ERR_CONFLICT)
        log_warn("atlas", "a scheduled job is ignored: %s: %s", path, e->text);
    else if (unlink(path) < 0)
        log_warn("atlas", "cannot remove %s, which is not needed any more: %m", path);
    else
        log_info("atlas", "%s is a schedule now; see `berth cron`", path);
}

/* A definition that cannot be read is reported and left on disk for the operator. */
static void import_one(struct atlas *a, const char *path)
{
    struct scheduled_old x = {0};
    struct err e = {0};

    if (scheduled_old_read(path, &x, &e) < 0) {
        log_warn("atlas", "a scheduled job is ignored: %s", e.text);
        return;
    }
    scheduled_hide(core_vault(a->conf.core), x.def);
    core_schedule_add(
        a->conf.core,
        &(struct schedule_request){
            .name = str_of(x.id), .def = x.def, .paused = x.paused, .settled_s = x.settled_s},
        &x.owner, import_done, xstrdup(path));
    scheduled_old_done(&x);
}

/* Does the name end so, behind an id? */
static bool import_is_entry(const char *name, const char *end)
{
    char id[ID_UUID_MAX];

    snprintf(id, sizeof(id), "%.36s", name);
    return strlen(name) > ID_UUID_LEN && !strcmp(name + ID_UUID_LEN, end) && atlas_id_ok(id);
}

/* A mark without a definition stood for a bundle that the caller finds by itself. */
void scheduled_import(struct atlas *a)
{
    AUTO_FREE char *dir = path_join(a->conf.home, ATLAS_DIR_SCHEDULED);
    DIR *d = opendir(dir);

    for (struct dirent *entry; d && (entry = readdir(d));) {
        AUTO_FREE char *path = path_join(dir, entry->d_name);
        if (import_is_entry(entry->d_name, ".json"))
            import_one(a, path);
        else if (import_is_entry(entry->d_name, ".mark"))
            unlink(path);
    }
    if (d)
        closedir(d);
}
