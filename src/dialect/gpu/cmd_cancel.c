/* cmd_cancel.c - scheduler-cancel-job: end a job, whatever it does */
#include "base/util.h"
#include "cli/view.h"
#include "dialect/gpu/cmd.h"

static const char me[] = "scheduler-cancel-job";

/* -1: the job is another user's, has ended, or no server answers; e says which. */
static int gpu_job_cancel(struct cli *c, const struct json *job, struct err *e)
{
    struct str id = text_of(job, "id"), user = text_of(job, "user"), state = text_of(job, "state");
    AUTO_FREE char *path = xasprintf("/v1/jobs/" STR_FMT "/cancel", STR_ARG(id));
    AUTO(json) struct json *reply = NULL, *body = json_new_object();
    /* The reply counts jobs: "denied" and "already" are 0 or 1 here. */
    int rc = cli_post(c, path, body, &reply, e);

    if (rc < 0 ? e->code == ERR_NOT_FOUND || e->code == ERR_DENIED : int_of(reply, "denied"))
        return err_set(e, ERR_DENIED, "job " STR_FMT " belongs to " STR_FMT, STR_ARG(id),
                       STR_ARG(user));
    if (rc == 0 && int_of(reply, "already"))
        return err_set(e, ERR_CONFLICT, "job " STR_FMT " has ended already: " STR_FMT, STR_ARG(id),
                       STR_ARG(state));
    return rc;
}

static int cancel_job(struct cli *c, const void *opts, const struct operands *ops)
{
    AUTO(json) struct json *job = NULL;
    struct err e = {0};

    (void)opts;
    if (gpu_job_get(c, ops->p[0], &job, &e) < 0 || gpu_job_cancel(c, job, &e) < 0)
        return gpu_fail(me, &e, gpu_call_status(&e, GPU_EXIT_NO));
    return GPU_EXIT_OK;
}

const struct command cmd_scheduler_cancel_job = {
    USAGE(SECTION_DIALECT, "scheduler-cancel-job", "[OPTION…] JOBID"),
    .summary = "end a job of the GPU scheduler",
    .description =
        "A waiting job is cancelled at once. All processes of a running job get SIGTERM, "
        "and SIGKILL ten seconds later; its GPUs are free when the last process has "
        "exited. Exit status: 0 done, 1 the job does not exist, has ended or belongs "
        "to another user, 3 no server answers.",
    .flags = COMMAND_PROGRAM,
    .groups = OPTION_GROUPS(&common_group),
    .examples = EXAMPLES(
        {"scheduler-cancel-job 9f3c2a1b-0400-0000-0193-2a7be1c8d5f0", "end this job"},
        {"scheduler-cancel-job 9f3c", "the same job: a unique prefix of its id is enough"}),
    OPERANDS("JOBID", 1, 1, COMPLETE_JOB),
    .run = cancel_job,
};
