/* argparse.h - options the way Python's argparse takes them, for programs whose users know those
 *
 * -c FILE, -cFILE, --config FILE, --config=FILE and every unique beginning of a long name are the
 * same.  Messages, usage lines and exit status 2 are argparse's, since scripts have seen them.
 */
#pragma once
#include "base/buf.h"

enum py_kind { PY_TEXT, PY_REQUIRED, PY_INT, PY_FLOAT }; /* REQUIRED: text that must be there */
struct py_arg {
    const char *letter, *name; /* "-c" or NULL, "--config" */
    const char *metavar;       /* NULL = takes no value */
    const char *help;          /* NULL = not shown, and never meant by a beginning */
    enum py_kind kind;
    size_t offset; /* of a const char *, or of a bool when it takes no value */
};
struct py_parser {
    const char *prog;  /* "hyperctl run" */
    const char *usage; /* its usage line */
    const struct py_arg *args;
    size_t n_args;
};
/* Of the parsers: 0 = go on, else the exit status + 1. */
enum { PY_PARSED_HELP = 1, PY_PARSED_WRONG = 3, PY_TEXT_MAX = 64 << 10 };

bool py_is_help(const char *word);
bool py_is_option(const char *word); /* not a negative number, not "-" alone */
/* The option at **argv, with its value.  0 or PY_PARSED_WRONG; -1 = there is no such option. */
int py_take(const struct py_parser *p, char ***argv, void *opts);
int py_check_required(const struct py_parser *p, const void *opts); /* 0 or PY_PARSED_WRONG */
/* Says what is wrong; PY_PARSED_WRONG. */
int py_wrong(const struct py_parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same below another usage line; the exit status. */
int py_usage_error(const char *prog, const char *usage, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void py_usage_options(struct buf *b, const struct py_arg *args, size_t n); /* " [-c CONFIG]…" */
void py_help_row(struct buf *b, const char *left, const char *help);
void py_help_options(struct buf *b, const struct py_arg *args, size_t n);
