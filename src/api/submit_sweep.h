/* submit_sweep.h - a sweep as rows; and what submit_parse.c and submit_sweep.c share */
#pragma once
#include "api/submit_parse.h"
#include "model/sweep.h"

/* Reads the object: does it make many jobs?  *out_single = no. */
int submit_is_sweep(struct str object, bool *out_single, struct err *e);
/* Fills x->specs, x->jobs and the batch of x->s from the body. */
int submit_read_sweep(struct submit *x, struct err *e);

/* ---- of submit_parse.c ---- */
/* `body` must live as long as the submit; names are borrowed from it where they occur. */
int submit_add_spec(struct submit *x, const struct spec *s, const char *path, struct str body,
                    struct err *e);
/* `path` stands before "after" in messages. */
int submit_resolve_after(struct submit *x, const struct json *j, const char *path,
                         const uint64_t **out, size_t *out_n, struct err *e);
