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
    char cwd[4096];
    enum hyper_level level;
};
struct hyper_opts {
    const char *config, *batches_data_dir, *batch_dir, *template_, *output, *batch_name, *job_name;
    const char *events_fd, *control_fd; /* of a program that watches the run */
    bool retry_failed, fail_exit, no_daemon, offline, stderr_too;
};

/* "MM-DD HH:MM:SS I part - text"; warnings and errors go to stderr. */
void hyper_log(const struct hyperctl *h, enum hyper_level level, const char *part, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));
/* "hyperctl: error: text" and exit status 1. */
int hyper_fail(const struct err *e);

int hyperctl_main(struct cli *c, char **argv);

/* ---- hyperctl_args.c ---- */
struct py_arg;
struct hyper_command {
    const char *path, *help;   /* "job list", "list jobs" */
    const struct py_arg *args; /* argparse.h, into struct hyper_opts */
    size_t n_args;
    int (*run)(struct hyperctl *h, const struct hyper_opts *o);
};
extern const struct hyper_command hyper_commands[];
extern const size_t n_hyper_commands;
/* 0 = *out is filled in; else the exit status + 1: help was printed, or what is wrong. */
int hyper_args_parse(const struct hyper_command *cmd, char **argv, struct hyper_opts *out);
void hyper_help_command(struct buf *b, const struct hyper_command *cmd);
extern const char hyper_usage[], hyper_help[];

/* ---- commands ---- */
int hyperctl_run(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_generate(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_batch_list(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_batch_describe(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_job_list(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_job_describe(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_job_kill(struct hyperctl *h, const struct hyper_opts *o);
int hyperctl_job_logs(struct hyperctl *h, const struct hyper_opts *o);
