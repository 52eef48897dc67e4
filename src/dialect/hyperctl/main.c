/* main.c - hyperctl: from argv to one of its commands, and how it speaks
 *
 * Log lines below a warning go to stdout, the others to stderr; errors that end a command are one
 * line, "hyperctl: error: …", with exit status 1, mistakes in the arguments status 2.
 */
#include "base/util.h"
#include "cli/argparse.h"
#include "dialect/hyperctl/generate.h"
#include "dialect/hyperctl/hyperctl.h"
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

enum { LINE_MAX_BYTES = 1 << 20 };

#define AT(member) offsetof(struct hyper_opts, member)
#define BATCHES_DIR                                                                                \
    {                                                                                              \
        NULL, "--batches-data-dir", "BATCHES_DATA_DIR",                                            \
            "batches data dir, default get from environment variable HYPERCTL_BATCHES_DATA_DIR",   \
            PY_TEXT, AT(batches_data_dir)                                                          \
    }
#define BATCH_NAME                                                                                 \
    {                                                                                              \
        "-b", "--batch-name", "BATCH_NAME", "batch name", PY_REQUIRED, AT(batch_name)              \
    }
#define JOB_NAME                                                                                   \
    {                                                                                              \
        "-j", "--job-name", "JOB_NAME", "job name", PY_REQUIRED, AT(job_name)                      \
    }

static const struct py_arg run_args[] = {
    {"-c", "--config", "CONFIG", "specific jobs json file", PY_REQUIRED, AT(config)},
    BATCHES_DIR,
    {NULL, "--retry-failed", NULL, "run jobs that failed before once more", PY_TEXT,
     AT(retry_failed)},
    {NULL, "--fail-exit", NULL, "exit with status 1 when any job failed", PY_TEXT, AT(fail_exit)},
    {NULL, "--no-daemon", NULL, "schedule in this process even when berth serve runs", PY_TEXT,
     AT(no_daemon)},
    {NULL, "--batch-dir", "BATCH_DIR",
     "directory of this batch, instead of one in the batches data dir", PY_TEXT, AT(batch_dir)},
    {NULL, "--events-fd", "FD", NULL, PY_TEXT, AT(events_fd)},
    {NULL, "--control-fd", "FD", NULL, PY_TEXT, AT(control_fd)},
};
static const struct py_arg generate_args[] = {
    {"-t", "--template", "TEMPLATE", "template yaml file", PY_REQUIRED, AT(template_)},
    {"-o", "--output", "OUTPUT", "output json file", PY_TEXT, AT(output)},
};
static const struct py_arg list_args[] = {BATCHES_DIR};
static const struct py_arg batch_args[] = {BATCH_NAME, BATCHES_DIR};
static const struct py_arg jobs_args[] = {
    BATCH_NAME,
    BATCHES_DIR,
    {NULL, "--offline", NULL, "read the status files when the batch is not running", PY_TEXT,
     AT(offline)},
};
static const struct py_arg job_args[] = {BATCH_NAME, JOB_NAME, BATCHES_DIR};
static const struct py_arg logs_args[] = {
    BATCH_NAME,
    JOB_NAME,
    BATCHES_DIR,
    {NULL, "--stderr", NULL, "its standard error instead of its output", PY_TEXT, AT(stderr_too)},
};
#define COMMAND(path, help, args, fn)                                                              \
    {                                                                                              \
        path, help, args, ARRAY_SIZE(args), fn                                                     \
    }
const struct hyper_command hyper_commands[] = {
    COMMAND("run", "run jobs", run_args, hyperctl_run),
    COMMAND("generate", "generate specific jobs json file", generate_args, hyperctl_generate),
    COMMAND("batch list", "list batches", list_args, hyperctl_batch_list),
    COMMAND("batch describe", "describe batch", batch_args, hyperctl_batch_describe),
    COMMAND("job list", "list jobs", jobs_args, hyperctl_job_list),
    COMMAND("job kill", "kill job", job_args, hyperctl_job_kill),
    COMMAND("job describe", "describe job", job_args, hyperctl_job_describe),
    COMMAND("job logs", "show the output of a job", logs_args, hyperctl_job_logs),
};
const size_t n_hyper_commands = ARRAY_SIZE(hyper_commands);

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
    (void)!write(level < HYPER_WARN ? STDOUT_FILENO : STDERR_FILENO, b.p, b.n);
}

int hyper_fail(const struct err *e)
{
    fprintf(stderr, "hyperctl: error: %s\n", e->text[0] ? e->text : "something went wrong");
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
        return py_usage_error("hyperctl", hyper_usage,
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
            return 1 + py_usage_error("hyperctl", hyper_usage,
                                      "argument --log-level: expected one argument");
        *argv += !eq;
        int rc = set_level(h, value);
        return rc ? rc + 1 : 0;
    }
    if (word[1] != '-' && level_parse(word + 1, &h->level))
        return 0;
    return 1 + py_usage_error("hyperctl", hyper_usage, "unrecognized arguments: %s", word);
}

/* ---- commands of two words ---- */

static void group_help(struct buf *b, const char *group)
{
    size_t n = strlen(group);

    buf_addf(b, "usage: hyperctl %s [-h] {", group);
    for (size_t i = 0, any = 0; i < n_hyper_commands; i++)
        if (!strncmp(hyper_commands[i].path, group, n) && hyper_commands[i].path[n] == ' ')
            buf_addf(b, "%s%s", any++ ? "," : "", hyper_commands[i].path + n + 1);
    buf_adds(b, "} ...\n\npositional arguments:\n");
    for (size_t i = 0; i < n_hyper_commands; i++)
        if (!strncmp(hyper_commands[i].path, group, n) && hyper_commands[i].path[n] == ' ')
            buf_addf(b, "    %-20s%s\n", hyper_commands[i].path + n + 1, hyper_commands[i].help);
    buf_adds(b, "\noptional arguments:\n  -h, --help            show this help message and exit\n");
}

static void group_choices(struct buf *b, const char *group)
{
    size_t n = strlen(group);

    for (size_t i = 0; i < n_hyper_commands; i++)
        if (!strncmp(hyper_commands[i].path, group, n) && hyper_commands[i].path[n] == ' ')
            buf_addf(b, "%s'%s'", b->n ? ", " : "", hyper_commands[i].path + n + 1);
}

static const struct hyper_command *hyper_command_find(const char *path)
{
    for (size_t i = 0; i < n_hyper_commands; i++)
        if (!strcmp(hyper_commands[i].path, path))
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
    *strchr(help.p, '\n') = 0;
    return py_usage_error(prog, help.p,
                          "argument %s_operation: invalid choice: '%.60s' (choose from %s)", group,
                          word, names.p);
}

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
        return py_usage_error("hyperctl", hyper_usage,
                              "argument operation: invalid choice: '%.60s' (choose from 'run', "
                              "'generate', 'batch', 'job')",
                              argv[0]);
    int rc = hyper_args_parse(cmd, argv + 1, &o);
    return rc ? rc - 1 : cmd->run(h, &o);
}

int hyperctl_main(struct cli *c, char **argv)
{
    struct hyperctl h = {.c = c, .level = HYPER_INFO};

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
