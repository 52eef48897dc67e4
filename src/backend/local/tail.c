/* tail.c - the journal generations, from the reading side
 *
 * Owns: which generations exist, which one new runs report to, their space on disk, their end.
 *
 * inotify says that a file grew; what it says is read from where we stood.  A slow timer reads too,
 * in case a notification is lost, and a fast one stands in where inotify is not to be had.
 *
 * A generation is full at JOURNAL_ROTATE_BYTES: new runs report to the next one.  It is deleted
 * when it is not the newest and no run that reports to it is unsettled, but not before we were told
 * which runs there are.  Space is allocated ahead of the end, so that outcomes can be written when
 * the disk is full.
 */
#include "backend/local/local_priv.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

/* POLL_SLOW_MS backs inotify up, POLL_FAST_MS replaces it.  GATHER_MS is the pause between two
 * reads under load. */
enum { POLL_SLOW_MS = 1000, POLL_FAST_MS = 20, GATHER_MS = 4 };

/* ---- generations ---- */

struct generation *tail_find(struct backend *b, uint32_t number)
{
    for (size_t i = 0; i < b->tail.generations.n; i++)
        if (b->tail.generations.p[i]->number == number)
            return b->tail.generations.p[i];
    return NULL;
}

/* The file stays on disk unless tail_collect has removed it. */
static void generation_free(struct backend *b, struct generation *g)
{
    if (g->wd >= 0)
        inotify_rm_watch(b->tail.inotify_fd, g->wd);
    journal_reader_done(&g->reader);
    close(g->fd);
    free(g);
}

/* Keeps space allocated beyond the end, so that outcomes can be recorded on a full disk. */
static void tail_reserve_fd(struct generation *g)
{
    uint64_t want = g->reader.offset + JOURNAL_RESERVE_BYTES;

    if (want <= g->reserved)
        return;
    want += JOURNAL_RESERVE_BYTES; /* ahead, so that this is seldom done */
    if (journal_reserve(g->fd, want) == 0)
        g->reserved = want;
    else if (errno == EOPNOTSUPP)
        g->reserved = UINT64_MAX; /* not here; otherwise it is tried again at the next record */
}

struct generation *tail_generation(struct backend *b, uint32_t number, struct err *e)
{
    struct generation *g = tail_find(b, number);
    char name[JOURNAL_FILE_MAX], path[64];

    if (g)
        return g;
    journal_file_name(number, name);
    int fd = openat(b->dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        err_sys(e, "cannot open %s/shepherd/%s", b->home, name);
        return NULL;
    }
    g = xcalloc(1, sizeof(*g));
    g->number = number;
    g->fd = fd;
    g->wd = -1;
    journal_reader_init(&g->reader, fd, 0);
    if (b->tail.inotify_fd >= 0) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        g->wd = inotify_add_watch(b->tail.inotify_fd, path, IN_MODIFY);
    }
    tail_reserve_fd(g);
    vec_push(&b->tail.generations, g);
    return g;
}

/* The old generation stays open until its last run is settled. */
static void rotate(struct backend *b)
{
    struct err e = {0};

    if (tail_generation(b, b->tail.current + 1, &e))
        b->tail.current++;
    else
        local_notice(b, "%s; Berth keeps writing to the full journal", e.text);
}

void tail_collect(struct backend *b)
{
    char name[JOURNAL_FILE_MAX];

    if (b->tail.pumping || !b->recalled)
        return; /* done at its end, or when we have been told */
    for (size_t i = b->tail.generations.n; i-- > 0;) {
        struct generation *g = b->tail.generations.p[i];
        if (g->number >= b->tail.current || g->unsettled > 0 || !g->checked)
            continue;
        journal_file_name(g->number, name);
        unlinkat(b->dir_fd, name, 0);
        struct proto_op op = {.journal = g->number};
        if (b->link.state == LINK_UP) {
            proto_put_op(&b->link.out, PROTO_FORGET, &op);
            link_send(b);
        }
        vec_remove(&b->tail.generations, i);
        generation_free(b, g);
    }
}

/* ---- reading ---- */

/* A journal that ends in garbage is cut at the last whole record, unless a run may be about to
 * append to it: then it is left as it is, readers skip the damage, and new runs report elsewhere.
 */
static void check_tail(struct backend *b, struct generation *g)
{
    struct journal_reader *r = &g->reader;
    char name[JOURNAL_FILE_MAX];

    g->checked = true;
    journal_file_name(g->number, name);
    uint64_t tail = g->old_size - MIN(g->old_size, r->good_end);
    if (r->skipped > tail)
        local_notice(b,
                     "%s/shepherd/%s is damaged: %llu bytes in it are no record and were skipped",
                     b->home, name, (unsigned long long)(r->skipped - tail));
    if (tail == 0)
        return;
    if (g->live > 0) {
        local_notice(b,
                     "%s/shepherd/%s ended in %llu bytes that are no record; they are skipped, "
                     "since runs still report to it",
                     b->home, name, (unsigned long long)tail);
        if (g->number == b->tail.current)
            rotate(b);
    } else if (ftruncate(g->fd, (off_t)r->good_end) == 0) {
        local_notice(b,
                     "%s/shepherd/%s ended in %llu bytes that are no record and was cut at the "
                     "last whole one",
                     b->home, name, (unsigned long long)tail);
        uint64_t end = r->good_end;
        journal_reader_done(r);
        journal_reader_init(r, g->fd, end);
        g->reserved = 0;
        tail_reserve_fd(g);
    }
}

