/* foundations_pages.c - the manual page and the bash completion of foundations, from its tables
 *
 * `foundations __man` and `foundations __completion` print them for the installation.
 */
#include "base/util.h"
#include "dialect/atlas/foundations.h"
#include <string.h>

/* What roff would read as a command or as a different character. */
static void roff(struct buf *b, const char *text)
{
    for (; *text; text++) {
        if ((*text == '.' || *text == '\'') && (b->n == 0 || b->p[b->n - 1] == '\n'))
            buf_adds(b, "\\&");
        if (*text == '-')
            buf_adds(b, "\\-");
        else if (*text == '\\')
            buf_adds(b, "\\e");
        else if (*text == '`')
            buf_adds(b, "\\(ga");
        else
            buf_addc(b, *text);
    }
}

/* `name` in bold: an operand, a variable, or an option of the program. */
static void page_entry(struct buf *b, const char *name, const char *help)
{
    buf_adds(b, ".TP\n\\fB");
    roff(b, name);
    buf_adds(b, "\\fR\n");
    roff(b, help);
    buf_adds(b, ".\n");
}

static void page_option(struct buf *b, const struct opt *o)
{
    buf_adds(b, ".TP\n\\fB");
    if (o->letter)
        buf_addf(b, "\\-%c\\fR, \\fB", o->letter);
    buf_adds(b, "\\-\\-");
    roff(b, o->name);
    buf_adds(b, "\\fR");
    if (o->arg) {
        buf_adds(b, " \\fI");
        roff(b, o->arg);
        buf_adds(b, "\\fR");
    }
    buf_addc(b, '\n');
    roff(b, o->help);
    buf_adds(b, ".\n");
}

static void foundations_command_page(struct buf *b, const struct command *cmd)
{
    const struct operand_word *words = cmd->words;

    buf_adds(b, ".SS foundations ");
    roff(b, cmd->name);
    for (size_t i = 0; words && words[i].name; i++) {
        buf_addc(b, ' ');
        roff(b, words[i].name);
        buf_adds(b, i < cmd->min_operands ? "" : " ...");
    }
    buf_addc(b, '\n');
    roff(b, cmd->summary);
    buf_adds(b, ".\n");
    for (size_t i = 0; words && words[i].name; i++)
        page_entry(b, words[i].name, words[i].help);
    for (const struct opt_group *const *g = cmd->groups; *g; g++)
        for (size_t i = 0; i < (*g)->n && !(*g)->shared; i++)
            page_option(b, &(*g)->opts[i]);
}

void found_man(struct buf *b, const char *version)
{
    buf_addf(b,
             ".\\\" Made by `foundations __man`; the words live in its tables.\n"
             ".TH FOUNDATIONS 1 \"\" \"berth %s\" \"Foundations\"\n"
             ".SH NAME\nfoundations \\- submit jobs to an Atlas scheduler and look after them\n"
             ".SH SYNOPSIS\n.B foundations\n[\\fB\\-\\-version\\fR] [\\fB\\-\\-debug\\fR] "
             "\\fIcommand\\fR [\\fIargument\\fR ...]\n.SH COMMANDS\n",
             version);
    for (size_t i = 0; i < n_found_commands; i++)
        foundations_command_page(b, &found_commands[i].cmd);
    buf_adds(b, ".SH OPTIONS\n");
    page_entry(b, "--version", "Show the version");
    page_entry(b, "--debug", "Show what was done before an error");
    buf_adds(b, ".SH EXIT STATUS\n0 when the command was done, also when a submitted job fails "
                "(unless \\fB\\-\\-fail\\-on\\-job\\-error\\fR); 1 for a failure; 2 for a mistake "
                "in the arguments; 130 when a submission was interrupted.\n"
                ".SH ENVIRONMENT\n");
    page_entry(b, "FOUNDATIONS_HOME", "Directory of configs, default ~/.foundations");
    page_entry(b, "FOUNDATIONS_TOKEN", "Token of a login, instead of the one kept");
    page_entry(b, "DISABLE_LOG_STREAMING",
               "Set to anything but False: submit does not show the log");
    buf_adds(b, ".SH SEE ALSO\n.BR berth (1)\n");
}

/* ---- completion ---- */

static const char completion_head[] =
    "# bash completion for foundations, made by `foundations __completion`\n"
    "_foundations() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} path=${COMP_WORDS[1]} words=\n"
    "    local home=${FOUNDATIONS_HOME:-$HOME/.foundations}\n"
    "    if ((COMP_CWORD == 1)); then\n"
    "        words='init submit list get stop clear-queue delete info login setup --version "
    "--debug'\n"
    "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
    "        return\n"
    "    fi\n"
    "    case $path in\n"
    "    get) words='job logs' ;;\n"
    "    delete) words=job ;;\n"
    "    esac\n"
    "    if [[ $words ]]; then\n"
    "        if ((COMP_CWORD == 2)); then\n"
    "            COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
    "            return\n"
    "        fi\n"
    "        path+=\" ${COMP_WORDS[2]}\"\n"
    "    fi\n"
    "    case $path in\n";
static const char completion_tail[] =
    "    *) words= ;;\n"
    "    esac\n"
    "    if [[ $cur == -* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
    "        return\n"
    "    fi\n"
    "    # Names of configs, and files for directories and commands.\n"
    "    COMPREPLY=($(compgen -f -- \"$cur\") $(cd \"$home/config/submission\" 2>/dev/null &&\n"
    "        compgen -W \"$(ls -- *.config.yaml 2>/dev/null | sed 's/\\.config\\.yaml$//')\" -- "
    "\"$cur\"))\n"
    "}\n"
    "complete -o filenames -F _foundations foundations\n";

void found_completion(struct buf *b)
{
    buf_adds(b, completion_head);
    for (size_t i = 0; i < n_found_commands; i++) {
        const struct command *cmd = &found_commands[i].cmd;
        buf_addf(b, "    '%s') words='--help", cmd->name);
        for (const struct opt_group *const *g = cmd->groups; *g; g++)
            for (size_t k = 0; k < (*g)->n; k++)
                buf_addf(b, " --%s", (*g)->opts[k].name);
        buf_adds(b, "' ;;\n");
    }
    buf_adds(b, completion_tail);
}
