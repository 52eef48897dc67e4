/* dialect.h - one row per dialect: everything the program knows of it
 *
 * A dialect is another program whose files, answers and words this one understands.  All of it is
 * in src/dialect/<name>/; outside that folder only its row, `dialect_<name>`, is known.  `meson
 * -Ddialects=` selects the rows; the order of the rows is that of src/dialect/meson.build.
 */
#pragma once
#include <stddef.h>

struct cli;
struct command;
struct err;
struct host_part;
struct host_setting;
struct opt_group;

struct dialect_program { /* a name under which this program is called, with words of its own */
    const char *name;
    int (*main)(struct cli *c, char **argv); /* the exit status */
};
struct dialect {
    const char *name;
    const char *title;                      /* the original, as people call it */
    const struct dialect_program *programs; /* ends with an empty one; NULL = none */
    const struct command *const *commands;  /* of `berth`, ends with NULL; NULL = none */
    const struct host_part *part;           /* in the daemon; NULL = none */
    /* Options `berth serve` gets; stored in a struct of serve_size bytes, which is the conf of the
     * part.  NULL = none. */
    const struct opt_group *serve;
    size_t serve_size;
    int (*serve_check)(const void *opts, struct err *e); /* before anything is opened; or NULL */
};

extern const struct dialect *const dialects[]; /* ends with NULL */

/* The lists the full program is made of; yours for its life. */
const struct command *const *dialects_commands(void); /* Berth's own and those of dialects */
const struct host_part *const *dialects_parts(void);
/* The options of `berth serve` that belong to dialects, checked, for host_conf.settings; *out is
 * yours.  opts is the struct they were parsed into: those of the dialects are behind its own. */
int dialects_settings(const void *opts, struct host_setting **out, struct err *e);
