/* foundations_bundle.c - the job's directory on its way to the scheduler
 *
 * The bundle is packed while it is sent (archive/bundle.h), as one field of a form.  Whatever ends
 * the transfer ends the packing, and the server keeps no half of a bundle.
 */
#include "archive/bundle.h"
#include "archive/progress.h"
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/foundations.h"
#include "host/home.h"
#include <glob.h>
#include <stdio.h>

enum { CONFIG_MAX = 8 << 20 };
enum { WORTH_ASKING = 256 << 10 }; /* a smaller bundle is sent while others still ask */
#define PARAMETERS "job_source/foundations_job_parameters.json"

/* ---- what takes long says so: on a terminal, on stderr ---- */

/* `line` comes first: it is what archive_progress_show gets. */
struct patience {
    struct archive_progress line;
    struct foundations *f;
};

static void bundle_on_warning(void *arg, const char *sentence)
{
    found_warning(((struct patience *)arg)->f, sentence);
}

static struct archive_watch watch_of(struct patience *p, struct foundations *f, const char *what)
{
    p->f = f;
    archive_progress_begin(&p->line, what, f->c->err.is_tty);
    return (struct archive_watch){.progress = archive_progress_show,
                                  .warn = bundle_on_warning,
                                  .ctx = p,
                                  .cancel = found_interrupt_flag()};
}

static int load_ignore(const char *dir, struct ignore **out, struct err *e)
{
    AUTO_FREE char *path = path_join(dir, ".foundationsignore");

    return ignore_load(path, out, e);
}

int found_bundle_estimate(struct foundations *f, const char *dir, int64_t *out_bytes, struct err *e)
{
    struct bundle_size size = {0};
    struct ignore *ig = NULL;
    struct patience p;
    struct archive_watch w = watch_of(&p, f, "Estimating bundle size");

    if (load_ignore(dir, &ig, e) < 0)
        return -1;
    int rc = bundle_estimate(dir, ig, &w, &size, e);
    archive_progress_wipe(&p.line);
    ignore_free(ig);
    *out_bytes = size.bytes;
    return rc;
}

/* ---- parts of a bundle ---- */

struct pack {
    struct foundations *f;
    VEC(struct bundle_part) parts;
    VEC(char *) owned; /* names and texts the parts borrow */
    struct ignore *ignore, *caches;
    struct bundle bundle;
    struct contents *contents;
    struct patience patience;
    struct archive_watch watch;
};

static const char *own(struct pack *k, char *text)
{
    vec_push(&k->owned, text);
    return text;
}

/* Configs in the root of the directory are also beside job_source, where the SDK looks for them. */
static int add_configs(struct pack *k, const struct found_job *j, struct err *e)
{
    AUTO_FREE char *pattern = NULL;
    glob_t found = {0};
    int rc = 0;

    pattern = path_join(j->dir, "*.config.yaml");
    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc && rc == 0; i++) {
        char *text = NULL;
        size_t n = 0;
        rc = file_read_all(found.gl_pathv[i], CONFIG_MAX, &text, &n, e);
        if (rc < 0)
            break;
        own(k, text);
        struct bundle_part part = {
            .name = own(k, xstrdup(strrchr(found.gl_pathv[i], '/') + 1)),
            .bytes = {text, n},
        };
        vec_push(&k->parts, part);
    }
    globfree(&found);
    return rc;
}

/* A text in single quotes, for a file that a shell reads. */
static void shell_quote(struct buf *b, const char *text)
{
    buf_addc(b, '\'');
    for (; *text; text++)
        buf_adds(b, *text == '\'' ? "'\\''" : (char[]){*text, '\0'});
    buf_addc(b, '\'');
}

static void add_env(struct pack *k, const struct found_job *j)
{
    struct buf b = {0};

    buf_init(&b, 64 << 10);
    buf_addf(&b, "export FOUNDATIONS_JOB_ID=%s\nexport FOUNDATIONS_PROJECT_NAME=", j->id);
    shell_quote(&b, j->project);
    buf_adds(&b, "\nexport FOUNDATIONS_USER=");
    shell_quote(&b, json_str(json_get(j->metadata, "username")).p);
    buf_addc(&b, '\n');
    size_t n = b.n;
    struct bundle_part part = {.name = "run.env"};
    part.bytes = (struct str){own(k, buf_take(&b, &n)), n};
    vec_push(&k->parts, part);
}

/* The packages a job imports travel with it, so any image with a Python will do. */
static int add_packages(struct pack *k, struct err *e)
{
    static const char *const names[] = {"foundations", "berth"};
    AUTO_FREE char *dir = home_python_path();

    if (!dir)
        return err_set(
            e, ERR_NOT_FOUND,
            "the Python packages of this program are not beside it; install it whole, or "
            "set BERTH_PYTHON to their directory");
    k->caches = ignore_parse(STR("__pycache__/\n"));
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct bundle_part part = {
            .name = names[i], .tree = own(k, path_join(dir, names[i])), .ignore = k->caches};
        vec_push(&k->parts, part);
    }
    return 0;
}

