/* foundations_args.c - arguments of foundations, the way Python's argparse takes them
 *
 * Options may stand between the operands, but whatever follows the job directory of submit belongs
 * to the job, also words with a dash.
 */
#include "base/util.h"
#include "cli/argparse.h"
#include "dialect/atlas/foundations.h"

#define CHOICES "{init,submit,get,stop,clear-queue,delete,info,login,setup}"
const char found_usage[] = "usage: foundations [-h] [--version] [--debug] " CHOICES " ...";

#define AT(member) offsetof(struct found_opts, member)
static const struct py_arg submit_args[] = {
    {NULL, "--entrypoint", "ENTRYPOINT", "program to start instead of the worker's own", PY_TEXT,
     AT(entrypoint)},
    {NULL, "--project-name", "NAME", "project of the job, default the name of its directory",
     PY_TEXT, AT(project_name)},
    {NULL, "--num-gpus", "INT", "GPUs to reserve", PY_INT, AT(num_gpus)},
    {NULL, "--ram", "FLOAT", "memory limit in GB", PY_FLOAT, AT(ram)},
    {NULL, "--stream-job-logs", "True|False", "show the log of the job as it grows, default True",
     PY_TEXT, AT(stream_job_logs)},
    {NULL, "--fail-on-job-error", NULL, "exit with status 1 when the job fails", PY_TEXT,
     AT(fail_on_job_error)},
};
static const struct py_arg get_job_args[] = {
    {NULL, "--save_dir", "SAVE_DIR", "directory to put the files in, without the tgz", PY_TEXT,
     AT(save_dir)},
    {NULL, "--source_dir", "SOURCE_DIR", "only what is below this path of the job", PY_TEXT,
     AT(source_dir)},
};
static const struct py_arg clear_args[] = {
    {NULL, "--purge-bundles", NULL, "drop the bundles of the removed jobs too", PY_TEXT,
     AT(purge_bundles)},
};
static const struct py_arg info_args[] = {
    {NULL, "--env", NULL, "list the submission and execution configs", PY_TEXT, AT(env)},
};
static const struct py_arg login_args[] = {
    {"-u", "--username", "USERNAME", "name to log in with", PY_TEXT, AT(username)},
    {"-p", "--password", "PASSWORD", "its password", PY_TEXT, AT(password)},
};
#define CONFIG_HELP "name of the submission config: scheduler, or one of your own"
#define ID_HELP "id of the job"
const struct found_command found_commands[] = {
    {"init",
     "create a project directory with a sample job",
     "foundations.init",
     {"project_name"},
     {"name of the project and of its directory"},
     NULL,
     NULL,
     0,
     found_init},
    {"submit",
     "run a directory as a job of a scheduler",
     "foundations.submit",
     {"scheduler-config", "job-directory"},
     {CONFIG_HELP, "directory the job gets a copy of",
      "script and its arguments, or what the "
      "entrypoint takes"},
     "command",
     submit_args,
     ARRAY_SIZE(submit_args),
     found_submit},
    {"get job",
     "fetch the archive of a job",
     "foundations.get",
     {"scheduler_config", "job_id"},
     {CONFIG_HELP, ID_HELP},
     NULL,
     get_job_args,
     ARRAY_SIZE(get_job_args),
     found_get_job},
    {"get logs",
     "print the log of a job",
     "foundations.get",
     {"scheduler_config", "job_id"},
     {CONFIG_HELP, ID_HELP},
     NULL,
     NULL,
     0,
     found_get_logs},
    {"stop",
     "stop a running job",
     "foundations.stop",
     {"scheduler-config", "job_id"},
     {CONFIG_HELP " (the word job may stand before it)", ID_HELP},
     NULL,
     NULL,
     0,
     found_stop},
    {"clear-queue",
     "remove every queued job",
     "foundations.clear-queue",
     {"scheduler-config"},
     {CONFIG_HELP},
     NULL,
     clear_args,
     ARRAY_SIZE(clear_args),
     found_clear_queue},
    {"delete job",
     "delete a job that has ended, with its archive",
     "foundations.delete",
     {"scheduler_config", "job_id"},
     {CONFIG_HELP, ID_HELP},
     NULL,
     NULL,
     0,
     found_delete},
    {"info",
     "list configs",
     "foundations.info",
     {NULL},
     {NULL},
     NULL,
     info_args,
     ARRAY_SIZE(info_args),
     found_info},
    {"login",
     "log in to a server that asks for it",
     "foundations.login",
     {"host"},
     {"address of the server, e.g. http://localhost:5558"},
     NULL,
     login_args,
     ARRAY_SIZE(login_args),
     found_login},
    {"setup",
     "create the home directory with its default configs",
     "foundations.setup",
     {NULL},
     {NULL},
     NULL,
     NULL,
     0,
     found_setup},
};
const size_t n_found_commands = ARRAY_SIZE(found_commands);

/* ---- help ---- */

static size_t count_operands(const struct found_command *cmd)
{
    size_t n = 0;

    while (n < FOUND_WORDS_MAX && cmd->operands[n])
        n++;
    return n;
}

