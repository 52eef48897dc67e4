/* foundations_pages.c - the manual page and the bash completion of foundations, from its tables
 *
 * `foundations __man` and `foundations __completion` print them for the installation.
 */
#include "base/util.h"
#include "cli/argparse.h"
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

static void entry(struct buf *b, const char *letter, const char *name, const char *value,
                  const char *help)
{
    buf_adds(b, ".TP\n\\fB");
    if (letter) {
        roff(b, letter);
        buf_adds(b, "\\fR, \\fB");
    }
    roff(b, name);
    buf_adds(b, "\\fR");
    if (value) {
        buf_adds(b, " \\fI");
        roff(b, value);
        buf_adds(b, "\\fR");
    }
    buf_addc(b, '\n');
    roff(b, help);
    buf_adds(b, ".\n");
}

static void foundations_command_page(struct buf *b, const struct found_command *cmd)
{
    buf_adds(b, ".SS foundations ");
    roff(b, cmd->path);
    for (size_t i = 0; i < FOUND_WORDS_MAX && cmd->operands[i]; i++) {
        buf_addc(b, ' ');
        roff(b, cmd->operands[i]);
    }
    if (cmd->rest)
        buf_addf(b, " %s ...", cmd->rest);
    buf_addc(b, '\n');
    roff(b, cmd->help);
    buf_adds(b, ".\n");
    for (size_t i = 0; i < FOUND_WORDS_MAX && cmd->operands[i]; i++)
        entry(b, NULL, cmd->operands[i], NULL, cmd->operand_help[i]);
    for (size_t i = 0; i < cmd->n_args; i++)
        entry(b, cmd->args[i].letter, cmd->args[i].name, cmd->args[i].metavar, cmd->args[i].help);
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
        foundations_command_page(b, &found_commands[i]);
    buf_adds(b, ".SH OPTIONS\n");
    entry(b, NULL, "--version", NULL, "Show the version");
    entry(b, NULL, "--debug", NULL, "Show what was done before an error");
    buf_adds(b, ".SH EXIT STATUS\n0 when the command was done, also when a submitted job fails "
                "(unless \\fB\\-\\-fail\\-on\\-job\\-error\\fR); 1 for a failure; 2 for a mistake "
                "in the arguments; 130 when a submission was interrupted.\n"
                ".SH ENVIRONMENT\n");
    entry(b, NULL, "FOUNDATIONS_HOME", NULL, "Directory of configs, default ~/.foundations");
    entry(b, NULL, "FOUNDATIONS_TOKEN", NULL, "Token of a login, instead of the one kept");
    entry(b, NULL, "DISABLE_LOG_STREAMING", NULL,
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
    "        words='init submit get stop clear-queue delete info login setup --version --debug'\n"
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
        const struct found_command *cmd = &found_commands[i];
        buf_addf(b, "    '%s') words='--debug --help", cmd->path);
        for (size_t k = 0; k < cmd->n_args; k++)
            buf_addf(b, " %s", cmd->args[k].name);
        buf_adds(b, "' ;;\n");
    }
    buf_adds(b, completion_tail);
}
