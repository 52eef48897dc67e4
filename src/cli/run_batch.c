/* run_batch.c - many jobs at once: progress while they run, a table at the end
 *
 * Owns: staying with a batch.  It is summed up some times a second, sooner when the end is near.
 * The first Ctrl-C cancels what has not ended, the second leaves at once.
 */
#include "base/clock.h"
#include "base/util.h"
#include "cli/list.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "cli/view.h"
#include <poll.h>
#include <stdio.h>

enum {
    LOOK_MIN_MS = 10,
    LOOK_MAX_MS = 250,
    BEST_OF_BATCH = 3,
    WHOLE_TABLE = 30, /* up to so many jobs are all listed */
    SLOWEST = 5,
    FAILED_SHOWN = 20,
    EXIT_INTERRUPTED = 130,
};

struct batch {
    struct run_session *s;
    const char *id;
    const struct run_opts *o;
    struct progress progress;
    int interrupts;
    int64_t last_done, last_ms;
};

static int cancel_rest(struct batch *b, struct err *e)
{
    AUTO(json) struct json *body = json_new_object();

    json_set_str(body, "batch", b->id);
    return cli_post(b->s->c, "/v1/jobs/cancel", body, NULL, e);
}

/* Does not return at the second Ctrl-C: the jobs keep running without this command. */
static int on_interrupt(struct batch *b, struct err *e)
{
    char byte;

    if (read(b->s->interrupts[0], &byte, 1) != 1)
        return 0;
    progress_clear(&b->progress);
    if (++b->interrupts > 1)
        run_session_abandon(b->s);
    cli_say("cancelling the remaining jobs; press Ctrl-C again to exit at once");
    return cancel_rest(b, e);
}

/* When to look again: soon when little is left at the pace seen, so that the end is not missed. */
static int next_look(struct batch *b, const struct json *counts)
{
    int64_t now = clock_mono(&clock_system), done = counts_done(counts);
    int64_t left = int_of(counts, "total") - done, fresh = done - b->last_done;
    int64_t spent = MAX(now - b->last_ms, 1);

    b->last_done = done;
    b->last_ms = now;
    int64_t rest = fresh > 0 ? left * spent / fresh / 2 : spent * 2;
    return (int)MAX(LOOK_MIN_MS, MIN(LOOK_MAX_MS, rest));
}

/* c->opt.batch restricts the query to this batch.  Ends when all jobs are in a final state. */
static int batch_stay(struct batch *b, struct err *e)
{
    const struct list_query q = {NULL, NULL, NULL, -1};

    b->last_ms = clock_mono(&clock_system);
    for (;;) {
        struct pollfd p = {b->s->interrupts[0], POLLIN, 0};
        AUTO(json) struct json *counts = NULL;
        if (list_counts(b->s->c, &q, &counts, e) < 0)
            return -1;
        progress_show(&b->progress, counts);
        int64_t left = int_of(counts, "total") - counts_done(counts);
        int nap = next_look(b, counts);
        if (!left)
            break;
        if (poll(&p, 1, nap) > 0 && on_interrupt(b, e) < 0)
            return -1;
    }
    progress_clear(&b->progress);
    return 0;
}

/* ---- the table ---- */

/* One section of the table; nothing is added when no job is in these states. */
static int part(struct cli *c, struct buf *out, const char *title, const char *state,
                const char *sort, int64_t limit, struct err *e)
{
    struct list_query q = {NULL, state, sort, limit};
    AUTO(json) struct json *rows = json_new_array();
    bool more = false;
    int rc = list_jobs(c, &q, rows, &more, e);

    if (rc == 0 && json_len(rows)) {
        if (title)
            colour_addf(out, c->out.colour, COLOUR_BOLD, "\n%s", title);
        buf_adds(out, title ? "\n" : "");
        view_table(out, rows, job_columns, n_job_columns, c->out.width, c->out.colour);
        if (more && state)
            buf_addf(out, "and more: berth ls --batch %s --state %s\n", c->opt.batch, state);
    }
    return rc;
}

/* The best jobs by the metric that was named. */
static int best_part(struct cli *c, struct buf *out, const struct best_opts *o, struct err *e)
{
    AUTO(json) struct json *rows = NULL;
    struct chosen_columns cols = {0};
    int rc = best_jobs(c, o, NULL, BEST_OF_BATCH, &cols, &rows, e);

    if (rc == 0 && json_len(rows)) {
        colour_addf(out, c->out.colour, COLOUR_BOLD, "\nBest");
        buf_addc(out, '\n');
        view_table(out, rows, cols.all.p, cols.all.n, c->out.width, c->out.colour);
    } else if (rc == 0) {
        buf_addf(out, "\nno job has reported %s\n", o->maximize ? o->maximize : o->minimize);
    }
    columns_done(&cols);
    return rc;
}

