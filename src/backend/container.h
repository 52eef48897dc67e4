/* container.h - runs inside containers: the process that stands for one, and what is left behind
 *
 * A run with an image is an ordinary run whose command is container_run() (`berth __container`):
 * the shepherd supervises that process, it makes the container and ends as the container ended.
 * docs/containers.md is the user's view, docs/adr/0017 says why.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "model/job.h"

/* The variables that carry the facts of a run to its process: CONTAINER_FACTS is the text itself,
 * or its first piece, with CONTAINER_FACTS "1", "2", … for the following ones. */
#define CONTAINER_FACTS "BERTH_CONTAINER"
enum { CONTAINER_PIECE_MAX = 100 << 10 };
/* The process around a container ends it in order within the grace of the run; this much longer it
 * may take to fetch the last lines and to clean up, before it is killed itself. */
enum { CONTAINER_MARGIN_MS = 10000 };
/* What it leaves in the directory of the run when the container did not end by itself: one line,
 * a word of container_end_names and a text.  The supervisor reads it. */
#define CONTAINER_END_FILE "container.end"

/* Makes and follows the container of which the environment tells; never returns, because it ends
 * as the container did, by the same signal if need be. */
_Noreturn void container_run(void);

/* Which socket: `given` ("unix:///run/docker.sock" or a path), else $DOCKER_HOST, else the first
 * of the usual ones that is there.  Yours.  NULL with an error when there is none. */
char *engine_find(const char *given, struct err *e);
/* One line for `berth doctor`: which engine answers where. */
int engine_survey(const char *given, struct buf *text, struct err *e);

/* Ends and removes containers of this home whose run is over: nobody holds its lock below
 * `shepherd_dir`, or it is one of `over`.  Blocks: for worker threads.  *removed may be NULL.
 * Containers without our label are not looked at. */
int container_sweep(const char *engine, const char *home_id, const char *shepherd_dir,
                    const struct run_key *over, size_t n_over, size_t *removed, struct err *e);
/* Removes what is in `dir`, and `dir` itself, also when containers left files there that are not
 * ours: then a short container of `image` (NULL = any image with a shell) does it.  Blocks. */
int container_clean_dir(const char *engine, const char *image, const char *dir, struct err *e);
