/* submission.h - what a user of `run-scheduler` asks for, read and checked
 *
 * One table names every argument twice: as the option of the command and as the JSON key of
 * POST /submit.  The command reads its options into JSON and has them checked here before anything
 * is sent; the server checks the same JSON again.  Messages name the argument as its sender wrote
 * it, and the value.
 */
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "host/job_ports.h"

enum gpu_argument_type {
    GPU_ARG_NAME,
    GPU_ARG_TEXT,
    GPU_ARG_WORD, /* a text without blanks */
    GPU_ARG_DIR,  /* absolute */
    GPU_ARG_INT,
    GPU_ARG_BOOL,
    GPU_ARG_FLAG, /* the same; kept only when true */
    GPU_ARG_HOURS,
    GPU_ARG_PORTS,
    GPU_ARG_TIME,
    GPU_ARG_LAUNCH,
    GPU_ARG_ENV,
};
struct gpu_argument {
    const char *option; /* "est_nhours"; NULL = only a key */
    const char *key;    /* "estNHours" */
    enum gpu_argument_type type;
    /* Of the member of struct gpu_submission. */
    size_t offset;
    /* Of the number, or of the length of a text in bytes (of a name in characters). */
    int64_t min, max;
};
extern const struct gpu_argument gpu_arguments[];
extern const size_t gpu_n_arguments;

enum { GPU_PORTS_MAX = 64, GPU_NAME_MAX = 128, GPU_LABEL_MAX = 48 };

struct gpu_submission { /* texts live in the arena; NULL and 0 = not said */
    const char *name, *image, *script, *custom_dir, *snapshots_dir, *username, *datasets_dir;
    const char *deadline; /* RFC 3339, UTC */
    const char *ports;    /* as written, see below */
    struct port_pair port[GPU_PORTS_MAX];
    size_t n_ports;
    int64_t batch_size, training_set_size, max_epochs;
    int64_t memory_mib;
    double est_hours;
    int64_t priority, max_retries; /* 1 … 5; 3 unless said */
    const char *torch_backend;     /* of torch.distributed; NULL = what the daemon says */
    bool single_gpu, no_sharing, launch_gpu;
    bool no_gpu;              /* it runs on CPUs */
    bool options;             /* messages name the options of the command instead of JSON keys */
    struct json *env;         /* --env; NULL = none.  The submission's own, as is the next. */
    struct json *environment; /* the sender's variables, beneath those; NULL = none */
};
/* `options`: messages name the options of the command instead of JSON keys.  Texts are copied
 * into the arena.  On success the caller calls gpu_submission_done; on failure nothing is kept. */
int gpu_submission_read(const struct json *body, bool options, struct arena *a,
                        struct gpu_submission *out, struct err *e);
void gpu_submission_done(struct gpu_submission *s);
/* The form in which a submission is sent and stored; the caller frees it.  `bare` leaves the
 * variables out, which the job form holds already. */
struct json *gpu_submission_json(const struct gpu_submission *s, bool bare);
/* An argument as its sender wrote it: "--estimated_memory", or the key itself. */
const char *gpu_argument_label(const char *key, bool options, char out[GPU_LABEL_MAX]);
/* Is this variable set by the scheduler, so that nobody else may? */
bool gpu_env_reserved(struct str name);
