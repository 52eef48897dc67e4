/* server.c - atlas-server: Berth's daemon on an Atlas home, with the ports of Atlas
 *
 * The server's own home is $FOUNDATIONS_HOME/database, so `berth -H` on it shows the same jobs.
 * Lines are those of the original launcher: time, name, level, message.
 */
#include "dialect/atlas/server.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "dialect/atlas/atlas.h"
#include "dialect/atlas/home.h"
#include "io/loop.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

enum { STOP_WAIT_MS = 20000, STOP_STEP_MS = 50, WORKERS_MAX = 1000, SLOTS = 1024 };

__attribute__((format(printf, 2, 3))) static void server_print(const char *level, const char *fmt,
                                                               ...)
{
    struct timeval tv;
    struct tm tm;
    char stamp[32];
    va_list ap;

    gettimeofday(&tv, NULL);
    localtime_r(&tv.tv_sec, &tm);
    strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &tm);
    printf("%s,%03d - Foundations Atlas Server - %s - ", stamp, (int)(tv.tv_usec / 1000), level);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

static int server_fail(const struct err *e)
{
    server_print("ERROR", "%s", e->text);
    return 1;
}

/* ---- stop ---- */

/* 1 = there was one, and it is gone now; 0 = there was none. */
static int stop_previous(const char *database, struct err *e)
{
    AUTO_FREE char *target = xasprintf("unix:%s/sock", database);
    struct http_response r = {0};
    struct err gone = {0};
    struct http_client *c = http_client_new(target, NULL, NULL);
    int was = http_call(c, "POST", "/v1/shutdown", NULL, STR("{}"), &r, &gone);
    bool refused = was == 0 && r.status >= 400;

    if (refused)
        http_response_err(&r, e);
    http_response_done(&r);
    http_client_free(c);
    if (was < 0 || refused)
        return was < 0 ? 0 : -1;
    for (int ms = 0; ms < STOP_WAIT_MS; ms += STOP_STEP_MS) {
        AUTO_FREE char *lock = path_join(database, "daemon.lock");
        AUTO_FD fd = open(lock, O_RDWR | O_CLOEXEC);
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
        if (fd < 0 || (fcntl(fd, F_GETLK, &l) == 0 && l.l_type == F_UNLCK))
            return 1;
        usleep(STOP_STEP_MS * 1000);
    }
    return err_set(e, ERR_BUSY,
                   "the running server did not stop within 20 s; end it, then start again");
}

/* A server that is not running is no error. */
static int server_stop(const char *database)
{
    struct err e = {0};
    int was = stop_previous(database, &e);

    if (was < 0)
        return server_fail(&e);
    server_print("INFO",
                 was ? "Atlas Server stopped; jobs keep running" : "Atlas Server is not running");
    return 0;
}

/* ---- start ---- */

/* One worker for each GPU, at least one; NUM_WORKERS wins. */
static int workers_of(int gpus, int32_t *out, struct err *e)
{
    const char *set = getenv("NUM_WORKERS");
    int64_t n = MAX(gpus, 1);

    if (set && *set && (!str_to_i64(str_of(set), &n) || n < 1 || n > WORKERS_MAX))
        return err_set(e, ERR_INVALID, "NUM_WORKERS '%.40s' must be a number from 1 to %d", set,
                       WORKERS_MAX);
    *out = (int32_t)n;
    return 0;
}

/* The name is resolved once at the start. */
int atlas_address(const char *what, const char *host, char *out, size_t n, struct err *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET}, *found = NULL;

    /* Of both, the one clients try by habit: localhost is often ::1 first, and nobody is there. */
    if (getaddrinfo(host, NULL, &hints, &found) != 0) {
        hints.ai_family = AF_UNSPEC;
        found = NULL;
    }
    if (!found && (getaddrinfo(host, NULL, &hints, &found) != 0 || !found))
        return err_set(e, ERR_INVALID, "%s '%.60s' is not the address of a machine", what, host);
    int rc =
        getnameinfo(found->ai_addr, found->ai_addrlen, out, (socklen_t)n, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    return rc ? err_set(e, ERR_INVALID, "%s '%.60s' is not an address", what, host) : 0;
}

