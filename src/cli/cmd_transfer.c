/* cmd_transfer.c - berth export and berth import: finished jobs of projects, from home to home */
#include "archive/progress.h"
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"
#include "host/restore.h"
#include "host/transfer.h"

static void export_text(struct buf *out, const struct json *j)
{
    int64_t jobs = int_of(j, "jobs"), left = int_of(j, "unfinished");

    buf_addf(out, "%s: %lld job%s\n", json_get_str(j, "file").p, (long long)jobs, plural_end(jobs));
    if (left)
        cli_say("%lld job%s had not finished and were left out", (long long)left, plural_end(left));
}

static int export(struct cli *c, const void *opts UNUSED, const struct operands *ops)
{
    struct archive_progress bar;
    struct archive_watch watch = {.progress = archive_progress_show, .ctx = &bar};
    AUTO(buf) struct buf report = {0};
    struct err e = {0};

    if (cli_find_home(c, false, &e) < 0)
        return cli_fail(&e);
    archive_progress_begin(&bar, "Export", c->err.is_tty);
    int rc = host_export(c->home, ops->p, ops->n - 1, ops->p[ops->n - 1], &watch, &report, &e);
    archive_progress_wipe(&bar);
    return rc < 0 ? cli_fail(&e) : cli_report(c, &report, export_text);
}
const struct command cmd_export = {
    BERTH_COMMAND(SECTION_DAEMON, "export", "[OPTION…] PROJECT… FILE", export,
                  "write the finished jobs of projects to a file"),
    .description =
        "The file holds jobs, runs, parameters, metrics, tags, notes, outputs and run directories. "
        "berth import brings them into another home. Jobs that have not finished are left out, and "
        "so are the environments of jobs, which may hold secrets, and snapshots.",
    .groups = OPTION_GROUPS(&output_group, &common_group),
    .examples = EXAMPLES({"berth export vision speech results.tgz", "two projects"}),
    OPERANDS("project", 2, SIZE_MAX, COMPLETE_PROJECT),
};

struct import_opts {
    const char *project;
    bool stop;
};
static const struct opt import_options[] = {
    {"project", 'p', OPT_TEXT, "NAME", offsetof(struct import_opts, project),
     "put all jobs into this project", COMPLETE_PROJECT, NULL},
    {"stop", 0, OPT_FLAG, NULL, offsetof(struct import_opts, stop),
     "stop the daemon of the home first; running jobs continue", 0, NULL},
};
static const struct opt_group import_group = OPT_GROUP("Options", import_options);

static void import_text(struct buf *out, const struct json *j)
{
    int64_t jobs = int_of(j, "jobs");

    buf_addf(out, "%lld job%s imported, %lld were here already\n", (long long)jobs,
             plural_end(jobs), (long long)int_of(j, "present"));
}

static int import(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct import_opts *o = opts;
    AUTO(buf) struct buf report = {0};
    AUTO_FD lock = -1;
    struct err e = {0};

    if (cli_find_home(c, false, &e) < 0 || host_restore_lock(c->home, o->stop, &lock, &e) < 0 ||
        host_import(c->home, ops->p[0], o->project, &report, &e) < 0)
        return cli_fail(&e);
    return cli_report(c, &report, import_text);
}
const struct command cmd_import = {
    BERTH_COMMAND(SECTION_DAEMON, "import", "[OPTION…] FILE", import,
                  "bring the jobs of a file of berth export into this home"),
    .description =
        "Jobs keep their ids and get new numbers; they belong to you from now on. A job whose id "
        "this home has or had is left out, so a second import of a file adds nothing. Nothing is "
        "run. All of a file is imported, or nothing.",
    OPTIONS(struct import_opts, &import_group, &output_group, &common_group),
    .examples = EXAMPLES({"berth import --stop results.tgz", "stop the daemon, then import"},
                         {"berth import --project archive results.tgz", "into one project"}),
    OPERANDS("file", 1, 1, COMPLETE_FILE),
};
