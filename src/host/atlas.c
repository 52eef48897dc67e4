/* atlas.c - which Atlas home a home belongs to, and its ports
 *
 * Owns: the file `atlas-home` in the home, which holds the path of $FOUNDATIONS_HOME.
 */
#include "host/atlas.h"
#include "backend/backend.h"
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/home.h"
#include <stdio.h>

enum { PATH_BYTES = 4096 };

/* The Atlas home, yours; NULL = none.  What is said now is written down. */
static char *atlas_home_of(const struct host_conf *c, const char *home, struct err *e)
{
    AUTO_FREE char *path = path_join(home, "atlas-home");
    char *text = NULL;
    size_t n;

    if (c->atlas) {
        AUTO_FREE char *line = xasprintf("%s\n", c->atlas->home);
        if (file_write_atomic(path, line, strlen(line), 0600, e) < 0)
            return NULL;
        return xstrdup(c->atlas->home);
    }
    if (file_read_all(path, PATH_BYTES, &text, &n, e) < 0) {
        *e = (struct err){0};
        return NULL;
    }
    text[strcspn(text, "\n")] = 0;
    return text;
}

int host_atlas_open(const struct host_conf *c, const char *home, const struct atlas_conf *base,
                    struct atlas **out, struct err *e)
{
    const struct host_atlas_conf *said = c->atlas;
    AUTO_FREE char *program = realpath("/proc/self/exe", NULL);
    AUTO_FREE char *where = atlas_home_of(c, home, e);
    AUTO_FREE char *archive = said ? xasprintf("http://localhost:%d", said->archive_port) : NULL;
    struct atlas_conf conf = *base;

    if (!where)
        return e->code ? -1 : 0;
    conf.home = where;
    conf.program = program;
    conf.mounts = backend_can_mount();
    conf.uid = c->uid;
    conf.archive_url = archive;
    if (said) {
        conf.python = said->python;
        conf.workers = said->workers;
        conf.backfill = said->backfill;
        conf.authenticate = said->authenticate;
        conf.tensorboard_url = said->tensorboard_url;
        conf.archive_port = said->archive_port;
    }
    return atlas_open(&conf, out, e);
}

int host_atlas_listen(const struct host_conf *c, struct http_server *s, struct err *e)
{
    const struct host_atlas_conf *a = c->atlas;

    if (!a)
        return 0;
    const int ports[] = {a->scheduler_port, a->dashboard_port, a->tracker_port, a->archive_port,
                         a->api_port};
    for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
        bool again = !ports[i];
        for (size_t k = 0; k < i; k++)
            again |= ports[k] == ports[i];
        if (!again && http_server_listen_tcp(s, a->addr, ports[i], NULL, NULL, NULL, e) < 0)
            return -1;
    }
    return 0;
}
