/* main.c - hyperctl: from argv to one of its commands, and how it speaks
 *
 * Log lines below a warning go to stdout, the others to stderr; errors that end a command are one
 * line, "hyperctl: error: …", with exit status 1, mistakes in the arguments status 2.
 */
#include "base/util.h"
#include "dialect/help_python.h"
#include "dialect/hyperctl/generate.h"
#include "dialect/hyperctl/hyperctl.h"
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

enum { LINE_MAX_BYTES = 1 << 20 };

#define HYPER_USAGE                                                                                \
    "usage: hyperctl [-h] [--log-level LOG_LEVEL] [-error] [-warn] [-info] [-debug] "              \
    "{run,generate,batch,job} ..."
/* The help of the original program, word for word. */
static const char hyper_help[] =
    HYPER_USAGE "\n"
                "\n"
                "hyperctl command is used to manage jobs\n"
                "\n"
                "positional arguments:\n"
                "  {run,generate,batch,job}\n"
                "    run                 run jobs\n"
                "    generate            generate specific jobs json file\n"
                "    batch               batch operations\n"
                "    job                 job operations\n"
                "\n"
                "optional arguments:\n"
                "  -h, --help            show this help message and exit\n"
                "\n"
                "Console outputs:\n"
                "  --log-level LOG_LEVEL\n"
                "                        logging level, default is INFO\n"
                "  -error                alias of \"--log-level=ERROR\"\n"
                "  -warn                 alias of \"--log-level=WARN\"\n"
                "  -info                 alias of \"--log-level=INFO\"\n"
                "  -debug                alias of \"--log-level=DEBUG\"\n";

#define AT(member) offsetof(struct hyper_opts, member)
#define BATCHES_DIR                                                                                \
    {                                                                                              \
        "batches-data-dir", 0, OPT_TEXT, "BATCHES_DATA_DIR", AT(batches_data_dir),                 \
            "batches data dir, default get from environment variable HYPERCTL_BATCHES_DATA_DIR"    \
    }
#define BATCH_NAME                                                                                 \
    {                                                                                              \
        "batch-name", 'b', OPT_REQUIRED, "BATCH_NAME", AT(batch_name), "batch name"                \
    }
#define JOB_NAME                                                                                   \
    {                                                                                              \
        "job-name", 'j', OPT_REQUIRED, "JOB_NAME", AT(job_name), "job name"                        \
    }

static const struct opt run_opts[] = {
    {"config", 'c', OPT_REQUIRED, "CONFIG", AT(config), "specific jobs json file"},
    BATCHES_DIR,
    {"retry-failed", 0, OPT_FLAG, NULL, AT(retry_failed), "run jobs again that failed before"},
    {"fail-exit", 0, OPT_FLAG, NULL, AT(fail_exit), "exit with status 1 when any job failed"},
    {"no-daemon", 0, OPT_FLAG, NULL, AT(no_daemon),
     "schedule in this process even when berth serve runs"},
    {"batch-dir", 0, OPT_TEXT, "BATCH_DIR", AT(batch_dir),
     "directory of this batch, instead of one in the batches data dir"},
    {"events-fd", 0, OPT_TEXT, "FD", AT(events_fd), NULL},
    {"control-fd", 0, OPT_TEXT, "FD", AT(control_fd), NULL},
};
static const struct opt generate_opts[] = {
    {"template", 't', OPT_REQUIRED, "TEMPLATE", AT(template_), "template yaml file"},
    {"output", 'o', OPT_TEXT, "OUTPUT", AT(output), "output json file"},
};
static const struct opt list_opts[] = {BATCHES_DIR};
static const struct opt batch_opts[] = {BATCH_NAME, BATCHES_DIR};
static const struct opt jobs_opts[] = {
    BATCH_NAME,
    BATCHES_DIR,
    {"offline", 0, OPT_FLAG, NULL, AT(offline),
     "read the status files when the batch is not running"},
};
static const struct opt job_opts[] = {BATCH_NAME, JOB_NAME, BATCHES_DIR};
static const struct opt logs_opts[] = {
    BATCH_NAME,
    JOB_NAME,
    BATCHES_DIR,
    {"stderr", 0, OPT_FLAG, NULL, AT(stderr_too),
     "print standard error instead of standard output"},
};
#define COMMAND(path, help, table, fn)                                                             \
    {                                                                                              \
        {.program = "hyperctl",                                                                    \
         .name = path,                                                                             \
         .summary = help,                                                                          \
         .flags = COMMAND_PYTHON,                                                                  \
         .groups =                                                                                 \
             (const struct opt_group *const[]){                                                    \
                 &(const struct opt_group){NULL, table, ARRAY_SIZE(table), false}, NULL},          \
         .opts_size = sizeof(struct hyper_opts)},                                                  \
            fn                                                                                     \
    }
