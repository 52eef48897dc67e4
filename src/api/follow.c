/* follow.c - the output of a run as it grows
 *
 * Owns: the followers of log files.
 *
 * A follower reads on worker threads, one piece at a time, and only as fast as its client takes it.
 * It is woken by the file growing (inotify, one descriptor for all), by its client having taken
 * everything, by commits, and for file systems without inotify by a slow tick.  It ends when the
 * run is over and the file was read to its end after that was known: the host reports the end of a
 * run after its last byte.
 *
 * The middle of a log may be cut out while it grows (base/log_mark.h).  A follower counts bytes as
 * they were written, so it goes on where it was; one that was still in the middle sees the notice.
 */
#include "api/follow.h"
#include "api/api_priv.h"
#include "base/log_mark.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/queue.h>
#include <sys/stat.h>

enum {
    PIECE_BYTES = 64 << 10,
    TICK_MS = 1000,
    /* After this many rereads in a row the follower sends what it read: the cut will not be
     * finished. */
    REREADS_MAX = 1000,
};

LIST_HEAD(follow_list, follow);
struct follow {
    LIST_ENTRY(follow) entry;
    struct follows *all;
    struct http_req *req; /* NULL when the client left while a piece was being read */
    struct run_key key;   /* run 0 = the first one has not been placed yet */
    bool err_stream;
    char *path;
    /* The open log and its inotify watch; -1 = none yet. */
    int fd, wd;
    int64_t at;   /* number of the next byte as written; until opened, a place in the file */
    int64_t size; /* of the file when it was last read, and */
    struct log_mark mark; /* what was cut out by then */
    char *piece;
    ssize_t got;
    bool placed; /* `at` is a number */
    int rereads; /* in a row */
    bool reread; /* it was cut while it was read */
    bool once;   /* what there is now, and no more */
    /* reading: a worker thread has the follower.  again: wake it after that.  over: the run had
     * ended before this read began, so an empty read is the end. */
    bool reading, again, over;
};
/* All followers of one api.  inotify_fd is -1 where the kernel gives none; the tick then does the
 * work. */
struct follows {
    struct api *api;
    struct follow_list list;
    struct timer *tick;
    struct watch *watch;
    int inotify_fd;
};

/* ---- life ---- */

/* Removes the inotify watch unless another follower of the same file needs it. */
static void follow_unwatch(struct follow *f)
{
    const struct follow *o;

    if (f->wd < 0)
        return;
    LIST_FOREACH (o, &f->all->list, entry)
        if (o != f && o->wd == f->wd) /* two followers of one file share its watch */
            return;
    inotify_rm_watch(f->all->inotify_fd, f->wd);
}

/* Loop thread, never while a worker thread has the follower. */
static void follow_free(struct follow *f)
{
    struct follows *all = f->all;

    follow_unwatch(f);
    LIST_REMOVE(f, entry);
    if (LIST_EMPTY(&all->list))
        timer_stop(all->tick);
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f->piece);
    free(f);
}

/* The client left.  read_done frees the follower when a worker thread still has it. */
static void on_follow_gone(void *arg, struct http_req *r)
{
    struct follow *f = arg;

    (void)r;
    f->req = NULL;
    if (!f->reading)
        follow_free(f);
}

/* ---- reading ---- */

/* A job may replace its log: O_NOFOLLOW refuses a link to a file that only the daemon may read, and
 * O_NONBLOCK keeps the open of a FIFO from blocking the thread. */
int log_file_open(const char *path)
{
    struct stat st;
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        return -1;
    if (!S_ISREG(st.st_mode)) {
        errno = ENOENT;
        return -1;
    }
    return TAKE_FD(fd);
}

static bool keep_attempt(void *arg, const struct job_view *v)
{
    ((struct run_key *)arg)->run = v->attempt;
    return false;
}

/* Paths are made of the home and the run alone, so any thread may ask for them. */
static void find_path(struct follow *f)
{
    const struct core *core = f->all->api->conf.core;

    f->path = f->err_stream ? core_err_path(core, f->key) : core_log_path(core, f->key);
}

