/* complete.c - completion scripts for bash, zsh and fish, from the command tables
 *
 * Owns: the scripts.  Everything static is written into them; numbers of jobs, projects and queues
 * are asked of a running daemon through the hidden command `berth complete-words`, which never
 * starts one: pressing Tab has no effect on the machine.
 */
#include "base/util.h"
#include "cli/opt.h"
#include "model/job.h"
#include <string.h>

/* Hidden commands are called by programs, not by people. */
static bool shown(const struct command *c)
{
    return !(c->flags & COMMAND_HIDDEN);
}

static void states(struct buf *b)
{
    for (size_t i = 0; i < ARRAY_SIZE(job_state_words); i++)
        buf_addf(b, "%s%s", i ? " " : "", job_state_words[i]);
}

/* "a|b" → "a b" */
static void choices(struct buf *b, const char *text)
{
    for (; *text; text++)
        buf_addc(b, *text == '|' ? ' ' : *text);
}

static void command_names(struct buf *b, const struct command *const *all)
{
    bool first = true;

    for (; *all; all++)
        if (shown(*all)) {
            buf_addf(b, "%s%s", first ? "" : " ", (*all)->name);
            first = false;
        }
}

/* What `berth complete-words` is asked for; NULL when nothing is. */
static const char *asked(enum complete_kind k)
{
    return k == COMPLETE_JOB       ? "job"
           : k == COMPLETE_PROJECT ? "project"
           : k == COMPLETE_QUEUE   ? "queue"
                                   : NULL;
}

/* Words known now, for any of the three shells; some kinds have none. */
static void fixed_words(struct buf *b, enum complete_kind k, const char *choice_text,
                        const struct command *const *all)
{
    if (k == COMPLETE_CHOICES)
        choices(b, choice_text);
    else if (k == COMPLETE_STATE)
        states(b);
    else if (k == COMPLETE_BERTH)
        command_names(b, all);
}

/* The options that may stand before the command and have a value: "--home|--server". */
static void leading_with_value(struct buf *b, const struct opt_group *const *leading,
                               const char *between)
{
    const char *gap = "";

    FOR_EACH_OPT (o, leading)
        if (opt_has_value(o)) {
            buf_addf(b, "%s--%s", gap, o->name);
            gap = between;
        }
}

/* ---- bash ---- */

/* " --name --cpus" */
static void option_names(struct buf *b, const struct opt_group *const *groups)
{
    FOR_EACH_OPT (o, groups)
        buf_addf(b, " --%s", o->name);
}

/* What offers the words of one kind in bash and zsh; the pairs stand around the words. */
struct shell_actions {
    const char *ask[2], *file, *dir, *program, *words[2];
};
static const struct shell_actions bash_actions = {{"_berth_words \"$(_berth_ask ", ")\""},
                                                  "_berth_files -f",
                                                  "_berth_files -d",
                                                  "_berth_program",
                                                  {"_berth_words \"", "\""}};
static const struct shell_actions zsh_actions = {
    {"{_berth_ask ", "}"}, "_files", "_files -/", "_normal", {"(", ")"}};

/* The shell code for one kind; fish_action does the same. */
static void shell_action(struct buf *b, const struct shell_actions *a, enum complete_kind k,
                         const char *choice_text, const struct command *const *all)
{
    if (asked(k)) {
        buf_addf(b, "%s%s%s", a->ask[0], asked(k), a->ask[1]);
    } else if (k == COMPLETE_FILE) {
        buf_adds(b, a->file);
    } else if (k == COMPLETE_DIR) {
        buf_adds(b, a->dir);
    } else if (k == COMPLETE_COMMAND || k == COMPLETE_FILE_OR_CMD) {
        buf_adds(b, a->program);
    } else {
        buf_adds(b, a->words[0]);
        fixed_words(b, k, choice_text, all);
        buf_adds(b, a->words[1]);
    }
}

