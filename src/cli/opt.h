/* opt.h - what a command accepts, said once
 *
 * One const table per command.  The parser, `--help`, the man pages and the completions for bash,
 * zsh and fish are all made from it, so they cannot disagree.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/util.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum opt_type {
    OPT_FLAG,     /* bool */
    OPT_OPTIONAL, /* const char *: "" for --name alone, else what follows in --name=TEXT */
    OPT_TEXT,     /* const char * */
    OPT_CHOICE,   /* const char *, one of `choices` */
    OPT_LIST,     /* struct opt_list: may be given several times */
    OPT_INT,      /* struct opt_num, and so are the next three */
    OPT_SIZE,     /* bytes */
    OPT_DURATION, /* milliseconds */
    OPT_CPUS,     /* thousandths of a CPU */
    OPT_REAL,     /* struct opt_real */
    OPT_PORT,     /* int, 1 to 65535; keeps its default when the option is not given */
    OPT_REQUIRED, /* const char *; the command line is an error without this option */
};
/* The unit of v is that of the type: bytes, milliseconds, thousandths of a CPU.  Without `set` v is
 * 0. */
struct opt_num {
    int64_t v;
    bool set;
};
struct opt_real {
    double v;
    bool set;
};
/* The words in the order of the command line.  They point into argv; opt_done frees p. */
struct opt_list {
    const char **p;
    size_t n, cap;
};

/* What a shell offers for an argument. */
enum complete_kind {
    COMPLETE_NONE,
    COMPLETE_FILE,
    COMPLETE_DIR,
    COMPLETE_CHOICES, /* of the option's `choices` */
    COMPLETE_JOB,     /* asked of the daemon, as are the next two */
    COMPLETE_PROJECT,
    COMPLETE_QUEUE,
    COMPLETE_STATE,
    COMPLETE_COMMAND,     /* a program and its arguments */
    COMPLETE_BERTH,       /* a command of berth */
    COMPLETE_FILE_OR_CMD, /* a spec file, or a program */
};

/* One option.  A member that a table leaves out is 0 or NULL. */
struct opt {
    const char *name; /* long form without dashes */
    char letter;      /* 0 = none */
    enum opt_type type;
    const char *arg;  /* "SIZE" as shown in help; NULL for flags */
    size_t offset;    /* of the member in the struct the group belongs to */
    const char *help; /* NULL = the option is internal: not shown, and not to be abbreviated */
    enum complete_kind complete;
    const char *choices; /* "table|json|csv", for OPT_CHOICE and COMPLETE_CHOICES */
};

/* Is a value needed, in this word or the next? */
static inline bool opt_has_value(const struct opt *o)
{
    return o->type != OPT_FLAG && o->type != OPT_OPTIONAL;
}

/* Options with one title in the help.  All offsets of a group are in the same struct. */
struct opt_group {
    const char *title;
    const struct opt *opts;
    size_t n;
    bool shared; /* stored in the struct all commands share, not in the command's own */
    size_t base; /* where the struct of this group begins in the command's own */
};

