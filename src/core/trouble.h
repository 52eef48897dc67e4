/* trouble.h - conditions of the machine under which nothing starts: full disk, no descriptors, …
 *
 * A trouble begins with the first operation that fails because of it and ends when a probe
 * succeeds: one notice each.  While it lasts, waiting jobs wait, `explain` says why, and the start
 * of a run that fails because of it is repeated afterwards without using up a retry.
 */
#pragma once
#include "base/err.h"
#include <stdint.h>

struct core;
/* kind, its name in /metrics, what it is */
#define TROUBLE_LIST(X)                                                                            \
    X(DISK_FULL, disk_full, "no space left on the disk of the home; free some")                    \
    X(NO_INODES, no_inodes, "no inodes left on the disk of the home; remove some files")           \
    X(IO_ERROR, io_error, "the disk of the home fails; check it")                                  \
    X(NO_DESCRIPTORS, no_descriptors, "no file descriptors left; raise the limit (ulimit -n)")     \
    X(DATABASE_GONE, database_gone, "the job database is not at its path; move it back")           \
    X(DATABASE, database, "the job database takes no changes; run `berth doctor`")
enum trouble_kind {
#define X(up, low, what) TROUBLE_##up,
    TROUBLE_LIST(X)
#undef X
        TROUBLE_KINDS
};
struct trouble {
    bool on;
    int64_t since_ms; /* monotonic */
    uint64_t hits;    /* submissions and starts that failed because of it */
    char text[240];   /* what failed first */
};
const char *trouble_name(enum trouble_kind k); /* "disk_full" */
/* The kind that an errno value tells of; TROUBLE_KINDS = none. */
enum trouble_kind trouble_of_errno(int sys);
/* Of a request that is refused because of it: 507 when space is what is missing. */
enum err_code trouble_code(enum trouble_kind k);
/* An operation has failed: begins the trouble, or counts.  text "" = as the kind says.  Loop
 * thread, as all others. */
void core_trouble_hit(struct core *c, enum trouble_kind k, const char *text);
const struct trouble *core_trouble(const struct core *c, enum trouble_kind k);
/* The first one that lasts; NULL = none. */
const struct trouble *core_in_trouble(const struct core *c, enum trouble_kind *out);