/* One case of the script: values of the option before the cursor, else options, else operands. */
static void bash_command(struct buf *b, const struct command *c, const struct command *const *all)
{
    buf_addf(b, "    %s)\n        case $prev in\n", c->name);
    FOR_EACH_OPT (o, c->groups) {
        if (!opt_has_value(o))
            continue;
        buf_adds(b, "        ");
        if (o->letter)
            buf_addf(b, "-%c|", o->letter);
        buf_addf(b, "--%s) ", o->name);
        shell_action(b, &bash_actions, o->complete, o->choices, all);
        buf_adds(b, "; return ;;\n");
    }
    buf_adds(b,
             "        esac\n        if [[ $cur == -* ]]; then\n            _berth_words \"--help");
    option_names(b, c->groups);
    buf_adds(b, "\"\n        else\n            ");
    shell_action(b, &bash_actions, c->complete, c->choices, all);
    buf_adds(b, "\n        fi ;;\n");
}

static const char bash_head[] =
    "# bash completion for berth, made by `berth completion bash`\n"
    "_berth_ask() { berth complete-words \"$1\" 2>/dev/null; }\n"
    "_berth_words() { COMPREPLY=($(compgen -W \"$1\" -- \"$cur\")); }\n"
    "_berth_files() {\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    local IFS=$'\\n'\n"
    "    COMPREPLY=($(compgen \"$1\" -- \"$cur\"))\n"
    "}\n"
    "_berth_program() {\n"
    "    local i\n"
    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "        [[ ${COMP_WORDS[i]} == -- ]] && break\n"
    "    done\n"
    "    if ((COMP_CWORD == i + 1)) && [[ $cur != */* ]]; then\n"
    "        COMPREPLY=($(compgen -c -- \"$cur\"))\n"
    "    elif ((COMP_CWORD == i)) && [[ -n $cur && $cur != */* ]]; then\n"
    "        COMPREPLY=($(compgen -c -f -- \"$cur\"))\n"
    "    else\n"
    "        _berth_files -f\n"
    "    fi\n"
    "}\n"
    "_berth() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd= i\n"
    "    COMPREPLY=()\n"
    "    if [[ $cur == = ]]; then\n"
    "        cur=\n"
    "    elif [[ $prev == = ]]; then\n"
    "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    fi\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        case ${COMP_WORDS[i]} in\n"
    "        ";
static const char bash_rest[] =
    ") ((i++)) ;;\n"
    "        -*) ;;\n"
    "        *) cmd=${COMP_WORDS[i]}; break ;;\n"
    "        esac\n"
    "    done\n"
    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "        [[ ${COMP_WORDS[i]} == -- ]] && { _berth_program; return; }\n"
    "    done\n"
    "    case $cmd in\n";

static void bash_script(struct buf *b, const struct command *const *all,
                        const struct opt_group *const *leading)
{
    buf_adds(b, bash_head);
    leading_with_value(b, leading, "|");
    buf_adds(b, bash_rest);
    buf_adds(b, "    '') _berth_words \"--help --version");
    option_names(b, leading);
    buf_addc(b, ' ');
    command_names(b, all);
    buf_adds(b, "\" ;;\n");
    for (const struct command *const *c = all; *c; c++)
        if (shown(*c))
            bash_command(b, *c, all);
    buf_adds(b, "    esac\n}\ncomplete -F _berth berth\n");
}

/* ---- zsh ---- */

/* Inside '…[text]…': quotes, brackets and colons are escaped. */
static void zsh_text(struct buf *b, const char *s)
{
    for (; *s; s++) {
        if (*s == '\'')
            buf_adds(b, "'\\''");
        else {
            if (strchr("[]:\\", *s))
                buf_addc(b, '\\');
            buf_addc(b, *s);
        }
    }
}

/* "'(-n --limit)'{-n+,--limit=}'[help]:N:action'": see _arguments in zshcompsys(1). */
static void zsh_option(struct buf *b, const struct opt *o, const struct command *const *all)
{
    buf_adds(b, " \\\n            ");
    if (o->type == OPT_LIST)
        buf_adds(b, "'*'");
    else if (o->letter)
        buf_addf(b, "'(-%c --%s)'", o->letter, o->name);
    if (o->letter)
        buf_addf(b, "{-%c%s,--%s%s}'", o->letter, !opt_has_value(o) ? "" : "+", o->name,
                 !opt_has_value(o) ? "" : "=");
    else
        buf_addf(b, "'--%s%s", o->name, !opt_has_value(o) ? "" : "=");
    buf_addc(b, '[');
    zsh_text(b, o->help);
    buf_addc(b, ']');
    if (opt_has_value(o)) {
        buf_addc(b, ':');
        zsh_text(b, o->arg);
        buf_addc(b, ':');
        shell_action(b, &zsh_actions, o->complete, o->choices, all);
    }
    buf_addc(b, '\'');
}

