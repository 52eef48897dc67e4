/* cmd_act.c - berth cancel, hold, release, retry, rm: change jobs by name or by filter
 *
 * Owns: the safety of the wide forms.  Names act at once; a filter or --all says how many it would
 * touch and wants --yes, or a yes on the terminal.
 */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/view.h"
#include <stdio.h>

struct act_opts {
    const char *filter;
    bool yes;
};
/* One row for each command; act_run does the work. */
struct act {
    const char *path, *verb, *ask, *done; /* "/v1/jobs/remove", "rm", "remove", "removed" */
    const char *states;                   /* those it is about, for the question */
    const char *already;                  /* why nothing was done */
    /* Named jobs that are all in the wrong state make the exit status that of ERR_CONFLICT. */
    bool already_is_wrong;
};

static const struct opt own_opts[] = {
    {"filter", 'f', OPT_TEXT, "FILTER", offsetof(struct act_opts, filter),
     "every job that matches FILTER; see berth ls --help"},
    {"yes", 'y', OPT_FLAG, NULL, offsetof(struct act_opts, yes), "do not ask for confirmation"},
};
static const struct opt_group own_group = OPT_GROUP("Action", own_opts);

/* *out_go: the user agreed, or there is nothing to agree to.  Without a terminal nobody can be
 * asked, so --yes is required. */
static int confirm(struct cli *c, const struct act *a, const struct act_opts *o, bool *out_go,
                   struct err *e)
{
    struct list_query q = {o->filter, c->opt.state ? c->opt.state : a->states, NULL, -1};
    AUTO(json) struct json *counts = NULL;
    char answer[16] = "";

    *out_go = true;
    if (o->yes)
        return 0;
    if (list_counts(c, &q, &counts, e) < 0)
        return -1;
    int64_t n = int_of(counts, "total");
    if (n == 0)
        return 0;
    if (!isatty(STDIN_FILENO) || !c->err.is_tty)
        return err_set(e, ERR_INVALID, "this would %s %lld job%s; add --yes to confirm", a->ask,
                       (long long)n, plural_end(n));
    fprintf(stderr, "%s %lld job%s? [y/N] ", a->ask, (long long)n, plural_end(n));
    *out_go = fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
    return 0;
}

/* Scripts see no line on stderr unless jobs were denied or named jobs were in the wrong state. */
static void say_done(const struct cli *c, const struct act *a, const struct json *reply, bool named)
{
    int64_t already = int_of(reply, "already"), denied = int_of(reply, "denied");
    char more[128] = "";

    if (!c->err.is_tty && !denied && !(named && already))
        return;
    if (already)
        snprintf(more, sizeof(more), ", %lld %s", (long long)already, a->already);
    cli_say("%lld %s%s%s", (long long)int_of(reply, "done"), a->done, more,
            denied ? ", jobs of other users were not changed" : "");
}

/* 0 when anything was done or there was nothing to do; an error when named jobs refused. */
static int report(const struct cli *c, const struct act *a, const struct json *reply, bool named)
{
    if (cli_json(c))
        cli_print_json(reply);
    else
        say_done(c, a, reply, named);
    if (int_of(reply, "done"))
        return 0;
    if (int_of(reply, "denied"))
        return err_exit_code(ERR_DENIED);
    return named && int_of(reply, "already") && a->already_is_wrong ? err_exit_code(ERR_CONFLICT)
                                                                    : 0;
}

/* Named jobs are changed at once; a filter or --all (wide) only after confirmation. */
static int act_run(struct cli *c, const struct act *a, const struct act_opts *o,
                   const struct operands *ops)
{
    const struct operands none = {0};
    bool wide = o->filter || c->opt.all || list_restricted(c, &none), go = true;
    AUTO(json) struct json *body = NULL, *reply = NULL;
    struct err e = {0};

    if (ops->n && wide)
        err_set(&e, ERR_INVALID,
                "give job numbers or a filter (--filter, --all, --state …), not both");
    else if (!ops->n && !wide)
        err_set(&e, ERR_INVALID, "berth %s needs a job, --filter or --all; berth %s --help",
                a->verb, a->verb);
    else if (!wide || confirm(c, a, o, &go, &e) == 0)
        body = wide ? list_body(c, o->filter) : json_new_object();
    if (!body)
        return cli_fail(&e);
    if (!wide) /* the daemon resolves the names; an unknown one refuses the whole request */
        json_set_take(body, "jobs", json_new_words(ops->p, ops->n));
    if (!go)
        return 1;
    if (cli_post(c, a->path, body, &reply, &e) < 0)
        return cli_fail(&e);
    return report(c, a, reply, !wide);
}