/* Delivers all records that are complete.  A record that is half written is read later. */
static void pump_one(struct backend *b, struct generation *g)
{
    struct journal_record rec;
    struct err e = {0};
    int got;

    while ((got = journal_read(&g->reader, &rec, &e)) == 1)
        local_on_record(b, g, &rec, g->reader.offset - JOURNAL_RECORD_BYTES);
    if (got < 0)
        local_notice(b, "%s", e.text);
    tail_reserve_fd(g);
}

/* wd -1 = all generations, otherwise the one that inotify named. */
static void pump(struct backend *b, int wd)
{
    if (b->tail.pumping)
        return;
    b->tail.pumping = true;
    for (size_t i = 0; i < b->tail.generations.n; i++)
        if (wd < 0 || b->tail.generations.p[i]->wd == wd)
            pump_one(b, b->tail.generations.p[i]);
    if (tail_find(b, b->tail.current)->reader.offset >= JOURNAL_ROTATE_BYTES)
        rotate(b);
    b->tail.pumping = false;
}

static uint64_t size_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Everything, and what is only done when nothing is in a hurry. */
static void pump_all(void *arg)
{
    struct backend *b = arg;

    for (size_t i = 0; i < b->tail.generations.n; i++)
        if (!b->tail.generations.p[i]->checked)
            b->tail.generations.p[i]->old_size = size_of(b->tail.generations.p[i]->fd);
    pump(b, -1);
    local_ask_new(b);
    for (size_t i = 0; b->recalled && i < b->tail.generations.n; i++)
        if (!b->tail.generations.p[i]->checked)
            check_tail(b, b->tail.generations.p[i]);
    tail_collect(b);
}

/* A queue that overflowed has lost events, so everything is read at the next turn. */
static void read_inotify(struct backend *b)
{
    char text[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(b->tail.inotify_fd, text, sizeof(text));
    int last = -1;

    for (ssize_t at = 0; at < n;) {
        struct inotify_event ev;
        memcpy(&ev, text + at, sizeof(ev));
        at += (ssize_t)(sizeof(ev) + ev.len);
        if (ev.mask & IN_Q_OVERFLOW)
            tail_soon(b);
        else if (ev.wd != last)
            pump(b, ev.wd);
        last = ev.wd;
    }
    b->tail.pumped_ms = loop_mono_ms(b->loop);
    tail_collect(b);
}

/* Records that come one upon the other are read together: each turn of the loop ends in a commit,
 * and at a thousand runs a second those would cost more than the runs. */
static void tail_on_inotify(void *arg, int events UNUSED, int error UNUSED)
{
    struct backend *b = arg;

    bool busy = loop_mono_ms(b->loop) - b->tail.pumped_ms < GATHER_MS;
    if (!busy ||
        !b->tail.was_busy) { /* start and end of a single short job are both read at once */
        b->tail.was_busy = busy;
        read_inotify(b);
        return;
    }
    watch_stop(b->tail.inotify_watch);
    timer_start(b->tail.gather_timer, GATHER_MS, 0);
}

static void on_gathered(void *arg)
{
    struct backend *b = arg;

    watch_start(b->tail.inotify_watch, WATCH_READ);
    read_inotify(b);
}

void tail_soon(struct backend *b)
{
    timer_start(b->tail.pump_timer, 0, 0);
}

void tail_rewind(struct backend *b)
{
    for (size_t i = 0; i < b->tail.generations.n; i++) {
        struct generation *g = b->tail.generations.p[i];
        journal_reader_done(&g->reader);
        journal_reader_init(&g->reader, g->fd, 0);
        g->checked = false;
    }
}

/* ---- opening ---- */

/* Opens all generations that earlier daemons left; the newest one becomes the current one. */
static int find_files(struct backend *b, struct err *e)
{
    int fd = openat(b->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *ent;
    uint32_t number;
    int rc = 0;

    if (!d)
        return err_sys(e, "cannot list %s/shepherd", b->home);
    while (rc == 0 && (ent = readdir(d))) {
        if (!journal_file_parse(ent->d_name, &number))
            continue;
        if (!tail_generation(b, number, e))
            rc = -1;
        b->tail.current = MAX(b->tail.current, number);
    }
    closedir(d);
    return rc;
}

int tail_open(struct backend *b, struct err *e)
{
    b->tail.pump_timer = timer_new(b->loop, pump_all, b);
    b->tail.poll_timer = timer_new(b->loop, pump_all, b);
    b->tail.gather_timer = timer_new(b->loop, on_gathered, b);
    b->tail.inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (b->tail.inotify_fd >= 0) {
        b->tail.inotify_watch = watch_new(b->loop, b->tail.inotify_fd, tail_on_inotify, b);
        watch_start(b->tail.inotify_watch, WATCH_READ);
    }
    if (find_files(b, e) < 0)
        return -1;
    b->tail.current = MAX(b->tail.current, 1u);
    if (!tail_generation(b, b->tail.current, e))
        return -1;
    int64_t every = b->tail.inotify_fd < 0 ? POLL_FAST_MS : POLL_SLOW_MS;
    timer_start(b->tail.poll_timer, every, every);
    tail_soon(b);
    return 0;
}

void tail_close(struct backend *b)
{
    watch_free(b->tail.inotify_watch);
    timer_free(b->tail.pump_timer);
    timer_free(b->tail.poll_timer);
    timer_free(b->tail.gather_timer);
    for (size_t i = 0; i < b->tail.generations.n; i++)
        generation_free(b, b->tail.generations.p[i]);
    vec_done(&b->tail.generations);
    if (b->tail.inotify_fd >= 0)
        close(b->tail.inotify_fd);
}
