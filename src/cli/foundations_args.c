/* foundations_args.c - arguments of foundations, the way Python's argparse takes them
 *
 * --ram 2, --ram=2 and every unique beginning of a long name are the same.  Options may stand
 * between the operands, but whatever follows the job directory of submit belongs to the job, also
 * words with a dash.  Messages, usage lines and exit status 2 are argparse's.
 */
#include "base/util.h"
#include "cli/foundations.h"
#include <stdarg.h>
#include <stdio.h>

enum { TEXT_MAX = 64 << 10, HELP_COLUMN = 24, HELP_WIDTH = 54, PARSED_HELP = 1, PARSED_WRONG = 3 };

#define CHOICES "{init,submit,get,stop,clear-queue,delete,info,login,setup}"
const char found_usage[] = "usage: foundations [-h] [--version] [--debug] " CHOICES " ...";

#define AT(member) offsetof(struct found_opts, member)
static const struct found_arg submit_args[] = {
    {NULL, "--entrypoint", "ENTRYPOINT", "program to start instead of the worker's own", FOUND_TEXT,
     AT(entrypoint)},
    {NULL, "--project-name", "NAME", "project of the job, default the name of its directory",
     FOUND_TEXT, AT(project_name)},
    {NULL, "--num-gpus", "INT", "GPUs to reserve", FOUND_INT, AT(num_gpus)},
    {NULL, "--ram", "FLOAT", "memory limit in GB", FOUND_FLOAT, AT(ram)},
    {NULL, "--stream-job-logs", "True|False", "show the log of the job as it grows, default True",
     FOUND_TEXT, AT(stream_job_logs)},
    {NULL, "--fail-on-job-error", NULL, "exit with status 1 when the job fails", FOUND_FLAG,
     AT(fail_on_job_error)},
};
static const struct found_arg get_job_args[] = {
    {NULL, "--save_dir", "SAVE_DIR", "directory to put the files in, without the tgz", FOUND_TEXT,
     AT(save_dir)},
    {NULL, "--source_dir", "SOURCE_DIR", "only what is below this path of the job", FOUND_TEXT,
     AT(source_dir)},
};
static const struct found_arg clear_args[] = {
    {NULL, "--purge-bundles", NULL, "drop the bundles of the removed jobs too", FOUND_FLAG,
     AT(purge_bundles)},
};
static const struct found_arg info_args[] = {
    {NULL, "--env", NULL, "list the submission and execution configs", FOUND_FLAG, AT(env)},
};
static const struct found_arg login_args[] = {
    {"-u", "--username", "USERNAME", "name to log in with", FOUND_TEXT, AT(username)},
    {"-p", "--password", "PASSWORD", "its password", FOUND_TEXT, AT(password)},
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

int found_usage_error(const char *prog, const char *usage, const char *fmt, ...)
{
    char text[1000];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s\n%s: error: %s\n", usage, prog, text);
    return 2;
}

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
    for (size_t i = 0; i < cmd->n_args; i++) {
        const struct found_arg *a = &cmd->args[i];
        buf_addf(b, " [%s%s%s]", a->letter ? a->letter : a->name, a->metavar ? " " : "",
                 a->metavar ? a->metavar : "");
    }
    for (size_t i = 0; i < count_operands(cmd); i++)
        buf_addf(b, " %s", cmd->operands[i]);
    if (cmd->rest)
        buf_addf(b, " %s ...", cmd->rest);
}

static void help_row(struct buf *b, const char *left, const char *help)
{
    size_t col = 0;
    int n = (int)strlen(left);

    if (n > HELP_COLUMN - 2)
        buf_addf(b, "%s\n%*s", left, HELP_COLUMN, "");
    else
        buf_addf(b, "%-*s", HELP_COLUMN, left);
    for (struct str rest = str_of(help); rest.n;) {
        struct str word = str_cut(rest, ' ', &rest);
        if (col && col + 1 + word.n > HELP_WIDTH) {
            buf_addf(b, "\n%*s", HELP_COLUMN, "");
            col = 0;
        }
        buf_addf(b, "%s" STR_FMT, col ? " " : "", STR_ARG(word));
        col += word.n + (col ? 1 : 0);
    }
    buf_addc(b, '\n');
}

