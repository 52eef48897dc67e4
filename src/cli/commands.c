/* commands.c - the list of Berth's own commands */
#include "cli/commands.h"
#include "cli/cli.h"

const struct command *const cli_commands[] = {
    &cmd_run,     &cmd_submit,         &cmd_cron,     &cmd_ls,
    &cmd_best,    &cmd_compare,        &cmd_show,     &cmd_logs,
    &cmd_top,     &cmd_watch,          &cmd_explain,  &cmd_simulate,
    &cmd_search,  &cmd_tune,           &cmd_wait,     &cmd_projects,
    &cmd_cancel,  &cmd_hold,           &cmd_release,  &cmd_retry,
    &cmd_rm,      &cmd_queue,          &cmd_hook,     &cmd_tag,
    &cmd_note,    &cmd_project,        &cmd_snapshot, &cmd_checkout,
    &cmd_ranks,   &cmd_container,      &cmd_serve,    &cmd_stop,
    &cmd_node,    &cmd_nodes,          &cmd_doctor,   &cmd_backup,
    &cmd_restore, &cmd_export,         &cmd_import,   &cmd_help,
    &cmd_schema,  &cmd_python,         &cmd_version,  &cmd_completion,
    &cmd_man,     &cmd_complete_words, NULL,
};
