/* cmd_logs.c - berth logs: the output of a job, now or as it grows */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/view.h"
#include <poll.h>
#include <stdio.h>

/* NAP_MS: between two tries while no daemon answers. */
enum { TAIL_MAX = 257 << 20, NAP_MS = 50 };

struct logs_opts {
    bool follow, err;
    struct opt_num run, lines;
};
#define LOGS(member) offsetof(struct logs_opts, member)
static const struct opt logs_own[] = {
    {"follow", 'f', OPT_FLAG, NULL, LOGS(follow), "follow the output until the job ends"},
    {"lines", 'n', OPT_INT, "N", LOGS(lines), "only the last N lines"},
    {"stderr", 0, OPT_FLAG, NULL, LOGS(err), "standard error of a job with split output"},
    {"run", 'r', OPT_INT, "N", LOGS(run), "output of run N (default: the last run)"},
};
static const struct opt_group logs_group = OPT_GROUP("Output", logs_own);

/* Prints the last lines of what there is; f->at: where the rest will begin.  The text is held in
 * memory before it is printed, at most TAIL_MAX bytes. */
static int print_tail(struct cli *c, struct follow_log *f, int64_t lines, struct err *e)
{
    AUTO(buf) struct buf text = {.max = TAIL_MAX};
    int rc = log_tail(c, f, lines, &text, &f->at, e);

    cli_print(&text);
    return rc;
}

/* Follows through every run of the job: one that is tried again goes on here. */
static int follow_runs(struct cli *c, struct follow_log *f, bool one_run, struct err *e)
{
    uint64_t last = 0;

    for (;;) {
        AUTO(json) struct json *job = NULL;
        if (resource_get(c, "jobs", f->ref, "", &job, e) < 0)
            return -1;
        int64_t attempt = int_of(job, "attempt"), number = int_of(job, "number");
        bool final = job_final(job);
        if (!f->run)
            f->run = attempt ? attempt : 1;
        if (f->run <= attempt) {
            int rc = follow_log(c->http, f, e);
            if (rc < 0 && e->code != ERR_UNAVAILABLE)
                return -1;
            if (rc < 0) {
                poll(NULL, 0, NAP_MS);
                continue; /* from f->at, once somebody answers */
            }
            if (one_run || f->closed)
                return 0;
            f->run++;
            f->at = 0;
            continue;
        }
        if (final)
            return 0;
        if (follow_news(c, number, true, &last, e) < 0)
            return -1;
    }
}

/* Everything there is now.  A first question brings a daemon up when there is none. */
static int print_whole(struct cli *c, struct follow_log *f, struct err *e)
{
    if (resource_get(c, "jobs", f->ref, "", NULL, e) < 0)
        return -1;
    return follow_log(c->http, f, e);
}

/* With -n and -f: the last lines first, then everything behind them, without a gap. */
static int logs(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct logs_opts *o = opts;
    struct follow_log f = {.ref = ops->p[0],
                           .run = o->run.v,
                           .err_file = o->err,
                           .follow = o->follow,
                           .fd = STDOUT_FILENO};
    struct err e = {0};
    int rc = 0;

    if (o->lines.set)
        rc = print_tail(c, &f, o->lines.v, &e);
    /* Nothing yet: following says whether there is such a job. */
    if (rc < 0 && o->follow && e.code == ERR_NOT_FOUND && !o->run.set)
        rc = 0;
    if (rc == 0 && o->follow)
        rc = follow_runs(c, &f, o->run.set, &e);
    else if (rc == 0 && !o->lines.set)
        rc = print_whole(c, &f, &e);
    return rc < 0 ? cli_fail(&e) : 0;
}

const struct command cmd_logs = {
    BERTH_COMMAND(SECTION_LOOK, "logs", "[OPTION…] JOB", logs, "print the output of a job"),
    OPTIONS(struct logs_opts, &logs_group, &common_group),
    .examples = EXAMPLES(
        {"berth logs 42", "all output of job 42's last run"},
        {"berth logs -f 42", "follow the output until the job ends"},
        {"berth logs -n 20 42", "the last 20 lines"},
        {"berth logs --run 1 42", "output of the first run of a job that was tried again"},
        {"berth logs --stderr 42", "standard error, of a job submitted with --split-output"}),
    OPERANDS("job", 1, 1, COMPLETE_JOB),
};
