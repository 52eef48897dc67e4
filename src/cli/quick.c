/* quick.c - the commands of the small client
 *
 * Those that only speak over the home's socket: no database, no loop, no threads, no libraries.
 * One that is missing here is done by the full program, a millisecond later.
 */
#include "cli/cli.h"
#include "cli/commands.h"

const struct command *const quick_commands[] = {
    &cmd_submit, &cmd_ls,    &cmd_show, &cmd_logs,  &cmd_wait,  &cmd_explain,  &cmd_watch,
    &cmd_cancel, &cmd_retry, &cmd_rm,   &cmd_queue, &cmd_nodes, &cmd_projects, NULL,
};
