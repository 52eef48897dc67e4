/* foundations_main.c - foundations: from argv to one of its commands
 *
 * Every command finds a home with its directories and default configs in place: what is missing is
 * made, what is there is left alone.
 */
#include "base/util.h"
#include "dialect/atlas/config.h"
#include "dialect/atlas/foundations.h"
#include "dialect/atlas/home.h"
#include "dialect/help_python.h"
#include <signal.h>
#include <stdio.h>

enum { TEXT_MAX = 64 << 10, TRAIL_MAX = 1 << 20 };

/* `fill` NULL: the help of the program.  Always 0, the exit status. */
static int print_help(void (*fill)(struct buf *b, const char *word), const char *word)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, TEXT_MAX);
    if (fill)
        fill(&b, word);
    else
        found_help(&b);
    cli_print(&b);
    return 0;
}

/* What the installation asks for. */
static bool is_page(const char *word)
{
    return !strcmp(word, "__man") || !strcmp(word, "__completion");
}

static int foundations_print_page(const struct foundations *f, const char *word)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, TEXT_MAX);
    if (!strcmp(word, "__man"))
        found_man(&b, f->c->program->version);
    else
        found_completion(&b);
    cli_print(&b);
    return 0;
}

/* ---- finding the command ---- */

static bool is_group(const char *word)
{
    return !strcmp(word, "get") || !strcmp(word, "delete");
}

static const struct found_command *foundations_find_command(const char *path)
{
    for (size_t i = 0; i < n_found_commands; i++)
        if (!strcmp(found_commands[i].cmd.name, path))
            return &found_commands[i];
    return NULL;
}

/* "get" and "delete" with the word after it; --debug may stand between the two. 0 = *out is the
 * command and *argv its last word; else the exit status plus 1. */
static int find_in_group(struct foundations *f, const char *group, char ***argv,
                         const struct found_command **out)
{
    char **word = *argv + 1;

    for (; *word && !strcmp(*word, "--debug"); word++)
        f->debug = true;
    if (!*word || !strcmp(*word, "-h") || !strcmp(*word, "--help"))
        return 1 + print_help(found_help_group, group);
    AUTO_FREE char *path = xasprintf("%s %s", group, *word),
                   *prog = xasprintf("foundations %s", group);
    AUTO_FREE char *usage = xasprintf("usage: %s [-h] [--debug] {%s} ...", prog,
                                      strcmp(group, "get") ? "job" : "job,logs");
    *out = foundations_find_command(path);
    *argv = word;
    if (*out)
        return 0;
    return 1 + python_mistake(prog, usage, "invalid choice: '%.60s' (choose from %s)", *word,
                              strcmp(group, "get") ? "'job'" : "'job', 'logs'");
}

/* `stop job CONFIG ID` is `stop CONFIG ID`; a config may be called job all the same. */
static void drop_job_word(char **argv)
{
    size_t first = 0, words = 0;

    for (size_t i = 1; argv[i]; i++)
        if (argv[i][0] != '-') {
            first = first ? first : i;
            words++;
        }
    if (words < 3 || strcmp(argv[first], "job"))
        return;
    for (size_t i = first; argv[i]; i++)
        argv[i] = argv[i + 1];
}

/* ---- before the command ---- */

/* The level of the client, until a job.config.yaml says otherwise. */
static void foundations_take_level(struct foundations *f)
{
    AUTO_FREE char *path = xasprintf("%s/" ATLAS_DIR_EXECUTION "/default.config.yaml", f->home);
    AUTO(json) struct json *conf = NULL;
    struct err e = {0};

    if (atlas_config_read(path, ATLAS_CONFIG_EXECUTION, found_note_warning, f, &conf, &e) < 0) {
        found_step(f, "%s", e.text);
        return;
    }
    (void)found_level_parse(json_get_str(conf, "log_level"), &f->level);
    f->long_form = f->level != FOUND_INFO;
}

static int open_home(struct foundations *f, bool make, struct err *e)
{
    f->home = atlas_home();
    if (!f->home)
        return err_set(e, ERR_INVALID,
                       "neither FOUNDATIONS_HOME nor HOME is set; set FOUNDATIONS_HOME to the "
                       "directory of your configs");
    if (make && atlas_home_make(f->home, 0, NULL, NULL, e) < 0)
        return -1;
    (void)found_open_log(f, e); /* the log is a convenience */
    foundations_take_level(f);
    return 0;
}

static int found_run(struct foundations *f, const struct found_command *cmd,
                     const struct found_opts *o)
{
    struct err e = {0};

    f->logger = cmd->logger;
    setenv("FOUNDATIONS_COMMAND_LINE", "True", 1);
    /* setup makes it itself, and tells */
    if (open_home(f, cmd->run != found_setup, &e) < 0)
        return found_fail(f, &e);
    return cmd->run(f, o);
}

/* python_parse has printed help or a mistake when it returns other than 0: the exit status plus 1.
 */
static int found_parse_and_run(struct foundations *f, const struct found_command *cmd, char **argv)
{
    struct found_opts o = {0};

    if (cmd->run == found_stop)
        drop_job_word(argv);
    int rc = python_parse(&cmd->cmd, found_usage, argv + 1, &o, f, &o.ops);
    int status = rc ? rc - 1 : found_run(f, cmd, &o);
    opt_done(&cmd->cmd, &o, f, &o.ops);
    return status;
}

/* Options of the program stand before the command; --debug may also follow it. */
static int foundations_dispatch(struct foundations *f, char **argv)
{
    const struct found_command *cmd = NULL;

    for (argv++; *argv && (*argv)[0] == '-'; argv++) {
        if (!strcmp(*argv, "-h") || !strcmp(*argv, "--help"))
            return print_help(NULL, NULL);
        if (!strcmp(*argv, "--version"))
            return found_say(f, "Running Foundations version %s", f->c->program->version);
        if (strcmp(*argv, "--debug"))
            return python_mistake("foundations", found_usage, "unrecognized arguments: %s", *argv);
        f->debug = true;
    }
    if (!*argv)
        return print_help(NULL, NULL);
    if (is_page(*argv))
        return foundations_print_page(f, *argv);
    if (is_group(*argv)) {
        int rc = find_in_group(f, *argv, &argv, &cmd);
        if (rc)
            return rc - 1;
    } else if (!(cmd = foundations_find_command(*argv)) || strchr(*argv, ' ')) {
        return python_mistake(
            "foundations", found_usage,
            "invalid choice: '%.60s' (choose from 'init', 'submit', 'list', 'get', "
            "'stop', 'clear-queue', 'delete', 'info', 'login', 'setup')",
            *argv);
    }
    return found_parse_and_run(f, cmd, argv);
}

int foundations_main(struct cli *c, char **argv)
{
    struct foundations f = {.c = c, .level = FOUND_INFO, .log_fd = -1};

    if (!getcwd(f.cwd, sizeof(f.cwd)))
        snprintf(f.cwd, sizeof(f.cwd), ".");
    signal(SIGPIPE, SIG_IGN); /* a reader that left is an error of write, here and in transfers */
    buf_init(&f.trail, TRAIL_MAX);
    int status = foundations_dispatch(&f, argv);
    http_client_free(f.http);
    buf_done(&f.trail);
    free(f.home);
    free(f.token);
    if (f.log_fd >= 0)
        close(f.log_fd);
    return status;
}
