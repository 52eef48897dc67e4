/* main.c - berth-shepherd HOME [IDLE_MS]: one per home, outlives the daemon
 *
 * Started by the daemon, detaches itself, and then only ever: takes orders on shepherd/sock, forks
 * supervisors, reaps them, and clears up after those that were killed.  It keeps little memory,
 * because every fork copies its page tables.  It leaves by itself when no daemon has been connected
 * and no run has been alive for a while.  Killing it harms nothing: the next one finds supervisors
 * by their locks and outcomes in the journal.
 */
#include "base/log.h"
#include "base/str.h"
#include "shepherd/run_lock.h"
#include "shepherd/shepherd_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

enum {
    /* Soon, because the working directory keeps a file system busy; not at once, because of
     * commands that follow each other and each bring a daemon of their own (berth run). */
    IDLE_EXIT_MS = 2000,
    /* Runs that need the ticker are looked at immediately, then at intervals that double from 10
     * ms. */
    TICK_MIN_MS = 5,
    TICK_MAX_MS = 500,
    EVENTS_MAX = 64,
    LOG_MAX_BYTES = 1 << 20,
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "berth-shepherd: %s: %s\n", what, strerror(errno));
    _exit(1);
}

/* Opens a file so that it ends up at a fixed descriptor. */
static void open_at(int want, int dir, const char *name, int flags, mode_t mode)
{
    int fd = openat(dir, name, flags | O_CLOEXEC, mode);

    if (fd < 0)
        die(name);
    if (fd != want) {
        if (dup3(fd, want, O_CLOEXEC) < 0)
            die(name);
        close(fd);
    }
}

/* Nothing of the daemon stays: descriptors, directory, terminal, signal settings, environment. */
static void shed(const char *home)
{
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &dfl, NULL);
    umask(022);
    if (chdir(home) < 0)
        die(home);
    if ((mkdir("shepherd", 0700) < 0 && errno != EEXIST) || chdir("shepherd") < 0)
        die("shepherd");
    syscall(SYS_close_range, 3, ~0u, 0);
    open_at(FD_NULL, AT_FDCWD, "/dev/null", O_RDWR, 0);
    fcntl(FD_NULL, F_SETFD, 0); /* commands read from it */
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            dup2(FD_NULL, fd);
}

/* Detaches.  Returns, in the new process, the descriptor whose closing tells the starter that the
 * socket is ready; the starter waits for that and exits. */
static int detach(void)
{
    int ready[2];
    char byte;

    if (pipe2(ready, O_CLOEXEC) < 0)
        die("pipe");
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid > 0) {
        close(ready[1]);
        while (read(ready[0], &byte, 1) < 0 && errno == EINTR)
            ;
        _exit(0);
    }
    setsid();
    int high = fcntl(ready[1], F_DUPFD_CLOEXEC, 16); /* out of the way of the fixed ones */
    close(ready[0]);
    close(ready[1]);
    return high;
}

static void open_files(void)
{
    struct stat st;

    open_at(STDERR_FILENO, AT_FDCWD, "log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fstat(STDERR_FILENO, &st) == 0 && st.st_size > LOG_MAX_BYTES && ftruncate(STDERR_FILENO, 0))
        die("log");
    dup2(STDERR_FILENO, STDOUT_FILENO);
    open_at(FD_RUNS, AT_FDCWD, "runs.lock", O_RDWR | O_CREAT, 0600);
    open_at(FD_DAEMON, AT_FDCWD, "../daemon.lock", O_RDWR | O_CREAT, 0600);
    open_at(FD_JOURNAL, AT_FDCWD, "/dev/null", O_RDONLY, 0); /* the place is taken */
}

/* One shepherd per home.  A classic lock: supervisors do not inherit it. */
static bool lock_home(void)
{
    int fd = open("lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        die("lock");
    return run_lock_take(fd, 0) == 0;
}

static void add_source(struct shepherd *s, int fd, const enum source *what)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = (void *)(uintptr_t)what};

    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
        die("epoll");
}

