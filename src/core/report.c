/* report.c - what jobs say about themselves: metrics, parameters, tags, artifacts, epochs
 *
 * A job appends lines to its spool file (report_lines.h has their form) and sends them as well;
 * each line is known by its offset in that file, so a line counts once however often it arrives.
 * What was never sent is read from the file when the run ends, and the run ends when all of it is
 * in.
 *
 * Pieces of more than a few lines are read on another thread.  Meanwhile others may arrive, for the
 * same run too; a piece counts only if it begins where the run stands when it comes back, so none
 * counts twice, and its offset is staged together with what it brought, so none is half there.
 */
#include "base/file.h"
#include "base/user_rights.h"
#include "core/core_priv.h"
#include "core/report_lines.h"
#include "core/track.h"
#include <fcntl.h>
#include <sys/stat.h>

enum {
    PIECE_BYTES = 1 << 20, /* of a spool, read at once */
    HERE_BYTES = 4 << 10,  /* as quickly read as handed to another thread */
    REST_MAX = 16 << 20,   /* where a run must end at once: a third of a second */
};

#define SPOOL_NAME "spool.jsonl"

/* ---- a piece of lines, read and staged ---- */

/* Everything but points goes to its run, or to the store as a mark. */
static void stage_item(struct core *c, struct run_key key, const struct report_item *it)
{
    struct change ch = {.at_ms = it->at_ms};

    if (it->kind == 'm') {
        ch.kind = CHANGE_POINTS;
        ch.points = (struct change_points){key, it->name, it->text};
    } else if (it->kind == 's') {
        ch.kind = CHANGE_TEXT_POINT;
        ch.text_point = (struct change_text_point){key, it->name, it->text, it->step};
    } else {
        ch.kind = CHANGE_MARK;
        ch.mark = (struct change_mark){key, it->kind, it->name, it->text, it->step};
    }
    if (it->kind == 'e' && it->step >= 0)
        train_reported(c, key.job, it->step + 1);
    core_stage(c, &ch);
    if (it->kind == 'm')
        study_job_points(c, key.job, it->name, it->text);
}

/* The end that the lines tell of, NULL when they do not: only a run that is not ours may. */
static const struct report_item *stage_batch(struct core *c, struct run *r,
                                             const struct report_batch *b)
{
    const struct report_item *end = NULL;

    for (size_t i = 0; i < b->items.n; i++) {
        if (b->items.p[i].kind != 'x')
            stage_item(c, r->key, &b->items.p[i]);
        else if (r->outside)
            end = &b->items.p[i];
    }
    r->spool_offset += (int64_t)b->used;
    core_stage(c, &(struct change){.kind = CHANGE_SPOOL,
                                   .at_ms = core_wall(c),
                                   .spool = {.key = r->key,
                                             .offset = r->spool_offset,
                                             .summary = buf_str(&b->summary)}});
    return end;
}

/* NULL: the run is over, or another run of the job has begun. */
static struct run *reported_run(const struct core *c, struct run_key key)
{
    struct job *j = core_job(c, key.job);

    return j && j->run && run_key_eq(j->run->key, key) && j->run->phase != RUN_OVER ? j->run : NULL;
}

/* ---- sent by the job ---- */

/* One report that a job has sent.  `lines` is borrowed from the caller until `done`. */
struct reporting {
    struct core *c;
    struct run_key key;
    int64_t from; /* where the lines begin */
    struct str lines;
    int64_t now_ms;
    struct report_batch batch;
    core_report_fn done;
    void *arg;
    int64_t offset; /* the answer */
};

static void reporting_free(struct reporting *x)
{
    report_batch_done(&x->batch);
    free(x);
}

static void report_on_stored(void *arg, const struct err *e)
{
    struct reporting *x = arg;

    x->done(x->arg, e, x->offset);
    reporting_free(x);
}

static void run_is_over(struct reporting *x)
{
    struct err e = {0};

    err_set(&e, ERR_CONFLICT,
            "run %u of job %llu is over; its last reports were read from its spool", x->key.run,
            (unsigned long long)x->key.job);
    x->done(x->arg, &e, 0);
    reporting_free(x);
}

