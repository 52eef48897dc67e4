/* scheduled_priv.h - scheduled jobs of Atlas, which are schedules of the core
 *
 * The name of such a schedule is the id of the scheduled job.  Its definition has, beside the
 * members of every schedule:
 *
 *   "dialect": "atlas"
 *   "job":     {"job_id", "spec", "metadata", "gpu_spec", "schedule"} as the client sent them
 *   "sealed":  values of secrets of spec.environment, which has *** for them
 *   "tree":    the tree of the content store that holds its bundle; no two definitions share one,
 *              so that a removal never meets a schedule that was made anew under the same id
 */
#pragma once
#include "core/schedule.h"
#include "dialect/atlas/atlas_priv.h"
#include "dialect/atlas/translate.h"

enum { SCHEDULED_MAX = 10 };

/* ---- scheduled.c ---- */
bool scheduled_is_ours(const struct schedule *s);
/* Ids compare without case, because clients write UUIDs either way.  NULL = there is none. */
const struct schedule *scheduled_find(const struct atlas *a, const char *id);
/* The id of the run of this moment. */
void scheduled_run_id(const char *id, int64_t s, char out[ATLAS_ID_MAX]);
/* The definition for the core; takes `job`.  Its schedule may be null or an empty object: then it
 * gets its times later. */
struct json *scheduled_def_take(struct json *job, const char *tree);
/* Moves the secrets of spec.environment to `sealed` (model/vault.h); NULL = there is no vault. */
void scheduled_hide(const struct vault *vault, struct json *def);

/* ---- scheduled_import.c: definitions of earlier versions, which were files ---- */
struct scheduled_old {
    char id[ID_UUID_MAX];
    struct json *def; /* for the core */
    struct caller owner;
    bool paused;
    int64_t settled_s;
};
void scheduled_old_done(struct scheduled_old *x);
int scheduled_old_read(const char *path, struct scheduled_old *out, struct err *e);
void scheduled_import(struct atlas *a);
