/* health.c - the database is checked in the background, and troubles of the machine are probed for
 *
 * A check begins after a start that had no time for everything, and when the last complete check is
 * a week old.
 */
#include "base/file.h"
#include "base/log.h"
#include "host/host_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { HOUR_MS = 3600000, FIRST_LOOK_MS = 2000, PROBE_MS = 200, SPARE_INODES = 64 };
#define WEEK_MS (INT64_C(7) * 24 * HOUR_MS)

static void health_look(void *arg)
{
    struct host *h = arg;
    struct store_health s = store_health(h->store);
    int64_t age = clock_wall(&clock_system) - s.checked_ms;

    if (s.damaged || s.running)
        return;
    if ((s.start_partly && !s.passes) || age > WEEK_MS || age < -WEEK_MS)
        store_check_begin(h->store);
}

/* ---- troubles of the machine ---- */

/* Can a file be made and written in the home?  The errno value, 0 = it can. */
static int probe_file(const struct host *h)
{
    AUTO_FREE char *path = path_join(h->paths.home, "runs/.probe");
    static const char block[4096];
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int sys = 0;

    if (fd < 0)
        return errno;
    if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
        sys = errno ? errno : ENOSPC;
    unlink(path);
    return sys;
}

/* An accept that fails for lack of descriptors is not reported to anybody: so one is opened. */
static bool descriptors_left(void)
{
    AUTO_FD fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    return fd >= 0 || (errno != EMFILE && errno != ENFILE);
}

bool host_trouble(void *arg, enum trouble_kind k)
{
    struct host *h = arg;
    struct statvfs fs;
    int sys;

    switch (k) {
    case TROUBLE_NO_DESCRIPTORS:
        return !descriptors_left();
    case TROUBLE_DISK_FULL:
        if (!store_has_room(h->store))
            return true;
        /* fall through */
    case TROUBLE_NO_INODES:
        /* It is over when a few runs have what they need, not with the next file that goes. */
        if (core_trouble(h->core, TROUBLE_NO_INODES)->on && k == TROUBLE_NO_INODES &&
            statvfs(h->paths.home, &fs) == 0 &&
            fs.f_favail < MIN(fs.f_files / 16, (fsfilcnt_t)SPARE_INODES))
            return true;
        /* fall through */
    case TROUBLE_IO_ERROR:
        sys = probe_file(h);
        if (trouble_of_errno(sys) == TROUBLE_DISK_FULL && statvfs(h->paths.home, &fs) == 0 &&
            fs.f_files && !fs.f_favail && fs.f_bavail)
            return k == TROUBLE_NO_INODES;
        return trouble_of_errno(sys) == k;
    default:
        return false;
    }
}

void health_turn(struct host *h)
{
    int64_t now = loop_mono_ms(h->loop);

    if (now < h->health.probe_ms)
        return;
    h->health.probe_ms = now + PROBE_MS;
    if (!core_trouble(h->core, TROUBLE_NO_DESCRIPTORS)->on && !descriptors_left())
        core_trouble_hit(h->core, TROUBLE_NO_DESCRIPTORS, "");
}

void health_start(struct host *h)
{
    if (h->conf.transient)
        return;
    h->health.timer = timer_new(h->loop, health_look, h);
    timer_start(h->health.timer, FIRST_LOOK_MS, HOUR_MS);
}

void health_stop(struct host *h)
{
    timer_free(h->health.timer);
}

void health_committed(struct host *h)
{
    struct store_health s;

    if (h->health.said)
        return;
    s = store_health(h->store);
    if (!s.damaged)
        return;
    h->health.said = true;
    log_error("host",
              "berth.db is damaged (%s): stop the daemon, keep a copy of the file, then `berth "
              "restore DIR` or `sqlite3 berth.db .recover`; running jobs continue",
              s.finding);
}
