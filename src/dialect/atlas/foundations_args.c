/* foundations_args.c - the commands of foundations with their options and operands, and the help
 *
 * The commands are read the way Python's argparse reads them (cli/opt.h, COMMAND_PYTHON).  Options
 * may stand between the operands, but everything after the job directory of submit belongs to the
 * job, also words with a dash.
 */
#include "base/util.h"
#include "dialect/atlas/foundations.h"
#include "dialect/help_python.h"

#define CHOICES "{init,submit,list,get,stop,clear-queue,delete,info,login,setup}"
#define DEBUG_HELP "show what was done before an error"
const char found_usage[] = "usage: foundations [-h] [--version] [--debug] " CHOICES " ...";

#define AT(member) offsetof(struct found_opts, member)
static const struct opt submit_opts[] = {
    {"entrypoint", 0, OPT_TEXT, "ENTRYPOINT", AT(entrypoint),
     "program to start instead of the worker's own"},
    {"project-name", 0, OPT_TEXT, "NAME", AT(project_name),
     "project of the job, default the name of its directory"},
    {"num-gpus", 0, OPT_INT, "INT", AT(num_gpus), "GPUs to reserve"},
    {"ram", 0, OPT_REAL, "FLOAT", AT(ram), "memory limit in GB"},
    {"stream-job-logs", 0, OPT_TEXT, "True|False", AT(stream_job_logs),
     "show the log of the job as it grows, default True"},
    {"fail-on-job-error", 0, OPT_FLAG, NULL, AT(fail_on_job_error),
     "exit with status 1 when the job fails"},
};
static const struct opt get_job_opts[] = {
    {"save_dir", 0, OPT_TEXT, "SAVE_DIR", AT(save_dir),
     "directory to put the files in, without the tgz"},
    {"source_dir", 0, OPT_TEXT, "SOURCE_DIR", AT(source_dir),
     "only what is below this path of the job"},
};
static const struct opt clear_opts[] = {
    {"purge-bundles", 0, OPT_FLAG, NULL, AT(purge_bundles),
     "drop the bundles of the removed jobs too"},
};
static const struct opt info_opts[] = {
    {"env", 0, OPT_FLAG, NULL, AT(env), "list the submission and execution configs"},
};
static const struct opt login_opts[] = {
    {"username", 'u', OPT_TEXT, "USERNAME", AT(username), "name to log in with"},
    {"password", 'p', OPT_TEXT, "PASSWORD", AT(password), "its password"},
};
/* Every command has --debug; it is stored in struct foundations. */
static const struct opt debug_opts[] = {
    {"debug", 0, OPT_FLAG, NULL, offsetof(struct foundations, debug), DEBUG_HELP},
};
static const struct opt_group debug_group = {NULL, debug_opts, ARRAY_SIZE(debug_opts), true};
#define GROUPS(...)                                                                                \
    .groups = (const struct opt_group *const[])                                                    \
    {                                                                                              \
        &debug_group, __VA_ARGS__ NULL                                                             \
    }
#define GROUP(table) &(const struct opt_group){NULL, table, ARRAY_SIZE(table), false},
#define WORDS(min, max, ...)                                                                       \
    .min_operands = min, .max_operands = max, .words = (const struct operand_word[])               \
    {                                                                                              \
        __VA_ARGS__                                                                                \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }
#define COMMAND(path, help, more, ...)                                                             \
    {                                                                                              \
        .program = "foundations", .name = path, .summary = help, .flags = COMMAND_PYTHON | (more), \
        .opts_size = sizeof(struct found_opts), __VA_ARGS__                                        \
    }
#define CONFIG_HELP "name of the submission config: scheduler, or one of your own"
#define JOB_WORDS                                                                                  \
    WORDS(2, 2, {"scheduler_config", CONFIG_HELP}, {"job_id", "id of the job, or its beginning"}, )

