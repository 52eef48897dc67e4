/* job_json.h - a job as JSON: the same object in every list, in show and in `-o json`
 *
 * The keys below are a promise: the command line's tables, the Python package and the page read
 * them.  Their order is the order of the list.
 */
#pragma once
#include "base/json_out.h"
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
    X(schedule)                                                                                    \
    X(batch)                                                                                       \
    X(batch_name)                                                                                  \
    X(index)                                                                                       \
    X(created)                                                                                     \
    X(started)                                                                                     \
    X(ended)                                                                                       \
    X(duration_ms)                                                                                 \
    X(ran_ms)                                                                                      \
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
/* All but `gpu` and the closing brace. */
void job_json_begin(struct buf *b, const struct job_view *v);

/* Members that json_out.h does not know. */
void jw_mcpu(struct buf *b, const char *key, int64_t mcpu); /* in CPUs: 2, 0.5 */
struct gpu_set;
void jw_gpus(struct buf *b, const char *key, const struct gpu_set *s); /* "0-3,7", or null */
void jw_counts(struct buf *b, const uint64_t counts[JOB_STATE_MAX]);   /* a member for each state */