static void usage_line(struct buf *b, const struct found_command *cmd)
{
    buf_addf(b, "usage: foundations %s [-h] [--debug]", cmd->path);
    py_usage_options(b, cmd->args, cmd->n_args);
    for (size_t i = 0; i < count_operands(cmd); i++)
        buf_addf(b, " %s", cmd->operands[i]);
    if (cmd->rest)
        buf_addf(b, " %s ...", cmd->rest);
}

static void operand_rows(struct buf *b, const struct found_command *cmd)
{
    size_t n = count_operands(cmd);

    if (n == 0)
        return;
    buf_adds(b, "\npositional arguments:\n");
    for (size_t i = 0; i < n + (cmd->rest ? 1 : 0); i++) {
        AUTO_FREE char *left = xasprintf("  %s", i < n ? cmd->operands[i] : cmd->rest);
        py_help_row(b, left, cmd->operand_help[i]);
    }
}

void found_help_command(struct buf *b, const struct found_command *cmd)
{
    usage_line(b, cmd);
    buf_addc(b, '\n');
    operand_rows(b, cmd);
    buf_adds(b, "\noptional arguments:\n");
    py_help_row(b, "  -h, --help", "show this help message and exit");
    py_help_row(b, "  --debug", "show what was done before an error");
    py_help_options(b, cmd->args, cmd->n_args);
}

static void command_rows(struct buf *b, const char *group)
{
    size_t n = strlen(group);

    for (size_t i = 0; i < n_found_commands; i++) {
        const char *path = found_commands[i].path;
        if (n && (strncmp(path, group, n) || path[n] != ' '))
            continue;
        AUTO_FREE char *left = xasprintf("    %s", n ? path + n + 1 : path);
        py_help_row(b, left, found_commands[i].help);
    }
}

void found_help(struct buf *b)
{
    buf_addf(b, "%s\n\nFoundations: submit jobs to an Atlas scheduler and look after them\n\n",
             found_usage);
    buf_adds(b, "positional arguments:\n  " CHOICES "\n");
    command_rows(b, "");
    buf_adds(b, "\noptional arguments:\n");
    py_help_row(b, "  -h, --help", "show this help message and exit");
    py_help_row(b, "  --version", "show the version and exit");
    py_help_row(b, "  --debug", "show what was done before an error");
}

void found_help_group(struct buf *b, const char *word)
{
    buf_addf(b, "usage: foundations %s [-h] [--debug] {%s} ...\n\npositional arguments:\n", word,
             strcmp(word, "get") ? "job" : "job,logs");
    command_rows(b, word);
    buf_adds(b, "\noptional arguments:\n");
    py_help_row(b, "  -h, --help", "show this help message and exit");
    py_help_row(b, "  --debug", "show what was done before an error");
}

/* ---- parsing ---- */

/* One word with a dash: 0 = taken, else as found_args_parse. */
static int take_option(struct foundations *f, const struct found_command *cmd,
                       const struct py_parser *p, char ***argv, struct found_opts *out,
                       struct buf *strange)
{
    if (py_is_help(**argv)) {
        AUTO(buf) struct buf b = {0};
        buf_init(&b, PY_TEXT_MAX);
        found_help_command(&b, cmd);
        cli_print(&b);
        return PY_PARSED_HELP;
    }
    if (!strcmp(**argv, "--debug")) {
        f->debug = true;
        return 0;
    }
    int rc = py_take(p, argv, out);
    if (rc >= 0)
        return rc;
    buf_addf(strange, "%s%s", strange->n ? " " : "", **argv);
    return 0;
}

static int check_operands(const struct found_command *cmd, const struct py_parser *p,
                          const struct found_opts *o)
{
    AUTO(buf) struct buf missing = {0};

    buf_init(&missing, PY_TEXT_MAX);
    for (size_t i = o->n_words; i < count_operands(cmd); i++)
        buf_addf(&missing, "%s%s", missing.n ? ", " : "", cmd->operands[i]);
    if (!missing.n)
        return 0;
    return py_wrong(p, "the following arguments are required: %s", missing.p);
}

int found_args_parse(struct foundations *f, const struct found_command *cmd, char **argv,
                     struct found_opts *out)
{
    AUTO(buf) struct buf strange = {0}, usage = {0};
    AUTO_FREE char *prog = xasprintf("foundations %s", cmd->path);
    size_t want = count_operands(cmd);
    bool dashes = false;
    int rc = 0;

    buf_init(&strange, PY_TEXT_MAX);
    buf_init(&usage, PY_TEXT_MAX);
    usage_line(&usage, cmd);
    const struct py_parser p = {prog, usage.p, cmd->args, cmd->n_args};
    for (; *argv && rc == 0; argv++) {
        if (cmd->rest && out->n_words == want)
            break;
        if (!dashes && !strcmp(*argv, "--"))
            dashes = true;
        else if (!dashes && py_is_option(*argv))
            rc = take_option(f, cmd, &p, &argv, out, &strange);
        else if (out->n_words < want)
            out->words[out->n_words++] = *argv;
        else
            buf_addf(&strange, "%s%s", strange.n ? " " : "", *argv);
    }
    out->rest = argv;
    if (rc == 0)
        rc = check_operands(cmd, &p, out);
    if (rc == 0 && strange.n)
        rc =
            py_usage_error("foundations", found_usage, "unrecognized arguments: %s", strange.p) + 1;
    return rc;
}