static void operand_rows(struct buf *b, const struct found_command *cmd)
{
    size_t n = count_operands(cmd);

    if (n == 0)
        return;
    buf_adds(b, "\npositional arguments:\n");
    for (size_t i = 0; i < n + (cmd->rest ? 1 : 0); i++) {
        AUTO_FREE char *left = xasprintf("  %s", i < n ? cmd->operands[i] : cmd->rest);
        help_row(b, left, cmd->operand_help[i]);
    }
}

void found_help_command(struct buf *b, const struct found_command *cmd)
{
    usage_line(b, cmd);
    buf_addc(b, '\n');
    operand_rows(b, cmd);
    buf_adds(b, "\noptional arguments:\n");
    help_row(b, "  -h, --help", "show this help message and exit");
    help_row(b, "  --debug", "show what was done before an error");
    for (size_t i = 0; i < cmd->n_args; i++) {
        const struct found_arg *a = &cmd->args[i];
        const char *value = a->metavar ? a->metavar : "", *space = a->metavar ? " " : "";
        AUTO_FREE char *left = a->letter ? xasprintf("  %s%s%s, %s%s%s", a->letter, space, value,
                                                     a->name, space, value)
                                         : xasprintf("  %s%s%s", a->name, space, value);
        help_row(b, left, a->help);
    }
}

static void command_rows(struct buf *b, const char *group)
{
    size_t n = strlen(group);

    for (size_t i = 0; i < n_found_commands; i++) {
        const char *path = found_commands[i].path;
        if (n && (strncmp(path, group, n) || path[n] != ' '))
            continue;
        AUTO_FREE char *left = xasprintf("    %s", n ? path + n + 1 : path);
        help_row(b, left, found_commands[i].help);
    }
}

void found_help(struct buf *b)
{
    buf_addf(b, "%s\n\nFoundations: submit jobs to an Atlas scheduler and look after them\n\n",
             found_usage);
    buf_adds(b, "positional arguments:\n  " CHOICES "\n");
    command_rows(b, "");
    buf_adds(b, "\noptional arguments:\n");
    help_row(b, "  -h, --help", "show this help message and exit");
    help_row(b, "  --version", "show the version and exit");
    help_row(b, "  --debug", "show what was done before an error");
}

void found_help_group(struct buf *b, const char *word)
{
    buf_addf(b, "usage: foundations %s [-h] [--debug] {%s} ...\n\npositional arguments:\n", word,
             strcmp(word, "get") ? "job" : "job,logs");
    command_rows(b, word);
    buf_adds(b, "\noptional arguments:\n");
    help_row(b, "  -h, --help", "show this help message and exit");
    help_row(b, "  --debug", "show what was done before an error");
}

/* ---- parsing ---- */

__attribute__((format(printf, 2, 3))) static int wrong(const struct found_command *cmd,
                                                       const char *fmt, ...)
{
    AUTO(buf) struct buf usage = {0};
    AUTO_FREE char *prog = xasprintf("foundations %s", cmd->path);
    char text[600];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    buf_init(&usage, TEXT_MAX);
    usage_line(&usage, cmd);
    found_usage_error(prog, usage.p, "%s", text);
    return PARSED_WRONG;
}

static const char *both_names(const struct found_arg *a, char out[80])
{
    snprintf(out, 80, "%s%s%s", a->letter ? a->letter : "", a->letter ? "/" : "", a->name);
    return out;
}

/* The option a word names.  *value: what stands after "=" or the letter, else NULL.
 * 1 = found, 0 = none, -1 = several and that was said. */
static int find_arg(const struct found_command *cmd, const char *word, const struct found_arg **out,
                    const char **value)
{
    const char *eq = strchr(word, '=');
    size_t n = eq ? (size_t)(eq - word) : strlen(word), found = 0;

    *value = eq ? eq + 1 : NULL;
    for (size_t i = 0; i < cmd->n_args; i++) {
        const struct found_arg *a = &cmd->args[i];
        if (word[1] != '-') {
            if (!a->letter || strncmp(word, a->letter, 2) != 0)
                continue;
            *out = a;
            *value = !word[2] ? NULL : word[2] == '=' ? word + 3 : word + 2;
            return 1;
        }
        if (strncmp(word, a->name, n) != 0)
            continue;
        *out = a;
        found++;
        if (!a->name[n])
            return 1;
    }
    if (found > 1) {
        wrong(cmd, "ambiguous option: %.*s", (int)MIN(n, 60), word);
        return -1;
    }
    return (int)found;
}

