/* host_priv.h - what the files of a host share: one home, put together */
#pragma once
#include "base/util.h"
#include "core/core.h"
#include "host/containers.h"
#include "host/home.h"
#include "host/host.h"
#include "host/job_ports.h"
#include "host/part.h"
#include "io/loop.h"
#include "model/spec.h"
#include "store/store.h"

/* One entry for each part of host_conf.parts, in the same order. */
struct open_part {
    const struct host_part *part;
    void *self; /* NULL = it has nothing to do in this home */
};
struct host_paths {
    char *home, *socket;
    char *socket_dir;  /* has a second socket and is mounted into containers */
    char *python_path; /* of the package; NULL = not found */
    char *program;     /* this program, to start supervisors with */
};
struct host {
    struct host_conf conf;
    struct host_env env; /* for the parts; the rooms below are its members too */
    struct loop *loop;
    struct host_paths paths;
    struct home_secrets secrets;
    struct vault *vault; /* of the home: hides the secrets of jobs and hooks */
    /* lock_fd is -1 until the home is locked.  tcp_port is 0 without TCP. */
    int lock_fd, tcp_port;
    struct store *store;
    struct core *core;
    struct backend *backend;
    struct outside_watch *outside; /* processes that were not started here */
    struct api *api;
    struct request_server *requests;
    struct {
        struct open_part *p;
        size_t n;
    } parts;
    struct containers *containers;
    struct http_server *http;
    struct {
        struct timer *wake, *idle, *retain;
        int64_t wake_at; /* when `wake` fires, monotonic; -1 = never */
        /* turn_start was called, so turn_finish is registered with the loop. */
        bool on;
    } turn;
    struct {
        struct timer *timer;
        int64_t probe_ms;   /* when to look for descriptors again, monotonic */
        bool clock_doubted; /* by --retain, and the log says so */
        bool said;          /* that the database is damaged */
    } health;
    size_t works; /* on worker threads: removals of files, plans, end steps */
    struct {
        struct end_step *first; /* under way */
        bool ready;             /* all parts are open */
        bool shut;              /* steps are cancelled, and not reported any more */
        struct timer *again;    /* of steps that wait for space; NULL = none has waited yet */
    } ends;
    struct snapshot_sweep *sweep; /* NULL = no snapshots were removed yet */
    struct zone *zones;           /* schedules.c */
    /* The server has ended its last connection; host_close waits for this. */
    bool http_down;
    bool closing; /* nothing new is planned; the host waits for what is under way */
};

/* ---- turn.c: when the core plans and the store commits ---- */
void turn_start(struct host *h);
void turn_finish(void *arg);    /* at the end of each turn of the loop; arg is the host */
void turn_on_commit(void *arg); /* on the writer's thread */
void turn_stop(struct host *h);

/* ---- health.c: the database is checked in the background ---- */
void health_start(struct host *h);
void health_stop(struct host *h);
void health_turn(struct host *h);                  /* at the end of each turn */
bool host_trouble(void *arg, enum trouble_kind k); /* core's operation `trouble` */
void health_committed(struct host *h); /* after each commit, and when a check has ended */

/* ---- old_jobs.c: finished jobs past their time, and files of removed jobs ---- */
void old_jobs_look(void *arg); /* arg is the host */
/* stray_runs.c: logs the runs of jobs that the database does not know. */
void stray_runs_look(struct host *h);
/* core's operation `discard`. */
void old_jobs_discard(void *arg, const struct run_key *last, size_t n);

/* ---- old_modes.c: files of runs that an earlier program left readable for everybody ---- */
void old_modes_look(struct host *h);

/* ---- nodes.c ---- */
/* core's operation `open_node`: the scheme of the url names the backend. */
int node_backend_open(void *arg, struct core_host *node, const struct json *conf,
                      const struct backend_class **cls, struct backend **b, struct err *e);

/* ---- end_steps.c ---- */
/* core's operations `end_step` and `end_step_cancel`. */
bool end_steps_begin(void *arg, struct run_key key);
void end_steps_cancel(void *arg, struct run_key key);
void end_steps_open(struct host *h); /* the parts are open: begins what waited for them */
void end_steps_shut(struct host *h); /* cancels all; their threads count in host.works */

/* ---- schedules.c: core's operations `fire` and `zone` ---- */
void host_fire(void *arg, struct firing *f);
void host_trial(void *arg, struct trial_launch *t); /* ops->trial */
int host_zone(void *arg, const char *name, struct cron_zone *out, struct err *e);
void host_zones_free(struct host *h);

/* ---- snapshots.c ---- */
/* Loop thread: jobs were removed, so the snapshots that no job names any more are removed on a
 * worker thread. */
void snapshots_look(struct host *h);
void snapshots_shut(struct host *h);

/* ---- parts.c: each operation of host_part, for all parts ---- */
/* The first part that fails ends parts_open, and the host is not opened. */
int parts_open(struct host *h, struct err *e);
int parts_listen(struct host *h, struct err *e);
/* The open part of this name; NULL = there is none. */
const struct open_part *parts_find(const struct host *h, const char *name);
/* Calls only the part whose name is the dialect of the job.  A dialect that this program does not
 * contain is ERR_INVALID, and the start of the run fails. */
int parts_launch(struct host *h, const struct launch *l, const struct launch_facts *f,
                 struct launch_extras *out, struct err *e);
/* Calls only the part of this dialect; without one the firing fails. */
void parts_fire(struct host *h, struct str dialect, struct firing *f);
void parts_seal_schedule(const struct host *h, struct json *def); /* before parts_open, too */
/* The words of the part to which the job belongs.  Worker thread. */
enum part_notice parts_notice(struct host *h, uint64_t job, enum hook_event ev, struct buf *out);
void parts_troubled(struct host *h, struct str text);
void parts_recovered(struct host *h);
void parts_committed(struct host *h);
void parts_shut(struct host *h);
bool parts_busy(const struct host *h);
void host_parts_free(struct host *h);
