/* spec.h - a frozen intention: what to run, where, with what, how often
 *
 * A spec is parsed from JSON (the API body, or YAML read into the same tree), validated once, and
 * then immutable.  Its text is what the store keeps; planning facts are copied out beside it.  Many
 * jobs share one spec and differ in `params` and `name`.
 */
#pragma once
#include "base/err.h"
#include "base/json.h"
#include <sys/types.h>

struct resources {
    int64_t mcpu;      /* thousandths of a CPU; 0 = unstated: takes a slot, no CPU share */
    int64_t mem_bytes; /* 0 = unstated */
    int32_t gpus;
    int32_t slots; /* slots of the node it occupies; 1 unless said otherwise */
};

/* What is executed, and in which surroundings.  Exactly one of `argv` and `shell` is set. */
struct spec_command {
    char **argv; /* NULL-terminated words that no shell sees */
    char *shell; /* one line for /bin/sh */
    char *cwd;   /* working directory, absolute; NULL = the user's home */
    char **env;  /* NULL-terminated "K=V", sorted by key; may be empty, never NULL */
    /* Its runs start in a copy of this snapshot (archive/snapshot.h) instead of in cwd, in the
     * directory snapshot_dir of it; NULL = none, and the top. */
    char *snapshot, *snapshot_dir;
    /* Variables that are secrets: names or patterns, "A,B*,!C"; NULL = what the home says.  In a
     * stored spec their values are not in env (model/vault.h). */
    char *secrets;
};

/* What is enforced while the command runs.  A run gets it as it is (shepherd/run_start.h). */
struct spec_limits {
    int64_t timeout_ms;      /* 0 = none */
    int64_t grace_ms;        /* from SIGTERM to SIGKILL */
    int64_t log_limit_bytes; /* of each log, whose middle is dropped first; 0 = none */
    int64_t nice;            /* nice level of the command, -20 to 19 */
};

/* What a job says about its training; every member may be left unsaid.  The GPU planner reads it
 * (sched/gpu.h), and the core decides by it whether a job can be preempted and resumed.
 */
enum launch_kind { LAUNCH_NODE, LAUNCH_GPU }; /* one process in all, or one per GPU */
enum gpu_sharing { GPU_SHARE_UNSAID, GPU_SHARE_YES, GPU_SHARE_NO };
struct training {
    int32_t gpus_max;       /* most GPUs the job can use; 0 = as many as `need.gpus` */
    int32_t epochs;         /* in all; 0 = the job reports no epochs */
    int64_t epoch_steps;    /* batches of one epoch on one device; 0 = unknown */
    int64_t gpu_mem_bytes;  /* on each device; 0 = unknown: a whole device until measured */
    int64_t estimate_ms;    /* running time alone on `need.gpus` devices; 0 = unknown */
    int64_t deadline_ms;    /* wall clock; 0 = none */
    int32_t preempt_signal; /* on this signal the job saves `checkpoint` and exits; 0 = none */
    int32_t share;          /* enum gpu_sharing */
    int32_t launch;         /* enum launch_kind */
    char *checkpoint;       /* file to resume from, absolute or below cwd; NULL = none */
    char *family;           /* NULL = derived from the command, see spec_family() */
};

/* The container in which the command runs, if `image` is set.  Mounts and ports also apply to jobs
 * without an image: the supervisor makes the mounts, the host forwards the ports.
 */
struct spec_container {
    char *image;   /* NULL = no container */
    char **mounts; /* "host:target[:ro]", NULL-terminated; NULL = none */
    char **ports;  /* "node:container", NULL-terminated; NULL = none */
    char *options; /* JSON object, the value of the key `container`; NULL = defaults */
};

/* The interface through which the job was submitted.  Only that dialect reads `extra`. */
struct spec_origin {
    char *dialect; /* NULL = Berth itself */
    char *extra;   /* JSON object of the dialect; NULL = none */
};

/* On which nodes the job may run, and which files Berth copies to a node that does not share the
 * daemon's files.
 */
