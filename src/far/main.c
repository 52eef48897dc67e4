/* main.c - berth-far: runs of a daemon on another host
 *
 *   berth-far CONTROLLER     frames on stdin and stdout until stdin ends
 *   berth-far --check        says that it can be executed here
 *
 * Started by the daemon through ssh (backend/ssh).  What it opens is the local backend in a home of
 * that controller on this host; so supervisors, locks and journal are those of any run, and runs do
 * not notice when the connection and this program go.  Whoever comes later for the same home sends
 * the earlier one away first: a half-dead connection must not keep the daemon out, and nothing the
 * old one still holds in its pipe may be carried out afterwards.
 *
 * With BERTH_ASKPASS it is the program that ssh asks for a password, on the daemon's side.
 */
#include "base/file.h"
#include "base/util.h"
#include "far/askpass.h"
#include "far/far_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

enum {
    READ_BYTES = 64 << 10,
    OUT_MAX_BYTES = 64 << 20,
    TAKEOVER_MS = 10000, /* for an earlier one to leave */
    TAKEOVER_STEP_MS = 20,
    TAKEOVER_KILL_MS = 1000,
};

static int far_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static int far_fail(const char *fmt, ...)
{
    va_list ap;

    fputs("berth-far: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return 1;
}

/* ---- the home ---- */

static char *login_home(void)
{
    const char *said = getenv("HOME");
    const struct passwd *pw;

    if (said && said[0] == '/')
        return xstrdup(said);
    pw = getpwuid(getuid());
    return xstrdup(pw && pw->pw_dir ? pw->pw_dir : "/");
}

/* The host's name is part of it: many hosts may share one home directory over a network. */
static char *far_home(const char *login, const char *controller)
{
    char host[256] = "";

    if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
        snprintf(host, sizeof(host), "localhost");
    return xasprintf("%s/.local/share/berth/far/%s@%s", login, controller, host);
}

/* Tries to take the lock.  On failure *holder is the pid that has it, or 0 when the pid is not
 * known. */
static bool lock_taken(int fd, pid_t *holder)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

    *holder = 0;
    if (fcntl(fd, F_SETLK, &l) == 0)
        return true;
    l = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    if (fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK)
        *holder = l.l_pid;
    return false;
}

/* The lock also tells supervisors that a daemon is there (shepherd).  It belongs to the process, so
 * that its holder can be named; the descriptor is never closed. */
static int home_take_over(const char *home)
{
    AUTO_FREE char *path = path_join(home, "daemon.lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    pid_t holder = 0;

    if (fd < 0)
        return far_fail("cannot open %s: %s", path, strerror(errno));
    for (int waited = 0; waited < TAKEOVER_MS; waited += TAKEOVER_STEP_MS) {
        if (lock_taken(fd, &holder))
            return 0;
        if (holder > 1)
            kill(holder, waited < TAKEOVER_KILL_MS ? SIGTERM : SIGKILL);
        usleep(TAKEOVER_STEP_MS * 1000);
    }
    return far_fail("%s is in use by process %d, which does not exit", home, (int)holder);
}

/* ---- speaking ---- */

void far_send(struct far *f)
{
    while (f->out_sent < f->out.n) {
        ssize_t n = write(STDOUT_FILENO, f->out.p + f->out_sent, f->out.n - f->out_sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno == EAGAIN)
                watch_start(f->out_watch, WATCH_WRITE);
            return; /* broken: the reading side will see its end */
        }
        f->out_sent += (size_t)n;
    }
    buf_reset(&f->out);
    f->out_sent = 0;
    if (f->ready) /* output that waited for room has it now */
        watch_start(f->out_watch, WATCH_WRITE);
    else
        watch_stop(f->out_watch);
}

void far_refuse(struct far *f, const struct far_run *r)
{
    struct wire_op op = {.key = r->key, .value = r->trouble_sys};

    wire_put_op_text(&f->out, WIRE_REFUSED, &op, str_of(r->trouble));
    far_send(f);
}

static void on_stdout(void *arg, int events UNUSED, int error)
{
    struct far *f = arg;

    if (error) {
        loop_stop(f->loop);
        return;
    }
    far_send(f);
    feed_pump(f);
}

/* False ends the connection: end of stdin, a read error, or a frame that cannot be understood. */
static bool far_read_frames(struct far *f)
{
    struct frame_head head;
    struct str body;

    char *to = buf_reserve(&f->in, READ_BYTES);
    ssize_t n = to ? read(STDIN_FILENO, to, READ_BYTES) : 0;
    if (n <= 0)
        return n < 0 && (errno == EINTR || errno == EAGAIN);
    f->in.n += (size_t)n;
    f->in.p[f->in.n] = 0;
    struct str rest = buf_str(&f->in);
    int got;
    while ((got = wire_next(rest, &head, &body)) == 1) {
        if (!orders_take(f, &head, body))
            return false;
        rest.p += head.n;
        rest.n -= head.n;
    }
    buf_consume(&f->in, f->in.n - rest.n);
    return got == 0;
}

static void on_stdin(void *arg, int events UNUSED, int error)
{
    struct far *f = arg;

    if (error || !far_read_frames(f))
        loop_stop(f->loop);
}

/* ---- life ---- */

static int far_serve(struct far *f, const char *controller)
{
    buf_init(&f->in, WIRE_FRAME_MAX + READ_BYTES + 1);
    buf_init(&f->out, OUT_MAX_BYTES);
    f->loop = loop_new();
    f->in_watch = watch_new(f->loop, STDIN_FILENO, on_stdin, f);
    f->out_watch = watch_new(f->loop, STDOUT_FILENO, on_stdout, f);
    int rc = 0;
    if (!f->in_watch || !f->out_watch)
        rc =
            far_fail("stdin and stdout must be pipes or sockets; this program is started by berth");
    else if (feed_open(f) < 0)
        rc = far_fail("cannot watch files: %s", strerror(errno));
    if (rc == 0) {
        socket_open(f, controller);
        watch_start(f->in_watch, WATCH_READ);
        loop_run(f->loop);
    }
    /* The backend goes first: nothing reports to the runs while they are freed. */
    backend_local.close(f->b);
    runs_done(f);
    socket_close(f);
    feed_close(f);
    watch_free(f->in_watch);
    watch_free(f->out_watch);
    loop_free(f->loop);
    buf_done(&f->in);
    buf_done(&f->out);
    return rc;
}

int main(int argc, char **argv)
{
    struct far f = {.inotify_fd = -1, .sock_fd = -1};
    struct err e = {0};

    if (getenv(WIRE_ASKPASS))
        return askpass_main(argc, argv);
    if (argc == 2 && !strcmp(argv[1], "--check"))
        return puts("BERTH-FAR RUNS") < 0;
    if (argc != 2 || !wire_name_ok(str_of(argv[1])) || strchr(argv[1], '/'))
        return far_fail("usage: berth-far CONTROLLER; it is started by berth over ssh");
    umask(077);
    AUTO_FREE char *login = login_home(), *home = far_home(login, argv[1]);
    if (dir_make_all(home, 0700, &e) < 0)
        return far_fail("%s", e.text);
    if (home_take_over(home))
        return 1;
    AUTO_FREE char *library = library_open();
    f.home = home;
    f.login = login;
    f.library = library;
    int rc = far_serve(&f, argv[1]);
    free(f.python_path);
    if (f.transient && !runs_left(home))
        dir_remove_tree(home, NULL);
    return rc;
}
