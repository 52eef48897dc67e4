/* link.c - the connection to the shepherd, and starting one
 *
 * Down → (nobody answers: start a shepherd, wait until it has opened its socket) → greeting → up.
 * Whenever the connection ends, this begins anew at once; only repeated failures are spaced out.
 * The program that is started detaches itself and exits when its socket is ready, so what we wait
 * for is our own short-lived child.
 */
#include "backend/local/local_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

enum {
    READ_BYTES = 4096,
    SEND_BYTES = 1 << 20,  /* of the socket: a few hundred starts */
    STEADY_MS = 1000,      /* a connection that lasted so long was a good one */
    BACKOFF_MIN_MS = 20,   /* after the first failure */
    BACKOFF_MAX_MS = 1000, /* a killed supervisor must be noticed within two seconds */
    BACKOFF_UP_MS = 100,   /* at most, when the last one did answer */
};

static void link_try(void *arg);

/* ---- where the program is ---- */

static char *path_beside(const char *exe, const char *rel)
{
    AUTO_FREE char *copy = xstrdup(exe);
    char *path = xasprintf("%s/%s", dirname(copy), rel);

    if (access(path, X_OK) == 0)
        return path;
    free(path);
    return NULL;
}

static int find_program(struct backend *b, struct err *e)
{
    static const char *const places[] = {
        "berth-shepherd", "../libexec/berth/berth-shepherd",
        "../shepherd/berth-shepherd", /* in the build directory */
    };
    const char *said = getenv("BERTH_SHEPHERD");
    char exe[4096];

    if (said && said[0]) {
        if (access(said, X_OK) < 0)
            return err_sys(e, "BERTH_SHEPHERD names %s, which cannot be executed", said);
        b->program = xstrdup(said);
        return 0;
    }
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    exe[MAX(n, 0)] = 0;
    for (size_t i = 0; n > 0 && i < ARRAY_SIZE(places) && !b->program; i++)
        b->program = path_beside(exe, places[i]);
    if (b->program)
        return 0;
    return err_set(
        e, ERR_UNAVAILABLE,
        "berth-shepherd was not found beside %s nor in ../libexec/berth; install it there "
        "or name it in BERTH_SHEPHERD",
        exe);
}

/* ---- down ---- */

/* The first retry after a good connection is immediate; further ones double up to
 * BACKOFF_MAX_MS. */
static void retry_later(struct backend *b)
{
    b->link.state = LINK_DOWN;
    timer_start(b->link.timer, b->link.backoff_ms, 0);
    b->link.backoff_ms = MIN(MAX(b->link.backoff_ms * 2, BACKOFF_MIN_MS), BACKOFF_MAX_MS);
}

static void link_drop(struct backend *b)
{
    watch_free(TAKE(b->link.sock_watch));
    if (b->link.sock >= 0)
        close(TAKE_FD(b->link.sock));
    buf_reset(&b->link.in);
    buf_reset(&b->link.out); /* what was not sent is sent anew to whoever comes next */
    b->link.out_sent = 0;
    if (loop_mono_ms(b->loop) - b->link.since_ms > STEADY_MS)
        b->link.backoff_ms = 0;
    else if (b->link.state == LINK_UP)
        b->link.backoff_ms = MIN(b->link.backoff_ms, BACKOFF_UP_MS);
    retry_later(b);
}

/* ---- starting one ---- */

/* Status 0: the shepherd has opened its socket, or ended after it detached; link_try finds out
 * which.  Another status: it failed before that. */
static void starter_done(struct backend *b, int status)
{
    watch_free(TAKE(b->link.starter_watch));
    if (b->link.starter_fd >= 0)
        close(TAKE_FD(b->link.starter_fd));
    b->link.starter_pid = 0;
    if (status == 0) {
        b->link.state = LINK_DOWN;
        link_try(b);
        return;
    }
    if (b->link.noted_failures++ == 0)
        local_notice(b, "%s did not start (wait status %#x); see %s/shepherd/log", b->program,
                     (unsigned)status, b->home);
    retry_later(b);
}

static void on_starter(void *arg, int events UNUSED, int error UNUSED)
{
    struct backend *b = arg;
    int status = 0;

    if (waitpid(b->link.starter_pid, &status, WNOHANG) != 0)
        starter_done(b, status);
}

/* With an empty environment, so that nothing of the daemon's environment reaches supervisors. */
static int spawn_program(struct backend *b)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    char *argv[] = {(char *)(uintptr_t) "berth-shepherd", b->home, NULL}, *envp[] = {NULL};
    pid_t pid = -1;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&files, 0, 1);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    int rc = posix_spawn(&pid, b->program, &files, &attr, argv, envp);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    errno = rc;
    return rc ? -1 : pid;
}

