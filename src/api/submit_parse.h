/* submit_parse.h - the body of a submit request read into rows for the store
 *
 * One object is one job, an array is many, an object with lists is a sweep.  The rows borrow their
 * texts from the body, which the submit owns: 100 000 specs in 20 MB stay 20 MB and rows.
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
    char *body;
    size_t body_n;
    struct arena mem;
    struct buf texts; /* params and names a sweep makes */
    VEC(struct spec_row) specs;
    VEC(struct job_row) jobs;
    bool single; /* one object that is not a sweep: the answer has the form of a job */
    submit_resolve_fn resolve;
    void *resolve_arg;
};
/* Takes the body (NUL-terminated, writable).  Freed by submit_free, or by the store through
 * s.free_fn. */
struct submit *submit_new_take(char *body, size_t n, const struct caller *who);
void submit_free(struct submit *x);
/* Step one: YAML becomes JSON, and x->single is known.  Step two: the rows.  Any thread. */
int submit_prepare(struct submit *x, bool yaml, struct err *e);
int submit_parse(struct submit *x, submit_resolve_fn resolve, void *arg, struct err *e);
