/* part.c - Atlas's part of a daemon: which Atlas home a home belongs to, and the ports of Atlas
 *
 * Owns: the file `atlas-home` in the home, which holds the path of $FOUNDATIONS_HOME.
 *
 * `atlas-server` writes that file.  From then on every daemon of this home knows the jobs of Atlas,
 * also a daemon that `berth` started.  Only atlas-server opens the ports.
 */
#include "archive/backup.h"
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/atlas_priv.h"
#include "dialect/atlas/home.h"
#include "dialect/atlas/scheduled_priv.h"
#include "dialect/atlas/server.h"
#include <stdio.h>

enum { PATH_BYTES = 4096 };

/* The Atlas home, yours; NULL = none.  The path that atlas-server gives is written down. */
static char *atlas_home_of(const struct atlas_server_conf *c, const char *home, struct err *e)
{
    AUTO_FREE char *path = path_join(home, "atlas-home");
    char *text = NULL;
    size_t n;

    if (c) {
        AUTO_FREE char *line = xasprintf("%s\n", c->home);
        if (file_write_atomic(path, line, strlen(line), 0600, e) < 0)
            return NULL;
        return xstrdup(c->home);
    }
    if (file_read_all(path, PATH_BYTES, &text, &n, e) < 0) {
        *e = (struct err){0};
        return NULL;
    }
    text[strcspn(text, "\n")] = 0;
    return text;
}

/* `given` is NULL in a daemon that atlas-server did not start: such a daemon serves the jobs of
 * Atlas on the listeners of the home and opens no port.  Without an Atlas home the part does
 * nothing. */
static int atlas_part_open(const struct host_env *env, const void *given, void **self,
                           struct err *e)
{
    const struct atlas_server_conf *c = given;
    AUTO_FREE char *home = atlas_home_of(c, env->home, e);
    struct atlas_conf conf = {.env = env,
                              .loop = env->loop,
                              .core = env->core,
                              .store = env->store,
                              .api = env->api,
                              .requests = env->requests,
                              .home = home,
                              .program = env->program,
                              .uid = env->uid,
                              .mounts = env->mounts};
    struct atlas *a = NULL;

    if (!home)
        return e->code ? -1 : 0;
    if (c) {
        conf.python = c->python;
        conf.workers = c->workers;
        conf.backfill = c->backfill;
        conf.authenticate = c->authenticate;
        conf.tensorboard_url = c->tensorboard_url;
        conf.archive_port = c->archive_port;
    }
    if (atlas_open(&conf, &a, e) < 0)
        return -1;
    if (c) {
        const int ports[] = {c->scheduler_port, c->dashboard_port, c->tracker_port, c->archive_port,
                             c->api_port};
        memcpy(a->ports, ports, sizeof(a->ports));
        snprintf(a->addr, sizeof(a->addr), "%s", c->addr);
    }
    atlas_notify_open(a);
    *self = a;
    return 0;
}

/* Ports that are equal are opened once; a port 0 is not opened. */
static int atlas_part_listen(void *self, struct http_server *home, struct err *e)
{
    const struct atlas *a = self;

    for (size_t i = 0; i < ARRAY_SIZE(a->ports); i++) {
        bool again = !a->ports[i];
        for (size_t k = 0; k < i; k++)
            again |= a->ports[k] == a->ports[i];
        if (!again && http_server_listen_tcp(home, a->addr, a->ports[i], NULL, NULL, NULL, e) < 0)
            return -1;
    }
    return 0;
}

/* ---- backups ---- */

static const struct backup_dir atlas_kept[] = {
    {ATLAS_DIR_BUNDLES, "/contents/tmp/\n/contents/known/\n"}, {ATLAS_DIR_ARCHIVE, NULL}, {0}};

/* Contents and trees are replaced, never changed; the source of a job and its listing are written
 * once, at its end.  What jobs write themselves (user_artifacts …) may still grow. */
static bool atlas_is_settled(const char *path)
{
    size_t contents = strlen(ATLAS_DIR_CONTENTS "/"), archive = strlen(ATLAS_DIR_ARCHIVE "/");

    if (!strncmp(path, ATLAS_DIR_CONTENTS "/", contents))
        return !strncmp(path + contents, "blobs/", 6) || !strncmp(path + contents, "trees/", 6);
    if (strncmp(path, ATLAS_DIR_ARCHIVE "/", archive) != 0)
        return false;
    const char *rest = strchr(path + archive, '/'); /* behind the id of the job */
    return rest && (!strncmp(rest, "/artifacts/", 11) || !strncmp(rest, "/miscellaneous/", 15));
}

static bool atlas_beside(const char *home, struct backup_place *out)
{
    struct err ignored = {0};
    char *root = atlas_home_of(NULL, home, &ignored);

    *out = (struct backup_place){.root = root, .dirs = atlas_kept, .settled = atlas_is_settled};
    return root != NULL;
}

const struct host_part atlas_part = {
    .name = ATLAS_DIALECT,
    .open = atlas_part_open,
    .listen = atlas_part_listen,
    .launch = atlas_launch,
    .fire = atlas_fire,
    .seal_schedule = scheduled_hide,
    .ended = atlas_ended,
    .notice = atlas_notice,
    .beside = atlas_beside,
    .recovered = atlas_recovered,
    .committed = atlas_committed,
    .shut = atlas_shut,
    .free = atlas_free,
};
