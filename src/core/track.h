/* track.h - requests about experiments: tags, notes, descriptions by hand; runs that are not ours
 *
 * As with all requests, `done` comes after the commit, or at once with an error.  Of other people's
 * jobs nobody but an admin may change anything (ERR_DENIED); projects are everybody's.
 */
#pragma once
#include "core/core.h"

enum {
    TRACK_NAME_MAX = 200,       /* bytes of the name of a metric, tag, parameter, artifact */
    TRACK_TEXT_MAX = 4096,      /* of a tag's value or a path */
    TRACK_PARAM_MAX = 32 << 10, /* of the JSON of a parameter */
    TRACK_NOTE_MAX = 64 << 10,  /* of a note or a description */
    TRACK_AUTHOR_MAX = 200,
};

/* Any job, finished or not.  A tag set again changes its value. */
void core_tag(struct core *c, uint64_t job, struct str name, struct str value,
              const struct caller *who, core_act_fn done, void *arg);
/* `already` counts when there was no such job; a tag that is not there is no error. */
void core_untag(struct core *c, uint64_t job, struct str name, const struct caller *who,
                core_act_fn done, void *arg);
/* A note about a job, or with job 0 about a project, which comes into being if need be.  An empty
 * author is who->user.  ERR_NOT_FOUND: there is no such job. */
void core_note(struct core *c, struct str project, uint64_t job, struct str text, struct str author,
               const struct caller *who, core_act_fn done, void *arg);
/* Markdown; empty takes it away. */
void core_describe(struct core *c, struct str project, struct str text, const struct caller *who,
                   core_act_fn done, void *arg);

/* ---- runs that are not ours: a process that somebody else started is tracked as a job ---- */
struct outside_start {
    struct id id; /* its own, or zero */
    const char *name, *project, *cwd;
    const struct json *command; /* as in a spec: what it runs, and a retry would; NULL = not told */
    const struct json *params;  /* an object, or NULL */
    int64_t pid;                /* on this machine; 0 = elsewhere */
    int64_t silence_ms;         /* elsewhere: lost when not heard of for so long; 0 = ten minutes */
    struct str idempotency_key; /* empty = none; borrowed until `done` */
};
/* A process that berth has not started, as far as it is known. */
struct outside_process {
    int64_t pid, pid_start; /* pid 0: on another machine */
    int64_t silence_ms;     /* 0 = ten minutes */
};
/* How such processes are watched (host/outside_watch.c).  Called on the loop thread; `begin` for a
 * run that is watched already and the others for one that is not do nothing. */
struct outside_ops {
    /* When the process started, in the kernel's ticks; false: there is no such process. */
    bool (*pid_start)(void *self, int64_t pid, int64_t *out);
    /* core_outside_gone follows, later and at most once, unless `end` comes first. */
    void (*begin)(void *self, struct run_key key, const struct outside_process *p);
    void (*heard)(void *self, struct run_key key); /* the process sent a request: it lives */
    void (*stop)(void *self, struct run_key key);  /* the process is asked to exit */
    void (*end)(void *self, struct run_key key);   /* the run is over */
};
/* Runs from before a restart are watched at once, or by core_recover.  Without operations
 * core_outside_begin is refused and such runs stay as they were recorded. */
void core_track_outside(struct core *c, const struct outside_ops *ops, void *self);
/* The watched process is gone, or silent for too long: its run is lost unless the rest of its spool
 * tells how it ended. */
void core_outside_gone(struct core *c, struct run_key key, struct str why);
/* The job is there and its run has begun: it is run 1, with the token of that run. */
void core_outside_begin(struct core *c, const struct outside_start *o, const struct caller *who,
                        core_submit_fn done, void *arg);
/* `already`: it had ended before.  ERR_CONFLICT: it is a job that we started. */
void core_outside_end(struct core *c, uint64_t job, int64_t exit_code, struct str why,
                      const struct caller *who, core_act_fn done, void *arg);
/* It asked or reported something, so it lives.  Nothing for runs of our own. */
void core_heard(struct core *c, struct run_key key);
