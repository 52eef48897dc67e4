/* snapshot.h - working directories kept for jobs: a content store for each user of a home
 *
 *   HOME/snapshots/UID/        a store (cas.h) that only this user can read
 *   HOME/snapshots/UID/trees/  ID: a snapshot; ID is the beginning of the hash of its manifest, so
 *                              an equal directory has the same id
 *                              fresh-ID: no job has named this snapshot yet
 *
 * Every call may wait for the disk and works from any thread.
 */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct cas;
enum {
    SNAPSHOT_ID_LEN = 24, /* hexadecimal digits */
    SNAPSHOT_ID_MAX,
    SNAPSHOT_ENTRIES_MAX = 200000,
    SNAPSHOT_FRESH_S = 3600, /* a snapshot that no job has named is removed after this long */
};
#define SNAPSHOT_BYTES_MAX (INT64_C(4) << 30)
#define SNAPSHOT_TOP "snapshot" /* the top directory of a bundle that carries one */
struct snapshot_owner {
    uint32_t uid, gid; /* gid: USER_NO_GROUP where nothing is made */
};
/* Until snapshot_as_self this thread opens and makes files with the rights of `o`, and so do the
 * threads that it starts.  Changes nothing in a process that is not root's. */
int snapshot_as(struct snapshot_owner o, struct err *e);
void snapshot_as_self(void);

/* The directory of the store of a user; yours. */
char *snapshot_store_path(const char *home, uint32_t uid);
/* Opens the store, and makes it when there is none.  Not between snapshot_as and snapshot_as_self:
 * its directory is made by the daemon and then belongs to the user. */
int snapshot_store_open(const char *home, struct snapshot_owner o, struct cas **out, struct err *e);
bool snapshot_id_ok(const char *id);
/* The tree `name` becomes a snapshot under the id of its content, marked as fresh; `name` is gone.
 */
int snapshot_adopt(struct cas *c, const char *name, char id[SNAPSHOT_ID_MAX], struct err *e);
/* A job names the snapshot from now on: the mark "fresh" goes, and from then on only
 * snapshot_used_fn decides how long the snapshot is kept.  ERR_INVALID: there is no such snapshot.
 */
int snapshot_claim(struct cas *c, const char *id, struct err *e);
/* Removes the snapshots that no job names, and the contents that only those had.  `used` says
 * whether a job names one; -1 = it cannot tell, and the snapshot stays.  ERR_BUSY: try again. */
typedef int snapshot_used_fn(void *arg, const char *id);
int snapshot_collect(struct cas *c, snapshot_used_fn *used, void *arg, struct err *e);

/* ---- packing ---- */
struct archive_watch;
struct ignore;
/* What stays out: `.git`, and what the file .berthignore (or .foundationsignore) in `dir` says.
 * *out goes to ignore_free. */
int snapshot_ignore(const char *dir, struct ignore **out, struct err *e);
/* ERR_LIMIT when the directory is too large for a snapshot; the text names the largest entry. */
int snapshot_check(const char *dir, const struct ignore *ig, const struct archive_watch *w,
                   int64_t *out_bytes, struct err *e);

/* ---- to the daemon and back ---- */
struct http_client;
struct json;
/* POST /v1/snapshots.  *out is the answer, yours. */
int snapshot_send(struct http_client *http, const char *dir, const struct ignore *ig,
                  const struct archive_watch *w, struct json **out, struct err *e);
/* GET of a path that answers with a snapshot, into the directory `dir`, which must not exist. */
int snapshot_fetch(struct http_client *http, const char *path, const char *dir, struct err *e);

/* ---- runs ---- */
/* The start of a run, in its own process: checks the snapshot out to `dir`, which may be left over
 * from a start that was cut short, and enters its directory `sub` ("" = the top). */
int snapshot_enter(const char *store, const char *id, const char *dir, const char *sub,
                   struct err *e);
/* The end of a run: removes from `dir` what is known to be as it was checked out, and then the
 * directories that are empty; what the run made or changed stays.  Twice is fine. */
int snapshot_prune(struct cas *c, const char *id, const char *dir, struct err *e);