static void open_sources(struct shepherd *s)
{
    static const enum source listen_source = SOURCE_LISTEN, signal_source = SOURCE_SIGNAL;
    struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "sock"};
    sigset_t set;

    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink("sock");
    umask(077);
    if (s->listen_fd < 0 || bind(s->listen_fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        listen(s->listen_fd, 16) < 0)
        die("sock");
    umask(022);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->epoll_fd < 0 || s->signal_fd < 0)
        die("signalfd");
    add_source(s, s->listen_fd, &listen_source);
    add_source(s, s->signal_fd, &signal_source);
}

static void shepherd_on_signals(struct shepherd *s)
{
    struct signalfd_siginfo info[8];
    bool child = false;
    ssize_t n = read(s->signal_fd, info, sizeof(info));

    for (ssize_t i = 0; i < n / (ssize_t)sizeof(info[0]); i++) {
        if (info[i].ssi_signo == SIGCHLD)
            child = true;
        else
            s->leave = true;
    }
    if (child)
        runs_reap(s);
}

static void shepherd_on_event(struct shepherd *s, const struct epoll_event *ev)
{
    switch (*(const enum source *)ev->data.ptr) {
    case SOURCE_LISTEN:
        conn_accept(s);
        break;
    case SOURCE_SIGNAL:
        shepherd_on_signals(s);
        break;
    case SOURCE_CONN:
        conn_event(s, ev->data.ptr, ev->events);
        break;
    case SOURCE_RUN:
        runs_pidfd_ready(s, ev->data.ptr);
        break;
    }
}

/* How long we may sleep; also decides whether it is time to go. */
static int patience(struct shepherd *s, int *tick_ms)
{
    if (s->n_todo > 0) {
        *tick_ms = MIN(*tick_ms * 2, TICK_MAX_MS);
        return *tick_ms;
    }
    *tick_ms = TICK_MIN_MS;
    if (s->conns.n > 0 || s->runs.n > 0) {
        s->idle_since_ms = -1;
        return -1;
    }
    if (s->idle_since_ms < 0)
        s->idle_since_ms = mono_ms();
    int64_t left = s->idle_since_ms + s->idle_exit_ms - mono_ms();
    if (left <= 0)
        s->leave = true;
    return (int)MAX(left, 0);
}

static void shepherd_serve(struct shepherd *s)
{
    struct epoll_event ev[EVENTS_MAX];
    int tick_ms = TICK_MIN_MS;

    while (!s->leave) {
        int n = epoll_wait(s->epoll_fd, ev, EVENTS_MAX, patience(s, &tick_ms));
        size_t todo = s->n_todo;
        for (int i = 0; i < n; i++)
            shepherd_on_event(s, &ev[i]);
        conn_sweep(s);
        if (s->n_todo > todo)
            tick_ms = TICK_MIN_MS;
        if (s->n_todo > todo || (n <= 0 && todo > 0))
            runs_tick(s);
    }
}

int main(int argc, char **argv)
{
    static struct shepherd s = {.idle_since_ms = -1, .idle_exit_ms = IDLE_EXIT_MS};

    if (argc < 2 || argc > 3 || (argc == 3 && !str_to_i64(str_of(argv[2]), &s.idle_exit_ms))) {
        fprintf(stderr, "usage: berth-shepherd HOME [IDLE_MS]\n"
                        "Supervises the runs of one home directory; berth starts it.\n");
        return 2;
    }
    shed(argv[1]);
    int ready = detach();
    open_files();
    log_setup(LOG_INFO_, false, STDERR_FILENO);
    if (!lock_home())
        return 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    s.dir_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    run_home_init(&s.home, s.dir_fd);
    run_home_sweep(&s.home);
    open_sources(&s);
    log_info("shepherd", "supervising %s as process %d", argv[1], (int)getpid());
    close(ready);
    shepherd_serve(&s);
    unlink("sock");
    conn_done(&s);
    runs_done(&s);
    return 0;
}
