/* feed.c - output of runs, from their files to the daemon
 *
 * Owns: the queue of streams that may have something to send, and what wakes them: inotify for
 * logs, a slow timer for everything, the daemon's acknowledgements.
 *
 * Streams take turns, a piece each, while little waits in the pipe: an order or a fact never stands
 * behind more than OUT_LOW bytes of output.  A stream whose window is full waits for the daemon.
 *
 * A log with a limit may be shortened in its middle while it is written (shepherd/log_cut.c).  It
 * is then followed no further; at the end the daemon gets the file as it is, in place of what it
 * has.
 */
#include "base/file.h"
#include "base/log_mark.h"
#include "base/util.h"
#include "far/far_priv.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

/* OUT_LOW and COPY_BYTES are bytes.  POLL_MS bounds the delay of spool lines, which have no
 * inotify watch, and of logs on file systems where inotify does not report changes. */
enum { OUT_LOW = 256 << 10, POLL_MS = 250, COPY_BYTES = 64 << 10 };

/* ---- the queue ---- */

void feed_ready(struct far *f, struct far_stream *s)
{
    if (s->queued || !s->path)
        return;
    s->queued = true;
    s->next = NULL;
    *f->ready_end = s;
    f->ready_end = &s->next;
}

static struct far_stream *next_ready(struct far *f)
{
    struct far_stream *s = f->ready;

    if (!s)
        return NULL;
    f->ready = s->next;
    if (!f->ready)
        f->ready_end = &f->ready;
    s->queued = false;
    return s;
}

/* For a stream that is about to be freed; does nothing when the stream is not queued. */
static void unqueue(struct far *f, struct far_stream *s)
{
    for (struct far_stream **at = &f->ready; *at; at = &(*at)->next) {
        if (*at != s)
            continue;
        *at = s->next;
        if (!*at)
            f->ready_end = at;
        s->queued = false;
        return;
    }
}

/* ---- files ---- */

/* False when the file does not exist yet; the timer tries again.  O_NOFOLLOW and O_NONBLOCK,
 * because the user may have put a link or a FIFO at that path. */
static bool open_stream(struct far_stream *s)
{
    if (s->fd < 0 && s->path)
        s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return s->fd >= 0;
}

static void watch_stream(struct far *f, struct far_stream *s)
{
    if (s->wd >= 0 || f->inotify_fd < 0 || !s->path || s->which == WIRE_SPOOL)
        return;
    s->wd = inotify_add_watch(f->inotify_fd, s->path, IN_MODIFY);
    if (s->wd >= 0)
        map_u64_put(&f->watched, (uint64_t)s->wd, s);
}

void feed_watch(struct far *f, struct far_run *r)
{
    for (size_t i = 0; i < WIRE_STREAMS; i++) {
        watch_stream(f, &r->streams[i]);
        feed_ready(f, &r->streams[i]);
    }
}

static void unwatch(struct far *f, struct far_stream *s)
{
    if (s->wd < 0)
        return;
    /* Two runs may write one file of the user's; it has one watch. */
    if (map_u64_get(&f->watched, (uint64_t)s->wd) == s) {
        map_u64_del(&f->watched, (uint64_t)s->wd);
        inotify_rm_watch(f->inotify_fd, s->wd);
    }
    s->wd = -1;
}

void feed_forget(struct far *f, struct far_stream *s)
{
    unqueue(f, s);
    unwatch(f, s);
    if (s->fd >= 0)
        close(TAKE_FD(s->fd));
}

/* ---- shortened logs ---- */

static bool was_cut(const struct far_stream *s)
{
    if (s->run->log_limit_bytes <= 0 || s->which == WIRE_SPOOL)
        return false;
    struct log_mark m = log_mark_read(s->fd);
    return m.dropped > 0 || m.moving;
}

/* Without the hole that stands for what was taken out, where the file system could not close it. */
static int copy_data(int from, int to)
{
    AUTO_FREE char *piece = xmalloc(COPY_BYTES);
    off_t at = 0, hole, end = lseek(from, 0, SEEK_END);

    while (at < end && (at = lseek(from, at, SEEK_DATA)) >= 0) {
        hole = lseek(from, at, SEEK_HOLE);
        hole = hole < 0 ? end : hole;
        while (at < hole) {
            ssize_t n = pread(from, piece, (size_t)MIN((off_t)COPY_BYTES, hole - at), at);
            if (n <= 0 || fd_write_all(to, piece, (size_t)n, NULL) < 0)
                return -1;
            at += n;
        }
    }
    return 0;
}

/* Makes s->fd a copy of the shortened log and has it sent from the beginning.  The copy has no
 * name: it vanishes when s->fd is closed. */
