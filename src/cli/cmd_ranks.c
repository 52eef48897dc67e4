/* cmd_ranks.c - berth __ranks N COMMAND…: the process that starts one process per GPU of a job
 *
 * The supervisor starts it for jobs that ask for one process per GPU; the work is that of
 * backend/ranks.h.
 */
#include "backend/ranks.h"
#include "cli/cli.h"
#include "cli/commands.h"

static int ranks(struct cli *c, const void *opts, const struct operands *ops)
{
    /* The "--" between the number and the command may be there or not. */
    size_t first = ops->n > 1 && !strcmp(ops->p[1], "--") ? 2 : 1;
    int64_t n;

    (void)c;
    (void)opts;
    if (!str_to_i64(str_of(ops->p[0]), &n) || n < 1 || n > RANKS_MAX || first >= ops->n) {
        cli_say("__ranks needs a number from 1 to %d and a command", RANKS_MAX);
        return err_exit_code(ERR_INVALID);
    }
    return ranks_run((size_t)n, (char *const *)(ops->p + first));
}

const struct command cmd_ranks = {
    USAGE(SECTION_RUN, "__ranks", "N COMMAND [ARGUMENT…]"),
    .summary = "start one process per GPU of a job",
    .flags = COMMAND_HIDDEN | COMMAND_STARTS,
    .groups = OPTION_GROUPS(NULL),
    OPERANDS("number", 2, SIZE_MAX, COMPLETE_NONE),
    .run = ranks,
};