static void start_program(struct backend *b)
{
    int pid = spawn_program(b);

    if (pid < 0) {
        if (b->link.noted_failures++ == 0)
            local_notice(b, "cannot start %s: %s", b->program, strerrordesc_np(errno));
        retry_later(b);
        return;
    }
    b->link.state = LINK_STARTING;
    b->link.starter_pid = pid;
    b->link.starter_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    b->link.starter_watch =
        b->link.starter_fd < 0 ? NULL : watch_new(b->loop, b->link.starter_fd, on_starter, b);
    if (b->link.starter_watch) {
        watch_start(b->link.starter_watch, WATCH_READ);
        return;
    }
    int status = 0;
    waitpid(pid, &status, 0); /* no pidfd to be had: wait the few milliseconds */
    starter_done(b, status);
}

/* ---- up ---- */

void link_send(struct backend *b)
{
    while (b->link.sock >= 0 && b->link.out_sent < b->link.out.n) {
        ssize_t n = send(b->link.sock, b->link.out.p + b->link.out_sent,
                         b->link.out.n - b->link.out_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            watch_start(b->link.sock_watch, WATCH_READ | WATCH_WRITE);
        if (n < 0)
            return; /* when it is broken, the reading side will see that */
        b->link.out_sent += (size_t)n;
    }
    buf_reset(&b->link.out);
    b->link.out_sent = 0;
}

/* A shepherd of another version is told to exit; the next attempt then starts ours. */
static bool link_on_frame(struct backend *b, const struct frame_head *h, struct str body)
{
    struct proto_op op = {0};

    switch ((enum proto_type)h->type) {
    case PROTO_WELCOME:
        if (h->version != PROTO_VERSION) {
            proto_put_op(&b->link.out, PROTO_RETIRE, &op);
            link_send(b);
            return false;
        }
        b->link.state = LINK_UP;
        b->link.noted_failures = 0;
        b->link.since_ms = loop_mono_ms(b->loop);
        local_ask_all(b);
        return true;
    case PROTO_NOTICE:
        local_notice(b, STR_FMT, STR_ARG(body));
        return true;
    default:
        return false;
    }
}

/* False when the connection has ended or makes no sense; the caller drops it. */
static bool link_read_frames(struct backend *b)
{
    struct frame_head head;
    struct str body;

    for (;;) {
        char *to = buf_reserve(&b->link.in, READ_BYTES);
        ssize_t n = to ? read(b->link.sock, to, READ_BYTES) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        b->link.in.n += (size_t)n;
        b->link.in.p[b->link.in.n] = 0;
        int got;
        while ((got = proto_next(buf_str(&b->link.in), &head, &body)) == 1) {
            if (!link_on_frame(b, &head, body))
                return false;
            buf_consume(&b->link.in, head.n);
        }
        if (got < 0)
            return false;
    }
}

static void on_socket(void *arg, int events, int error)
{
    struct backend *b = arg;

    if (error || ((events & WATCH_READ) && !link_read_frames(b))) {
        link_drop(b);
        return;
    }
    if (events & WATCH_WRITE) {
        watch_start(b->link.sock_watch, WATCH_READ);
        link_send(b);
    }
}

static int link_dial(struct backend *b)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int size = SEND_BYTES;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    /* By way of the directory's descriptor: a home may have a longer path than a socket may. */
    snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/sock", b->dir_fd);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        int sys = errno;
        close(fd);
        errno = sys;
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    return fd;
}

static void link_try(void *arg)
{
    struct backend *b = arg;
    struct proto_op op = {0};

    if (b->link.state != LINK_DOWN)
        return;
    b->link.sock = link_dial(b);
    if (b->link.sock < 0) {
        if (errno == ENOENT || errno == ECONNREFUSED)
            start_program(b);
        else
            retry_later(b);
        return;
    }
    b->link.state = LINK_GREETING;
    b->link.since_ms = loop_mono_ms(b->loop);
    b->link.sock_watch = watch_new(b->loop, b->link.sock, on_socket, b);
    watch_start(b->link.sock_watch, WATCH_READ);
    proto_put_op(&b->link.out, PROTO_HELLO, &op);
    link_send(b);
}

int link_open(struct backend *b, struct err *e)
{
    if (find_program(b, e) < 0)
        return -1;
    b->link.timer = timer_new(b->loop, link_try, b);
    timer_start(b->link.timer, 0, 0);
    return 0;
}

/* The shepherd stays unless the home is transient.  Runs continue in either case: each has a
 * supervisor of its own. */
void link_close(struct backend *b)
{
    struct proto_op op = {0};

    if (b->transient && b->link.state == LINK_UP && proto_put_op(&b->link.out, PROTO_RETIRE, &op))
        link_send(b);
    watch_free(b->link.sock_watch);
    watch_free(b->link.starter_watch);
    timer_free(b->link.timer);
    if (b->link.sock >= 0)
        close(b->link.sock);
    if (b->link.starter_fd >= 0)
        close(b->link.starter_fd);
    buf_done(&b->link.in);
    buf_done(&b->link.out);
}
