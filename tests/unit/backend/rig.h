/* rig.h - a backend on a temporary home, and what it told us */
#pragma once
#include "backend/backend.h"
#include "base/vec.h"
#include "io/loop.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PATIENCE_MS = 120000 };

struct seen {
    struct run_key key;
    int started, ended, absent, refused, spooled;
    int64_t pid;
    struct run_outcome outcome;
    char detail[200];
};
struct rig {
    const struct backend_class *cls;
    struct loop *loop;
    struct backend *b;
    struct timer *pulse;
    char home[64];
    VEC(struct seen *) seen;
    struct buf notices;
    bool settle; /* say settled() at every end */
    int daemon_lock;
    int node_events;
    int call_fd; /* the last one, -1 = none */
};

/* Opening and closing leave the home as it is, so that a daemon's death can be played. */
void rig_init(struct rig *r, const struct backend_class *cls);
void rig_prepare(struct rig *r, const struct backend_class *cls); /* all but opening */
void rig_open(struct rig *r);                                     /* and waits until it is there */
void rig_open_with(struct rig *r, struct json *conf);             /* takes conf; does not wait */
void rig_close(struct rig *r);
void rig_done(struct rig *r); /* ends the shepherd and removes the home */

struct rig_run {
    const char *shell; /* for /bin/sh -c; or */
    char **argv;
    struct run_key after;
    const char *cwd, *err_path, *run_dir, *params;
    char *const *envp;
    int64_t timeout_ms, grace_ms, log_limit_bytes;
    struct resources need;
    uint32_t uid, gid;
    bool change_user;
    char *const *assets;
    const char *stage_dir;
    bool anywhere; /* cwd NULL: in the directory of the run */
};
void rig_start(struct rig *r, uint64_t job, uint32_t run, const struct rig_run *o);
struct seen *rig_seen(struct rig *r, uint64_t job, uint32_t run); /* never NULL */
/* Turns the loop until the count is reached; fails the test after PATIENCE_MS. */
const struct seen *rig_wait_started(struct rig *r, uint64_t job, uint32_t run);
const struct seen *rig_wait_ended(struct rig *r, uint64_t job, uint32_t run);
void rig_wait_absent(struct rig *r, uint64_t job, uint32_t run);
void rig_wait_refused(struct rig *r, uint64_t job, uint32_t run);
void rig_wait_here(struct rig *r); /* the node is not away */
void rig_wait_trouble(struct rig *r, const char *part);
void rig_wait_notice(struct rig *r, const char *part);
void rig_turn(struct rig *r, int64_t ms); /* for so long */
void rig_adopt(struct rig *r, uint64_t job, uint32_t run, uint32_t journal, int64_t pid);

char *rig_log(struct rig *r, uint64_t job, uint32_t run); /* yours */
void rig_wait_log(struct rig *r, uint64_t job, uint32_t run, const char *part);
pid_t rig_shepherd(struct rig *r); /* 0 = none */
pid_t rig_supervisor(struct rig *r, uint64_t job, uint32_t run);
void rig_kill(pid_t pid); /* -9, and waits until it is gone */
bool alive(pid_t pid);
bool marked_alive(const char *word); /* a process with this word among its arguments */
