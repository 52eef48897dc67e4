/* cmd_backup.c - berth backup: a consistent copy of the job database */
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"

static int backup(struct cli *c, const void *opts, const struct operands *ops)
{
    AUTO(json) struct json *body = json_new_object();
    struct err e = {0};
    char cwd[4096];

    (void)opts;
    if (!getcwd(cwd, sizeof(cwd)))
        cwd[0] = '/', cwd[1] = 0;
    /* The daemon writes the file, and its working directory is not that of the user. */
    AUTO_FREE char *path = path_absolute(ops->p[0], cwd);
    json_set_str(body, "path", path);
    if (cli_post(c, "/v1/backup", body, NULL, &e) < 0)
        return cli_fail(&e);
    if (c->err.is_tty)
        cli_say("wrote %s", path);
    return 0;
}
const struct command cmd_backup = {
    USAGE(SECTION_DAEMON, "backup", "[OPTION…] FILE"),
    .summary = "copy the job database while the daemon runs",
    .description =
        "The copy holds jobs, runs, metrics and events; output files are not part of it. To "
        "restore, stop the daemon and replace berth.db in the home with the copy.",
    .groups = OPTION_GROUPS(&common_group),
    .examples =
        EXAMPLES({"berth backup /backup/berth-$(date +%F).db", "a consistent copy while jobs run"}),
    OPERANDS("file", 1, 1, COMPLETE_FILE),
    .run = backup,
};
