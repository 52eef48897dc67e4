/* jobspec.h - options and files of `berth run` and `berth submit` into the body of a submission */
#pragma once
#include "base/json.h"
#include "cli/cli.h"

/* Numbers that go into the spec as they are: how long and how often a job may run, how much output
 * it may keep.  X(key of the spec, option, type, argument, help) makes the member, the option and
 * its place in the submission. */
#define LIMIT_OPTIONS(X)                                                                           \
    X(timeout, "timeout", OPT_DURATION, "TIME", "stop the job after this long: 90s, 2h, 1h30m")    \
    X(grace, "grace", OPT_DURATION, "TIME", "time between SIGTERM and SIGKILL (default 10s)")      \
    X(retries, "retries", OPT_INT, "N", "retry up to N times when the job fails")                  \
    X(retry_lost, "retry-lost", OPT_INT, "N",                                                      \
      "repeat up to N runs that are lost with their node or supervisor (no retry is used up)")     \
    X(backoff, "backoff", OPT_DURATION, "TIME",                                                    \
      "wait before the first retry; doubles each time (default 1s)")                               \
    X(log_limit, "log-limit", OPT_SIZE, "SIZE",                                                    \
      "drop the middle of a log larger than this: 64M (default: keep all)")                        \
    X(nice, "nice", OPT_INT, "N",                                                                  \
      "nice level of the command, -20 to 19; above 0 it yields to other processes (default 0)")
struct limit_opts {
#define X(key, option, type, arg, help) struct opt_num key;
    LIMIT_OPTIONS(X)
#undef X
};
/* What the GPU planner reads.  `gpus` is "2" or "1-4".  share and no_share exclude each other;
 * neither = the daemon's default. */
struct training_opts {
    const char *gpus, *deadline, *preempt_signal, *checkpoint, *family;
    struct opt_num gpu_mem, epochs, epoch_steps, estimate;
    bool share, no_share;
};
/* options are NAME=VALUE, mounts HOST:TARGET[:ro], ports NODE:CONTAINER, as typed: the daemon reads
 * them. */
struct container_opts {
    const char *image;
    struct opt_list options, mounts, ports;
};
/* Variables that are secrets, and that are not. */
struct secret_opts {
    struct opt_list names, not_names;
};
/* First member of the option structs of both commands.  `cwd` may be relative to the current
 * directory.  `key` is the idempotency key.  `nodes` are names or patterns. */
struct job_opts {
    const char *name, *project, *queue, *cwd, *file, *key, *stage_dir, *snapshot;
    struct opt_num cpus, mem, priority, array;
    struct opt_list env, after, notify, params, nodes, assets;
    bool hold, split_output, clean_env;
    struct secret_opts secrets;
    struct limit_opts limits;
    struct training_opts training;
    struct container_opts container;
};
extern const struct opt_group job_group, training_group;

/* One spec, or the form of many jobs.  The whole environment travels with it, without what belongs
 * to the shell or to a job around us.  Options win over the file.  *out is the caller's.  The spec
 * is not checked here beyond its form: the daemon checks it. */
int jobspec_build(const struct job_opts *o, const struct operands *ops, struct json **out,
                  struct err *e);
/* The same for a spec that was read from a file (NULL = none) or begun by the caller: lays command,
 * options and environment over it.  No operands = the command of the spec. */
int jobspec_complete(const struct job_opts *o, const struct operands *ops, const char *file,
                     struct json *spec, struct err *e);
/* Adds the NAME=VALUE words of --option to `map`.  A value that reads as JSON (a number, true, a
 * list) is JSON, every other value a text; with `text` every value is a text. */
int jobspec_add_options(struct json *map, const char *option, const struct opt_list *list,
                        bool text, struct err *e);
/* The variables that travel with a job; yours.  clean: PATH, HOME and the like only. */
struct json *jobspec_env(bool clean);
/* Is this the single operand that names a file of jobs? */
bool jobspec_is_file(const struct operands *ops);
/* Is this a snapshot to be taken (true, or a directory), and not the id of one? */
bool jobspec_takes_snapshot(const struct json *spec);
/* Sends the directory to the daemon and puts the id of the snapshot into the spec (snapshot.c). */
int jobspec_take_snapshot(struct cli *c, struct json *spec, struct err *e);
/* key NULL = one made up here, so that a repeated call cannot submit twice.  print says what makes
 * the request, beside its key (request/once.h); NULL = the spec. */
struct jobspec_key {
    const char *key, *print;
};
/* Takes the snapshot that the spec asks for, then POST /v1/jobs.  *out_new (may be NULL): false
 * when the key was known and these are the jobs it made then. */
int jobspec_submit(struct cli *c, const struct json *spec, const struct jobspec_key *k,
                   struct json **out, bool *out_new, struct err *e);
