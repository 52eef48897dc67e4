/* doors.h - ports of the host that lead to jobs
 *
 * A job keeps its ports from its submission to its end; they are open while an attempt runs.
 */
#pragma once
#include "base/err.h"
#include "dialect/gpu/submission.h"
#include "model/job.h"

struct core;
struct loop;
struct doors;

struct doors *doors_new(struct loop *l, struct core *c, const char *addr);
void doors_free(struct doors *d);
/* Takes all of these ports, or none: ERR_CONFLICT says which one somebody has.  *out_claim stands
 * for the job until it has a number. */
int doors_claim(struct doors *d, const struct gpu_port *p, size_t n, uint64_t *out_claim,
                struct err *e);
void doors_assign(struct doors *d, uint64_t claim, uint64_t job);
void doors_drop(struct doors *d, uint64_t job_or_claim);
/* An attempt of this job starts, or was found running: claims what it does not have yet.  A port
 * that somebody took meanwhile is tried again while the attempt runs. */
void doors_start(struct doors *d, struct run_key key, const struct gpu_port *p, size_t n);
/* Something changed: opens, shuts and gives back as the jobs stand now. */
void doors_look(struct doors *d);
size_t doors_count(const struct doors *d);
/* "31346:6006", as the job form has it. */
bool port_pair_parse(struct str text, struct gpu_port *out);
