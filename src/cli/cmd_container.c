/* cmd_container.c - berth __container: the process that stands for one container
 *
 * The shepherd starts it for runs with an image; what it does is told in its environment and is the
 * business of backend/docker.  It ends as the container does.
 */
#include "backend/container.h"
#include "cli/cli.h"
#include "cli/commands.h"

static int container(struct cli *c, const void *opts, const struct operands *ops)
{
    (void)c;
    (void)opts;
    (void)ops;
    container_run();
    return 0;
}

const struct command cmd_container = {
    USAGE(SECTION_DAEMON, "__container", ""),
    .summary = "run the container of a job with an image",
    .flags = COMMAND_HIDDEN,
    .groups = OPTION_GROUPS(NULL),
    .run = container,
};
