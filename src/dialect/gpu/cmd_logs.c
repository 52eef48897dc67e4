/* cmd_logs.c - scheduler-get-logs: what a job printed, all attempts in one
 *
 * Owns: the line between two attempts.  Each attempt has a file of its own; they are joined here,
 * so a reader sees one text per job, in order, with one line before each attempt that names it.
 */
#include "base/util.h"
#include "base/vec.h"
#include "cli/follow.h"
#include "cli/view.h"
#include "dialect/gpu/cmd.h"
#include <poll.h>

static const char me[] = "scheduler-get-logs";
/* NAP_MS: before a daemon that did not answer is asked again.  PIECE_MAX: the tail of one
 * attempt. */
enum { NAP_MS = 50, PIECE_MAX = 256 << 20 };

struct logs_opts {
    bool follow;
    struct opt_num tail;
};
#define LOGS(member) offsetof(struct logs_opts, member)
static const struct opt own_opts[] = {
    {"follow", 'f', OPT_FLAG, NULL, LOGS(follow),
     "print new output of all attempts until the job ends", COMPLETE_NONE, NULL},
    {"tail", 0, OPT_INT, "N", LOGS(tail), "only the last N lines", COMPLETE_NONE, NULL},
};
static const struct opt_group own_group = {"Output", own_opts, ARRAY_SIZE(own_opts), false};

/* One call of the command.  `id` and `job` are freed by get_logs. */
struct logs {
    struct cli *c;
    const char *ref;
    char *id;
    struct json *job; /* as last asked for */
    char last;        /* byte that was printed; 0 = none */
};

/* Reads the record of the job again: it lists the attempts so far. */
static int ask_again(struct logs *l, struct err *e)
{
    struct json *job = NULL;

    if (gpu_job_get(l->c, l->ref, &job, e) < 0)
        return -1;
    json_free(l->job);
    l->job = job;
    if (!l->id) {
        struct str id = text_of(job, "id");
        l->id = xstrndup(id.p, id.n);
        l->ref = l->id; /* the beginning of an id may not be the only one for ever */
    }
    return 0;
}

/* The list of the GPU scheduler has the jobs of all users, but their output is theirs.  Asked
 * before anything is printed: a run without a file must not look like a job that cannot be read. */
static int logs_allowed(const struct logs *l, struct err *e)
{
    AUTO_FREE char *path = xasprintf("/v1/jobs/%s", l->id);
    AUTO(json) struct json *job = NULL;

    return cli_get(l->c, path, &job, e);
}

/* The states of this dialect after which no attempt follows. */
static bool is_final(const struct json *job)
{
    struct str s = text_of(job, "state");

    return str_eq_c(s, "finished") || str_eq_c(s, "failed") || str_eq_c(s, "cancelled");
}

static const struct json *logs_run_at(const struct logs *l, size_t i)
{
    return json_at(json_get(l->job, "runs"), i);
}

/* "---- attempt 2, 2026-11-16 00:12:31, GPUs 0,1 ----" */
static void separator(struct buf *b, const struct logs *l, size_t i)
{
    const struct json *run = logs_run_at(l, i), *gpus = json_get(run, "gpus");
    char stamp[STAMP_TEXT_MAX] = "not started";

    if (time_of(run, "started"))
        stamp_format(time_of(run, "started"), stamp);
    buf_addf(b, "---- attempt %lld, %s", (long long)int_of(run, "run"), stamp);
    for (size_t k = 0; k < json_len(gpus); k++)
        buf_addf(b, "%s%lld",
                 k                    ? ","
                 : json_len(gpus) > 1 ? ", GPUs "
                                      : ", GPU ",
                 (long long)int_of(json_at(gpus, k), "index"));
    buf_adds(b, " ----\n");
}

/* cli_print writes at once, so the line stands before the output that follow_log writes.  It is a
 * line of its own also behind a progress bar that had not ended when its attempt did. */
static void print_separator(const struct logs *l, size_t i)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, 1 << 20);
    if (l->last && l->last != '\n')
        buf_addc(&b, '\n');
    separator(&b, l, i);
    cli_print(&b);
}

/* How to read the log of attempt `i`. */
static struct follow_log log_of(const struct logs *l, size_t i, bool follow)
{
    return (struct follow_log){.ref = l->id,
                               .run = int_of(logs_run_at(l, i), "run"),
                               .follow = follow,
                               .fd = STDOUT_FILENO};
}

/* ---- everything, or the end of it ---- */

static int logs_print_whole(struct logs *l, struct err *e)
{
    for (size_t i = 0; logs_run_at(l, i); i++) {
        struct follow_log f = log_of(l, i, false);
        print_separator(l, i);
        /* A run that could not start has no file; its line says so. */
        if (follow_log(l->c->http, &f, e) < 0 && e->code != ERR_NOT_FOUND)
            return -1;
        l->last = f.last;
        if (f.closed)
            return 0;
    }
    return 0;
}

static size_t count_lines(struct str s)
{
    /* A last line without its line end counts too. */
    size_t n = s.n && s.p[s.n - 1] != '\n';

    for (size_t i = 0; i < s.n; i++)
        n += s.p[i] == '\n';
    return n;
}

