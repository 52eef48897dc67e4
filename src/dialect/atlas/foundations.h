/* foundations.h - the foundations command: what its files share
 *
 * The client of an Atlas scheduler.  It speaks HTTP to the server its submission config names, on
 * this machine or another, and nothing else; lines and exit statuses are those its users' scripts
 * have seen: results and log lines on stdout, mistakes in the arguments on stderr with status 2,
 * any other failure "Error running command: …" on stdout with status 1.
 */
#pragma once
#include "base/vec.h"
#include "cli/cli.h"
#include <stdatomic.h>

enum found_level { FOUND_DEBUG, FOUND_INFO, FOUND_WARNING, FOUND_ERROR, FOUND_LEVEL_MAX };
enum { FOUND_UUID_MAX = 37, EXIT_INTERRUPTED = 130 };

struct foundations {
    struct cli *c;
    bool debug;
    char *home; /* $FOUNDATIONS_HOME or ~/.foundations, absolute */
    char cwd[4096];
    enum found_level level; /* of what is shown; everything goes to logs/system.log */
    bool long_form;         /* a level other than INFO was asked for: lines carry date and logger */
    const char *logger;     /* "foundations.submit" */
    int log_fd;             /* of logs/system.log, or -1 */
    struct buf trail;       /* what was done so far, for --debug */
    struct http_client *http;
    char *token;     /* of the login, or NULL */
    char job_id[80]; /* of which the user gave the beginning */
};
struct found_opts {
    const char *entrypoint, *project_name, *stream_job_logs;
    struct opt_num num_gpus;
    struct opt_real ram;
    const char *save_dir, *source_dir, *username, *password;
    bool env, fail_on_job_error, purge_bundles;
    struct operands ops; /* in order; those of submit after the first two: the job's command */
};

int foundations_main(struct cli *c, char **argv);

/* ---- how it speaks (foundations_say.c) ---- */
int found_open_log(struct foundations *f, struct err *e); /* logs/system.log */
/* "Foundations INFO: text" on stdout, and in the log of the client. */
void found_log(struct foundations *f, enum found_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A step: a line of level DEBUG, which is also kept for the trace of --debug. */
#define found_step(f, ...) found_log(f, FOUND_DEBUG, __VA_ARGS__)
/* For atlas_config_read (arg is struct foundations): a warning of a config that the user gave, and
 * one of a config that is read on the way, which is only a step. */
void found_warning(void *f, const char *text);
void found_note_warning(void *f, const char *text);
/* One line on stdout as it is; the result is 0. */
int found_say(struct foundations *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "Error running command: reason", with --debug the steps before it; the result is 1. */
int found_fail(struct foundations *f, const struct err *e);
bool found_level_parse(struct str name, enum found_level *out);

/* ---- arguments (foundations_args.c) ---- */
struct found_command {
    struct command cmd; /* its options are stored in struct found_opts; `name`: "get job" */
    const char *logger;
    int (*run)(struct foundations *f, const struct found_opts *o);
};
extern const struct found_command found_commands[];
extern const size_t n_found_commands;
void found_help(struct buf *b);                         /* of the program */
void found_help_group(struct buf *b, const char *word); /* of "get" or "delete" */
extern const char found_usage[];

/* ---- what is installed beside it (foundations_pages.c) ---- */
void found_man(struct buf *b, const char *version); /* roff */
void found_completion(struct buf *b);               /* for bash */

/* ---- configuration (foundations_conf.c) ---- */
/* The submission config NAME, looked for in `dir` and then in the home; *out is yours.
 * ERR_NOT_FOUND: there is none. */
int found_conf_find(struct foundations *f, const char *dir, const char *name, struct json **out,
                    struct err *e);
/* Finds it and connects: f->http speaks to its scheduler_url.  A missing config is said in its own
 * words (result 1, as for every other failure that was said); out may be NULL. */
int found_connect(struct foundations *f, const char *dir, const char *name, struct json **out);
/* One call to the scheduler; a status of 400 and more becomes the error, nobody there the sentence
 * that says how to start a server. */
int found_call(struct foundations *f, const char *method, const char *path, const struct json *body,
               struct http_response *out, struct err *e);
/* The error of a call that did not get through, in the words of this program. */
int found_unreachable(struct err *e);
/* {job_id, status, …} without its log; ERR_NOT_FOUND when there is no such job. */
int found_job(struct foundations *f, const char *id, struct json **out, struct err *e);
/* The job the operands name, asked for at the config they name; *out is yours.  1 = there is none,
 * or no answer, and that was said. */
int found_known_job(struct foundations *f, const struct found_opts *o, struct json **out);
void found_job_path(struct buf *path, const char *before, const char *id, const char *after);

/* ---- what a job is made of (foundations_job.c) ---- */
struct found_job {
    char id[FOUND_UUID_MAX];
    char *dir; /* absolute, without links */
    char *project;
    struct json *params;   /* or NULL: none were given */
    struct json *spec;     /* for the scheduler, in the words of docker-py */
    struct json *metadata; /* project_name, username */
    int64_t num_gpus;
};
/* Reads job.config.yaml and lays the options over it; says warnings. */
int found_job_make(struct foundations *f, const struct found_opts *o, const struct json *conf,
                   struct found_job *out, struct err *e);
void found_job_done(struct found_job *j);
/* The two keys of job.config.yaml that matter before all others; a missing file is fine. */
int found_job_config(struct foundations *f, const char *dir, struct json **out, struct err *e);

/* ---- Ctrl-C (foundations_signal.c) ---- */
void found_catch_interrupt(void); /* from now on it is only noted */
bool found_interrupted(void *unused);
const atomic_bool *found_interrupt_flag(void);
void found_leave_on_interrupt(void); /* from now on it ends the program with status 0 */

/* ---- the bundle (foundations_bundle.c) ---- */
int found_bundle_estimate(struct foundations *f, const char *dir, int64_t *out_bytes,
                          struct err *e);
/* `bytes` is what the directory was estimated at. */
int found_bundle_upload(struct foundations *f, const struct found_job *j, int64_t bytes,
                        struct err *e);

/* ---- what the scheduler has of it already (foundations_contents.c) ---- */
struct bundle;
struct contents;
struct archive_watch;
/* Hashes the files of the bundle and asks; NULL = send everything.  -1 only for Ctrl-C. */
int found_contents_ask(struct foundations *f, const struct bundle *b, const struct archive_watch *w,
                       struct contents **out, struct err *e);

/* ---- the stream of a job's log (foundations_stream.c) ---- */
/* Everything after "Job submitted"; the exit status. */
int found_stream(struct foundations *f, const char *id, bool fail_on_job_error);

/* ---- commands ---- */
int found_init(struct foundations *f, const struct found_opts *o);
int found_submit(struct foundations *f, const struct found_opts *o);
int found_list(struct foundations *f, const struct found_opts *o);
int found_get_job(struct foundations *f, const struct found_opts *o);
int found_get_logs(struct foundations *f, const struct found_opts *o);
int found_stop(struct foundations *f, const struct found_opts *o);
int found_clear_queue(struct foundations *f, const struct found_opts *o);
int found_delete(struct foundations *f, const struct found_opts *o);
int found_info(struct foundations *f, const struct found_opts *o);
int found_login(struct foundations *f, const struct found_opts *o);
int found_setup(struct foundations *f, const struct found_opts *o);
