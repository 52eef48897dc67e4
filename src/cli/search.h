/* search.h - what the files of `berth search` share: options, the body of a study, its pictures */
#pragma once
#include "base/vec.h"
#include "cli/jobspec.h"
#include "cli/run.h"

/* job must be the first member: the options of jobspec.h are stored there.  Its `params` are the
 * ranges of the search. */
struct search_opts {
    struct job_opts job;
    struct opt_num parallel, trials, seed;
    const char *minimize, *maximize, *take, *engine, *stop, *from;
    struct opt_list constraints;
    bool quiet, detach, run, now;
};

/* ---- search_spec.c ---- */
/* Adds one --param to the space: lr=log:1e-5..1e-1, layers=int:1..8, x=uniform:0..1:0.1,
 * opt=adam,sgd, depth=ordinal:1,2,4, c=3, any JSON value, and "… when opt=sgd" behind each. */
int search_range_add(struct json *space, const char *word, struct err *e);
/* Does the word name a file of a search? */
bool search_is_file(const char *word);
/* The body of POST /v1/studies from options and operands; options win over the file.  *out is the
 * caller's. */
int search_body(const struct search_opts *o, const struct operands *ops, struct json **out,
                struct err *e);
/* Does the study of the daemon search the same as the body?  The environment and the limits may
 * differ: those of the terminal at hand.  The error names the member. */
int search_same(const struct json *body, const struct json *study, struct err *e);