/* for each option o of groups, an array that ends with NULL */
#define FOR_EACH_OPT(o, groups)                                                                    \
    for (const struct opt_group *const *g_##o = (groups); *g_##o; g_##o++)                         \
        for (const struct opt *o = (*g_##o)->opts; o < (*g_##o)->opts + (*g_##o)->n; o++)

/* A group of the command's own options: all rows of `table`. */
#define OPT_GROUP(title, table)                                                                    \
    {                                                                                              \
        title, table, ARRAY_SIZE(table), false, 0                                                  \
    }

struct example {
    const char *line, *text;
};
/* The rows of command.examples. */
#define EXAMPLES(...)                                                                              \
    (const struct example[])                                                                       \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

struct cli;
/* What is left after the options.  p ends with NULL and points into argv; opt_done frees p. */
struct operands {
    const char **p;
    size_t n;
    bool dashed; /* "--" stood before the first of them */
};

enum command_flag {
    COMMAND_HIDDEN = 1,  /* not in help, man pages and completions */
    COMMAND_STARTS = 2,  /* operands are a program: options end at the first operand, unless that
                            is a spec file (.yaml .yml .json) */
    COMMAND_PROGRAM = 4, /* also a program of this name */
    COMMAND_PYTHON = 8,  /* read and explained as Python's argparse does: see below */
};
enum command_section {
    SECTION_RUN,
    SECTION_LOOK,
    SECTION_CHANGE,
    SECTION_DIALECT, /* listed under the title of its dialect */
    SECTION_DAEMON,
    SECTION_HELP
};
/* A named operand of a COMMAND_PYTHON command.  `name` stands in the usage line and in messages
 * about operands that are missing. */
struct operand_word {
    const char *name, *help;
};
/* A COMMAND_PYTHON command serves users of a program that was written with argparse, whose scripts
 * know its messages.  Every unique beginning of a long name is accepted, a negative number is a
 * value and never an option, and unknown words are reported together after all other mistakes.
 * With COMMAND_STARTS everything after `min_operands` operands belongs to the started program. */
struct command {
    const char *program; /* "hyperctl"; NULL = berth */
    const char *name;
    const char *summary;     /* one line, no full stop */
    const char *synopsis;    /* what follows the name; several lines for several forms */
    const char *description; /* paragraphs separated by an empty line */
    enum command_section section;
    unsigned flags;
    const struct opt_group *const *groups; /* NULL-terminated; the command's own first */
    size_t opts_size;                      /* of the command's own struct */
    const struct example *examples;        /* ends with an empty one */
    const char *operand;                   /* "JOB", for messages; NULL = takes none */
    const struct operand_word *words;  /* COMMAND_PYTHON: its operands; ends with an empty one */
    size_t min_operands, max_operands; /* max 0 = none, SIZE_MAX = any number */
    enum complete_kind complete;       /* of the operands */
    const char *choices;               /* with COMPLETE_CHOICES */
    /* Returns the exit status of the process.  opts is the command's own struct, filled in. */
    int (*run)(struct cli *c, const void *opts, const struct operands *ops);
};

/* Rows of a command's table that belong together.
 * USAGE: where the overview lists the command, its name, and what follows the name.
 * BERTH_COMMAND: these, the function that runs the command, and one line about it.
 * OPTION_GROUPS: the titled groups of options, the command's own first.
 * OPTIONS: the same, with the struct that takes the values of the command's own groups.
 * OPERANDS: the word for them in messages, the smallest and the largest number (SIZE_MAX = any),
 * and what a shell offers for them. */
#define USAGE(in_section, command_name, follows)                                                   \
    .section = in_section, .name = command_name, .synopsis = follows
#define BERTH_COMMAND(in_section, command_name, follows, function, what)                           \
    USAGE(in_section, command_name, follows), .run = function, .summary = what
#define OPTION_GROUPS(...)                                                                         \
    (const struct opt_group *const[])                                                              \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define OPTIONS(type, ...) .opts_size = sizeof(type), .groups = OPTION_GROUPS(__VA_ARGS__)
#define OPERANDS(word, min, max, offer)                                                            \
    .operand = word, .min_operands = min, .max_operands = max, .complete = offer

/* Parses the words after the command's name.  `own` is opts_size zeroed bytes, `shared` the struct
 * of the shared groups; argv must outlive both.  *out_help: -h or --help was given (the rest is
 * then not checked).  Messages name the option and the nearest known one.  ERR_NOT_FOUND: a
 * COMMAND_PYTHON command got words that it does not know, which argparse reports under the usage
 * line of the whole program. */
int opt_parse(const struct command *cmd, char **argv, void *own, void *shared, struct operands *out,
              bool *out_help, struct err *e);
/* Options before the command's name: parses `groups` until the first word that is none;
 * *out_rest is that word's place. */
int opt_parse_leading(const struct opt_group *const *groups, char **argv, void *shared,
                      char ***out_rest, bool *out_help, struct err *e);
/* ERR_INVALID when the number was given and is outside; `label` as it was typed: "--slots". */
int opt_range(const struct opt_num *n, const char *label, int64_t lo, int64_t hi, struct err *e);
/* Frees what opt_parse allocated inside own and shared, and the operands. */
void opt_done(const struct command *cmd, void *own, void *shared, struct operands *ops);

/* Puts the options `names` ("a|b-c") that were given into obj, as members of their names with _ for
 * each -: texts, lists and flags as they are, times as seconds and CPUs as numbers where they are
 * whole, else as texts in thousandths.  `own` is the struct that the offsets count from. */
struct json;
void opt_put_json(struct json *obj, const struct opt_group *const *groups, const void *own,
                  const char *names);

/* The command of this name, or NULL with an error that suggests the nearest. */
const struct command *command_find(const struct command *const *all, const char *name,
                                   struct err *e);

/* ---- everything that is written from the tables; `all` is NULL-terminated ---- */
void help_command(struct buf *b, const struct command *cmd, size_t width, bool colour);
/* The part of help_command that lists the options, group by group. */
void help_options(struct buf *b, const struct command *cmd, size_t width, bool colour);
struct program;
void help_overview(struct buf *b, const struct program *p, bool colour);
/* roff; cmd NULL = berth(1), the overview. */
void man_page(struct buf *b, const struct command *cmd, const struct command *const *all,
              const struct opt_group *const *common, const char *version);
/* shell is bash, zsh or fish; ERR_INVALID for any other. */
int completion_script(struct buf *b, const char *shell, const struct command *const *all,
                      const struct opt_group *const *leading, struct err *e);

/* Of programs that were written with Python's argparse (dialect/help_python.h): the length of their
 * texts; is the word -h, or a beginning of --help? */
enum { PYTHON_TEXT_MAX = 64 << 10 };
bool python_is_help(const char *word);

/* Next of "a|b|c": *rest starts at the text, is empty at the end. */
bool choice_next(struct str *rest, struct str *out);