/* Up to WHOLE_TABLE jobs: every job.  More: the slowest and the failed jobs, which people look for.
 */
static int table(struct cli *c, const struct best_opts *best, const struct json *counts,
                 int64_t elapsed_ms, struct err *e)
{
    AUTO(buf) struct buf out = {0};
    char spent[UNIT_TEXT_MAX];
    bool whole = int_of(counts, "total") <= WHOLE_TABLE;
    int rc = 0;

    if (whole)
        rc = part(c, &out, NULL, NULL, "id", WHOLE_TABLE, e);
    if (!whole)
        rc = part(c, &out, "Slowest", "succeeded,failed", "-duration", SLOWEST, e);
    if (!whole && rc == 0)
        rc = part(c, &out, "Failed", "failed,lost,cancelled", "id", FAILED_SHOWN, e);
    if (rc == 0 && (best->maximize || best->minimize))
        rc = best_part(c, &out, best, e);
    if (rc < 0)
        return -1;
    int64_t total = int_of(counts, "total");
    buf_addf(&out, "%s%lld job%s", whole ? "" : "\n", (long long)total, plural_end(total));
    if (elapsed_ms >= 0) {
        duration_format(elapsed_ms, spent);
        buf_addf(&out, " in %s", spent);
    }
    buf_adds(&out, ": ");
    counts_format(&out, counts, c->out.colour);
    buf_addc(&out, '\n');
    cli_print(&out);
    return 0;
}

/* For programs: every job of the batch, as -o json or csv. */
static int all_rows(struct cli *c, struct err *e)
{
    struct list_query q = {NULL, NULL, "id", -1};
    AUTO(json) struct json *rows = json_new_array();
    int rc = list_jobs(c, &q, rows, NULL, e);

    if (rc == 0)
        view_rows(c, rows, job_columns, n_job_columns);
    return rc;
}

int run_batch_table(struct run_session *s, const struct run_opts *o, const char *batch,
                    int64_t elapsed_ms)
{
    const struct list_query q = {NULL, NULL, NULL, -1};
    AUTO(json) struct json *counts = NULL;
    struct err e = {0};
    int rc = 0;

    s->c->opt.batch = batch;
    if (list_counts(s->c, &q, &counts, &e) < 0)
        return cli_fail(&e);
    bool good = int_of(counts, "succeeded") == int_of(counts, "total");
    if (!o->quiet || cli_json(s->c) || cli_csv(s->c))
        rc = cli_json(s->c) || cli_csv(s->c) ? all_rows(s->c, &e)
                                             : table(s->c, &o->best, counts, elapsed_ms, &e);
    return rc < 0 ? cli_fail(&e) : !good;
}

/* The caller frees it.  "jobs" when the batch has no name or the daemon cannot be asked. */
static char *batch_name(struct run_session *s, int64_t first)
{
    AUTO(json) struct json *job = NULL;
    struct err e;

    if (cli_getf(s->c, &job, &e, "/v1/jobs/%lld", (long long)first) < 0)
        return xstrdup("jobs");
    struct str name = text_of(job, "batch_name");
    return name.n ? xstrndup(name.p, name.n) : xstrdup("jobs");
}

int run_batch(struct run_session *s, const struct run_opts *o, const struct json *reply,
              bool *out_interrupted)
{
    struct str id = text_of(reply, "batch");
    AUTO_FREE char *batch = xstrndup(id.p, id.n);
    AUTO_FREE char *name = batch_name(s, int_of(reply, "first"));
    struct batch b = {.s = s, .id = batch, .o = o};
    int64_t start = clock_mono(&clock_system);
    struct err e = {0};

    s->c->opt.batch = batch;
    progress_init(&b.progress, s->c->err, name, o->quiet);
    int rc = batch_stay(&b, &e);
    progress_clear(&b.progress);
    if (out_interrupted)
        *out_interrupted = b.interrupts > 0;
    if (rc < 0)
        rc = cli_fail(&e);
    else
        rc = run_batch_table(s, o, batch, clock_mono(&clock_system) - start);
    s->c->opt.batch = NULL;
    return b.interrupts ? EXIT_INTERRUPTED : rc;
}
