/* job_json.h - a job as JSON: the same object in every list, in show and in `-o json`
 *
 * The keys below are a promise: the command line's tables, the Python package and the page read
 * them.  Their order is the order of the list.
 */
#pragma once
#include "base/buf.h"
#include "store/query.h"

#define JOB_JSON_KEYS(X)                                                                           \
    X(id)                                                                                          \
    X(number)                                                                                      \
    X(name)                                                                                        \
    X(state)                                                                                       \
    X(exit_code)                                                                                   \
    X(reason)                                                                                      \
    X(project)                                                                                     \
    X(queue)                                                                                       \
    X(user)                                                                                        \
    X(params)                                                                                      \
    X(command)                                                                                     \
    X(priority)                                                                                    \
    X(attempt)                                                                                     \
    X(batch)                                                                                       \
    X(batch_name)                                                                                  \
    X(index)                                                                                       \
    X(created)                                                                                     \
    X(started)                                                                                     \
    X(ended)                                                                                       \
    X(duration_ms)                                                                                 \
    X(max_rss_bytes)                                                                               \
    X(cpu_ms)                                                                                      \
    X(cpus)                                                                                        \
    X(mem_bytes)                                                                                   \
    X(gpus)                                                                                        \
    X(cancel_requested)                                                                            \
    X(training)                                                                                    \
    X(gpu)

/* The whole object; and all but the closing brace, for callers that add members.  `gpu` is null and
 * last: see job_live.c. */
void job_json(struct buf *b, const struct job_view *v);
void job_json_open(struct buf *b, const struct job_view *v);

/* Members of other objects.  `key` is text with quotes, colon and what stands before it:
 * ",\"name\":"; it goes out as it is. */
void put_str(struct buf *b, const char *key, struct str s);
void put_str_or_null(struct buf *b, const char *key, struct str s); /* empty is null */
void put_int(struct buf *b, const char *key, int64_t v);
void put_bool(struct buf *b, const char *key, bool v);
void put_null(struct buf *b, const char *key);
void put_time(struct buf *b, const char *key, int64_t wall_ms); /* 0 is null */
void put_id(struct buf *b, const char *key, struct id id);
void put_mcpu(struct buf *b, const char *key, int64_t mcpu); /* in CPUs: 2, 0.5 */
void put_double(struct buf *b, const char *key, double v);
struct gpu_set;
void put_gpus(struct buf *b, const char *key, const struct gpu_set *s); /* "0-3,7", or null */
void put_raw(struct buf *b, const char *key, struct str json);          /* JSON text */
/* "queued":n,"starting":n,… without braces */
void put_counts(struct buf *b, const uint64_t counts[JOB_STATE_MAX]);