struct spec_place {
    char *nodes;     /* names or patterns, "a,b*"; NULL = any node */
    char **assets;   /* "from:to", from absolute, to below the staging directory; NULL = none */
    char *stage_dir; /* staging directory on such a node; NULL = a new one for each run */
};

struct spec {
    char *name;    /* never NULL; defaults to the command's base name */
    char *project; /* never NULL; "default" */
    char *queue;   /* never NULL; "default" */
    struct spec_command command;
    struct resources need;
    struct spec_limits limits;
    int64_t backoff_ms; /* before the first retry; doubles, at most an hour */
    int32_t priority;   /* higher first */
    int32_t retries;
    int32_t retry_lost; /* lost runs that are repeated without using up `retries` */
    bool split_output;
    bool hold;    /* the job waits until somebody releases it */
    char *notify; /* entries as hook_notify_parse reads them, one per line; NULL = none */
    struct spec_place place;
    struct training train;
    struct spec_container container;
    struct spec_origin origin;
};
enum {
    /* The text of one spec. */
    SPEC_MAX_BYTES = 4 << 20,
    SPEC_NAME_MAX = 200,
    SPEC_PRIORITY_MAX = 1000000,
    SPEC_RETRIES_MAX = 1000,
    SPEC_RETRY_LOST_MAX = 100,
    /* The JSON text of `extra`. */
    SPEC_EXTRA_MAX = 64 << 10,
    SPEC_LIST_MAX = 64, /* mounts, ports, nodes, assets */
    /* The least size to which a log can be cut. */
    SPEC_LOG_LIMIT_MIN = 64 << 10
};

/* `path` stands before keys in messages, e.g. "jobs[3]." or "".  Unknown keys are errors that name
 * the nearest known key. `params`, `after`, `jobs`, `slots`, `array` are read by sweep.h and
 * ignored here. */
int spec_parse(const struct json *j, const char *path, struct spec **out, struct err *e);
/* NULL is fine. */
void spec_free(struct spec *s);
/* The canonical form, which the caller frees.  Defaults are left out, and spec_parse of the
 * result gives an equal spec. */
struct json *spec_to_json(const struct spec *s);
/* Can the job run in a container?  -1 names the first key that no container engine supports. */
int spec_check_image(const struct spec *s, struct err *e);
/* May a job that says `nodes: patterns` ("" = any) run on the node called so? */
bool nodes_match(struct str patterns, const char *name);
/* Does the job share its devices?  As `share` says; unsaid, a job shares when its memory or its
 * epochs are known. */
bool spec_shares(const struct spec *s);
/* Is it more than a command to run: does it ask for GPUs, report epochs, resume from a file or
 * belong to a family? */
bool spec_trains(const struct spec *s);
/* Jobs of one family are expected to behave alike: `family` as given, else made of image, program,
 * directory and batch size. */
struct buf;
void spec_family(const struct spec *s, struct buf *out);
const char *spec_schema(void); /* JSON Schema of the job form, as printed by `berth schema job` */
const char *spec_sweep_schema(void);

/* The argv for execve that the command becomes with these params.  In a word list, values are
 * replaced inside the words; a shell line gets them as quoted variables ("${BERTH_PARAM_lr}"),
 * never as text, so no value can change the command.  *out_env holds the "K=V" of these variables.
 * Both results are NULL-terminated and live in the arena. */
struct arena;
int spec_argv(const struct spec_command *c, const struct json *params, struct arena *a,
              char ***out_argv, char ***out_env, struct err *e);
/* Does every {placeholder} of the command name one of `params`?  To be asked at submit time, so
 * that no job fails of it later.  A job without params has no placeholders: its braces are its own.
 */
int spec_check_placeholders(const struct spec *s, const struct json *params, const char *path,
                            struct err *e);
/* Is this a parameter object: at most SPEC_PARAMS_MAX keys of 1 to SPEC_NAME_MAX bytes, no NUL in
 * texts.  NULL (absent) is fine. */
enum { SPEC_PARAMS_MAX = 10000 };
int params_check(const struct json *params, const char *path, struct err *e);