/* The command NAME and its run function.  The struct act follows; then the texts of the help. */
#define ACT_COMMAND(NAME, PATH, ASK, DONE, STATES, ALREADY, WRONG, SUMMARY, DESCRIPTION, ...)      \
    static int NAME##_run(struct cli *c, const void *opts, const struct operands *ops)             \
    {                                                                                              \
        static const struct act a = {PATH, #NAME, ASK, DONE, STATES, ALREADY, WRONG};              \
                                                                                                   \
        return act_run(c, &a, opts, ops);                                                          \
    }                                                                                              \
    const struct command cmd_##NAME = {                                                            \
        USAGE(SECTION_CHANGE, #NAME, "[OPTION…] JOB…\n[OPTION…] --filter FILTER | --all"),         \
        .summary = SUMMARY,                                                                        \
        .description = DESCRIPTION,                                                                \
        OPTIONS(struct act_opts, &own_group, &list_group, &output_group, &common_group),           \
        .examples = EXAMPLES(__VA_ARGS__),                                                         \
        OPERANDS("job", 0, SIZE_MAX, COMPLETE_JOB),                                                \
        .run = NAME##_run,                                                                         \
    }

/* Cancelling is idempotent: a job that has ended already is no mistake. */
ACT_COMMAND(
    cancel, "/v1/jobs/cancel", "cancel", "cancelled", "active", "had already ended", false,
    "stop queued or running jobs",
    "A queued job is cancelled at once. A running job and all its processes get SIGTERM, and "
    "SIGKILL when the grace time is over. Cancelling a job that has ended changes nothing.",
    {"berth cancel 42", "stop job 42: SIGTERM to all its processes, SIGKILL after its grace time"},
    {"berth cancel 42 43 44", "stop several jobs"},
    {"berth cancel --filter 'name~cnn' --yes", "all active jobs that match, without confirmation"},
    {"berth cancel --all --state queued", "every queued job, after confirmation"});

ACT_COMMAND(hold, "/v1/jobs/hold", "hold", "held", "queued",
            "no longer queued (berth cancel stops running jobs)", true,
            "keep queued jobs from starting",
            "A held job does not start before berth release, and keeps its place in the queue. "
            "Running and finished jobs cannot be held. Jobs that depend on a held job stay queued. "
            "berth submit --hold submits a job in the held state.",
            {"berth hold 42", "job 42 does not start until it is released"},
            {"berth hold --filter 'name~cnn' --yes", "all queued jobs that match"});

ACT_COMMAND(release, "/v1/jobs/release", "release", "released", "held", "not held", false,
            "let held jobs start",
            "Held jobs return to their place in the queue: the age of a job counts from its "
            "submission. Jobs that are not held are not changed.",
            {"berth release 42", "job 42 may start again"},
            {"berth release --all --yes", "every held job"});

ACT_COMMAND(retry, "/v1/jobs/retry", "retry", "queued again", "finished", "not finished", true,
            "run finished jobs again",
            "The same job gets another run: same id, same command, parameters and environment. Its "
            "earlier runs and their output are kept.",
            {"berth retry 42",
             "run job 42 again, as it was submitted; earlier runs stay on record"},
            {"berth retry --filter 'state:failed and ended>1d' --yes",
             "all jobs that failed since yesterday"},
            {"berth retry --batch 01k… --state failed,lost",
             "the failed and lost jobs of a sweep"});

ACT_COMMAND(rm, "/v1/jobs/remove", "remove", "removed", "finished",
            "not finished (berth cancel stops them)", true, "remove finished jobs and their output",
            "Deletes the record, runs, metrics and output files for good. Queued and running jobs "
            "are not deleted: cancel them first.",
            {"berth rm 42", "delete job 42 with its runs, output and metrics"},
            {"berth rm --filter 'state:succeeded and not ended>30d' --yes",
             "delete jobs that succeeded more than 30 days ago"});
