/* report.c - what jobs say about themselves: metrics, tags, artifacts, epochs
 *
 * A job appends JSON lines to its spool file and sends them as well; each line is known by its
 * offset in that file, so a line counts once however often it arrives.  What was never sent is read
 * from the file when the run ends.
 *
 *   {"k":"m","n":"loss","v":0.3,"s":10,"t":1731700000000}    metric, value, step, time
 *   {"k":"t","n":"kind","x":"resnet","t":…}                  tag
 *   {"k":"a","n":"model","x":"artifacts/model.pt","t":…}     artifact
 *   {"k":"e","s":3,"t":…}                                    epoch 3 is done
 */
#include "base/file.h"
#include "base/json.h"
#include "core/core_priv.h"
#include <fcntl.h>
#include <sys/stat.h>

enum {
    SPOOL_PIECE = 1 << 20,
    SPOOL_REST_MAX = 16 << 20, /* of what was never sent: a third of a second on the loop */
    NAME_MAX_BYTES = 200,
    TEXT_MAX_BYTES = 4096,
};

static struct str text_of(const struct json *o, const char *key, size_t max)
{
    struct str s = json_type(json_get(o, key)) == JSON_STR ? json_str(json_get(o, key)) : STR("");

    s.n = MIN(s.n, max);
    return s;
}

static void stage_report(struct core *c, struct run_key key, const struct json *o)
{
    struct str kind = text_of(o, "k", 1);
    const struct json *t = json_get(o, "t"), *v = json_get(o, "v");
    bool numeric = json_type(v) == JSON_INT || json_type(v) == JSON_REAL;
    struct change ch = {.kind = CHANGE_REPORT,
                        .key = key,
                        .at_ms = json_type(t) == JSON_INT ? json_int(t) : core_wall(c),
                        .report_kind = kind.n ? kind.p[0] : 0,
                        .name = text_of(o, "n", NAME_MAX_BYTES),
                        .text = text_of(o, "x", TEXT_MAX_BYTES),
                        .step = json_type(json_get(o, "s")) == JSON_INT ? json_int(json_get(o, "s"))
                                                                        : -1,
                        .value = numeric ? json_real(v) : 0};

    switch (ch.report_kind) {
    case 'm':
        if (!ch.name.n || !numeric)
            return;
        break;
    case 't':
    case 'a':
        if (!ch.name.n)
            return;
        break;
    case 'e':
        ch.name = STR("epoch");
        if (ch.step >= 0)
            train_reported(c, key.job, ch.step + 1);
        break;
    default:
        return;
    }
    core_stage(c, &ch);
}

/* Stages whole lines from `skip` on; returns how many bytes of `lines` are done with. */
static size_t stage_lines(struct core *c, struct run_key key, struct str lines, size_t skip)
{
    size_t at = skip;

    while (at < lines.n) {
        const char *nl = memchr(lines.p + at, '\n', lines.n - at);
        if (!nl)
            break; /* the rest of this line comes later */
        struct str line = {lines.p + at, (size_t)(nl - lines.p) - at};
        struct json *o = NULL;
        struct err e;
        if (line.n && json_parse(line, "report", &o, &e) == 0 && json_type(o) == JSON_OBJECT)
            stage_report(c, key, o);
        json_free(o);
        at += line.n + 1;
    }
    return at;
}

static void advance(struct core *c, struct run *r, int64_t offset)
{
    r->spool_offset = offset;
    core_stage(c, &(struct change){.kind = CHANGE_SPOOL, .key = r->key, .offset = offset});
}

struct reporting {
    core_report_fn done;
    void *arg;
    int64_t offset;
};

static void on_reported(void *arg, const struct err *e)
{
    struct reporting *x = arg;

    x->done(x->arg, e, x->offset);
    free(x);
}

void core_report(struct core *c, struct run_key key, int64_t offset, struct str lines,
                 core_report_fn done, void *arg)
{
    struct job *j = core_job(c, key.job);
    struct err e = {0};

    if (!j || !j->run || !run_key_eq(j->run->key, key)) {
        err_set(&e, ERR_CONFLICT,
                "run %u of job %llu is over; its last reports were read from its spool", key.run,
                (unsigned long long)key.job);
        done(arg, &e, 0);
        return;
    }
    struct run *r = j->run;
    if (offset >= 0 && offset <= r->spool_offset && offset + (int64_t)lines.n > r->spool_offset) {
        size_t end = stage_lines(c, key, lines, (size_t)(r->spool_offset - offset));
        if (offset + (int64_t)end > r->spool_offset)
            advance(c, r, offset + (int64_t)end);
    }
    struct reporting *x = xmalloc(sizeof(*x));
    *x = (struct reporting){done, arg, r->spool_offset};
    core_barrier(c, on_reported, x);
}

static int spool_open(const struct core *c, const struct run *r, off_t *out_size)
{
    AUTO_FREE char *dir = core_run_dir(c, r->key);
    AUTO_FREE char *path = path_join(dir, "spool.jsonl");
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= r->spool_offset)
        return -1;
    *out_size = st.st_size;
    return TAKE_FD(fd);
}

void report_drain_spool(struct core *c, struct run *r)
{
    off_t size = 0, from = r->spool_offset;

    if (!c->home)
        return;
    AUTO_FD fd = spool_open(c, r, &size);
    if (fd < 0)
        return;
    AUTO_FREE char *text = xmalloc(SPOOL_PIECE);
    while (r->spool_offset < size && r->spool_offset - from < SPOOL_REST_MAX) {
        ssize_t got = pread(fd, text, SPOOL_PIECE, r->spool_offset);
        size_t end = got > 0 ? stage_lines(c, r->key, (struct str){text, (size_t)got}, 0) : 0;
        if (!end)
            break; /* only the beginning of a line is left */
        advance(c, r, r->spool_offset + (int64_t)end);
    }
    if (r->spool_offset - from >= SPOOL_REST_MAX && c->conf.notice)
        c->conf.notice(
            c->conf.notice_arg,
            STR("a job left more than 16 MiB of reports behind; the rest stays in its spool"));
}
