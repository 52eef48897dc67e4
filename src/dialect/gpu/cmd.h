/* cmd.h - what the four commands of the GPU scheduler share
 *
 * They speak for themselves: messages begin with their own names, and their exit statuses are those
 * of their interface, not of ours.
 */
#pragma once
#include "cli/cli.h"

extern const struct command cmd_run_scheduler, cmd_scheduler_state, cmd_scheduler_situation,
    cmd_scheduler_cancel_job, cmd_scheduler_get_logs;

/* Scripts of users test these numbers: none may change. */
enum {
    GPU_EXIT_OK,
    GPU_EXIT_NO,          /* there is no such job, it has ended, or it is somebody else's */
    GPU_EXIT_USAGE,       /* an argument is wrong; nothing was sent */
    GPU_EXIT_UNREACHABLE, /* no server answers */
    GPU_EXIT_REFUSED,     /* the server said no */
};
/* "run-scheduler: sentence" on stderr, and the status for it. */
int gpu_fail(const char *command, const struct err *e, int status);
/* The status for an error of a call: nobody there, or `otherwise`. */
int gpu_call_status(const struct err *e, int otherwise);
/* The row of a job, by its id or the beginning of one, with its runs; *out is yours. */
int gpu_job_get(struct cli *c, const char *ref, struct json **out, struct err *e);
