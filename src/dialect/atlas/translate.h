/* translate.h - a job as Atlas' clients describe it, as a job of ours
 *
 * `spec` has the names of docker-py: image, command, entrypoint, environment, volumes, working_dir,
 * mem_limit.  What only containers know (network, runtime, detach…) is kept and otherwise ignored.
 */
#pragma once
#include "base/err.h"
#include "base/json.h"

struct atlas_submission { /* all borrowed */
    const char *id;
    const struct json *spec, *metadata, *gpu_spec;
};
/* What the translation must know of the server.  Nothing of it comes from the client. */
struct atlas_world {
    const char *home;      /* $FOUNDATIONS_HOME of the server */
    const char *python;    /* of the built-in worker */
    bool mounts;           /* the built-in worker can show directories under other names */
    int32_t gpus;          /* how many there are */
    int64_t mem_bytes;     /* of the largest node; 0 = not known */
    char *const *environ_; /* the server's own, of which a little is passed on */
    const char *token;     /* FOUNDATIONS_TOKEN; NULL = none */
};
/* The job form, yours. */
int atlas_translate(const struct atlas_submission *s, const struct atlas_world *w,
                    struct json **out, struct err *e);
/* Reads the body of POST /queued_jobs; *out borrows from it. */
int atlas_submission_read(const struct json *body, struct atlas_submission *out, struct err *e);

/* How a job is started, as the first words of its worker's command line say (worker.h). */
#define ATLAS_RUN_SCRIPT "script" /* start script of the standard worker, then python */
#define ATLAS_RUN_EXEC "exec"     /* the words are the command */
#define ATLAS_RUN_REFUSE "refuse" /* print the text and fail */
