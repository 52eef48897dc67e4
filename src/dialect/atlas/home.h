/* home.h - $FOUNDATIONS_HOME: where everything of Atlas lies on a machine
 *
 * The same layout for the server and for its clients; users' scripts read the archives in it
 * directly, so names here are promises.  docs/atlas.md lists them for people.
 */
#pragma once
#include "base/err.h"
#include "base/id.h"

enum {
    ATLAS_SCHEDULER_PORT = 5000,
    ATLAS_DASHBOARD_PORT = 5555,
    ATLAS_TRACKER_PORT = 5556,
    ATLAS_ARCHIVE_PORT = 5557,
    ATLAS_API_PORT = 5558,
    ATLAS_TENSORBOARD_PORT = 5959,
};

/* Places below a home. */
#define ATLAS_DIR_SUBMISSION "config/submission"
#define ATLAS_DIR_EXECUTION "config/execution"
#define ATLAS_DIR_WORKER_CONFIG "config/local_docker_scheduler/worker_config"
#define ATLAS_DIR_RESULTS "job_data"
#define ATLAS_DIR_ARCHIVE "job_data/archive"
#define ATLAS_DIR_BUNDLES "job_bundle_store_dir"
#define ATLAS_DIR_CONTENTS                                                                         \
    "job_bundle_store_dir/contents" /* of bundles and archives, each once                          \
                                     */
#define ATLAS_DIR_WORK "local_docker_scheduler/work_dir"
#define ATLAS_DIR_SCHEDULED "scheduled_jobs"
#define ATLAS_DIR_DATABASE "database" /* $BERTH_HOME of the server */
#define ATLAS_DIR_TENSORBOARD "tensorboard/work_dir"
#define ATLAS_DIR_LOGS "logs"

/* $FOUNDATIONS_HOME, else ~/.foundations; absolute; yours.  NULL: neither it nor HOME is set. */
char *atlas_home(void);
/* Makes every directory and default config that is missing and leaves alone what is there.
 * `made` (may be NULL) hears of each path that was made. `port` goes into the default configs as
 * that of the scheduler; 0 = the usual one. */
typedef void (*atlas_made_fn)(void *arg, const char *path);
int atlas_home_make(const char *home, int port, atlas_made_fn made, void *arg, struct err *e);
/* The id of a job: a UUID as clients make them, lower or upper case; or that of a scheduled job
 * with the local time of one firing behind it, <uuid>_YYYYMMDD_HHMMSS.  Anything else must never
 * become part of a path. */
enum { ATLAS_ID_LEN = ID_UUID_LEN + 16, ATLAS_ID_MAX };
bool atlas_id_ok(const char *text);
/* What the controller knows the job by; of a firing it is made of the text. */
bool atlas_id_parse(const char *text, struct id *out);
/* And back: a firing is named by its id, every other job has a UUID. */
void atlas_id_format(struct id id, struct str name, char out[ATLAS_ID_MAX]);
