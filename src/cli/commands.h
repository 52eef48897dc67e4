/* commands.h - one table per command, each in the file of its command */
#pragma once
#include "cli/opt.h"

/* commands.c lists the commands that the full program has. */
extern const struct command cmd_run, cmd_submit, cmd_ls, cmd_show, cmd_logs, cmd_top, cmd_watch,
    cmd_explain, cmd_simulate, cmd_wait, cmd_projects, cmd_cancel, cmd_hold, cmd_release, cmd_retry,
    cmd_rm, cmd_queue, cmd_tag, cmd_note, cmd_project, cmd_serve, cmd_node, cmd_nodes, cmd_doctor,
    cmd_backup, cmd_restore, cmd_export, cmd_import, cmd_help, cmd_schema, cmd_version,
    cmd_completion, cmd_man, cmd_complete_words, cmd_ranks, cmd_container, cmd_cron, cmd_hook,
    cmd_best, cmd_compare, cmd_search, cmd_snapshot, cmd_checkout, cmd_tune, cmd_python, cmd_stop;
