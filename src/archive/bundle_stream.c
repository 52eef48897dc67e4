/* bundle_stream.c - a bundle that is packed while somebody reads it
 *
 * A thread of its own packs into a pipe: no temporary file, and no more memory for a large
 * directory than for a small one.
 */
#include "archive/bundle.h"
#include "base/file.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

enum { PIPE_BYTES = 1 << 20 };

struct bundle_stream {
    const struct bundle *bundle;
    const struct archive_watch *watch;
    int read_fd, write_fd;
    pthread_t thread;
    bool joined;
    int rc;
    struct err e;
};

static int into_pipe(void *ctx, const void *p, size_t n, struct err *e)
{
    struct bundle_stream *s = ctx;

    return fd_write_all(s->write_fd, p, n, e);
}

static void *pack_thread(void *arg)
{
    struct bundle_stream *s = arg;

    s->rc = bundle_write(s->bundle, into_pipe, s, s->watch, &s->e);
    close(TAKE_FD(s->write_fd));
    return NULL;
}

/* The thread blocks all signals, so that Ctrl-C reaches the main thread. */
int bundle_stream_open(const struct bundle *b, const struct archive_watch *w,
                       struct bundle_stream **out, struct err *e)
{
    struct bundle_stream *s = xcalloc(1, sizeof(*s));
    sigset_t all, before;
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0) {
        free(s);
        return err_sys(e, "cannot make a pipe");
    }
    fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES); /* a wish */
    *s = (struct bundle_stream){.bundle = b, .watch = w, .read_fd = fds[0], .write_fd = fds[1]};
    sigfillset(&all); /* also SIGPIPE: a reader that leaves is an error of write there */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&s->thread, NULL, pack_thread, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        close(fds[0]);
        close(fds[1]);
        free(s);
        errno = rc;
        return err_sys(e, "cannot start a thread");
    }
    *out = s;
    return 0;
}

ssize_t bundle_stream_read(struct bundle_stream *s, char *p, size_t n)
{
    ssize_t got;

    do
        got = read(s->read_fd, p, n);
    while (got < 0 && errno == EINTR && !(s->watch && s->watch->cancel && *s->watch->cancel));
    if (got != 0)
        return got;
    if (!s->joined)
        pthread_join(s->thread, NULL);
    s->joined = true;
    return s->rc < 0 ? -1 : 0; /* never a bundle that looks whole and is not */
}

int bundle_stream_close(struct bundle_stream *s, struct err *e)
{
    close(s->read_fd); /* a thread that still packs notices this */
    bool whole = s->joined;
    if (!s->joined)
        pthread_join(s->thread, NULL);
    int rc = whole ? s->rc : 0;
    if (rc < 0)
        *e = s->e;
    free(s);
    return rc;
}
