/* run_start.h - everything a backend needs to start one run, and its form as bytes
 *
 * One table makes the struct, its encoding and its decoding.  Local runs (frames to the shepherd)
 * and runs on other machines (frames to the far program) send the same bytes, so a new member is
 * one line here and cannot be lost on the way.  The bytes are for peers of the same version: both
 * protocols carry RUN_START_N_FIELDS in their version and refuse another one.
 */
#pragma once
#include "base/buf.h"
#include "model/job.h"
#include "model/spec.h"

struct id_list {
    const uint32_t *ids;
    size_t n;
};

/* X(kind, type, name).  The kind says how the member travels:
 * key, need, limits, u32, flag: as they are; text: a C string, NULL = none; bytes: length and
 * bytes; words: a NULL-terminated list of texts, NULL = none; ids: a list of numbers. */
#define RUN_START_FIELDS(X)                                                                        \
    X(key, struct run_key, key)                                                                    \
    X(key, struct run_key, after) /* start when that run has ended; job 0 = now */                 \
    X(u32, uint32_t, journal)     /* generation, from the backend's journal() at placing time */   \
    X(words, char *const *, argv)                                                                  \
    X(words, char *const *, envp)                                                                  \
    X(text, const char *, cwd)                                                                     \
    X(text, const char *, log_path)   /* both streams, or stdout when err_path is set */           \
    X(text, const char *, err_path)   /* NULL = one interleaved log */                             \
    X(text, const char *, run_dir)    /* the directory of the run; made only on request */         \
    X(flag, bool, make_run_dir)       /* make it, owned by uid, before the command starts */       \
    X(words, char *const *, mounts)   /* "host:target[:ro]"; needs make_run_dir */                 \
    X(bytes, struct str, params_json) /* written to run_dir/params.json; empty = none */           \
    X(u32, uint32_t, uid)                                                                          \
    X(u32, uint32_t, gid)                                                                          \
    X(flag, bool, change_user)     /* run as uid and gid */                                        \
    X(ids, struct id_list, groups) /* supplementary groups for change_user */                      \
    X(limits, struct spec_limits, limits)                                                          \
    X(need, struct resources, need)  /* limits for the cgroup */                                   \
    X(flag, bool, cpu_quota)         /* need.mcpu is a hard limit, not only a weight */            \
    X(flag, bool, wants_space)       /* the last run met a full disk: not without space */         \
    X(flag, bool, container)         /* a container's process: it may write how that ended */      \
    X(words, char *const *, assets)  /* "from:to" for a node that does not share our files */      \
    X(text, const char *, stage_dir) /* where copies of assets go; NULL = the node's choice */

struct run_start {
#define RUN_START_MEMBER(kind, type, name) type name;
    RUN_START_FIELDS(RUN_START_MEMBER)
#undef RUN_START_MEMBER
};
#define RUN_START_ONE(kind, type, name) +1
enum { RUN_START_N_FIELDS = 0 RUN_START_FIELDS(RUN_START_ONE) };
#undef RUN_START_ONE

/* What a decoded run_start points to besides the bytes it was read from.  Starts as zeros and may
 * be used again for the next decoding. */
struct run_start_memory {
    char **words;
    size_t n_words, max_words;
    uint32_t *ids;
};
void run_start_memory_done(struct run_start_memory *m);

/* Appends all of it; whether it fitted shows in b->overflow. */
void run_start_put(struct buf *b, const struct run_start *s);
/* `in` must be exactly one run_start.  Text points into `in`, lists into *m.  Every list has one
 * spare entry before it (a script without "#!" gets /bin/sh before argv) and one behind its NULL
 * (envp gets the marker of the run).  False: these are not the bytes of a run with a command. */
bool run_start_get(struct str in, struct run_start_memory *m, struct run_start *out);