static const struct hyper_command hyper_commands[] = {
    COMMAND("run", "run jobs", run_opts, hyperctl_run),
    COMMAND("generate", "generate specific jobs json file", generate_opts, hyperctl_generate),
    COMMAND("batch list", "list batches", list_opts, hyperctl_batch_list),
    COMMAND("batch describe", "describe batch", batch_opts, hyperctl_batch_describe),
    COMMAND("job list", "list jobs", jobs_opts, hyperctl_job_list),
    COMMAND("job kill", "kill job", job_opts, hyperctl_job_kill),
    COMMAND("job describe", "describe job", job_opts, hyperctl_job_describe),
    COMMAND("job logs", "show the output of a job", logs_opts, hyperctl_job_logs),
};

/* ---- speaking ---- */

void hyper_log(const struct hyperctl *h, enum hyper_level level, const char *part, const char *fmt,
               ...)
{
    AUTO(buf) struct buf b = {0};
    time_t now = time(NULL);
    struct tm tm;
    char stamp[24];
    va_list ap;

    if (level < h->level)
        return;
    localtime_r(&now, &tm);
    strftime(stamp, sizeof(stamp), "%m-%d %H:%M:%S", &tm);
    buf_init(&b, LINE_MAX_BYTES);
    buf_addf(&b, "%s %c %s - ", stamp, "DIWEF"[level], part);
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    buf_addc(&b, '\n');
    /* One write a line, so that lines of several processes do not mix. */
    (void)!write(level < HYPER_WARN ? STDOUT_FILENO : STDERR_FILENO, b.p, b.n);
}

int hyper_fail(const struct err *e)
{
    fprintf(stderr, "hyperctl: error: %s\n", e->text[0] ? e->text : "unknown error");
    return 1;
}

int hyperctl_generate(struct hyperctl *h, const struct hyper_opts *o)
{
    struct err e = {0};

    if (hyper_generate_file(o->template_, o->output ? o->output : "batch.json",
                            h->c->program->version, &e) < 0)
        return hyper_fail(&e);
    return 0;
}

/* ---- global options ---- */

