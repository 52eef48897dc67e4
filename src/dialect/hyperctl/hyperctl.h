/* hyperctl.h - the hyperctl command: what its files share
 *
 * A dialect over the same core as `berth run`: the batch file becomes one submission, the events of
 * the scheduler become marker files, log lines and answers on the batch's port.
 */
#pragma once
#include "cli/cli.h"
#include "dialect/hyperctl/layout.h"

enum hyper_level { HYPER_DEBUG, HYPER_INFO, HYPER_WARN, HYPER_ERROR, HYPER_FATAL };
struct hyperctl {
    struct cli *c;
    /* The working directory of the process when it started. */
    char cwd[4096];
    /* Messages below it are dropped. */
    enum hyper_level level;
};
/* The options of all commands; each command fills those it has.  NULL and false = not given. */
struct hyper_opts {
    const char *config, *batches_data_dir, *batch_dir, *template_, *output, *batch_name, *job_name;
    const char *events_fd, *control_fd; /* of a program that watches the run */
    /* offline: `job list` may read the files of a batch that does not run.  stderr_too: `job
     * logs` prints standard error instead of standard output. */
    bool retry_failed, fail_exit, no_daemon, offline, stderr_too;
};

/* "MM-DD HH:MM:SS I part - text"; warnings and errors go to stderr. */
void hyper_log(const struct hyperctl *h, enum hyper_level level, const char *part, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));
/* "hyperctl: error: text" and exit status 1. */
int hyper_fail(const struct err *e);

/* The exit status of the program. */
int hyperctl_main(struct cli *c, char **argv);

/* The table of commands; `cmd.name` is the path, e.g. "job list". */
struct hyper_command {
    struct command cmd; /* its options are stored in struct hyper_opts */
    int (*run)(struct hyperctl *h, const struct hyper_opts *o);
};

/* ---- commands ---- */
int hyperctl_run(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_generate(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_batch_list(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_batch_describe(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_job_list(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_job_describe(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_job_kill(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_job_logs(struct hyperctl *h, const struct hyper_opts *o);
