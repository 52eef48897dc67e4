/* cmd_inner.c - commands that Berth itself starts: what stands between a supervisor and a job
 *
 * __container: the process that stands for one container.  What it does is told in its
 * environment and is the business of backend/docker.  It ends as the container does.
 * __ranks N COMMAND…: starts one process per GPU of a job (backend/ranks.h).
 * __checkout STORE ID DIR SUB COMMAND…: starts a run in a copy of its snapshot.
 */
#include "archive/snapshot.h"
#include "backend/container.h"
#include "backend/ranks.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include <errno.h>

enum { CANNOT_RUN = 127 };

static int container(struct cli *c UNUSED, const void *opts UNUSED,
                     const struct operands *ops UNUSED)
{
    container_run();
    return 0;
}

const struct command cmd_container = {
    BERTH_COMMAND(SECTION_DAEMON, "__container", "", container,
                  "run the container of a job with an image"),
    .flags = COMMAND_HIDDEN,
    .groups = OPTION_GROUPS(NULL),
};

static int ranks(struct cli *c UNUSED, const void *opts UNUSED, const struct operands *ops)
{
    /* The "--" between the number and the command may be there or not. */
    size_t first = ops->n > 1 && !strcmp(ops->p[1], "--") ? 2 : 1;
    int64_t n;

    if (!str_to_i64(str_of(ops->p[0]), &n) || n < 1 || n > RANKS_MAX || first >= ops->n)
        return cli_refuse("__ranks needs a number from 1 to %d and a command", RANKS_MAX);
    return ranks_run((size_t)n, (char *const *)(ops->p + first));
}

const struct command cmd_ranks = {
    BERTH_COMMAND(SECTION_RUN, "__ranks", "N COMMAND [ARGUMENT…]", ranks,
                  "start one process per GPU of a job"),
    .flags = COMMAND_HIDDEN | COMMAND_STARTS,
    .groups = OPTION_GROUPS(NULL),
    OPERANDS("number", 2, SIZE_MAX, COMPLETE_NONE),
};

/* STORE ID DIR SUB -- WORD…: replaces this process by the command, so that signals and the exit
 * status are those of the job. */
static int checkout(struct cli *c UNUSED, const void *opts UNUSED, const struct operands *ops)
{
    size_t first = ops->n > 4 && !strcmp(ops->p[4], "--") ? 5 : 4;
    struct err e = {0};

    if (first >= ops->n || snapshot_enter(ops->p[0], ops->p[1], ops->p[2], ops->p[3], &e) < 0) {
        cli_say("%s", first < ops->n ? e.text : "__checkout needs a command");
        return CANNOT_RUN;
    }
    execvp(ops->p[first], (char *const *)(ops->p + first));
    cli_say("cannot start %s: %s", ops->p[first], strerror(errno));
    return CANNOT_RUN;
}

const struct command cmd_checkout = {
    BERTH_COMMAND(SECTION_RUN, "__checkout", "STORE ID DIR SUB COMMAND [ARGUMENT…]", checkout,
                  "start a run in a copy of its snapshot"),
    .flags = COMMAND_HIDDEN | COMMAND_STARTS,
    .groups = OPTION_GROUPS(NULL),
    OPERANDS("store", 5, SIZE_MAX, COMPLETE_NONE),
};