static void zsh_options(struct buf *b, const struct opt_group *const *groups,
                        const struct command *const *all)
{
    FOR_EACH_OPT (o, groups)
        zsh_option(b, o, all);
    buf_adds(b, " \\\n            '(-h --help)'{-h,--help}'[show help]'");
}

/* Of a command that starts a program, all behind the program's name is the program's. */
static void zsh_command(struct buf *b, const struct command *c, const struct command *const *all)
{
    bool starts = c->flags & COMMAND_STARTS;

    buf_addf(b, "        %s)\n            _arguments -s%s", c->name, starts ? " -A '-*'" : "");
    zsh_options(b, c->groups, all);
    if (starts) {
        buf_adds(b, " \\\n            '*::program:_normal'");
    } else if (c->operand) {
        buf_adds(b, " \\\n            '*:");
        zsh_text(b, c->operand);
        buf_addc(b, ':');
        shell_action(b, &zsh_actions, c->complete, c->choices, all);
        buf_addc(b, '\'');
    }
    buf_adds(b, " ;;\n");
}

/* No variable here may be called "commands": that is where zsh keeps the programs it knows. */
static const char zsh_head[] = "#compdef berth\n"
                               "# zsh completion for berth, made by `berth completion zsh`\n"
                               "_berth_ask() {\n"
                               "    local -a found\n"
                               "    found=(${(f)\"$(berth complete-words $1 2>/dev/null)\"})\n"
                               "    compadd -a found\n"
                               "}\n"
                               "_berth() {\n"
                               "    local curcontext=\"$curcontext\" state\n"
                               "    local -a names\n"
                               "    local -i program=$words[(i)--]\n"
                               "    if ((program < CURRENT)); then\n"
                               "        shift $program words\n"
                               "        ((CURRENT -= program))\n"
                               "        _normal\n"
                               "        return\n"
                               "    fi\n"
                               "    _arguments -C -A '-*'";

static void zsh_script(struct buf *b, const struct command *const *all,
                       const struct opt_group *const *leading)
{
    buf_adds(b, zsh_head);
    zsh_options(b, leading, all);
    buf_adds(b, " \\\n            '1:command:->command' '*::argument:->rest'\n"
                "    case $state in\n"
                "    command)\n"
                "        names=(");
    for (const struct command *const *c = all; *c; c++)
        if (shown(*c)) {
            buf_addf(b, "\n            '%s:", (*c)->name);
            zsh_text(b, (*c)->summary);
            buf_addc(b, '\'');
        }
    buf_adds(b, "\n        )\n        _describe command names ;;\n"
                "    rest)\n        case $words[1] in\n");
    for (const struct command *const *c = all; *c; c++)
        if (shown(*c))
            zsh_command(b, *c, all);
    buf_adds(b, "        esac ;;\n    esac\n}\n"
                "if [ \"$funcstack[1]\" = _berth ]; then\n    _berth \"$@\"\nelse\n"
                "    compdef _berth berth\nfi\n");
}

/* ---- fish ---- */

/* In single quotes fish knows two escapes only: \' and \\. */
static void fish_text(struct buf *b, const char *s)
{
    buf_addc(b, '\'');
    for (; *s; s++) {
        if (*s == '\'' || *s == '\\')
            buf_addc(b, '\\');
        buf_addc(b, *s);
    }
    buf_addc(b, '\'');
}