/* The last lines, from as many attempts as it takes.  *at: where the last one goes on. */
static int logs_print_tail(struct logs *l, int64_t lines, int64_t *at, struct err *e)
{
    VEC(struct buf) pieces = {0};
    size_t n = json_len(json_get(l->job, "runs")), first = n;
    int rc = 0;

    *at = 0;
    while (first > 0 && lines > 0 && rc == 0) {
        struct follow_log f = log_of(l, --first, false);
        struct buf piece = {0};
        int64_t end = 0;
        buf_init(&piece, PIECE_MAX);
        rc = log_tail(l->c, &f, lines, &piece, &end, e);
        if (rc < 0 && e->code == ERR_NOT_FOUND)
            rc = 0;
        /* Following goes on behind what was printed of the newest attempt. */
        if (first == n - 1)
            *at = end;
        lines -= (int64_t)count_lines(buf_str(&piece));
        vec_push(&pieces, piece);
    }
    for (size_t i = pieces.n; i-- > 0; first++) {
        /* The oldest piece gets its separator only when it was printed from its beginning. */
        if (rc == 0 && (i < pieces.n - 1 || lines > 0))
            print_separator(l, first);
        l->last = pieces.p[i].n ? pieces.p[i].p[pieces.p[i].n - 1] : 0;
        if (rc == 0)
            cli_print(&pieces.p[i]);
        buf_done(&pieces.p[i]);
    }
    vec_done(&pieces);
    return rc;
}

/* ---- as it grows ---- */

/* Prints one attempt from byte `at` to its end, over restarts of the daemon. */
static int follow_run(struct logs *l, size_t i, int64_t at, bool *out_closed, struct err *e)
{
    struct follow_log f = log_of(l, i, true);

    f.at = at;
    for (;;) {
        int rc = follow_log(l->c->http, &f, e);
        if (f.last)
            l->last = f.last;
        if (rc < 0 && e->code == ERR_UNAVAILABLE) {
            poll(NULL, 0, NAP_MS); /* from f.at, once a daemon answers again */
            if (ask_again(l, e) < 0)
                return -1;
            continue;
        }
        *out_closed = f.closed;
        return rc < 0 && e->code != ERR_NOT_FOUND ? -1 : 0;
    }
}

/* Is there an attempt `i` whose line can be written as it will stay? */
static bool run_ready(const struct logs *l, size_t i)
{
    const struct json *run = logs_run_at(l, i);

    return run && (time_of(run, "started") || time_of(run, "ended") || is_final(l->job));
}

/* From attempt `i` on, whose separator was printed when `at` is not negative. */
static int follow_on(struct logs *l, size_t i, int64_t at, struct err *e)
{
    uint64_t last = 0;
    bool closed = false;

    for (;;) {
        if (at >= 0 || run_ready(l, i)) {
            if (at < 0)
                print_separator(l, i);
            if (follow_run(l, i++, MAX(at, 0), &closed, e) < 0)
                return -1;
            at = -1;
            if (closed)
                return 0;
        } else if (is_final(l->job)) {
            return 0;
            /* Nothing to print yet: wait for the next event of the job. */
        } else if (follow_news(l->c, int_of(l->job, "number"), true, &last, e) < 0) {
            return -1;
        }
        if (ask_again(l, e) < 0)
            return -1;
    }
}

/* --tail prints the end first; --follow then goes on from there, or from the beginning without
 * --tail. */
static int get_logs(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct logs_opts *o = opts;
    struct logs l = {.c = c, .ref = ops->p[0]};
    struct err e = {0};
    int64_t at = -1;
    size_t from = 0;

    if (o->tail.set && o->tail.v < 0) {
        err_set(&e, ERR_INVALID, "--tail '%lld': must be 0 or more", (long long)o->tail.v);
        return gpu_fail(me, &e, GPU_EXIT_USAGE);
    }
    int rc = ask_again(&l, &e) < 0 || logs_allowed(&l, &e) < 0 ? -1 : 0;
    if (rc == 0 && o->tail.set) {
        size_t n = json_len(json_get(l.job, "runs"));
        rc = logs_print_tail(&l, o->tail.v, &at, &e);
        from = n ? n - 1 : 0;
        at = n ? at : -1;
    } else if (rc == 0 && !o->follow) {
        rc = logs_print_whole(&l, &e);
    }
    if (rc == 0 && o->follow)
        rc = follow_on(&l, from, at, &e);
    json_free(l.job);
    free(l.id);
    return rc < 0 ? gpu_fail(me, &e, gpu_call_status(&e, GPU_EXIT_NO)) : GPU_EXIT_OK;
}

const struct command cmd_scheduler_get_logs = {
    USAGE(SECTION_DIALECT, "scheduler-get-logs", "[OPTION…] JOBID"),
    .summary = "print the output of a job of the GPU scheduler",
    .description = "Standard output and error as they came, all attempts in order; one line before "
                   "each names the attempt, its time and its GPUs. With one process per GPU, lines "
                   "begin with [rank].",
    .flags = COMMAND_PROGRAM,
    OPTIONS(struct logs_opts, &own_group, &common_group),
    .examples = EXAMPLES(
        {"scheduler-get-logs 9f3c2a1b-0400-0000-0193-2a7be1c8d5f0", "all output of a job so far"},
        {"scheduler-get-logs 9f3c --follow", "print new output, also after a preemption"},
        {"scheduler-get-logs 9f3c --tail 20", "the last twenty lines"}),
    OPERANDS("JOBID", 1, 1, COMPLETE_JOB),
    .run = get_logs,
};
