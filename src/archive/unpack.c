/* unpack.c - the stream: bytes are pushed in here, a thread of its own reads the tar
 *
 * libarchive pulls its input, our caller pushes; so the tar is read on a thread, and a few chunks
 * between the two make the faster one wait.  Only full ones change hands, however small the pieces
 * are that come in: each hand-over wakes a thread.  The caller's thread inflates and counts: what
 * comes out of a byte is limited there, before anything is written.
 */
#include "archive/gzip_priv.h"
#include "archive/unpack_priv.h"
#include "base/units.h"
#include <pthread.h>
#include <signal.h>

enum {
    CHUNKS = 4,
    CHUNK = 128 << 10,
    RATIO_FROM = 64 << 20,         /* small things may compress as they like */
    SLICE = 1 << 30,               /* zlib counts in 32 bits */
    TAR_OVERHEAD_PER_MEMBER = 8192 /* headers, long names, padding */
};

struct unpack {
    struct unpack_target *target;
    struct members members;
    struct gunzip *gunzip;
    int64_t packed, plain;
    struct err failed; /* code 0 = not yet */
    bool finished;

    pthread_t thread;
    bool started, joined;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        size_t n;
        char p[CHUNK];
    } chunks[CHUNKS];
    unsigned put, got; /* chunks handed over, and given back by the reader */
    size_t have;       /* bytes in chunk `put`, which is ours while it is being filled */
    bool taken;        /* the reader has chunk `got` */
    bool ended, stop;  /* no more will come; give up */
    bool reader_done;
    int reader_rc;
    struct err reader_err;
};

/* ---- the reader's side ---- */

/* A tar_read_fn.  The chunk that was given out last returns to the caller's side with the next
 * call: libarchive may read it until then. */
static ssize_t next_chunk(void *ctx, const void **out)
{
    struct unpack *u = ctx;
    ssize_t n = -1;

    pthread_mutex_lock(&u->lock);
    if (u->taken) {
        u->got++;
        u->taken = false;
        pthread_cond_broadcast(&u->changed);
    }
    while (u->put == u->got && !u->ended && !u->stop)
        pthread_cond_wait(&u->changed, &u->lock);
    if (u->put != u->got && !u->stop) {
        u->taken = true;
        *out = u->chunks[u->got % CHUNKS].p;
        n = (ssize_t)u->chunks[u->got % CHUNKS].n;
    } else if (u->ended && !u->stop) {
        n = 0;
    }
    pthread_mutex_unlock(&u->lock);
    return n;
}

