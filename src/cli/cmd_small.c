/* cmd_small.c - version, help, man, completion, schema, and the words a shell asks for
 *
 * All of these write one text that comes from the tables or the model, without a daemon.  Only
 * complete-words asks a daemon, and never starts one: pressing Tab must not have side effects.
 */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"
#include "model/spec.h"

/* Writes one page into b, or fails with e. */
typedef int page_fn(struct cli *c, const struct operands *ops, struct buf *b, struct err *e);

/* The page is printed only when it is complete. */
static int page_print(struct cli *c, const struct operands *ops, page_fn *write)
{
    AUTO(buf) struct buf b = {0};
    struct err e = {0};

    if (write(c, ops, &b, &e) < 0)
        return cli_fail(&e);
    cli_print(&b);
    return 0;
}

/* The command NAME, whose page page_NAME writes; more members of struct command may follow. */
#define PAGE_COMMAND(NAME, SUMMARY, SYNOPSIS, ...)                                                 \
    static int NAME##_run(struct cli *c, const void *opts, const struct operands *ops)             \
    {                                                                                              \
        (void)opts;                                                                                \
        return page_print(c, ops, page_##NAME);                                                    \
    }                                                                                              \
    const struct command cmd_##NAME = {.name = #NAME,                                              \
                                       .summary = SUMMARY,                                         \
                                       .synopsis = SYNOPSIS,                                       \
                                       .section = SECTION_HELP,                                    \
                                       .groups = OPTION_GROUPS(NULL),                              \
                                       .run = NAME##_run,                                          \
                                       __VA_ARGS__}
static int page_version(struct cli *c, const struct operands *ops, struct buf *b, struct err *e)
{
    (void)ops, (void)e;
    buf_addf(b, "berth %s\n", c->program->version);
    return 0;
}
PAGE_COMMAND(version, "print the version", "", );

/* *out is NULL without an operand: the page about all commands is meant. */
static int page_subject(struct cli *c, const struct operands *ops, const struct command **out,
                        struct err *e)
{
    *out = ops->n ? command_find(c->program->commands, ops->p[0], e) : NULL;
    return ops->n && !*out ? -1 : 0;
}

static int page_help(struct cli *c, const struct operands *ops, struct buf *b, struct err *e)
{
    const struct command *cmd;

    if (page_subject(c, ops, &cmd, e) < 0)
        return -1;
    if (cmd)
        help_command(b, cmd, c->out.width, c->out.colour);
    else
        help_overview(b, c->program, c->out.colour);
    return 0;
}
PAGE_COMMAND(help, "explain a command, with examples", "[COMMAND]",
             OPERANDS("command", 0, 1, COMPLETE_BERTH),
             .examples = EXAMPLES({"berth help", "all commands"},
                                  {"berth help ls", "one command, like berth ls --help"}));

static int page_man(struct cli *c, const struct operands *ops, struct buf *b, struct err *e)
{
    const struct command *cmd;

    if (page_subject(c, ops, &cmd, e) < 0)
        return -1;
    man_page(b, cmd, c->program->commands, leading_groups, c->program->version);
    return 0;
}
PAGE_COMMAND(man, "print a manual page (roff)", "[COMMAND]",
             OPERANDS("command", 0, 1, COMPLETE_BERTH), .flags = COMMAND_HIDDEN);

static int page_completion(struct cli *c, const struct operands *ops, struct buf *b, struct err *e)
{
    return completion_script(b, ops->p[0], c->program->commands, leading_groups, e);
}
PAGE_COMMAND(completion, "print the completion script of a shell", "bash|zsh|fish",
             OPERANDS("shell", 1, 1, COMPLETE_CHOICES), .choices = "bash|zsh|fish",
             .examples = EXAMPLES(
                 {"source <(berth completion bash)",
                  "for this shell; put it in ~/.bashrc to keep it"},
                 {"berth completion zsh > ~/.zfunc/_berth", "for zsh, with ~/.zfunc in fpath"},
                 {"berth completion fish > ~/.config/fish/completions/berth.fish", "for fish"}));

static int page_schema(struct cli *c, const struct operands *ops, struct buf *b, struct err *e)
{
    bool sweep = !strcmp(ops->p[0], "sweep");

    (void)c;
    if (!sweep && strcmp(ops->p[0], "job") != 0)
        return err_set(e, ERR_INVALID, "there is no schema '%.40s'; the schemas are job and sweep",
                       ops->p[0]);
    buf_adds(b, sweep ? spec_sweep_schema() : spec_schema());
    if (b->n && b->p[b->n - 1] != '\n')
        buf_addc(b, '\n');
    return 0;
}
PAGE_COMMAND(schema, "print the JSON Schema of job or sweep files", "job|sweep",
             OPERANDS("form", 1, 1, COMPLETE_CHOICES), .choices = "job|sweep",
             .examples = EXAMPLES({"berth schema sweep > sweep.schema.json",
                                   "let an editor check your files"}));

/* ---- what Tab asks for; silent about every failure ---- */

/* The exit status is 1 without a daemon; the scripts ignore it and offer nothing. */
static int complete_words(struct cli *c, const void *opts UNUSED, const struct operands *ops)
{
    static const struct {
        const char *kind, *path, *member;
    } sources[] = {
        {"job", "/v1/jobs?limit=200", "number"},
        {"project", "/v1/projects", "name"},
        {"queue", "/v1/queues", "name"},
    };
    AUTO(buf) struct buf b = {0};

    c->unreachable = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
        AUTO(json) struct json *reply = NULL;
        struct err e;
        if (strcmp(ops->p[0], sources[i].kind) != 0)
            continue;
        if (cli_get(c, sources[i].path, &reply, &e) < 0)
            return 1;
        const struct json *items = json_get(reply, "items");
        for (size_t k = 0; k < json_len(items); k++) {
            const struct json *v = json_get(json_at(items, k), sources[i].member);
            if (json_type(v) == JSON_STR)
                buf_addf(&b, STR_FMT "\n", STR_ARG(json_str(v)));
            else if (v)
                buf_addf(&b, "%lld\n", (long long)json_int(v));
        }
    }
    cli_print(&b);
    return 0;
}
const struct command cmd_complete_words = {
    BERTH_COMMAND(SECTION_HELP, "complete-words", "KIND", complete_words,
                  "words for the completion of a shell"),
    .flags = COMMAND_HIDDEN,
    .groups = OPTION_GROUPS(&common_group),
    OPERANDS("kind", 1, 1, COMPLETE_NONE),
};