static void server_on_stop(void *arg)
{
    server_print("INFO", "Stopping; jobs keep running, and the next start finds them again");
    loop_stop(arg);
}

static bool is_loopback(const char *addr)
{
    return !strcmp(addr, "127.0.0.1") || !strcmp(addr, "::1");
}

/* The lines that users and scripts look for after the start. */
static void announce(const struct atlas_opts *o, const char *home, bool board)
{
    const struct atlas_server_conf *c = &o->conf;

    server_print("INFO", "Foundations home is %s", home);
    server_print("INFO", "Scheduler is listening on %s:%d", c->addr, c->scheduler_port);
    server_print("INFO", "Tracker is listening on %s:%d", c->addr, c->tracker_port);
    server_print("INFO", "Archive server is listening on %s:%d", c->addr, c->archive_port);
    server_print("INFO", "REST API is listening on %s:%d", c->addr, c->api_port);
    if (board)
        server_print("INFO", "TensorBoard is listening on %s:%d", c->addr, o->tensorboard_port);
    else if (!o->no_tensorboard)
        server_print("INFO",
                     "TensorBoard is not on PATH; run pip install tensorboard, or start with -t");
    if (!is_loopback(c->addr) && !c->authenticate)
        server_print(
            "WARNING",
            "Every user who can connect to %s can run commands here: use -p, or a firewall",
            c->addr);
    server_print("INFO", "Number of workers: %d", c->workers);
    server_print("INFO", "There is no GUI; `foundations list` shows jobs, parameters and metrics");
}

/* Runs the loop until SIGTERM, SIGINT or SIGHUP; `on_signal` gets the loop and stops it. */
static void server_run_loop(struct loop *loop, loop_fn on_signal)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    struct signal_watch *watches[ARRAY_SIZE(signals)];

    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        watches[i] = signal_watch_new(loop, signals[i], on_signal, loop);
    server_print("INFO", "Atlas Server is ready");
    loop_run(loop);
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        signal_watch_free(watches[i]);
}

/* TensorBoard is started before any thread, because fork copies only one. */
static int server_serve(const struct atlas_opts *o, struct host_conf *conf, const char *home)
{
    pid_t board = atlas_board_start(o, home);
    struct loop *loop = loop_new();
    struct host *host = NULL;
    struct err e = {0};

    if (host_open(&host, conf, loop, &e) < 0) {
        loop_free(loop);
        atlas_board_stop(board);
        return server_fail(&e);
    }
    announce(o, home, board > 0);
    server_run_loop(loop, server_on_stop);
    atlas_board_stop(board); /* its port is free when the home is */
    host_close(host);
    loop_free(loop);
    server_print("INFO", "Atlas Server stopped");
    return 0;
}

static void server_on_leave(void *arg)
{
    loop_stop(arg);
}

/* No queue, no jobs: everything is handed on. */
static int server_serve_joined(const struct atlas_opts *o, const struct atlas_join *j,
                               const char *database)
{
    struct loop *loop = loop_new();
    struct joined *x = NULL;
    struct err e = {0};

    if (atlas_join_open(&x, loop, o, j, database, &e) < 0) {
        loop_free(loop);
        return server_fail(&e);
    }
    server_print(
        "INFO",
        "Joined the Atlas Server at %s: requests to %s:%d, %d, %d and %d go there, and its "
        "workers run the jobs",
        j->name, o->conf.addr, o->conf.scheduler_port, o->conf.dashboard_port, o->conf.tracker_port,
        o->conf.api_port);
    if (!is_loopback(o->conf.addr))
        server_print("WARNING",
                     "Every user who can connect to %s uses the other server as this user",
                     o->conf.addr);
    server_run_loop(loop, server_on_leave);
    atlas_join_close(x);
    loop_free(loop);
    server_print("INFO", "Atlas Server stopped");
    return 0;
}