/* The offset that was asked for is one of the file as it is now; one before the end of it counts
 * from there. */
static void follow_place(struct follow *f, struct log_mark mark)
{
    struct stat st;
    int64_t size = fstat(f->fd, &st) == 0 ? st.st_size : 0;

    if (f->at < 0)
        f->at = MAX(size + f->at, 0);
    if (mark.dropped)
        f->at = log_mark_number(mark, MIN(f->at, size));
    f->placed = true;
}

/* Was the file cut while it was read?  Then what was read may be anything.  A cut that was never
 * finished, because the supervisor was killed in the midst of it, ends as it is. */
static bool cut_meanwhile(struct follow *f, struct log_mark before)
{
    struct log_mark now = log_mark_read(f->fd);
    struct stat st;
    bool cut = before.moving || now.moving || now.dropped != before.dropped;

    f->rereads = cut ? f->rereads + 1 : 0;
    f->size = fstat(f->fd, &st) == 0 ? st.st_size : 0;
    f->mark = now;
    return cut && f->rereads < REREADS_MAX;
}

/* A log may have a hole instead of its middle: reads from `*from`, or from behind the hole that is
 * there, up to the next one. */
static ssize_t read_data(struct follow *f, int64_t *from)
{
    ssize_t n = pread(f->fd, f->piece, PIECE_BYTES, *from);

    if (n <= 0 || !memchr(f->piece, 0, (size_t)n))
        return n;
    off_t data = lseek(f->fd, *from, SEEK_DATA);
    if (data > *from) {
        *from = data;
        n = pread(f->fd, f->piece, PIECE_BYTES, data);
    }
    off_t hole = lseek(f->fd, *from, SEEK_HOLE);
    return hole > *from ? MIN(n, hole - *from) : n;
}

/* Worker thread: reads one piece and moves `at` behind it.  A file that was cut meanwhile is read
 * again. */
static void follow_read_piece(struct follow *f)
{
    struct log_mark mark = log_mark_read(f->fd);

    if (!f->placed)
        follow_place(f, mark);
    int64_t from = log_mark_place(mark, f->at);
    f->got = read_data(f, &from);
    f->reread = cut_meanwhile(f, mark);
    if (f->reread)
        f->got = 0;
    else
        f->at = log_mark_number(mark, from + MAX(f->got, 0));
}

/* Worker thread: finds and opens the file when it exists by now, then reads a piece. */
static void read_run(void *arg)
{
    struct follow *f = arg;
    struct err e = {0};

    f->got = 0;
    f->reread = false;
    /* It was waiting when it was asked for, and is over: its only run came and went in between. */
    if (f->over && f->key.run == 0 &&
        store_job(f->all->api->conf.store, f->key.job, keep_attempt, &f->key, &e) == 0 &&
        f->key.run != 0)
        find_path(f);
    if (f->fd < 0 && f->path)
        f->fd = log_file_open(f->path);
    if (f->fd < 0)
        return;
    follow_read_piece(f);
}

static void follow_wake(struct follow *f);

/* Loop thread: sends what was read and decides whether to read again, to wait or to end. */
static void read_done(void *arg)
{
    struct follow *f = arg;
    struct follows *all = f->all;
    bool more = f->got > 0 && log_mark_place(f->mark, f->at) < f->size;
    bool again = f->again || f->reread || more;

    request_server_release(all->api->conf.requests);
    f->reading = f->again = false;
    if (!f->req) {
        follow_free(f);
        return;
    }
    if (f->fd >= 0 && f->wd < 0 && all->inotify_fd >= 0) {
        f->wd = inotify_add_watch(all->inotify_fd, f->path, IN_MODIFY);
        again = again || f->wd >= 0; /* what was written before we watched */
    }
    if (f->got > 0) {
        again = again || f->over;
        if (!http_stream_write(f->req, (struct str){f->piece, (size_t)f->got}))
            return; /* cut off; on_follow_gone follows */
    } else if (f->over && !f->reread) {
        http_stream_end(TAKE(f->req));
        follow_free(f);
        return;
    }
    if (again)
        follow_wake(f);
}

