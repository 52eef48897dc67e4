/* docker_priv.h - what the files of the container runner share
 *
 * Everything here blocks, or is polled by its caller: it runs in a process of its own (runner.c) or
 * on a worker thread (sweep.c), never on the loop.
 */
#pragma once
#include "backend/container.h"
#include "base/arena.h"
#include "base/json.h"
#include <sys/types.h>

/* ---- engine.c: the socket and what is asked over it ---- */
enum {
    ENGINE_CALL_MS = 60000,     /* an engine under load may take long to answer */
    ENGINE_BODY_MAX = 64 << 20, /* of answers that are read whole */
};
struct engine {
    char *path; /* of its unix socket */
    /* podman: the engine is Podman, not Docker.  rootless: the engine runs without root's
     * rights, so root inside a container is the submitter outside. */
    bool podman, rootless;
};
/* Finds the socket and asks which engine answers.  On failure g holds nothing. */
int engine_open(struct engine *g, const char *given, struct err *e); /* asks who it is */
void engine_done(struct engine *g);
/* One question.  `body` may be NULL.  An HTTP status is not an error here; *out may be NULL and is
 * NULL for an answer without a body.  ERR_UNAVAILABLE: nobody answers, or not in time. */
int engine_ask(const struct engine *g, const char *method, const char *path,
               const struct json *body, int64_t limit_ms, int *status, struct json **out,
               struct err *e);
/* The same where every status but 2xx and 304 is an error, with the engine's own words. */
int engine_call(const struct engine *g, const char *method, const char *path,
                const struct json *body, struct json **out, struct err *e);
/* "message" of an answer, in one line. */
void engine_complaint(const struct json *answer, int status, char *out, size_t n);

/* `before` + name + `after`, with what a path may not hold encoded; yours. */
char *engine_path(const char *before, const char *name, const char *after);
/* The containers of a home, of one job when it is not 0. */
int containers_of(const struct engine *g, const char *home, uint64_t job, struct json **out,
                  struct err *e);
/* The run that a container belongs to, by its labels; false when the labels are not ours. */
bool container_key(const struct json *one, struct run_key *out);
/* Kills it first if it runs.  A container that is already gone, or being removed, is a success. */
int container_remove(const struct engine *g, const char *id, struct err *e);

/* An answer that takes as long as it takes. */
struct engine_stream;
typedef bool (*engine_bytes_fn)(void *arg, struct str piece);
/* Sends the request.  fn gets the body piece by piece from engine_stream_read; false ends the
 * stream. */
int engine_stream_open(struct engine_stream **out, const struct engine *g, const char *method,
                       const char *path, engine_bytes_fn fn, void *arg, struct err *e);
void engine_stream_free(struct engine_stream *s);
int engine_stream_fd(const struct engine_stream *s);
int engine_stream_status(const struct engine_stream *s); /* 0 until the head has come */
/* Reads what is there.  1 = more may come, 0 = complete, -1 = broken. */
int engine_stream_read(struct engine_stream *s, struct err *e);

/* ---- frames.c: both streams of a container in one, each piece behind a head of 8 bytes ---- */
struct frames {
    unsigned char head[8];
    size_t head_n;
    uint32_t left;       /* bytes of the frame still to come */
    uint64_t at[2];      /* of stdout and stderr: how far this connection is */
    uint64_t written[2]; /* and what went out so far, over all of them */
    bool (*out)(void *arg, int stream, struct str bytes); /* stream: 1 or 2 */
    void *arg;
};
/* False: this is no such stream, or `out` said so. */
bool frames_feed(struct frames *f, struct str piece);
/* From the beginning of the same streams again, over another connection. */
void frames_again(struct frames *f);

/* ---- facts.c: what a run is told ---- */
enum { CONTAINER_NAME_MAX = 80 };
struct facts {
    struct arena mem;
    struct json *doc;       /* as it came; the lists and `container` are looked up in it */
    const struct json *own; /* the job's `container`; NULL = none */
    const char *engine;     /* or NULL */
    const char *home;       /* its id */
    const char *image;
    const char *workdir; /* or NULL */
    const char *run_dir;
    const char *endpoint; /* where its library reports, on loopback of the host; or NULL */
    const char *ports_addr;
    struct run_key key;
    /* Bytes, thousandths of a CPU, milliseconds.  mem_bytes or mcpu 0 = no limit. */
    int64_t mem_bytes, mcpu, grace_ms;
    /* The submitter on the host. */
    uint32_t uid, gid;
    /* Name of the container, made from home, job and run, so that a second attempt to create it
     * is recognised as a conflict. */
    char name[CONTAINER_NAME_MAX];
};
/* On failure f is empty.  The texts of f live until facts_done. */
int facts_parse(struct facts *f, struct str json, struct err *e);
void facts_done(struct facts *f);
/* A text of `container`, or NULL; and a flag of it. */
const char *facts_own(struct facts *f, const char *key);
bool facts_flag(const struct facts *f, const char *key, bool otherwise);
/* Names of networks that are no network of their own. */
bool network_is_host(const char *name);

/* ---- volumes.c: with the rights of the job's user ---- */
/* The first `check_mounts` of the mounts are the job's, of a user other than the daemon's: may that
 * user enter them?  Their paths are replaced by ones without links. */
int volumes_check(struct facts *f, struct err *e);

/* ---- create.c: the body of POST /containers/create ---- */
struct create_with {
    const struct json *image; /* what GET /images/X/json said */
    const char *endpoint;     /* stands for facts.endpoint inside; NULL = as it is */
    const char *mark;         /* BERTH_MARK of the run, or NULL */
    bool no_init;             /* the engine has no first process to offer */
    const gid_t *groups;      /* of the submitter */
    size_t n_groups;
};
/* The caller frees it.  Asks nobody: everything comes from the arguments. */
struct json *create_body(struct facts *f, const struct engine *g, const struct create_with *w);
#define LABEL_HOME "berth.home"
#define LABEL_JOB "berth.job"
#define LABEL_RUN "berth.run"
#define LABEL_KEY "berth.key" /* of the run; containers of earlier versions have none */

/* ---- pull.c: fetching an image, with a line now and then about how far it is ---- */
struct pull;
struct pull *pull_new(const char *image, void (*say)(const char *text));
void pull_free(struct pull *p);
/* "/images/create?…" of this image; yours. */
char *pull_path(const char *image);
bool pull_feed(void *pull, struct str piece); /* engine_bytes_fn */
/* Why it did not work, in the engine's words; NULL when it did. */
const char *pull_trouble(struct pull *p);
void pull_end(struct pull *p); /* it is here: says so */

/* ---- gateway.c: from the network of a container to a port of the host's loopback ---- */
/* Listens on `addr`, any port, and carries connections to 127.0.0.1:`to` from a thread of its own,
 * for as long as the process lives.  *out_port tells the port. */
int gateway_open(const char *addr, int to, int *out_port, struct err *e);
/* The host's address in a network, as GET /networks/X describes it; false when it has none. */
bool gateway_address(const struct json *network, char out[64]);