const struct found_command found_commands[] = {
    {COMMAND("init", "create a project directory with a sample job", 0, GROUPS(),
             WORDS(1, 1, {"project_name", "name of the project and of its directory"}, )),
     "foundations.init", found_init},
    {COMMAND("submit", "run a directory as a job of a scheduler", COMMAND_STARTS,
             GROUPS(GROUP(submit_opts)),
             WORDS(2, SIZE_MAX, {"scheduler-config", CONFIG_HELP},
                   {"job-directory", "directory the job gets a copy of"},
                   {"command", "script and its arguments, or what the entrypoint takes"}, )),
     "foundations.submit", found_submit},
    {COMMAND("list", "list jobs with their ids, parameters and metrics", 0, GROUPS(),
             WORDS(1, 2, {"scheduler_config", CONFIG_HELP},
                   {"project", "only the jobs of this project"}, )),
     "foundations.list", found_list},
    {COMMAND("get job", "fetch the archive of a job", 0, GROUPS(GROUP(get_job_opts)), JOB_WORDS),
     "foundations.get", found_get_job},
    {COMMAND("get logs", "print the log of a job", 0, GROUPS(), JOB_WORDS), "foundations.get",
     found_get_logs},
    {COMMAND("stop", "stop a running job", 0, GROUPS(),
             WORDS(2, 2, {"scheduler-config", CONFIG_HELP " (the word job may stand before it)"},
                   {"job_id", "id of the job"}, )),
     "foundations.stop", found_stop},
    {COMMAND("clear-queue", "remove every queued job", 0, GROUPS(GROUP(clear_opts)),
             WORDS(1, 1, {"scheduler-config", CONFIG_HELP}, )),
     "foundations.clear-queue", found_clear_queue},
    {COMMAND("delete job", "delete a job that has ended, with its archive", 0, GROUPS(), JOB_WORDS),
     "foundations.delete", found_delete},
    {COMMAND("info", "list configs", 0, GROUPS(GROUP(info_opts))), "foundations.info", found_info},
    {COMMAND("login", "log in to a server that asks for it", 0, GROUPS(GROUP(login_opts)),
             WORDS(1, 1, {"host", "address of the server, e.g. http://localhost:5558"}, )),
     "foundations.login", found_login},
    {COMMAND("setup", "create the home directory with its default configs", 0, GROUPS()),
     "foundations.setup", found_setup},
};
const size_t n_found_commands = ARRAY_SIZE(found_commands);

static void found_command_rows(struct buf *b, const char *group)
{
    size_t n = strlen(group);

    for (size_t i = 0; i < n_found_commands; i++) {
        const char *path = found_commands[i].cmd.name;
        if (n && (strncmp(path, group, n) || path[n] != ' '))
            continue;
        AUTO_FREE char *left = xasprintf("    %s", n ? path + n + 1 : path);
        python_help_row(b, left, found_commands[i].cmd.summary);
    }
}

void found_help(struct buf *b)
{
    buf_addf(b, "%s\n\nFoundations: submit jobs to an Atlas scheduler and look after them\n\n",
             found_usage);
    buf_adds(b, "positional arguments:\n  " CHOICES "\n");
    found_command_rows(b, "");
    buf_adds(b, "\noptional arguments:\n");
    python_help_row(b, "  -h, --help", "show this help message and exit");
    python_help_row(b, "  --version", "show the version and exit");
    python_help_row(b, "  --debug", DEBUG_HELP);
}

void found_help_group(struct buf *b, const char *word)
{
    buf_addf(b, "usage: foundations %s [-h] [--debug] {%s} ...\n\npositional arguments:\n", word,
             strcmp(word, "get") ? "job" : "job,logs");
    found_command_rows(b, word);
    buf_adds(b, "\noptional arguments:\n");
    python_help_row(b, "  -h, --help", "show this help message and exit");
    python_help_row(b, "  --debug", DEBUG_HELP);
}
