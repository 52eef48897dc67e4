/* cmd_small.c - version, help, man, completion, schema, and the words a shell asks for */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"
#include "model/spec.h"

enum { TEXT_MAX = 4 << 20 };
static const struct opt_group *const no_groups[] = {NULL};
static const struct opt_group *const connection_groups[] = {&common_group, NULL};

static int version(struct cli *c, const void *opts, const struct operands *ops)
{
    AUTO(buf) struct buf b = {0};

    (void)opts;
    (void)ops;
    buf_init(&b, TEXT_MAX);
    buf_addf(&b, "berth %s\n", c->program->version);
    cli_print(&b);
    return 0;
}
const struct command cmd_version = {
    .name = "version",
    .summary = "print the version",
    .synopsis = "",
    .section = SECTION_HELP,
    .groups = no_groups,
    .run = version,
};

static int help(struct cli *c, const void *opts, const struct operands *ops)
{
    AUTO(buf) struct buf b = {0};
    struct err e = {0};
    const struct command *cmd = NULL;

    (void)opts;
    if (ops->n && !(cmd = command_find(c->program->commands, ops->p[0], &e)))
        return cli_fail(&e);
    buf_init(&b, TEXT_MAX);
    if (cmd)
        help_command(&b, cmd, c->out.width, c->out.colour);
    else
        help_overview(&b, c->program, c->out.colour);
    cli_print(&b);
    return 0;
}
static const struct example help_examples[] = {
    {"berth help", "all commands"},
    {"berth help ls", "one command, like berth ls --help"},
    {NULL, NULL},
};
const struct command cmd_help = {
    .name = "help",
    .summary = "explain a command, with examples",
    .synopsis = "[COMMAND]",
    .section = SECTION_HELP,
    .groups = no_groups,
    .examples = help_examples,
    .operand = "command",
    .max_operands = 1,
    .complete = COMPLETE_BERTH,
    .run = help,
};

static int man(struct cli *c, const void *opts, const struct operands *ops)
{
    AUTO(buf) struct buf b = {0};
    struct err e = {0};
    const struct command *cmd = NULL;

    (void)opts;
    if (ops->n && !(cmd = command_find(c->program->commands, ops->p[0], &e)))
        return cli_fail(&e);
    buf_init(&b, TEXT_MAX);
    man_page(&b, cmd, c->program->commands, leading_groups, c->program->version);
    cli_print(&b);
    return 0;
}
const struct command cmd_man = {
    .name = "man",
    .summary = "print a manual page (roff)",
    .synopsis = "[COMMAND]",
    .flags = COMMAND_HIDDEN,
    .section = SECTION_HELP,
    .groups = no_groups,
    .operand = "command",
    .max_operands = 1,
    .complete = COMPLETE_BERTH,
    .run = man,
};

static int completion(struct cli *c, const void *opts, const struct operands *ops)
{
    AUTO(buf) struct buf b = {0};
    struct err e = {0};

    (void)opts;
    buf_init(&b, TEXT_MAX);
    if (completion_script(&b, ops->p[0], c->program->commands, leading_groups, &e) < 0)
        return cli_fail(&e);
    cli_print(&b);
    return 0;
}
static const struct example completion_examples[] = {
    {"source <(berth completion bash)", "for this shell; put it in ~/.bashrc to keep it"},
    {"berth completion zsh > ~/.zfunc/_berth", "for zsh, with ~/.zfunc in fpath"},
    {"berth completion fish > ~/.config/fish/completions/berth.fish", "for fish"},
    {NULL, NULL},
};
const struct command cmd_completion = {
    .name = "completion",
    .summary = "print the completion script of a shell",
    .synopsis = "bash|zsh|fish",
    .section = SECTION_HELP,
    .groups = no_groups,
    .examples = completion_examples,
    .operand = "shell",
    .min_operands = 1,
    .max_operands = 1,
    .complete = COMPLETE_CHOICES,
    .choices = "bash|zsh|fish",
    .run = completion,
};

static int schema(struct cli *c, const void *opts, const struct operands *ops)
{
    AUTO(buf) struct buf b = {0};
    bool sweep = !strcmp(ops->p[0], "sweep");

    (void)c;
    (void)opts;
    if (!sweep && strcmp(ops->p[0], "job") != 0) {
        cli_say("there is no schema '%.40s'; the schemas are job and sweep", ops->p[0]);
        return err_exit_code(ERR_INVALID);
    }
    buf_init(&b, TEXT_MAX);
    buf_adds(&b, sweep ? spec_sweep_schema() : spec_schema());
    if (b.n && b.p[b.n - 1] != '\n')
        buf_addc(&b, '\n');
    cli_print(&b);
    return 0;
}
static const struct example schema_examples[] = {
    {"berth schema sweep > sweep.schema.json", "let an editor check your files"},
    {NULL, NULL},
};
const struct command cmd_schema = {
    .name = "schema",
    .summary = "print the JSON Schema of job or sweep files",
    .synopsis = "job|sweep",
    .section = SECTION_HELP,
    .groups = no_groups,
    .examples = schema_examples,
    .operand = "form",
    .min_operands = 1,
    .max_operands = 1,
    .complete = COMPLETE_CHOICES,
    .choices = "job|sweep",
    .run = schema,
};

/* ---- what Tab asks for; silent about every failure ---- */

static int complete_words(struct cli *c, const void *opts, const struct operands *ops)
{
    static const struct {
        const char *kind, *path, *member;
    } sources[] = {
        {"job", "/v1/jobs?limit=200", "number"},
        {"project", "/v1/projects", "name"},
        {"queue", "/v1/queues", "name"},
    };
    AUTO(buf) struct buf b = {0};

    (void)opts;
    buf_init(&b, TEXT_MAX);
    c->unreachable = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
        struct json *reply = NULL;
        struct err e;
        if (strcmp(ops->p[0], sources[i].kind) != 0)
            continue;
        if (cli_get(c, sources[i].path, &reply, &e) < 0)
            return 1;
        const struct json *items =
            json_type(reply) == JSON_ARRAY ? reply : json_get(reply, "items");
        for (size_t k = 0; k < json_len(items); k++) {
            const struct json *v = json_get(json_at(items, k), sources[i].member);
            if (json_type(v) == JSON_STR)
                buf_addf(&b, STR_FMT "\n", STR_ARG(json_str(v)));
            else if (v)
                buf_addf(&b, "%lld\n", (long long)json_int(v));
        }
        json_free(reply);
    }
    cli_print(&b);
    return 0;
}
const struct command cmd_complete_words = {
    .name = "complete-words",
    .summary = "words for the completion of a shell",
    .synopsis = "KIND",
    .flags = COMMAND_HIDDEN,
    .section = SECTION_HELP,
    .groups = connection_groups,
    .operand = "kind",
    .min_operands = 1,
    .max_operands = 1,
    .run = complete_words,
};