/* The reader's thread: everything that touches libarchive and the target happens here. */
static void *reader_main(void *arg)
{
    struct unpack *u = arg;
    struct err e = {0};
    int rc = unpack_tar(next_chunk, u, &u->members, u->target, &e);

    pthread_mutex_lock(&u->lock);
    u->reader_rc = rc;
    u->reader_err = e;
    u->reader_done = true;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

/* ---- the caller's side ---- */

/* Waits until there is a chunk to fill.  Once the tar has ended, what follows (padding) is dropped;
 * once it failed, that is the error.  1 = there is one, 0 = drop it, -1. */
static int wait_for_room(struct unpack *u, struct err *e)
{
    int rc = 1;

    pthread_mutex_lock(&u->lock);
    while (u->put - u->got == CHUNKS && !u->reader_done)
        pthread_cond_wait(&u->changed, &u->lock);
    if (u->reader_done) {
        rc = u->reader_rc;
        *e = rc < 0 ? u->reader_err : *e;
    }
    pthread_mutex_unlock(&u->lock);
    return rc;
}

/* Chunk `put` is the reader's from here on. */
static void unpack_hand_over(struct unpack *u)
{
    pthread_mutex_lock(&u->lock);
    u->chunks[u->put % CHUNKS].n = u->have;
    u->put++;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    u->have = 0;
}

/* Stops archives that expand without end before their bytes reach the disk. */
static int check_amount(struct unpack *u, struct err *e)
{
    const struct unpack_limits *l = &u->members.limits;
    char size[UNIT_TEXT_MAX];

    if (u->plain > RATIO_FROM && u->plain / l->ratio > u->packed)
        return err_set(
            e, ERR_LIMIT,
            "the archive unpacks to more than %u times its size; pack large empty files as "
            "sparse ones, or leave them out",
            l->ratio);
    if (u->plain / TAR_OVERHEAD_PER_MEMBER >
        l->members + l->total_bytes / TAR_OVERHEAD_PER_MEMBER) {
        size_format(l->total_bytes, size);
        return err_set(e, ERR_LIMIT, "the unpacked archive is larger than the limit of %s", size);
    }
    return 0;
}

static int on_plain(void *ctx, const void *p, size_t n, struct err *e)
{
    struct unpack *u = ctx;

    u->plain += (int64_t)n;
    if (check_amount(u, e) < 0)
        return -1;
    for (const char *at = p; n > 0;) {
        size_t take = MIN(n, CHUNK - u->have);
        int rc = u->have ? 1 : wait_for_room(u, e);
        if (rc <= 0)
            return rc;
        memcpy(u->chunks[u->put % CHUNKS].p + u->have, at, take);
        u->have += take;
        if (u->have == CHUNK)
            unpack_hand_over(u);
        at += take;
        n -= take;
    }
    return 0;
}

/* Waits for the reader; `stop` makes it give up at its next read. */
static void join_reader(struct unpack *u, bool stop)
{
    if (!u->started || u->joined)
        return;
    if (u->have)
        unpack_hand_over(u);
    pthread_mutex_lock(&u->lock);
    u->ended = true;
    u->stop |= stop;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    pthread_join(u->thread, NULL);
    u->joined = true;
}

/* The first error stays the error of every later call; the half-made tree is removed now. */
static int unpack_fail(struct unpack *u, struct err *e)
{
    join_reader(u, true);
    if (u->target)
        u->target->free(TAKE(u->target));
    if (e)
        *e = u->failed;
    return -1;
}

int unpack_feed(struct unpack *u, const void *p, size_t n, struct err *e)
{
    if (u->failed.code)
        return unpack_fail(u, e);
    for (const char *at = p; n > 0;) {
        size_t take = MIN(n, (size_t)SLICE);
        u->packed += (int64_t)take;
        if (gunzip_add(u->gunzip, at, take, &u->failed) < 0)
            return unpack_fail(u, e);
        at += take;
        n -= take;
    }
    return 0;
}

int unpack_finish(struct unpack *u, struct err *e)
{
    ASSERT(!u->finished);
    if (u->failed.code || gunzip_end(u->gunzip, &u->failed) < 0)
        return unpack_fail(u, e);
    join_reader(u, false);
    if (u->reader_rc < 0) {
        u->failed = u->reader_err;
        return unpack_fail(u, e);
    }
    if (u->target->commit(u->target, &u->failed) < 0)
        return unpack_fail(u, e);
    u->finished = true;
    return 0;
}

void unpack_free(struct unpack *u)
{
    if (!u)
        return;
    join_reader(u, true);
    if (u->target)
        u->target->free(u->target);
    members_done(&u->members);
    gunzip_free(u->gunzip);
    pthread_cond_destroy(&u->changed);
    pthread_mutex_destroy(&u->lock);
    free(u);
}

/* Signals belong to the threads that expect them. */
static int start_reader(struct unpack *u)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&u->thread, NULL, reader_main, u);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    u->started = rc == 0;
    return rc;
}

int unpack_start(struct unpack_target *target_take, const struct unpack_conf *conf,
                 struct unpack **out, struct err *e)
{
    struct unpack *u = xcalloc(1, sizeof(*u));

    u->target = target_take;
    members_init(&u->members, conf);
    u->gunzip = gunzip_new(on_plain, u);
    pthread_mutex_init(&u->lock, NULL);
    pthread_cond_init(&u->changed, NULL);
    int rc = start_reader(u);
    if (rc != 0) {
        unpack_free(u);
        return err_set(e, ERR_UNAVAILABLE, "cannot start a thread: %s", strerror(rc));
    }
    *out = u;
    return 0;
}

int unpack_open_dir(const char *dest, const struct unpack_conf *conf, struct unpack **out,
                    struct err *e)
{
    struct unpack_target *t = unpack_dir_new(dest, e);

    return t ? unpack_start(t, conf, out, e) : -1;
}

int unpack_open_store(struct cas *c, const char *name, const struct unpack_conf *conf,
                      struct unpack **out, struct err *e)
{
    struct unpack_target *t = unpack_store_new(c, name, e);

    return t ? unpack_start(t, conf, out, e) : -1;
}
