/* signal_file.c - scheduler.signal_file: no job starts while the file exists */
#include "base/util.h"
#include "dialect/hyperctl/run.h"
#include <sys/inotify.h>

enum { SIGNAL_LOOK_MS = 1000 };

bool hyper_signal_there(const struct hyper_run *r)
{
    return r->b->signal_file && access(r->b->signal_file, F_OK) == 0;
}

static void signal_on_set(void *arg, const struct err *e, uint64_t number)
{
    struct hyper_run *r = arg;

    (void)number;
    if (e && !r->sched.closing)
        hyper_log(r->h, HYPER_WARN, "scheduler", "the queue of the batch: %s", e->text);
}

/* Compares the file with what the scheduler was told last. */
static void signal_look(void *arg)
{
    struct hyper_run *r = arg;
    bool there = hyper_signal_there(r);

    if (there == r->signal.suspended || !r->sched.active || !r->sched.link)
        return;
    r->signal.suspended = there;
    if (there)
        hyper_log(r->h, HYPER_INFO, "scheduler", "suspend scheduling: %s", r->b->signal_file);
    else
        hyper_log(r->h, HYPER_INFO, "scheduler", "resume scheduling: %s is gone",
                  r->b->signal_file);
    r->sched.link->ops->pause(r->sched.link, there, signal_on_set, r);
}

/* The events themselves do not matter: the file is looked for again. */
static void signal_on_dir(void *arg, int events, int error)
{
    struct hyper_run *r = arg;
    char junk[4096];

    (void)events;
    (void)error;
    while (read(r->signal.dir_fd, junk, sizeof(junk)) > 0)
        ;
    signal_look(r);
}

/* The timer alone would do; inotify makes the answer prompt where it works. */
void hyper_signal_watch(struct hyper_run *r)
{
    AUTO_FREE char *dir = r->b->signal_file ? xstrdup(r->b->signal_file) : NULL;
    int64_t every = (int64_t)MAX(1.0, MIN(r->b->interval_ms, SIGNAL_LOOK_MS));

    if (!dir)
        return;
    char *slash = strrchr(dir, '/');
    /* For a file in the root directory the slash itself stays. */
    slash[slash == dir] = 0;
    r->signal.timer = timer_new(r->loop, signal_look, r);
    timer_start(r->signal.timer, every, every);
    r->signal.dir_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (r->signal.dir_fd >= 0 &&
        inotify_add_watch(r->signal.dir_fd, dir,
                          IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO) >= 0 &&
        (r->signal.watch = watch_new(r->loop, r->signal.dir_fd, signal_on_dir, r)))
        watch_start(r->signal.watch, WATCH_READ);
}

void hyper_signal_close(struct hyper_run *r)
{
    timer_free(r->signal.timer);
    watch_free(r->signal.watch);
    if (r->signal.dir_fd >= 0)
        close(r->signal.dir_fd);
}