static bool is_number(const char *word)
{
    double d;

    return str_to_double(str_of(word), &d);
}

static bool looks_like_option(const char *word)
{
    return word[0] == '-' && word[1] && !is_number(word);
}

static int check_value(const struct found_command *cmd, const struct found_arg *a,
                       const char *value)
{
    char names[80];
    int64_t i;

    if (a->kind == FOUND_INT && !str_to_i64(str_of(value), &i))
        return wrong(cmd, "argument %s: invalid int value: '%.60s'", both_names(a, names), value);
    if (a->kind == FOUND_FLOAT && !is_number(value))
        return wrong(cmd, "argument %s: invalid float value: '%.60s'", both_names(a, names), value);
    return 0;
}

static int set_arg(const struct found_command *cmd, const struct found_arg *a, const char *value,
                   char ***argv, struct found_opts *out)
{
    char names[80];
    void *at = (char *)out + a->offset;

    if (a->kind == FOUND_FLAG) {
        if (value)
            return wrong(cmd, "argument %s: ignored explicit argument '%.60s'",
                         both_names(a, names), value);
        *(bool *)at = true;
        return 0;
    }
    if (!value) {
        value = (*argv)[1];
        if (!value || looks_like_option(value))
            return wrong(cmd, "argument %s: expected one argument", both_names(a, names));
        ++*argv;
    }
    *(const char **)at = value;
    return check_value(cmd, a, value);
}

static bool is_help(const char *word)
{
    return !strcmp(word, "-h") || (strlen(word) > 2 && !strncmp("--help", word, strlen(word)));
}

/* One word with a dash: 0 = taken, else as found_args_parse. */
static int take_option(struct foundations *f, const struct found_command *cmd, char ***argv,
                       struct found_opts *out, struct buf *strange)
{
    const struct found_arg *a = NULL;
    const char *value;

    if (is_help(**argv)) {
        AUTO(buf) struct buf b = {0};
        buf_init(&b, TEXT_MAX);
        found_help_command(&b, cmd);
        cli_print(&b);
        return PARSED_HELP;
    }
    if (!strcmp(**argv, "--debug")) {
        f->debug = true;
        return 0;
    }
    int rc = find_arg(cmd, **argv, &a, &value);
    if (rc < 0)
        return PARSED_WRONG;
    if (rc > 0)
        return set_arg(cmd, a, value, argv, out);
    buf_addf(strange, "%s%s", strange->n ? " " : "", **argv);
    return 0;
}

static int check_operands(const struct found_command *cmd, const struct found_opts *o)
{
    AUTO(buf) struct buf missing = {0};

    buf_init(&missing, TEXT_MAX);
    for (size_t i = o->n_words; i < count_operands(cmd); i++)
        buf_addf(&missing, "%s%s", missing.n ? ", " : "", cmd->operands[i]);
    if (!missing.n)
        return 0;
    return wrong(cmd, "the following arguments are required: %s", missing.p);
}

int found_args_parse(struct foundations *f, const struct found_command *cmd, char **argv,
                     struct found_opts *out)
{
    AUTO(buf) struct buf strange = {0};
    size_t want = count_operands(cmd);
    bool dashes = false;
    int rc = 0;

    buf_init(&strange, TEXT_MAX);
    for (; *argv && rc == 0; argv++) {
        if (cmd->rest && out->n_words == want)
            break;
        if (!dashes && !strcmp(*argv, "--"))
            dashes = true;
        else if (!dashes && looks_like_option(*argv))
            rc = take_option(f, cmd, &argv, out, &strange);
        else if (out->n_words < want)
            out->words[out->n_words++] = *argv;
        else
            buf_addf(&strange, "%s%s", strange.n ? " " : "", *argv);
    }
    out->rest = argv;
    if (rc == 0)
        rc = check_operands(cmd, out);
    if (rc == 0 && strange.n)
        rc =
            found_usage_error("foundations", found_usage, "unrecognized arguments: %s", strange.p) +
            1;
    return rc;
}