static void read_lines(void *arg) /* any thread */
{
    struct reporting *x = arg;

    report_read(&x->batch, x->lines, x->now_ms);
}

/* Back on the loop thread.  The piece counts only if the run stands where the piece begins. */
static void lines_read(void *arg)
{
    struct reporting *x = arg;
    struct run *r = reported_run(x->c, x->key);

    if (!r) {
        run_is_over(x);
        return;
    }
    if (r->chain.ahead) /* it reports, so it has started: its row must be there for the offset */
        ahead_arrived(x->c, r, core_wall(x->c));
    const struct report_item *end = NULL;
    if (r->spool_offset == x->from && x->batch.used)
        end = stage_batch(x->c, r, &x->batch);
    x->offset = r->spool_offset;
    if (end) {
        struct run_outcome o;
        outside_outcome(x->c, end->code, &o);
        report_end(x->c, r, &o, end->text);
    }
    core_barrier(x->c, report_on_stored, x);
}

/* work runs here or on another thread, done always on the loop thread. */
static void read_somewhere(struct core *c, size_t bytes, void (*work)(void *), void (*done)(void *),
                           void *x)
{
    if (bytes > HERE_BYTES && c->conf.ops->offload &&
        c->conf.ops->offload(c->conf.self, work, done, x))
        return;
    work(x);
    done(x);
}

void core_report(struct core *c, struct run_key key, int64_t offset, struct str lines,
                 core_report_fn done, void *arg)
{
    struct reporting *x = xcalloc(1, sizeof(*x));
    struct run *r = reported_run(c, key);

    *x = (struct reporting){.c = c, .key = key, .done = done, .arg = arg, .now_ms = core_wall(c)};
    if (!r) {
        run_is_over(x);
        return;
    }
    core_heard(c, key);
    x->from = r->spool_offset;
    if (offset >= 0 && offset <= x->from && offset + (int64_t)lines.n > x->from) {
        size_t seen = (size_t)(x->from - offset);
        x->lines = (struct str){lines.p + seen, lines.n - seen};
    }
    read_somewhere(c, x->lines.n, read_lines, lines_read, x);
}

/* ---- read from the file ---- */

/* One at a time for a run, which may end or be gone before it is through. */
struct draining {
    struct core *c;
    struct run_key key;
    char *run_dir, *path; /* path: of the spool in it */
    int64_t from, now_ms;
    char *text;
    struct report_batch batch;
    bool full;  /* the piece was: there is more */
    bool again; /* so there is, was heard meanwhile */
    bool ends;  /* when all is in, the run ends so */
    struct run_outcome outcome;
    char *detail;
};

static char *spool_path(const struct core *c, struct run_key key)
{
    AUTO_FREE char *dir = core_run_dir(c, key);

    return path_join(dir, SPOOL_NAME);
}

/* 0 when there is none, or nothing that could be one. */
static int64_t spool_size(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : 0;
}

static void draining_free(struct draining *x)
{
    report_batch_done(&x->batch);
    free(x->run_dir);
    free(x->path);
    free(x->text);
    free(x->detail);
    free(x);
}