/* Names and letters as the original takes them, in any case. */
static bool level_parse(const char *name, enum hyper_level *out)
{
    static const struct {
        const char *name;
        enum hyper_level level;
    } known[] = {
        {"DEBUG", HYPER_DEBUG}, {"D", HYPER_DEBUG}, {"INFO", HYPER_INFO},    {"I", HYPER_INFO},
        {"WARN", HYPER_WARN},   {"W", HYPER_WARN},  {"WARNING", HYPER_WARN}, {"ERROR", HYPER_ERROR},
        {"ERR", HYPER_ERROR},   {"E", HYPER_ERROR}, {"FATAL", HYPER_FATAL},  {"F", HYPER_FATAL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (!strcasecmp(name, known[i].name)) {
            *out = known[i].level;
            return true;
        }
    return false;
}

static int set_level(struct hyperctl *h, const char *name)
{
    if (!level_parse(name, &h->level))
        return python_mistake("hyperctl", HYPER_USAGE,
                              "argument --log-level: '%.40s' is not a level; use DEBUG, INFO, "
                              "WARN or ERROR",
                              name);
    return 0;
}

/* One option before the command: 0 = taken, else exit status + 1. */
static int take_global(struct hyperctl *h, char ***argv)
{
    const char *word = **argv, *eq = strchr(word, '=');
    size_t n = eq ? (size_t)(eq - word) : strlen(word);

    if (!strcmp(word, "-h") || !strcmp(word, "--help")) {
        fputs(hyper_help, stdout);
        return 1;
    }
    if (!strcmp(word, "--version")) {
        printf("hyperctl (berth) %s\n", h->c->program->version);
        return 1;
    }
    if (n > 2 && !strncmp(word, "--log-level", n)) {
        const char *value = eq ? eq + 1 : (*argv)[1];
        if (!value)
            return 1 + python_mistake("hyperctl", HYPER_USAGE,
                                      "argument --log-level: expected one argument");
        *argv += !eq;
        int rc = set_level(h, value);
        return rc ? rc + 1 : 0;
    }
    if (word[1] != '-' && level_parse(word + 1, &h->level))
        return 0;
    return 1 + python_mistake("hyperctl", HYPER_USAGE, "unrecognized arguments: %s", word);
}

/* ---- commands of two words ---- */

/* The word after `group` in the path of command i; NULL when the command is not in the group. */
static const char *group_word(const char *group, size_t i)
{
    const char *path = hyper_commands[i].cmd.name;
    size_t n = strlen(group);

    return !strncmp(path, group, n) && path[n] == ' ' ? path + n + 1 : NULL;
}

static void group_help(struct buf *b, const char *group)
{
    buf_addf(b, "usage: hyperctl %s [-h] {", group);
    for (size_t i = 0, any = 0; i < ARRAY_SIZE(hyper_commands); i++)
        if (group_word(group, i))
            buf_addf(b, "%s%s", any++ ? "," : "", group_word(group, i));
    buf_adds(b, "} ...\n\npositional arguments:\n");
    for (size_t i = 0; i < ARRAY_SIZE(hyper_commands); i++)
        if (group_word(group, i))
            buf_addf(b, "    %-20s%s\n", group_word(group, i), hyper_commands[i].cmd.summary);
    buf_adds(b, "\noptional arguments:\n  -h, --help            show this help message and exit\n");
}

static void group_choices(struct buf *b, const char *group)
{
    for (size_t i = 0; i < ARRAY_SIZE(hyper_commands); i++)
        if (group_word(group, i))
            buf_addf(b, "%s'%s'", b->n ? ", " : "", group_word(group, i));
}

static const struct hyper_command *hyper_command_find(const char *path)
{
    for (size_t i = 0; i < ARRAY_SIZE(hyper_commands); i++)
        if (!strcmp(hyper_commands[i].cmd.name, path))
            return &hyper_commands[i];
    return NULL;
}

/* "batch" or "job" without a command that there is. */
static int group_error(const char *group, const char *word)
{
    AUTO(buf) struct buf help = {0}, names = {0};
    AUTO_FREE char *prog = xasprintf("hyperctl %s", group);

    buf_init(&help, LINE_MAX_BYTES);
    buf_init(&names, LINE_MAX_BYTES);
    group_help(&help, group);
    if (word && (!strcmp(word, "-h") || !strcmp(word, "--help"))) {
        cli_print(&help);
        return 0;
    }
    if (!word) {
        fprintf(stderr, "%s%s: error: unknown %s operation: None\n", help.p, prog, group);
        return 2;
    }
    group_choices(&names, group);
    /* Only the first line, the usage, stands before the error. */
    *strchr(help.p, '\n') = 0;
    return python_mistake(prog, help.p,
                          "argument %s_operation: invalid choice: '%.60s' (choose from %s)", group,
                          word, names.p);
}

/* The exit status.  argv[0] is the first word that is no option. */
static int run_named(struct hyperctl *h, char **argv)
{
    struct hyper_opts o = {0};
    const struct hyper_command *cmd;
    bool group = !strcmp(argv[0], "batch") || !strcmp(argv[0], "job");

    if (group) {
        AUTO_FREE char *path = xasprintf("%s %s", argv[0], argv[1] ? argv[1] : "");
        cmd = hyper_command_find(path);
        if (!cmd)
            return group_error(argv[0], argv[1]);
        argv++;
    } else {
        cmd = hyper_command_find(argv[0]);
    }
    if (!cmd)
        return python_mistake("hyperctl", HYPER_USAGE,
                              "argument operation: invalid choice: '%.60s' (choose from 'run', "
                              "'generate', 'batch', 'job')",
                              argv[0]);
    struct operands none;
    int rc = python_parse(&cmd->cmd, HYPER_USAGE, argv + 1, &o, NULL, &none);
    int status = rc ? rc - 1 : cmd->run(h, &o);
    opt_done(&cmd->cmd, &o, NULL, &none);
    return status;
}

int hyperctl_main(struct cli *c, char **argv)
{
    struct hyperctl h = {.c = c, .level = HYPER_INFO};

    /* The working directory may have been removed. */
    if (!getcwd(h.cwd, sizeof(h.cwd)))
        snprintf(h.cwd, sizeof(h.cwd), "/");
    for (argv++; *argv && (*argv)[0] == '-'; argv++) {
        int rc = take_global(&h, &argv);
        if (rc)
            return rc - 1;
    }
    if (!*argv) {
        fputs(hyper_help, stdout);
        return 0;
    }
    return run_named(&h, argv);
}
