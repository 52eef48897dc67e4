/* cmd_snapshot.c - berth snapshot get, and berth __checkout, which starts a run in its snapshot */
#include "archive/snapshot.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include <errno.h>

enum { CANNOT_RUN = 127 };

static int snapshot_run(struct cli *c, const void *opts, const struct operands *ops)
{
    AUTO(buf) struct buf path = {0};
    struct err e = {0};

    (void)opts;
    if (strcmp(ops->p[0], "get") != 0) {
        cli_say("berth snapshot has no action '%.40s'; write berth snapshot get JOB DIR",
                ops->p[0]);
        return err_exit_code(ERR_INVALID);
    }
    resource_path(&path, "jobs", ops->p[1], "/snapshot");
    if (cli_get(c, "/v1", NULL, &e) < 0 || /* finds or starts the daemon */
        snapshot_fetch(c->http, path.p, ops->p[2], &e) < 0)
        return cli_fail(&e);
    return 0;
}

const struct command cmd_snapshot = {
    USAGE(SECTION_LOOK, "snapshot", "get JOB DIR"),
    .summary = "get back the directory that a job was submitted with",
    .description =
        "berth submit --snapshot keeps a copy of the working directory, and each run starts in a "
        "copy of that. This command writes the directory, as the job got it, to DIR, which must "
        "not exist. A snapshot is removed with the last job that names it.",
    .groups = OPTION_GROUPS(&common_group),
    .examples = EXAMPLES({"berth snapshot get 42 /tmp/code-of-42", "the exact code of job 42"}),
    OPERANDS("action", 3, 3, COMPLETE_CHOICES),
    .choices = "get",
    .run = snapshot_run,
};

/* STORE ID DIR SUB -- WORD…: replaces this process by the command, so that signals and the exit
 * status are those of the job. */
static int checkout(struct cli *c, const void *opts, const struct operands *ops)
{
    size_t first = ops->n > 4 && !strcmp(ops->p[4], "--") ? 5 : 4;
    struct err e = {0};

    (void)c;
    (void)opts;
    if (first >= ops->n || snapshot_enter(ops->p[0], ops->p[1], ops->p[2], ops->p[3], &e) < 0) {
        cli_say("%s", first < ops->n ? e.text : "__checkout needs a command");
        return CANNOT_RUN;
    }
    execvp(ops->p[first], (char *const *)(ops->p + first));
    cli_say("cannot start %s: %s", ops->p[first], strerror(errno));
    return CANNOT_RUN;
}

const struct command cmd_checkout = {
    USAGE(SECTION_RUN, "__checkout", "STORE ID DIR SUB COMMAND [ARGUMENT…]"),
    .summary = "start a run in a copy of its snapshot",
    .flags = COMMAND_HIDDEN | COMMAND_STARTS,
    .groups = OPTION_GROUPS(NULL),
    OPERANDS("store", 5, SIZE_MAX, COMPLETE_NONE),
    .run = checkout,
};