/* The directory of the run is its user's, so by now the file may be anything. */
static int spool_open(const char *run_dir)
{
    AUTO_FD dir = open(run_dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (dir < 0 || user_rights_enter_owner(dir, NULL) < 0)
        return -1;
    AUTO_FD fd = user_open_beneath(dir, SPOOL_NAME, O_RDONLY, NULL);
    user_rights_leave();
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? TAKE_FD(fd) : -1;
}

static void read_piece(void *arg) /* any thread */
{
    struct draining *x = arg;
    AUTO_FD fd = spool_open(x->run_dir);
    ssize_t got = fd < 0 ? -1 : pread(fd, x->text, PIECE_BYTES, x->from);

    report_read(&x->batch, (struct str){x->text, got > 0 ? (size_t)got : 0}, x->now_ms);
    x->full = got == PIECE_BYTES && x->batch.used;
}

static void report_next_piece(void *arg, const struct err *e);

static void report_piece_read(void *arg)
{
    struct draining *x = arg;
    struct run *r = reported_run(x->c, x->key);

    if (!r) {
        draining_free(x);
        return;
    }
    const struct report_item *end = NULL;
    bool moved = r->spool_offset != x->from; /* by what the job sent meanwhile */
    if (!moved && x->batch.used)
        end = stage_batch(x->c, r, &x->batch);
    if (end) {
        x->ends = true;
        outside_outcome(x->c, end->code, &x->outcome);
        free(x->detail);
        x->detail = xstrndup(end->text.p, end->text.n);
    }
    if (moved || x->full || x->again) {
        core_barrier(x->c, report_next_piece,
                     x); /* what is in memory goes to disk before more is read */
        return;
    }
    r->drain = NULL;
    r->read_out = x->ends;
    if (x->ends)
        run_end(x->c, r, &x->outcome, str_of(x->detail));
    draining_free(x);
}

static void report_next_piece(void *arg, const struct err *e)
{
    struct draining *x = arg;
    struct run *r = reported_run(x->c, x->key);

    (void)e;
    if (!r) {
        draining_free(x);
        return;
    }
    report_batch_done(&x->batch);
    x->again = false;
    x->from = r->spool_offset;
    x->now_ms = core_wall(x->c);
    int64_t rest = spool_size(x->path) - x->from;
    read_somewhere(x->c, rest > 0 ? (size_t)rest : 0, read_piece, report_piece_read, x);
}

/* Reads the spool from where the run stands.  With an outcome the run ends when all is in; of
 * several outcomes the first stays, unless the spool itself tells the end.  A drain that is under
 * way looks once more. */
static void report_drain(struct core *c, struct run *r, const struct run_outcome *o,
                         struct str detail)
{
    struct draining *x = r->drain;

    if (!x) {
        x = r->drain = xcalloc(1, sizeof(*x));
        *x = (struct draining){.c = c,
                               .key = r->key,
                               .run_dir = core_run_dir(c, r->key),
                               .path = spool_path(c, r->key)};
        x->text = xmalloc(PIECE_BYTES);
    } else {
        x->again = true;
    }
    if (o && !x->ends) {
        x->ends = true;
        x->outcome = *o;
        x->detail = xstrndup(detail.p, detail.n);
    }
    if (!x->again)
        report_next_piece(x, NULL);
}

/* False without a home: then there are no files. */
static bool spool_has_more(const struct core *c, const struct run *r)
{
    if (!c->conf.home.dir)
        return false;
    AUTO_FREE char *path = spool_path(c, r->key);
    return spool_size(path) > r->spool_offset;
}

void report_spooled(struct core *c, struct run *r)
{
    if (r->drain || spool_has_more(c, r))
        report_drain(c, r, NULL, STR(""));
}

void report_end(struct core *c, struct run *r, const struct run_outcome *o, struct str detail)
{
    if (r->drain || spool_has_more(c, r)) {
        report_drain(c, r, o, detail);
        return;
    }
    r->read_out = true;
    run_end(c, r, o, detail);
}

void report_drain_spool(struct core *c, struct run *r)
{
    int64_t from = r->spool_offset;

    while (!r->read_out && spool_has_more(c, r) && r->spool_offset - from < REST_MAX) {
        struct draining x = {.run_dir = core_run_dir(c, r->key),
                             .from = r->spool_offset,
                             .text = xmalloc(PIECE_BYTES),
                             .now_ms = core_wall(c)};
        read_piece(&x);
        size_t used = x.batch.used;
        if (used)
            stage_batch(c, r, &x.batch);
        report_batch_done(&x.batch);
        free(x.run_dir);
        free(x.text);
        if (!used)
            return; /* only the beginning of a line is left */
    }
    if (r->spool_offset - from >= REST_MAX && c->conf.ops->notice)
        c->conf.ops->notice(
            c->conf.self,
            STR("a job left more than 16 MiB of reports behind; the rest stays in its spool"));
}
