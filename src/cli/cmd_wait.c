/* cmd_wait.c - berth wait: until jobs have ended; their status is ours */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/view.h"

struct wait_opts {
    struct opt_num timeout;
    const char *batch;
};
static const struct opt wait_own[] = {
    {"timeout", 't', OPT_DURATION, "TIME", offsetof(struct wait_opts, timeout),
     "give up after this long, with exit status 124"},
    {"batch", 'b', OPT_TEXT, "ID", offsetof(struct wait_opts, batch),
     "wait for all jobs of a batch"},
};
static const struct opt_group wait_group = OPT_GROUP("Waiting", wait_own);

/* The exit status is the highest of all jobs.  The deadline covers all of them together. */
static int wait_jobs(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct wait_opts *o = opts;
    AUTO(json) struct json *rows = json_new_array();
    struct err e = {0};
    int status = 0, rc = 0;
    char text[400];

    if (!ops->n && !o->batch)
        rc = err_set(&e, ERR_INVALID, "berth wait needs a job or --batch; berth wait --help");
    follow_deadline(o->timeout.v);
    if (rc == 0 && o->batch)
        rc = follow_batch(c, o->batch, &status, &e);
    for (size_t i = 0; i < ops->n && rc == 0; i++) {
        struct json *job = NULL;
        if ((rc = follow_end(c, ops->p[i], &job, &e)) < 0)
            break;
        job_outcome_text(job, text, sizeof(text));
        if (c->err.is_tty && !cli_json(c))
            cli_say("job %lld %s", (long long)int_of(job, "number"), text);
        status = MAX(status, job_exit_status(job));
        json_push_take(rows, job);
    }
    if (rc == 0 && cli_json(c))
        view_json(rows);
    return rc < 0 ? cli_fail(&e) : status;
}
const struct command cmd_wait = {
    BERTH_COMMAND(SECTION_LOOK, "wait", "[OPTION…] JOB…", wait_jobs,
                  "wait for jobs and exit with their status"),
    .description =
        "The exit status is the job's status; 128 plus the number of the signal that killed the "
        "job; 130 when the job was cancelled before it ran; 124 when --timeout came first.",
    OPTIONS(struct wait_opts, &wait_group, &output_group, &common_group),
    .examples = EXAMPLES(
        {"berth wait 42", "until job 42 has ended; exits with its status"},
        {"berth wait 41 42 43", "until all three have ended; exits with the highest status"},
        {"berth wait --timeout 1h 42 || echo late or failed", "with a time limit"}),
    OPERANDS("job", 0, SIZE_MAX, COMPLETE_JOB),
};
