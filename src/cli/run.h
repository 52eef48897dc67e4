/* run.h - what the two forms of `berth run` share: one command, and a file of jobs */
#pragma once
#include "cli/best.h"
#include "cli/cli.h"
#include "cli/embed.h"
#include "cli/jobspec.h"

/* job must be the first member: the options of jobspec.h are stored there. */
struct run_opts {
    struct job_opts job;
    struct opt_num slots;
    bool again, retry_failed, quiet;
    struct best_opts best; /* of a batch */
};

/* A command that brings its own host when the home has none, and takes over when it vanishes. */
struct run_session {
    struct cli *c;
    /* Borrows its texts from c, which outlives the session. */
    struct host_conf conf;
    struct embed *host; /* NULL while somebody else serves the home */
    int interrupts[2];  /* pipe: one byte for every Ctrl-C and the like */
};
/* Catches SIGINT, SIGTERM and SIGHUP from now on, and ignores SIGPIPE.  slots 0 = number of CPUs.
 * The host is opened only when the first call finds nobody. */
int run_session_open(struct run_session *s, struct cli *c, int32_t slots, struct err *e);
/* Leaves; when jobs of others are still active and the host was ours, a background daemon takes
 * them over, and that is said. */
void run_session_close(struct run_session *s);
/* Leaves now, from any thread: the jobs go on under a background daemon.  Does not return. */
_Noreturn void run_session_abandon(struct run_session *s);

/* The functions below print their errors and return the exit status of the process. */
int run_one(struct run_session *s, const struct run_opts *o, const struct json *spec,
            const char *key);
/* Output of one submitted job until its end; returns its exit status. */
int run_job(struct run_session *s, bool quiet, int64_t number, bool split);
/* A file of jobs: submitted, or found again and continued. */
int run_file(struct run_session *s, const struct run_opts *o, const struct json *spec,
             const char *file);
/* Progress and table of the jobs in a reply to a submission.  *out_interrupted (may be NULL): ended
 * by Ctrl-C, and what had not ended was cancelled. */
int run_batch(struct run_session *s, const struct run_opts *o, const struct json *reply,
              bool *out_interrupted);
/* The table alone.  elapsed_ms -1 = not known.  0 when all jobs succeeded, else 1. */
int run_batch_table(struct run_session *s, const struct run_opts *o, const char *batch,
                    int64_t elapsed_ms);
