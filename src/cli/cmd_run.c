/* cmd_run.c - berth run: now, here, and the exit status is the job's */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "cli/view.h"
#include <stdio.h>

#define RUN(member) offsetof(struct run_opts, member)
static const struct opt own_opts[] = {
    {"slots", 'j', OPT_INT, "N", RUN(slots),
     "largest number of running jobs (default: `slots` of the file, else the number of CPUs)"},
    {"again", 0, OPT_FLAG, NULL, RUN(again), "run a finished file again, as a new batch"},
    {"retry-failed", 0, OPT_FLAG, NULL, RUN(retry_failed),
     "when a file is resumed, also run its failed jobs again"},
    {"quiet", 'q', OPT_FLAG, NULL, RUN(quiet),
     "print no progress and no table, only set the exit status"},
    {"maximize", 0, OPT_TEXT, "METRIC", RUN(best.maximize),
     "of a file: end with the jobs that have the highest value of this metric"},
    {"minimize", 0, OPT_TEXT, "METRIC", RUN(best.minimize),
     "of a file: end with the jobs that have the lowest value of this metric"},
};
static const struct opt_group own_group = OPT_GROUP("Running", own_opts);
/* The spec is built before the session is opened, so that a mistake in a file starts nothing. */
static int run(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct run_opts *o = opts;
    const char *file = jobspec_is_file(ops) ? ops->p[0] : o->job.file;
    struct run_session s;
    AUTO(json) struct json *spec = NULL;
    struct err e = {0};

    if (opt_range(&o->slots, "-j", 1, 100000, &e) < 0 || jobspec_build(&o->job, ops, &spec, &e) < 0)
        return cli_fail(&e);
    if (o->slots.set && file)
        json_set_int(spec, "slots", o->slots.v);
    int32_t slots = (int32_t)(o->slots.set ? o->slots.v : int_of(spec, "slots"));
    if (run_session_open(&s, c, slots, &e) < 0)
        return cli_fail(&e);
    int rc = file ? run_file(&s, o, spec, file) : run_one(&s, o, spec, o->job.key);
    run_session_close(&s);
    return rc;
}

const struct command cmd_run = {
    BERTH_COMMAND(SECTION_RUN, "run",
                  "[OPTION…] [--] COMMAND [ARGUMENT…]\n[OPTION…] FILE.yaml|FILE.json", run,
                  "run a command or a file of jobs now, and wait for the end"),
    .description = "Needs no daemon: the scheduler runs inside this command. A daemon that already "
                   "serves your home is used instead.\n\nBerth prints the output of the command as "
                   "it appears and exits with the command's status, or with 128 plus the number of "
                   "the signal that killed the command. The first Ctrl-C cancels the job; the "
                   "second exits at once while the job stops.\n\nA file describes many jobs. After "
                   "an interruption, by Ctrl-C or a power cut, the same command resumes the file; "
                   "finished jobs are not run again. The exit status is 0 when all jobs succeeded.",
    .flags = COMMAND_STARTS,
    OPTIONS(struct run_opts, &own_group, &job_group, &training_group, &output_group, &common_group),
    .examples = EXAMPLES(
        {"berth run -- python train.py",
         "one command; berth prints its output and exits with its status"},
        {"berth run -j 4 -- python train.py", "the same, with four slots on this machine"},
        {"berth run sweep.yaml", "every job of a file, with progress and a final table"},
        {"berth run sweep.yaml --maximize acc", "the same, and the best jobs by a metric"},
        {"berth run sweep.yaml --retry-failed", "resume the file, and run failed jobs again"},
        {"berth run --timeout 1h --retries 2 -- ./flaky.sh", "with a time limit and two retries"}),
    OPERANDS("command", 0, SIZE_MAX, COMPLETE_FILE_OR_CMD),
};
