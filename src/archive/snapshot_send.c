/* snapshot_send.c - a directory on its way to a daemon, and back
 *
 * Only contents that the daemon lacks are sent.  What was hashed is noted in the user's cache, so
 * that the next submission of the same directory reads nothing.
 */
#include "archive/bundle.h"
#include "archive/snapshot.h"
#include "archive/unpack.h"
#include "base/file.h"
#include "base/util.h"
#include "io/http_client.h"

enum { ANSWER_MAX = 1 << 20 };

/* Where the notes on hashed files are; NULL = nowhere.  Yours. */
static char *notes_dir(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && *cache == '/')
        return path_join(cache, "berth/contents");
    return home && *home == '/' ? path_join(home, ".cache/berth/contents") : NULL;
}

/* The http_source of an upload: the bundle is packed while it is sent. */
static ssize_t snapshot_fill(void *arg, char *p, size_t n)
{
    return bundle_stream_read(arg, p, n);
}

static int bundle_send(struct http_client *http, const struct bundle *b,
                       const struct archive_watch *w, struct json **out, struct err *e)
{
    static const char *const headers[] = {"Content-Type: application/gzip", NULL};
    struct bundle_stream *stream;
    struct http_response r = {0};
    struct err packing = {0};

    if (bundle_stream_open(b, w, &stream, e) < 0)
        return -1;
    const struct http_source source = {snapshot_fill, stream};
    int rc = http_call_upload(http, "POST", "/v1/snapshots", headers, &source, &r, e);
    /* When both sides failed, the packing is the cause: the upload only says that its source gave
     * up. */
    if (bundle_stream_close(stream, &packing) < 0 && rc < 0)
        *e = packing;
    if (rc == 0)
        rc = http_response_err(&r, e);
    if (rc == 0)
        rc = json_parse(buf_str(&r.body), "the daemon's answer", out, e);
    http_response_done(&r);
    return rc;
}

/* Marks in `c` which contents the daemon has.  An error leaves all of them unmarked. */
static int contents_ask(struct http_client *http, struct contents *c, struct err *e)
{
    AUTO(json) struct json *question = contents_question(c);
    AUTO_FREE char *text = json_text(question);
    AUTO(json) struct json *answer = NULL;
    struct http_response r = {0};

    int rc = http_call(http, "POST", "/v1/snapshots/contents", NULL, str_of(text), &r, e);
    if (rc == 0)
        rc = http_response_err(&r, e);
    if (rc == 0)
        rc = json_parse(buf_str(&r.body), "the daemon's answer", &answer, e);
    if (rc == 0)
        contents_take_answer(c, answer);
    http_response_done(&r);
    return rc;
}

/* Asks what the daemon lacks and sends that.  A content that it lost meanwhile is a conflict; then
 * everything is sent. */
int snapshot_send(struct http_client *http, const char *dir, const struct ignore *ig,
                  const struct archive_watch *w, struct json **out, struct err *e)
{
    const struct bundle_part part = {.name = "", .tree = dir, .ignore = ig};
    struct bundle b = {.top = SNAPSHOT_TOP, .parts = &part, .count = 1};
    AUTO_FREE char *notes = notes_dir();
    struct contents *contents = contents_new(notes);

    int rc = contents_add(contents, dir, ig, w, e);
    if (rc == 0)
        rc = contents_ask(http, contents, e);
    if (rc == 0) {
        b.contents = contents;
        rc = bundle_send(http, &b, w, out, e);
        if (rc < 0 && e->code == ERR_CONFLICT) {
            b.contents = NULL;
            rc = bundle_send(http, &b, w, out, e);
        }
    }
    contents_free(contents);
    return rc;
}

/* ---- back ---- */

/* The bytes go to the archive, or, of a failure, to the text that says why. */
struct fetching {
    struct unpack *unpack;
    int status;
    struct http_response failed;
    struct err e;
    int rc;
};

static bool snapshot_on_bytes(void *arg, struct str piece)
{
    struct fetching *f = arg;

    if (f->status >= 400)
        return buf_add(&f->failed.body, piece.p, piece.n);
    f->rc = unpack_feed(f->unpack, piece.p, piece.n, &f->e);
    return f->rc == 0;
}

/* The status arrives before the first byte, so snapshot_on_bytes knows what the bytes are.  The
 * directory exists only after unpack_finish. */
int snapshot_fetch(struct http_client *http, const char *path, const char *dir, struct err *e)
{
    const struct unpack_conf conf = {.top = SNAPSHOT_TOP, .outside_links = true};
    struct fetching f = {0};

    buf_init(&f.failed.body, ANSWER_MAX);
    int rc = unpack_open_dir(dir, &conf, &f.unpack, e);
    if (rc == 0)
        rc =
            http_call_stream(http, "GET", path, NULL, STR(""), &f.status, snapshot_on_bytes, &f, e);
    if (rc == 0 && f.status >= 400) {
        f.failed.status = f.status;
        rc = http_response_err(&f.failed, e);
    } else if (rc == 0 && f.rc < 0) {
        *e = f.e;
        rc = -1;
    }
    if (rc == 0)
        rc = unpack_finish(f.unpack, e);
    unpack_free(f.unpack);
    http_response_done(&f.failed);
    return rc;
}
