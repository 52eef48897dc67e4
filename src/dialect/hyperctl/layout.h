/* layout.h - the files of a batch, as users' scripts know them
 *
 *   {B}/<batch>/config.json  server.pid  <job>.running|.succeed|.failed  <job>.json
 *   {B}/<batch>/<job>/run.sh  stdout  stderr  params.json  resources/  tmp/
 *   {B}/<batch>/.hyperctl/   lock, socket, token and scheduler state: ours alone
 *
 * Markers are empty files; deleting one lets the job run again.
 */
#pragma once
#include "dialect/hyperctl/batch.h"

/* The directory of one batch. */
struct hyper_layout {
    char *dir;   /* {B}/<batch>, absolute */
    char *own;   /* {B}/<batch>/.hyperctl */
    int lock_fd; /* held while we run the batch; -1 = not locked */
};
/* Where batches are: `given` (may be NULL), else `from_file`, else $HYPERCTL_BATCHES_DATA_DIR, else
 * ~/hyperctl-batches-data-dir.  Yours, absolute. */
char *hyper_batches_dir(const char *given, const char *from_file, const char *cwd);
/* Copies `dir`; touches no file. */
void hyper_layout_init(struct hyper_layout *l, const char *dir);
/* Releases the lock and frees the paths. */
void hyper_layout_done(struct hyper_layout *l);
char *hyper_layout_path(const struct hyper_layout *l, const char *name); /* {D}/name, yours */
char *hyper_layout_own(const struct hyper_layout *l, const char *name);  /* .hyperctl/name */
char *hyper_job_file(const struct hyper_job *j, const char *name);       /* {J}/name, yours */

/* Makes the directory and locks it.  ERR_CONFLICT names the pid that runs the batch. */
int hyper_layout_lock(struct hyper_layout *l, const char *batch, struct err *e);
/* The pid of the process that runs the batch in `dir`, or 0. */
pid_t hyper_layout_owner(const char *dir);

/* Default directories of the jobs; then what the markers say.  A job marked as running is that
 * while another process owns the batch; when we do, its owner died and it is HYPER_INIT.  *out_left
 * counts them.  Two final markers for one job are an error. */
int hyper_layout_restore(const struct hyper_layout *l, struct hyper_batch *b, size_t *out_left,
                         struct err *e);
/* The effective file of a batch in `dir`: indented, without the backend, so that no password is
 * kept. */
struct json *hyper_config_json(const struct hyper_batch *b, const char *dir, const char *version);
int hyper_config_write(const struct hyper_layout *l, const struct hyper_batch *b,
                       const char *version, struct err *e);
/* server.pid, for users' scripts.  The lock, not this file, says who runs the batch. */
int hyper_pid_write(const struct hyper_layout *l, struct err *e);
/* Where it ran, as its state file says it: {} here. */
struct json *hyper_job_ext(const struct hyper_job *j);
/* A job as the API and `job describe` show it. */
struct json *hyper_job_json(const struct hyper_job *j);
/* The caller frees the tree. */
struct json *hyper_summary_json(const struct hyper_batch *b, const char *status);
/* "http://host:port"; with a token "http://host:port/token".  Yours. */
char *hyper_portal(const char *host, int port, const char *token);

/* Markers of a change that j->status and its times tell; the state file at the end. */
int hyper_mark_running(const struct hyper_layout *l, const struct hyper_job *j, struct err *e);
/* Writes the state file, then renames the marker: at no moment is a state file without a marker. */
int hyper_mark_final(const struct hyper_layout *l, const struct hyper_job *j, struct err *e);
/* Removes all markers and the state file, so that the job counts as not started. */
void hyper_mark_none(const struct hyper_layout *l, const struct hyper_job *j);
/* Somebody removed the marker of an ended job to have it run again: its <job>.json is still there,
 * and no <job>.running that a crash would have left. */
bool hyper_marker_removed(const struct hyper_layout *l, const struct hyper_job *j);

/* ---- prepare.c: what a job finds when it starts ---- */
struct hyper_prepare {
    const struct hyper_layout *layout;
    const struct hyper_batch *batch;
    const char *portal;                        /* as given to jobs */
    const char *cwd;                           /* assets are looked for from here */
    void (*warn)(void *arg, const char *text); /* may be NULL */
    void *arg;
};
/* {J} with run.sh, params.json and copies of the assets; for another machine j->uploads lists what
 * is sent instead.  *out_changed: run.sh differs from the one that was there.  A script that is
 * being executed is replaced, never rewritten. */
int hyper_job_prepare(const struct hyper_prepare *p, struct hyper_job *j, bool *out_changed,
                      struct err *e);

/* ---- script.c ---- */
/* The text of run.sh. */
void hyper_script(struct buf *out, const struct hyper_batch *b, const struct hyper_job *j,
                  const char *portal);
