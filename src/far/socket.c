/* socket.c - the daemon's socket, as jobs on this host see it
 *
 * Who connects talks to the daemon through the frames (backend/ssh/calls.h); the daemon believes
 * only the token of a job.  The name stays the same from connection to connection, since runs
 * outlive them, and is short: a socket's path has no more than 107 bytes.
 */
#include "base/file.h"
#include "base/hash.h"
#include "base/util.h"
#include "far/far_priv.h"
#include "io/unix_addr.h"
#include <sys/stat.h>

enum { BACKLOG = 64 };

/* One connection per call; the watch is level-triggered and calls again for further ones. */
static void on_sock(void *arg, int events UNUSED, int error UNUSED)
{
    struct far *f = arg;
    int fd = accept4(f->sock_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0)
        calls_make_take(&f->calls, fd);
}

static void socket_send_calls(void *arg)
{
    far_send(arg);
}

static int listen_at(const char *path)
{
    struct sockaddr_un addr;
    socklen_t n;
    AUTO_FD dir = -1;
    AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    /* The home is locked by us: whoever made this one is gone. */
    unlink(path);
    if (fd < 0 || unix_addr_make(path, &addr, &n, &dir, NULL) < 0 || fchmod(fd, 0600) < 0 ||
        bind(fd, (struct sockaddr *)&addr, n) < 0 || listen(fd, BACKLOG) < 0)
        return -1;
    return TAKE_FD(fd);
}

/* The path contains a hash of the home, because several hosts may share ~/.cache over a network
 * and each needs a socket of its own. */
void socket_open(struct far *f, const char *controller)
{
    static const uint8_t key[16] = "berth far socket";
    AUTO_FREE char *dir = path_join(f->login, ".cache/berth");
    uint64_t sum = siphash24(key, f->home, strlen(f->home));
    char *path = xasprintf("%s/%.8s%08x.sock", dir, controller, (uint32_t)sum);

    calls_init(&f->calls, f->loop, &f->out, socket_send_calls, f);
    if (dir_make_all(dir, 0700, NULL) == 0)
        f->sock_fd = listen_at(path);
    if (f->sock_fd < 0) {
        free(path); /* reports still arrive through the spool */
        return;
    }
    f->sock = path;
    f->sock_watch = watch_new(f->loop, f->sock_fd, on_sock, f);
    watch_start(f->sock_watch, WATCH_READ);
}

void socket_close(struct far *f)
{
    calls_done(&f->calls);
    watch_free(f->sock_watch);
    if (f->sock_fd >= 0)
        close(f->sock_fd);
    free(f->sock);
}
