/* journal.h - the append-only file of what happened to runs
 *
 * Records of 128 bytes with a magic and a CRC-32C, each appended by one write, by supervisors and
 * by the shepherd; read by the daemon.  A file is a generation, `journal-%08u`; a run reports to
 * one generation all its life.  A reader skips what is no record and goes on at the next one.
 */
#pragma once
#include "base/err.h"
#include "base/str.h"
#include "model/job.h"
#include <stddef.h>

enum {
    JOURNAL_RECORD_BYTES = 128,
    JOURNAL_NAME_MAX = 36,
    /* Bytes after which the daemon opens a new generation for new runs. */
    JOURNAL_ROTATE_BYTES = 16 << 20,
    /* Kept allocated beyond the end: room for 4 096 outcomes on a full disk. */
    JOURNAL_RESERVE_BYTES = 512 << 10,
};
/* "BRJ1" is a record of a key without a tag: earlier versions read and write it too, with a name of
 * 40 bytes.  "BRJ2" is one of a key with a tag. */
#define JOURNAL_MAGIC_PLAIN 0x314a5242u
#define JOURNAL_MAGIC_TAGGED 0x324a5242u

enum journal_kind {
    JOURNAL_STARTED = 1, /* the command is about to be executed, in process `pid` */
    JOURNAL_ENDED,       /* the outcome; at most the first one of a key counts */
    JOURNAL_VOID,        /* nothing of this key ran before here, and nothing sent before will */
};

/* The steps of a start, and the sentence for a start that failed there: X(STAGE, text, missing).
 * {name} is the name in the record, {why} the text of its errno.  `missing` replaces `text` for
 * ENOENT; NULL = the same.  The numbers are stored on disk: append only.  JOURNAL never occurs in a
 * record, because the record itself could not be written; ENGINE to GONE come from the process of a
 * container. */
#define START_STAGE_LIST(X)                                                                        \
    X(OK, "could not start: {why}", NULL)                                                          \
    X(LOG, "cannot open the log {name}: {why}", NULL)                                              \
    X(RUN_DIR, "cannot create the run directory {name}: {why}", NULL)                              \
    X(USER, "cannot change to the submitter's user id: {why}", NULL)                               \
    X(CWD, "cannot enter the working directory {name}: {why}",                                     \
      "working directory does not exist: {name}")                                                  \
    X(EXEC, "cannot execute {name}: {why}", "command not found: {name}")                           \
    X(FORK, "cannot create a process: {why}", NULL)                                                \
    X(JOURNAL, "could not start: {why}", NULL)                                                     \
    X(MOUNT, "cannot mount {name}: {why}", NULL)                                                   \
    X(ENGINE, "no container engine is reachable; the log of the job lists the tried addresses",    \
      NULL)                                                                                        \
    X(IMAGE, "image {name} is not here and could not be pulled; see its log", NULL)                \
    X(CONTAINER, "the container of image {name} could not be started; see its log", NULL)          \
    X(GONE, "container {name} was removed while it ran", NULL)                                     \
    X(NICE, "its nice level is not permitted on this node: {why}; use 0 to 19", NULL)              \
    X(SPACE, "waits for space on the disk of {name}: {why}", NULL)
enum start_stage {
#define X(stage, text, missing) START_##stage,
    START_STAGE_LIST(X)
#undef X
};

/* On disk and in memory; what is read of an earlier version is brought into this form. */
struct journal_record {
    uint32_t magic, crc; /* crc: of all that follows it, and of the form */
    uint64_t job;
    uint32_t run;
    /* enum journal_kind; enum run_end, which is meaningful only in ENDED. */
    uint8_t kind, why;
    uint16_t sys; /* errno of a failed start; of an exit: ENOSPC or EDQUOT, the disk of `name` was
                     full then */
    uint32_t pid; /* the command's */
    /* Of the command, as wait(2) gives it; meaningful when `why` says that the command ran. */
    int32_t wait_status;
    uint32_t boot;      /* which boot of the machine; 0 = unknown */
    uint32_t stage;     /* enum start_stage of a failed start */
    uint64_t pid_start; /* clock ticks since boot; the process did not start later than this */
    int64_t at_ms;      /* wall clock */
    int64_t started_ms; /* of an end: when the command started, 0 = never */
    /* Of an end: the larger of the cgroup's peak and the largest process; CPU time of all reaped
     * processes, in microseconds. */
    int64_t max_rss_bytes;
    int64_t cpu_user_us, cpu_sys_us;
    char name[JOURNAL_NAME_MAX]; /* what a failed start is about; NUL-terminated unless full */
    uint32_t tag;                /* of the key */
};
_Static_assert(sizeof(struct journal_record) == JOURNAL_RECORD_BYTES, "one record is 128 bytes");

static inline bool journal_record_is(const struct journal_record *r, struct run_key k)
{
    return r->job == k.job && r->run == k.run && r->tag == k.tag;
}
static inline struct run_key journal_record_key(const struct journal_record *r)
{
    return (struct run_key){r->job, r->run, r->tag};
}
/* Keeps the end of a long text: of a path, that is the part that tells. */
void journal_set_name(struct journal_record *r, const char *text);
/* One sentence about a failed start: "command not found: pythn". */
void journal_failure_text(const struct journal_record *r, char *out, size_t n);

enum { JOURNAL_FILE_MAX = 32 };
/* The name of the file of a generation; and the reverse, false when the name is not one. */
void journal_file_name(uint32_t generation, char out[JOURNAL_FILE_MAX]);
bool journal_file_parse(const char *name, uint32_t *out);

/* Seals and appends by one write.  0, or -1 with errno; then nothing valid was added and the same
 * record may be tried again.  Safe between vfork and exec. */
int journal_append(int fd, struct journal_record *r);
/* Allocates space up to `bytes` without changing the size.  0, or -1 with errno. */
int journal_reserve(int fd, uint64_t bytes);

/* The first record in p[0…n): *out is filled and the offset after it returned; 0 when there is
 * none, then *skip bytes are certainly no part of a record.  With a record, *skip bytes stood
 * before it. */
size_t journal_find(const void *p, size_t n, struct journal_record *out, size_t *skip);

/* A position in one generation.  The reader owns `chunk` and survives records that are still
 * being written: journal_read returns 0 and can be called again later. */
struct journal_reader {
    int fd;            /* borrowed */
    uint64_t offset;   /* everything before has been delivered or skipped */
    uint64_t good_end; /* end of the last whole record, or the start */
    uint64_t skipped;  /* bytes that were no record */
    char *chunk;
    size_t pos, n;   /* unread part of chunk; offset = file offset of pos */
    bool short_read; /* the end of the file was met; what comes later is announced by inotify */
};
void journal_reader_init(struct journal_reader *r, int fd, uint64_t offset);
void journal_reader_done(struct journal_reader *r);
/* 1 = *out is the next record, 0 = no more for now, -1 = the file cannot be read. */
int journal_read(struct journal_reader *r, struct journal_record *out, struct err *e);

/* What is said of a key from `offset` on: bits 1 << enum journal_kind; 0 = nothing.  STARTED goes
 * to *out_started unless that is NULL.  Uses no heap.  -1 with errno when unreadable. */
int journal_scan(int fd, uint64_t offset, struct run_key k, struct journal_record *out_started);
