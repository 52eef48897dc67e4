/* part.h - what a dialect adds to a daemon: its requests, its listeners, its part of a run's start
 *
 * host_conf.parts lists the parts of a program.  The host opens each of them once its core, store
 * and API exist, and calls every operation but `ended` on the loop thread.  An operation that is
 * NULL does nothing.  A part must not use another part.
 */
#pragma once
#include "core/core.h"
#include "io/http_server.h"
#include <stdatomic.h>

struct api;
struct backup_place;
struct backup_places;
struct auth;
struct hook_sender;
struct job_ports;
struct loop;
struct request_server;
struct store;
struct vault;

/* What a part may use.  The env outlives the part. */
struct host_env {
    struct loop *loop;
    struct core *core;
    struct store *store;
    struct api *api;
    struct auth *auth;               /* who is asking */
    struct request_server *requests; /* the home's */
    struct job_ports *ports;
    struct hook_sender *hooks; /* host/hook_send.h */
    const char *home;
    const char *program;      /* path of this program, to start workers with */
    const char *engine;       /* of containers; NULL = found where engines usually are */
    const char *ports_addr;   /* where ports of jobs are opened; NULL = on every address */
    const char *public_names; /* of this server, for request_conf.names; NULL = none */
    uint32_t uid;             /* the daemon's */
    bool mounts;              /* the backend can mount directories for a run */
    bool multi_user;          /* other users submit too */
};

/* A run that has ended, for its end step. */
struct host_ended {
    struct run_key key;
    struct id id;              /* of the job */
    const char *name;          /* of the job */
    const atomic_bool *cancel; /* becomes true when nobody waits for the step any longer */
};

/* What a part says about one of its jobs. */
enum part_notice {
    PART_NOTICE_NOT_MINE, /* the words of Berth are used */
    PART_NOTICE_TOLD,     /* the part's own words are in the buffer */
    PART_NOTICE_SILENT,   /* nothing is sent */
};

struct host_part {
    const char *name; /* `dialect` of the jobs it submits */
    /* Adds the part's routes to env->requests, too.  conf is what host_conf.settings has for this
     * part, or NULL.  *self NULL: the part has
     * nothing to do in this home, and no other operation is called. */
    int (*open)(const struct host_env *env, const void *conf, void **self, struct err *e);
    /* Opens the part's ports, on a server of its own or on the home's. */
    int (*listen)(void *self, struct http_server *home, struct err *e);
    /* A run of a job of this dialect starts.  An error fails the start. */
    int (*launch)(void *self, const struct launch *l, const struct launch_facts *f,
                  struct launch_extras *out, struct err *e);
    /* The end step of a run of this dialect: called on a worker thread after the processes of the
     * run are gone; the job moves on when it returns.  It must be idempotent, because a crash
     * repeats it, and should return soon after *job->cancel became true.  An error becomes a part
     * of the reason of the job.  NULL: the jobs of this dialect have none. */
    int (*ended)(void *self, const struct host_ended *job, struct err *e);
    /* A schedule of this dialect submits: the part makes the submission from f->def and answers
     * with core_fired_take (core/schedule.h), now or later. */
    void (*fire)(void *self, struct firing *f);
    /* A schedule of this dialect that an older program stored: moves its secrets to `sealed`.
     * Called before `open`, when a home is opened by a program that seals for the first time. */
    void (*seal_schedule)(const struct vault *vault, struct json *def);
    /* An event of a job is to be told in Slack: the part may use words of its own, escaped with
     * hook_slack_escape.  Called on a worker thread. */
    enum part_notice (*notice)(void *self, uint64_t job, enum hook_event ev, struct buf *out);
    /* A trouble of the machine (core/trouble.h) has begun, or is over. */
    void (*troubled)(void *self, struct str text);
    /* Directories of this dialect that belong to the home and lie beside it, for a backup.  False:
     * there are none.  Any thread, also without `open`. */
    bool (*beside)(const char *home, struct backup_place *out);
    void (*recovered)(void *self); /* the host is open: resume what a crash interrupted */
    void (*committed)(void *self); /* after every commit */
    /* The two steps of closing; in between the loop runs while `busy`. */
    void (*shut)(void *self);
    bool (*busy)(const void *self);
    void (*free)(void *self);
};

/* What a program tells one part; ends with an empty one. */
struct host_setting {
    const char *part; /* its name */
    const void *conf; /* of the part's own type, borrowed by host_open */
};

/* What the parts (ends with NULL; NULL = none) have beside this home; *out goes to
 * backup_places_done.  Any thread. */
void host_beside(const struct host_part *const *parts, const char *home, struct backup_places *out);
/* Removes a directory in which a container left files that are not the daemon's.  Any thread. */
int host_clean_dir(const struct host_env *env, const char *dir, struct err *e);