/* The log of the daemon goes to a file; with -l it goes to the terminal. */
static int log_to(const struct atlas_opts *o, const char *home, struct err *e)
{
    AUTO_FREE char *path = path_join(home, ATLAS_DIR_LOGS "/atlas-server.log");
    int fd = STDERR_FILENO;

    if (!o->logs) {
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (fd < 0)
            return err_sys(e, "cannot write %s", path);
    }
    log_setup(LOG_INFO_, false, fd); /* for the life of the process */
    return 0;
}

/* A server of this home that is running is stopped first. */
static int server_start(struct cli *c, char **argv, const char *home, const char *database)
{
    struct atlas_opts o;
    char python[4096], addr[100];
    AUTO_FREE char *hidden = NULL, *board = NULL;
    struct atlas_gpus gpus = {0};
    struct atlas_join join;
    struct err e = {0};
    bool help;
    int visible = 0;

    if (atlas_args_parse(argv, &o, &help, &e) < 0 || help) {
        if (!help)
            printf("%s\n", e.text);
        fflush(stdout); /* the help is written past stdio */
        atlas_help_print();
        return help ? 0 : 1;
    }
    if (o.gpu && atlas_gpus(&gpus) < 0) {
        err_set(&e, ERR_UNAVAILABLE, "-g needs nvidia-smi, and PATH has none that works");
        return server_fail(&e);
    }
    hidden = atlas_hidden_gpus(&gpus, &visible);
    if (workers_of(visible, &o.conf.workers, &e) < 0 ||
        atlas_address("--scheduler-host", o.conf.addr, addr, sizeof(addr), &e) < 0 ||
        atlas_join_read(&join, &e) < 0 ||
        atlas_home_make(home, o.conf.scheduler_port, NULL, NULL, &e) < 0 ||
        log_to(&o, home, &e) < 0)
        return server_fail(&e);
    int was = stop_previous(database, &e);
    if (was < 0)
        return server_fail(&e);
    if (was)
        server_print("INFO", "A previous Atlas Server was stopped");
    o.conf.home = home;
    o.conf.addr = addr;
    if (join.port)
        return server_serve_joined(&o, &join, database);
    if (getenv("SCHEDULER_HOST_URL"))
        server_print(
            "INFO",
            "SCHEDULER_HOST_URL is not used: without REDIS_HOST the queue is this server's");
    if (!o.conf.python)
        o.conf.python = atlas_find_program("python3", python, sizeof(python)) ||
                                atlas_find_program("python", python, sizeof(python))
                            ? python
                            : "python3";
    board = o.no_tensorboard ? NULL : xasprintf("http://localhost:%d", o.tensorboard_port);
    o.conf.tensorboard_url = board;
    const struct host_setting settings[] = {{ATLAS_DIALECT, &o.conf}, {0}};
    struct host_conf conf = {.home = database,
                             .slots = SLOTS, /* the queue of Atlas has a limit of its own */
                             .gpus = o.gpu ? -1 : 0,
                             .gpus_exclude = hidden,
                             .gpu = {.replan_ms = 100},
                             .parts = c->program->parts,
                             .settings = settings,
                             .version = c->program->version};
    return server_serve(&o, &conf, home);
}

int atlas_server_main(struct cli *c, char **argv)
{
    AUTO_FREE char *home = atlas_home();
    AUTO_FREE char *database = home ? path_join(home, ATLAS_DIR_DATABASE) : NULL;
    const char *word = argv[1];
    struct err e = {0};

    if (word && (!strcmp(word, "-h") || !strcmp(word, "--help") || !strcmp(word, "help"))) {
        atlas_help_print();
        return 0;
    }
    if (word && (!strcmp(word, "version") || !strcmp(word, "--version"))) {
        printf("Foundations Atlas Server version %s\n", c->program->version);
        return 0;
    }
    if (!home) {
        err_set(&e, ERR_INVALID, "neither FOUNDATIONS_HOME nor HOME is set");
        return server_fail(&e);
    }
    if (word && !strcmp(word, "start"))
        return server_start(c, argv + 2, home, database);
    if (word && !strcmp(word, "stop"))
        return server_stop(database);
    if (word)
        printf("Unknown command: %s\n", word);
    fflush(stdout);
    atlas_help_print();
    return 1;
}
