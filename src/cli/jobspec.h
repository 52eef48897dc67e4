/* jobspec.h - options and files of `berth run` and `berth submit` into the body of a submission */
#pragma once
#include "base/json.h"
#include "cli/cli.h"

/* How long and how often a job may run, and how much output it may keep. */
struct limit_opts {
    struct opt_num timeout, grace, retries, backoff, log_limit, nice;
};
/* What the GPU planner reads. */
struct training_opts {
    const char *gpus, *deadline, *preempt_signal, *checkpoint, *family;
    struct opt_num gpu_mem, epochs, estimate;
    bool share, no_share;
};
struct container_opts {
    const char *image;
    struct opt_list options, mounts, ports;
};
/* First member of the option structs of both commands. */
struct job_opts {
    const char *name, *project, *queue, *cwd, *file, *key, *stage_dir;
    struct opt_num cpus, mem, priority, array;
    struct opt_list env, after, params, nodes, assets;
    bool hold, split_output, clean_env;
    struct limit_opts limits;
    struct training_opts training;
    struct container_opts container;
};
extern const struct opt_group job_group, training_group;

/* One spec, or the form of many jobs.  The whole environment travels with it, without what belongs
 * to the shell or to a job around us.  Options win over the file. */
int jobspec_build(const struct job_opts *o, const struct operands *ops, struct json **out,
                  struct err *e);
/* Adds the NAME=VALUE words of --option to `map`.  A value that reads as JSON (a number, true, a
 * list) is JSON, every other value a text; with `text` every value is a text. */
int jobspec_add_options(struct json *map, const char *option, const struct opt_list *list,
                        bool text, struct err *e);
/* The variables that travel with a job; yours.  clean: PATH, HOME and the like only. */
struct json *jobspec_env(bool clean);
/* Is this the single operand that names a file of jobs? */
bool jobspec_is_file(const struct operands *ops);
/* POST /v1/jobs; key NULL = one made up here, so that a repeated call cannot submit twice.
 * *out_new (may be NULL): false when the key was known and these are the jobs it made then. */
int jobspec_submit(struct cli *c, const struct json *spec, const char *key, struct json **out,
                   bool *out_new, struct err *e);
