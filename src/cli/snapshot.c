/* snapshot.c - a directory on its way to the daemon, before the jobs that start in it
 *
 * Only contents that the daemon lacks are sent.  What was hashed is noted in the user's cache, so
 * that the next submission of the same directory reads nothing.
 */
#include "archive/snapshot.h"
#include "archive/bundle.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "cli/jobspec.h"
#include "cli/view.h"
#include <stdio.h>

enum { SLOW_MS = 2000, REDRAW_MS = 200 };

struct snapshot_progress {
    bool tty;
    const char *what;
    int64_t start_ms, drawn_ms;
};

/* Short work prints nothing: the line appears after two seconds, on a terminal only. */
static void snapshot_on_progress(void *arg, int64_t bytes, int64_t entries)
{
    struct snapshot_progress *p = arg;
    int64_t now = clock_mono(&clock_system);

    if (!p->tty || now - p->start_ms < SLOW_MS || now - p->drawn_ms < REDRAW_MS)
        return;
    p->drawn_ms = now;
    fprintf(stderr, "\r\033[K%s: %lld files, %.1f MB", p->what, (long long)entries,
            (double)bytes / (1 << 20));
}

static void snapshot_on_warning(void *arg, const char *sentence)
{
    (void)arg;
    cli_say("%s", sentence);
}

/* Where the notes on hashed files are; NULL = nowhere.  Yours. */
static char *notes_dir(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && *cache == '/')
        return path_join(cache, "berth/contents");
    return home && *home == '/' ? path_join(home, ".cache/berth/contents") : NULL;
}

static ssize_t snapshot_fill(void *arg, char *p, size_t n)
{
    return bundle_stream_read(arg, p, n);
}

static int snapshot_send(struct cli *c, const struct bundle *b, const struct archive_watch *w,
                         struct json **out, struct err *e)
{
    static const char *const headers[] = {"Content-Type: application/gzip", NULL};
    struct bundle_stream *stream;
    struct http_response r = {0};
    struct err packing = {0};

    if (bundle_stream_open(b, w, &stream, e) < 0)
        return -1;
    const struct http_source source = {snapshot_fill, stream};
    int rc = http_call_upload(c->http, "POST", "/v1/snapshots", headers, &source, &r, e);
    if (bundle_stream_close(stream, &packing) < 0 && rc < 0)
        *e = packing;
    if (rc == 0)
        rc = http_response_err(&r, e);
    if (rc == 0)
        rc = json_parse(buf_str(&r.body), "the daemon's answer", out, e);
    http_response_done(&r);
    return rc;
}

/* Asks what the daemon lacks and sends that.  A content that it lost meanwhile is a conflict; then
 * everything is sent. */
static int snapshot_upload(struct cli *c, const char *dir, const struct ignore *ig,
                           const struct archive_watch *w, struct json **out, struct err *e)
{
    const struct bundle_part part = {.name = "", .tree = dir, .ignore = ig};
    struct bundle b = {.top = SNAPSHOT_TOP, .parts = &part, .count = 1};
    AUTO_FREE char *notes = notes_dir();
    struct contents *contents = contents_new(notes);
    AUTO(json) struct json *question = NULL;
    AUTO(json) struct json *answer = NULL;

    int rc = contents_add(contents, dir, ig, w, e);
    if (rc == 0) {
        question = contents_question(contents);
        rc = cli_post(c, "/v1/snapshots/contents", question, &answer, e);
    }
    if (rc == 0) {
        contents_take_answer(contents, answer);
        b.contents = contents;
        rc = snapshot_send(c, &b, w, out, e);
        if (rc < 0 && e->code == ERR_CONFLICT) {
            b.contents = NULL;
            rc = snapshot_send(c, &b, w, out, e);
        }
    }
    contents_free(contents);
    return rc;
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
    struct snapshot_progress p = {
        .tty = c->err.is_tty, .what = "snapshot", .start_ms = clock_mono(&clock_system)};
    const struct archive_watch w = {snapshot_on_progress, snapshot_on_warning, &p, NULL};
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
    int rc = snapshot_ignore(dir, &ig, e);
    if (rc == 0)
        rc = snapshot_check(dir, ig, &w, &bytes, e);
    if (rc == 0)
        rc = snapshot_upload(c, dir, ig, &w, &made, e);
    if (p.drawn_ms)
        fputs("\r\033[K", stderr);
    ignore_free(ig);
    if (rc < 0)
        return err_wrap(e, "taking the snapshot");
    json_set_take(spec, "snapshot", json_new_str(text_of(made, "id")));
    set_start(spec, dir, cwd ? cwd : here);
    return 0;
}
