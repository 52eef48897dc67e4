/* snapshot.c - sends a directory to the daemon before the jobs that start in it are submitted */
#include "archive/snapshot.h"
#include "archive/ignore.h"
#include "archive/progress.h"
#include "base/file.h"
#include "base/util.h"
#include "cli/jobspec.h"
#include "cli/view.h"

static void snapshot_on_warning(void *arg UNUSED, const char *sentence)
{
    cli_say("%s", sentence);
}

/* The run starts where the working directory is below the snapshot, else at its top. */
static void set_start(struct json *spec, const char *dir, const char *cwd)
{
    size_t n = strlen(dir);

    if (!strncmp(cwd, dir, n) && cwd[n] == '/' && cwd[n + 1])
        json_set_str(spec, "snapshot_dir", cwd + n + 1);
}

int jobspec_take_snapshot(struct cli *c, struct json *spec, struct err *e)
{
    const struct json *v = json_get(spec, "snapshot");
    AUTO_FREE char *cwd = xstrdup(json_get(spec, "cwd") ? json_str(json_get(spec, "cwd")).p : NULL);
    AUTO_FREE char *text = xstrdup(json_type(v) == JSON_STR ? json_str(v).p : NULL);
    AUTO(json) struct json *made = NULL;
    struct archive_progress p;
    const struct archive_watch w = {archive_progress_show, snapshot_on_warning, &p, NULL};
    struct ignore *ig = NULL;
    char here[4096];
    int64_t bytes;

    bool wanted = text || json_bool(v);
    json_del(spec, "snapshot"); /* v is gone now */
    if (!wanted)
        return 0;
    if (!getcwd(here, sizeof(here)))
        return err_sys(e, "cannot read the current directory");
    AUTO_FREE char *dir = path_absolute(text ? text : cwd ? cwd : here, here);
    archive_progress_begin(&p, "snapshot", c->err.is_tty);
    int rc = snapshot_ignore(dir, &ig, e);
    if (rc == 0)
        rc = snapshot_check(dir, ig, &w, &bytes, e);
    if (rc == 0)
        rc = cli_get(c, "/v1", NULL, e); /* finds or starts the daemon */
    if (rc == 0)
        rc = snapshot_send(c->http, dir, ig, &w, &made, e);
    archive_progress_wipe(&p);
    ignore_free(ig);
    if (rc < 0)
        return err_wrap(e, "taking the snapshot");
    json_set_take(spec, "snapshot", json_new_str(text_of(made, "id")));
    set_start(spec, dir, cwd ? cwd : here);
    return 0;
}