static void take_whole(struct far_stream *s)
{
    AUTO_FREE char *path = xasprintf("%s.whole", s->path);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    unlink(path);
    if (fd >= 0 && copy_data(s->fd, fd) == 0) {
        close(s->fd);
        s->fd = fd;
    } else if (fd >= 0) {
        close(fd); /* no space for it: sent with zeros in the hole */
    }
    s->sent = s->acked = 0;
    s->anew = true;
}

/* Fixes the size of every stream.  Processes that escaped the run may still write afterwards;
 * their output is not sent, because the end of the run carries these sizes. */
void feed_end(struct far *f, struct far_run *r)
{
    struct stat st;

    for (size_t i = 0; i < WIRE_STREAMS; i++) {
        struct far_stream *s = &r->streams[i];
        unwatch(f, s);
        s->final = true;
        if (!open_stream(s)) {
            s->size = s->sent = 0;
            continue;
        }
        if (was_cut(s))
            take_whole(s);
        s->size = fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
        if (s->sent > s->size) { /* not what we sent from: the daemon gets this one instead */
            s->sent = s->acked = 0;
            s->anew = true;
        }
        feed_ready(f, s);
    }
    keep_list(r);
    if (r->kept.n)
        feed_ready(f, &r->streams[WIRE_SPOOL]); /* has its turns */
    runs_finish(f, r);                          /* when there is nothing to send */
}

/* ---- sending ---- */

/* True when there may be more. */
static bool send_piece(struct far *f, struct far_stream *s)
{
    struct wire_log l = {
        .key = s->run->key, .stream = (uint16_t)s->which, .anew = s->anew, .offset = s->sent};
    static char piece[WIRE_PIECE];

    if (s->sent - MIN(s->acked, s->sent) >= WIRE_WINDOW || !open_stream(s))
        return false;
    if (!s->final && was_cut(s))
        return false;
    size_t want = s->final ? (size_t)MIN(s->size - MIN(s->sent, s->size), WIRE_PIECE) : WIRE_PIECE;
    ssize_t n = want ? pread(s->fd, piece, want, (off_t)s->sent) : 0;
    if (n <= 0 && s->final && s->sent < s->size)
        s->size = s->sent; /* somebody shortened it: what is left is all there is */
    if (n <= 0 && !(s->anew && s->final))
        return false;
    if (!wire_put_log(&f->out, &l, (struct str){piece, (size_t)MAX(n, 0)}))
        return false;
    s->anew = false;
    s->sent += (uint64_t)MAX(n, 0);
    return n == (ssize_t)want;
}

/* The generation changes without an event when the local backend rotates its journal, so every
 * pump compares. */
static void tell_journal(struct far *f)
{
    struct wire_op op = {.journal = backend_local.journal(f->b)};

    if (op.journal != f->journal && wire_put_op(&f->out, WIRE_JOURNAL, &op))
        f->journal = op.journal;
}

void feed_pump(struct far *f)
{
    struct far_stream *s;

    while (f->out.n - f->out_sent < OUT_LOW && (s = next_ready(f))) {
        bool more = send_piece(f, s);
        if (!more && s->final && s->which == WIRE_SPOOL)
            more = keep_send(f, s->run);
        if (more)
            feed_ready(f, s);
        if (s->final)
            runs_finish(f, s->run);
    }
    if (f->b)
        tell_journal(f);
    far_send(f);
}

/* ---- what wakes us ---- */

static void feed_on_inotify(void *arg, int events UNUSED, int error UNUSED)
{
    struct far *f = arg;
    char text[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(f->inotify_fd, text, sizeof(text));

    for (ssize_t at = 0; at < n;) {
        struct inotify_event ev;
        memcpy(&ev, text + at, sizeof(ev));
        at += (ssize_t)(sizeof(ev) + ev.len);
        struct far_stream *s = ev.wd < 0 ? NULL : map_u64_get(&f->watched, (uint64_t)ev.wd);
        if (s)
            feed_ready(f, s);
    }
    feed_pump(f);
}

/* Also retries inotify for files that did not exist when the run started. */
static void feed_on_poll(void *arg)
{
    struct far *f = arg;
    struct far_run *r;

    for (size_t it = 0; (r = map_u64_each(&f->runs, &it));) {
        if (r->handed && !r->told)
            feed_watch(f, r);
    }
    feed_pump(f);
}

int feed_open(struct far *f)
{
    f->ready_end = &f->ready;
    f->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (f->inotify_fd >= 0) {
        f->inotify_watch = watch_new(f->loop, f->inotify_fd, feed_on_inotify, f);
        watch_start(f->inotify_watch, WATCH_READ);
    }
    f->poll_timer = timer_new(f->loop, feed_on_poll, f);
    timer_start(f->poll_timer, POLL_MS, POLL_MS);
    return 0;
}

void feed_close(struct far *f)
{
    watch_free(f->inotify_watch);
    timer_free(f->poll_timer);
    map_u64_done(&f->watched);
    if (f->inotify_fd >= 0)
        close(f->inotify_fd);
}
