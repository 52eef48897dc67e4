/* cmd_restore.c - berth restore: a backup becomes the home again, with a report */
#include "archive/progress.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "host/restore.h"

struct restore_opts {
    const char *to;
    bool dry_run, stop;
};
static const struct opt restore_options[] = {
    {"to", 0, OPT_TEXT, "HOME", offsetof(struct restore_opts, to),
     "restore into this home instead; it is made when it does not exist", COMPLETE_DIR, NULL},
    {"dry-run", 'n', OPT_FLAG, NULL, offsetof(struct restore_opts, dry_run),
     "print the report and change nothing; a daemon may run", 0, NULL},
    {"stop", 0, OPT_FLAG, NULL, offsetof(struct restore_opts, stop),
     "stop the daemon of the home first; running jobs continue", 0, NULL},
};
static const struct opt_group restore_group = OPT_GROUP("Options", restore_options);

static int restore(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct restore_opts *o = opts;
    struct archive_progress bar;
    struct archive_watch watch = {.progress = archive_progress_show, .ctx = &bar};
    AUTO(buf) struct buf report = {0};
    AUTO_FD lock = -1;
    struct err e = {0};

    if (o->to)
        c->opt.home = o->to;
    if (cli_find_home(c, false, &e) < 0 ||
        (!o->dry_run && host_restore_lock(c->home, o->stop, &lock, &e) < 0))
        return cli_fail(&e);
    struct host_restore_conf conf = {
        .backup = ops->p[0], .home = c->home, .dry_run = o->dry_run, .watch = &watch};
    archive_progress_begin(&bar, "Restoring", c->err.is_tty);
    int rc = host_restore(&conf, &report, &e);
    archive_progress_wipe(&bar);
    return rc < 0 ? cli_fail(&e) : cli_report(c, &report, restore_report_text);
}
const struct command cmd_restore = {
    BERTH_COMMAND(SECTION_DAEMON, "restore", "[OPTION…] BACKUP", restore,
                  "bring back a backup of a home, while jobs run"),
    .description =
        "BACKUP is a directory of berth backup (the newest copy in it is used), one copy, or a "
        "database alone; files then stay as they are. What is replaced is renamed into "
        "before-restore-TIME in the home and never deleted. Jobs that "
        "were active in the backup and have gone on since keep their present state, and those that "
        "still run continue. The report names jobs that are newer than the backup, runs that the "
        "backup does not know, and files that are missing in it.",
    OPTIONS(struct restore_opts, &restore_group, &output_group, &common_group),
    .examples = EXAMPLES({"berth restore --dry-run /backup/berth", "what would change?"},
                         {"berth restore --stop /backup/berth", "stop the daemon, then restore"},
                         {"berth restore --to /srv/berth /backup/berth/2026-11-17T22-58-00Z",
                          "one copy, into a new home"}),
    OPERANDS("backup", 1, 1, COMPLETE_DIR),
};