/* `option`: the words are the value of an option (-x, -r), else operands (-f). */
static void fish_action(struct buf *b, enum complete_kind k, const char *choice_text, bool option,
                        const struct command *const *all)
{
    if (k == COMPLETE_FILE) {
        buf_adds(b, option ? " -r -F" : " -F");
    } else if (k == COMPLETE_DIR) {
        buf_adds(b, option ? " -x -a '(__fish_complete_directories)'" : " -F");
    } else if (k == COMPLETE_COMMAND || k == COMPLETE_FILE_OR_CMD) {
        buf_adds(b, " -F -a '(__fish_complete_command)'");
    } else if (asked(k)) {
        buf_addf(b, "%s -a '(berth complete-words %s 2>/dev/null)'", option ? " -x" : " -f",
                 asked(k));
    } else if (k == COMPLETE_NONE) {
        buf_adds(b, option ? " -x" : " -f");
    } else {
        buf_adds(b, option ? " -x -a '" : " -f -a '");
        fixed_words(b, k, choice_text, all);
        buf_addc(b, '\'');
    }
}

/* One line for each option, offered where `when` holds. */
static void fish_options(struct buf *b, const char *when, const struct opt_group *const *groups,
                         const struct command *const *all)
{
    FOR_EACH_OPT (o, groups) {
        buf_addf(b, "complete -c berth -n '__berth_in %s' -l %s", when, o->name);
        if (o->letter)
            buf_addf(b, " -s %c", o->letter);
        if (opt_has_value(o))
            fish_action(b, o->complete, o->choices, true, all);
        buf_adds(b, " -d ");
        fish_text(b, o->help);
        buf_addc(b, '\n');
    }
    buf_addf(b, "complete -c berth -n '__berth_in %s' -s h -l help -d 'show help'\n", when);
}

static void fish_command(struct buf *b, const struct command *c, const struct command *const *all)
{
    buf_addf(b, "complete -c berth -n '__berth_in no-command' -f -a %s -d ", c->name);
    fish_text(b, c->summary);
    buf_addc(b, '\n');
    buf_addf(b, "complete -c berth -n '__berth_in %s'", c->name);
    fish_action(b, c->complete, c->choices, false, all);
    buf_addc(b, '\n');
    fish_options(b, c->name, c->groups, all);
}

/* Fish's own __fish_seen_subcommand_from would take any word for the command. */
static const char fish_head[] = "# fish completion for berth, made by `berth completion fish`\n"
                                "function __berth_in -d 'Is this the command that is typed?'\n"
                                "    set -l found no-command\n"
                                "    set -l value no\n"
                                "    for word in (commandline -opc)[2..-1]\n"
                                "        if test $value = yes\n"
                                "            set value no\n"
                                "        else if test \"$word\" = --\n"
                                "            set found program\n"
                                "            break\n"
                                "        else if test $found = no-command\n"
                                "            switch $word\n"
                                "                case ";
static const char fish_rest[] = "\n"
                                "                    set value yes\n"
                                "                case '-*'\n"
                                "                case '*'\n"
                                "                    set found $word\n"
                                "            end\n"
                                "        end\n"
                                "    end\n"
                                "    test $found = $argv[1]\n"
                                "end\n"
                                "complete -c berth -n '__berth_in program'";

static void fish_script(struct buf *b, const struct command *const *all,
                        const struct opt_group *const *leading)
{
    buf_adds(b, fish_head);
    leading_with_value(b, leading, " ");
    buf_adds(b, fish_rest);
    fish_action(b, COMPLETE_COMMAND, NULL, false, all);
    buf_addc(b, '\n');
    fish_options(b, "no-command", leading, all);
    for (const struct command *const *c = all; *c; c++)
        if (shown(*c))
            fish_command(b, *c, all);
}

int completion_script(struct buf *b, const char *shell, const struct command *const *all,
                      const struct opt_group *const *leading, struct err *e)
{
    if (!strcmp(shell, "bash"))
        bash_script(b, all, leading);
    else if (!strcmp(shell, "zsh"))
        zsh_script(b, all, leading);
    else if (!strcmp(shell, "fish"))
        fish_script(b, all, leading);
    else
        return err_set(e, ERR_INVALID,
                       "no completion for '%.40s'; the shells are bash, zsh and fish", shell);
    return 0;
}