/* Later parts win: the parameters replace a file of that name in the job's directory. */
static int pack_make(struct pack *k, const struct found_job *j, struct err *e)
{
    if (load_ignore(j->dir, &k->ignore, e) < 0)
        return -1;
    struct bundle_part source = {.name = "job_source", .tree = j->dir, .ignore = k->ignore};
    vec_push(&k->parts, source);
    if (j->params) {
        struct bundle_part params = {.name = PARAMETERS};
        params.bytes = str_of(own(k, json_text(j->params)));
        vec_push(&k->parts, params);
    }
    if (add_configs(k, j, e) < 0 || add_packages(k, e) < 0)
        return -1;
    add_env(k, j);
    k->bundle = (struct bundle){.top = j->id, .parts = k->parts.p, .count = k->parts.n};
    return 0;
}

static void pack_done(struct pack *k)
{
    for (size_t i = 0; i < k->owned.n; i++)
        free(k->owned.p[i]);
    vec_done(&k->owned);
    vec_done(&k->parts);
    ignore_free(k->ignore);
    ignore_free(k->caches);
    contents_free(k->contents);
}

/* ---- sending ---- */

/* The body of the upload, written piece by piece in the order of `at`. */
struct form {
    struct bundle_stream *stream;
    struct buf head, tail; /* what stands around the file in the form */
    enum { FORM_HEAD, FORM_FILE, FORM_TAIL } at;
};

static ssize_t bundle_take_text(struct buf *b, char *p, size_t n)
{
    n = MIN(n, b->n);
    memcpy(p, buf_str(b).p, n);
    buf_consume(b, n);
    return (ssize_t)n;
}

/* Head, bundle, tail of the form.  The tail is sent only when packing succeeded: a cut form is
 * refused by the server. */
static ssize_t fill_form(void *arg, char *p, size_t n)
{
    struct form *form = arg;
    ssize_t got = 0;

    if (found_interrupted(NULL))
        return -1;
    if (form->at == FORM_HEAD) {
        if (form->head.n)
            return bundle_take_text(&form->head, p, n);
        form->at = FORM_FILE;
    }
    if (form->at == FORM_FILE) {
        got = bundle_stream_read(form->stream, p, n);
        if (got != 0)
            return got;
        form->at = FORM_TAIL;
    }
    return bundle_take_text(&form->tail, p, n);
}

static void form_init(struct form *form, const char *id, char boundary[64])
{
    *form = (struct form){0};
    snprintf(boundary, 64, "foundations-%s", id);
    buf_init(&form->head, 4096);
    buf_init(&form->tail, 4096);
    buf_addf(&form->head,
             "--%s\r\nContent-Disposition: form-data; name=\"job_bundle\"; filename=\"%s.tgz\"\r\n"
             "Content-Type: application/gzip\r\n\r\n",
             boundary, id);
    buf_addf(&form->tail, "\r\n--%s--\r\n", boundary);
}

static int send_form(struct foundations *f, struct pack *k, const char *id, struct err *e)
{
    struct http_response r = {0};
    struct form form;
    char boundary[64], type[128];
    const char *headers[] = {type, NULL};
    struct http_source source = {fill_form, &form};

    form_init(&form, id, boundary);
    snprintf(type, sizeof(type), "Content-Type: multipart/form-data; boundary=%s", boundary);
    int rc = bundle_stream_open(&k->bundle, &k->watch, &form.stream, e);
    if (rc == 0) {
        struct err packing = {0};
        rc = http_call_upload(f->http, "POST", "/job_bundle", headers, &source, &r, e);
        bool packed = bundle_stream_close(form.stream, &packing) == 0;
        archive_progress_wipe(&k->patience.line);
        if (rc < 0 && !packed)
            *e = packing;
        rc = rc < 0 ? found_unreachable(e) : http_response_err(&r, e);
    }
    buf_done(&form.head);
    buf_done(&form.tail);
    http_response_done(&r);
    return rc;
}

/* When the scheduler lost a content it had promised, the bundle is sent again as a whole. */
int found_bundle_upload(struct foundations *f, const struct found_job *j, int64_t bytes,
                        struct err *e)
{
    struct pack k = {.f = f};

    found_step(f, "POST /job_bundle %s.tgz", j->id);
    k.watch = watch_of(&k.patience, f, "Looking for what is new");
    int rc = pack_make(&k, j, e);
    if (rc == 0 && bytes >= WORTH_ASKING)
        rc = found_contents_ask(f, &k.bundle, &k.watch, &k.contents, e);
    archive_progress_wipe(&k.patience.line);
    k.watch = watch_of(&k.patience, f, "Sending bundle");
    k.bundle.contents = k.contents;
    if (rc == 0)
        rc = send_form(f, &k, j->id, e);
    if (rc < 0 && k.contents && e->code == ERR_CONFLICT && !found_interrupted(NULL)) {
        found_step(f, "once more, whole: %s", e->text);
        k.bundle.contents = NULL;
        rc = send_form(f, &k, j->id, e);
    }
    pack_done(&k);
    return rc;
}
