/* cmd_snapshot.c - berth snapshot get */
#include "archive/snapshot.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"

static int snapshot_run(struct cli *c, const void *opts UNUSED, const struct operands *ops)
{
    AUTO(buf) struct buf path = {0};
    struct err e = {0};

    if (strcmp(ops->p[0], "get") != 0)
        return cli_refuse("berth snapshot has no action '%.40s'; write berth snapshot get JOB DIR",
                          ops->p[0]);
    resource_path(&path, "jobs", ops->p[1], "/snapshot");
    if (cli_get(c, "/v1", NULL, &e) < 0 || /* finds or starts the daemon */
        snapshot_fetch(c->http, path.p, ops->p[2], &e) < 0)
        return cli_fail(&e);
    return 0;
}

const struct command cmd_snapshot = {
    BERTH_COMMAND(SECTION_LOOK, "snapshot", "get JOB DIR", snapshot_run,
                  "get back the directory that a job was submitted with"),
    .description =
        "berth submit --snapshot keeps a copy of the working directory, and each run starts in a "
        "copy of that. This command writes the directory, as the job got it, to DIR, which must "
        "not exist. A snapshot is removed with the last job that names it.",
    .groups = OPTION_GROUPS(&common_group),
    .examples = EXAMPLES({"berth snapshot get 42 /tmp/code-of-42", "the exact code of job 42"}),
    OPERANDS("action", 3, 3, COMPLETE_CHOICES),
    .choices = "get",
};
