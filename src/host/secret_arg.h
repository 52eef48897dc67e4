/* secret_arg.h - options --secret and --no-secret of a command line into a submission */
#pragma once
#include "base/err.h"
#include "base/json.h"
#include <stddef.h>

/* Words of --secret: NAME takes the value from this environment, NAME=@FILE from a file, NAME=-
 * from a line of standard input.  Values go into `env`, names into `secrets` of the spec; words of
 * --no-secret go there as !NAME.  What `secrets` of a job file names and `env` lacks comes from
 * this environment too. */
struct secret_words {
    const char **hide, **show;
    size_t n_hide, n_show;
};
int secret_args_add(struct json *spec, struct json *env, const struct secret_words *w,
                    struct err *e);