/* Is the followed run still going on?  Learns its number when it gets one.  A run whose end step
 * waits for space says nothing more, and whoever follows it may want to know why it waits. */
static bool run_going(struct follow *f)
{
    struct core *core = f->all->api->conf.core;
    struct run_key now = {0};

    if (!core_job_active(core, f->key.job, &now))
        return false;
    if (f->key.run == 0 && now.run != 0) {
        f->key.run = now.run;
        find_path(f);
    }
    return f->key.run == now.run && !core_job_end_waits(core, f->key.job);
}

/* Reads again unless a read is under way or the client has not taken the last piece yet. */
static void follow_wake(struct follow *f)
{
    if (f->reading) {
        f->again = true;
        return;
    }
    if (!f->req || http_stream_backlog(f->req) > 0)
        return; /* on_follow_drain wakes us */
    f->over = f->once || !run_going(f);
    f->reading = true;
    request_server_hold(f->all->api->conf.requests);
    work_submit(f->all->api->conf.loop, read_run, read_done, f);
}

static void on_follow_drain(void *arg, struct http_req *r)
{
    (void)r;
    follow_wake(arg);
}

void follow_open(struct follows *all, struct http_req *r, struct run_key key, bool err_stream,
                 int64_t at, bool once)
{
    struct follow *f = xcalloc(1, sizeof(*f));

    *f = (struct follow){
        .all = all, .req = r, .key = key, .err_stream = err_stream, .at = at, .once = once};
    f->fd = f->wd = -1;
    f->piece = xmalloc(PIECE_BYTES);
    if (key.run)
        find_path(f);
    if (LIST_EMPTY(&all->list))
        timer_start(all->tick, TICK_MS, TICK_MS);
    LIST_INSERT_HEAD(&all->list, f, entry);
    http_on_gone(r, on_follow_gone, f);
    http_on_drain(r, on_follow_drain, f);
    http_stream_begin(r, 200, "text/plain; charset=utf-8");
    follow_wake(f);
}

/* ---- waking ---- */

/* A file grew: wakes its followers.  After an overflow of the queue all of them are woken. */
static void follows_on_inotify(void *arg, int events, int error)
{
    struct follows *all = arg;
    char text[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n;

    (void)events;
    (void)error;
    while ((n = read(all->inotify_fd, text, sizeof(text))) > 0) {
        for (char *p = text; p < text + n;) {
            const struct inotify_event *ev = (const struct inotify_event *)(void *)p;

            struct follow *f;
            LIST_FOREACH (f, &all->list, entry)
                if (f->wd == ev->wd || (ev->mask & IN_Q_OVERFLOW))
                    follow_wake(f);
            p += sizeof(*ev) + ev->len;
        }
    }
}

/* For file systems where inotify does not report changes, such as network file systems. */
static void on_tick(void *arg)
{
    struct follows *all = arg;
    struct follow *f;

    LIST_FOREACH (f, &all->list, entry)
        follow_wake(f);
}

/* A commit concerns only followers that wait for a file and those whose run has just ended. */
void follows_committed(struct follows *all)
{
    struct follow *f;

    LIST_FOREACH (f, &all->list, entry)
        if (f->fd < 0 || !run_going(f))
            follow_wake(f);
}

struct follows *follows_new(struct api *a)
{
    struct follows *all = xcalloc(1, sizeof(*all));

    all->api = a;
    all->tick = timer_new(a->conf.loop, on_tick, all);
    all->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (all->inotify_fd >= 0) {
        all->watch = watch_new(a->conf.loop, all->inotify_fd, follows_on_inotify, all);
        watch_start(all->watch, WATCH_READ);
    }
    return all;
}

void follows_free(struct follows *all)
{
    if (!all)
        return;
    while (!LIST_EMPTY(&all->list))
        follow_free(LIST_FIRST(&all->list));
    timer_free(all->tick);
    watch_free(all->watch);
    if (all->inotify_fd >= 0)
        close(all->inotify_fd);
    free(all);
}

void api_follow(struct api *a, struct http_req *r, struct run_key key, int64_t at, bool once)
{
    follow_open(a->follows, r, key, false, at, once);
}
