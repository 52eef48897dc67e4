/* config.h - the YAML files of Atlas: job.config.yaml, submission and execution configs
 *
 * Each kind has a table of keys with their types.  A key nobody knows is a warning that names the
 * nearest one; a value of the wrong type, or text that is no YAML, is an error that names the file
 * and the place.
 */
#pragma once
#include "base/err.h"
#include "base/json.h"

enum atlas_config_kind {
    ATLAS_CONFIG_JOB,        /* job.config.yaml */
    ATLAS_CONFIG_SUBMISSION, /* <name>.config.yaml of config/submission */
    ATLAS_CONFIG_EXECUTION,  /* default.config.yaml of config/execution */
};
typedef void (*atlas_warn_fn)(void *arg, const char *text);
/* *out: an object, yours; an empty file gives an empty one.  `name` stands in messages.
 * ERR_NOT_FOUND of the second: there is no such file. */
int atlas_config_parse(struct str text, const char *name, enum atlas_config_kind kind,
                       atlas_warn_fn warn, void *arg, struct json **out, struct err *e);
int atlas_config_read(const char *path, enum atlas_config_kind kind, atlas_warn_fn warn, void *arg,
                      struct json **out, struct err *e);
/* `ram` of a job: a number below 1048576 is GiB, larger is bytes; text is 512m, 4g.  Refuses what
 * is not above zero. */
int atlas_ram_bytes(const struct json *ram, int64_t *out_bytes, struct err *e);
/* The `worker` block of the job config laid over that of the submission config: same-named keys are
 * replaced whole.  Either may be NULL.  Yours. */
struct json *atlas_worker_merge(const struct json *submission_worker,
                                const struct json *job_worker);
/* Is this the standard worker's own image name, which means the built-in worker? */
bool atlas_image_is_standard(struct str image);
