/* submit_parse.h - the body of a submit request read into rows for the store
 *
 * One object is one job, an array is many, an object with lists is a sweep.  The rows borrow their
 * texts from the body, which the submit owns: 100 000 specs in 20 MB stay 20 MB and rows, and what
 * no row borrows is given back while the body is read.
 */
#pragma once
#include "base/arena.h"
#include "base/vec.h"
#include "core/core.h"

/* A job named in `after`, resolved within what the caller may see. */
typedef int (*submit_resolve_fn)(void *arg, struct str ref, uint64_t *out, struct err *e);

struct submit {
    struct submission s; /* what the controller takes; first, so that free_fn finds us */
    struct caller who;   /* rows borrow the name */
    /* NUL-terminated and owned.  Parsing moves texts inside of it, so it cannot be parsed twice. */
    char *body;
    size_t body_n;
    size_t kept;     /* bytes at the front of the body that rows borrow (submit_body.c) */
    size_t released; /* up to here nothing behind them is needed any more */
    /* Texts and lists of the rows that are not in the body.  Lives as long as the submit. */
    struct arena mem;
    struct buf texts; /* params and names a sweep makes */
    /* job_row.spec is an index into specs.  s.specs and s.jobs point here after submit_parse. */
    const struct vault *vault; /* hides secrets; NULL = nothing is hidden */
    VEC(struct spec_row) specs;
    VEC(struct job_row) jobs;
    bool single; /* one object that is not a sweep: the answer has the form of a job */
    submit_resolve_fn resolve;
    void *resolve_arg;
};
/* Takes the body (NUL-terminated, writable).  Freed by submit_free, or by the store through
 * s.free_fn.  `vault` is that of the core (core_vault). */
struct submit *submit_new_take(char *body, size_t n, const struct caller *who,
                               const struct vault *vault);
void submit_free(struct submit *x);
/* The idempotency key and the name of the batch; empty = none.  After submit_parse. */
void submit_name(struct submit *x, struct str key, struct str batch);
/* Step one: YAML becomes JSON, and x->single is known.  Step two: the rows.  Any thread. */
int submit_prepare(struct submit *x, bool yaml, struct err *e);
int submit_parse(struct submit *x, submit_resolve_fn resolve, void *arg, struct err *e);

/* submit_body.c */
/* Does p point into the body?  Texts of the arena and literals do not. */
bool submit_in_body(const struct submit *x, const char *p);
char *submit_room(struct submit *x, size_t n); /* behind what is kept of the body */
/* Moves a text of the body there; one from elsewhere stays.  Those of one element in the order in
 * which they stand in it. */
void submit_keep(struct submit *x, struct str *text);
/* Nothing before `end` is needed but what is kept. */
void submit_was_read(struct submit *x, const char *end);
