/* help_python.h - the command line of programs that were written with Python's argparse
 *
 * Berth's own commands have another form (cli/help.c), so only dialects use this.
 */
#pragma once
#include "cli/opt.h"

/* opt_parse for a COMMAND_PYTHON command, with its output: prints the help, or the mistake below a
 * usage line (`program_usage` is that of the whole program).  0 = go on, else the exit status + 1.
 * Release with opt_done in every case. */
int python_parse(const struct command *cmd, const char *program_usage, char **argv, void *own,
                 void *shared, struct operands *out);
/* Prints "USAGE", "PROG: error: TEXT"; the result is argparse's exit status 2. */
int python_mistake(const char *prog, const char *usage, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void python_help(struct buf *b, const struct command *cmd);
/* One row of a help text: `left`, then `help` in lines of its own column. */
void python_help_row(struct buf *b, const char *left, const char *help);
