/* sweep.h - many jobs from one file: every combination of params, or a list of jobs, or an array
 *
 *   name, command, resources, …   as in spec.h, shared by all
 *   params: {lr: [0.1, 0.01], depth: [3, 5]}    every combination, last key fastest
 *   jobs: [{params: {…}, name: …}, …]           one each; other spec keys override the shared ones
 *   array: 100000                               that many, with the last parameter {index} from 0
 *   slots: 4                                    at most so many jobs of this batch run at once
 */
#pragma once
#include "model/spec.h"

/* Immutable after sweep_parse, so that several threads may ask it. */
struct sweep;
enum { SWEEP_MAX_JOBS = 1000000 };
/* The caller frees *out.  The tree j is not needed afterwards. */
int sweep_parse(const struct json *j, struct sweep **out, struct err *e);
/* NULL is fine. */
void sweep_free(struct sweep *s);
/* How many jobs the sweep has; at least 1. */
size_t sweep_count(const struct sweep *s);
int32_t sweep_slots(const struct sweep *s); /* 0 = no limit */
/* Of the whole batch.  Borrowed, never NULL. */
const char *sweep_name(const struct sweep *s);
/* What job i waits for: a job id, or a list of them, as written; NULL = nothing.  Borrowed. */
const struct json *sweep_after(const struct sweep *s, size_t i);
/* Specs are shared: sweep_spec(k) for k < sweep_n_specs; JSON text of each is canonical. */
size_t sweep_n_specs(const struct sweep *s);
const struct spec *sweep_spec(const struct sweep *s, size_t k);
/* Job i: which spec, its params (JSON object text appended to b, "" when none) and its name ("" =
 * the spec's). */
void sweep_job(const struct sweep *s, size_t i, size_t *out_spec, struct buf *params,
               struct buf *name);
