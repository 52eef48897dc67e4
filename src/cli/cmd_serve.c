/* cmd_serve.c - berth serve: the controller as a daemon
 *
 * Owns: the options of the daemon, its signals (TERM and INT end it gracefully, HUP is ignored:
 * there is nothing to reopen), the word to systemd, and the leaving of a background daemon that
 * has had nothing to do for a while.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "core/schedule.h"
#include "core/study.h"
#include "host/host.h"
#include "host/part.h"
#include "io/address.h"
#include "io/loop.h"
#include "model/spec.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

/* With --auto: the default of --idle, and the longest time between two looks. */
enum { AUTO_IDLE_MS = 10 * 60 * 1000, AUTO_LOOK_MS = 5000 };

/* How the planner gives GPUs to jobs. */
struct serve_gpu_opts {
    struct opt_num share, restart, replan, age, reserve, scale;
    const char *objective, *master_ports, *exclude;
};
struct serve_opts {
    struct opt_num slots, cpus, mem, gpus, user_limit, retain, idle;
    const char *ports, *engine, *engine_gpus;
    const char *listen, *public_names, *secret_names, *tls_cert, *tls_key, *log_level;
    bool whole_machine, multi_user, log_json, background, new_database;
    struct serve_gpu_opts gpu;
};
#define SERVE(member) offsetof(struct serve_opts, member)
static const struct opt own_opts[] = {
    {"slots", 'j', OPT_INT, "N", SERVE(slots),
     "largest number of running jobs (default: the number of CPUs)"},
    {"cpus", 0, OPT_CPUS, "N", SERVE(cpus), "CPUs that jobs may use (default: all)"},
    {"mem", 0, OPT_SIZE, "SIZE", SERVE(mem), "memory that jobs may use (default: all)"},
    {"gpus", 0, OPT_INT, "N", SERVE(gpus), "GPUs that jobs may use (default: all)"},
    {"user-limit", 0, OPT_INT, "N", SERVE(user_limit),
     "largest number of running jobs per user (default: no limit)"},
    {"listen", 'l', OPT_TEXT, "ADDR:PORT", SERVE(listen),
     "also listen on TCP for clients with the token; :PORT means loopback"},
    {"ports-address", 0, OPT_TEXT, "ADDR", SERVE(ports),
     "address on which ports of jobs are opened (default 0.0.0.0: every address)"},
    {"engine", 0, OPT_TEXT, "SOCKET", SERVE(engine),
     "container engine for jobs with an image, such as unix:///run/docker.sock (default: "
     "$DOCKER_HOST, else Docker's or Podman's usual socket)"},
    {"engine-gpus", 0, OPT_CHOICE, "HOW", SERVE(engine_gpus),
     "device: request the GPUs of a job from the engine (default); env: only set variables, for "
     "engines whose default runtime reads them",
     COMPLETE_CHOICES, "device|env"},
    {"secret-names", 0, OPT_TEXT, "PATTERN,…", SERVE(secret_names),
     "variables of jobs that are secrets, besides *TOKEN*, *_KEY and the like; !PATTERN: are not"},
    {"public-name", 0, OPT_TEXT, "NAME[,NAME]", SERVE(public_names),
     "host names under which this server is reached, beside those of the machine and of loopback"},
    {"tls-cert", 0, OPT_TEXT, "FILE", SERVE(tls_cert), "certificate for --listen (PEM)",
     COMPLETE_FILE},
    {"tls-key", 0, OPT_TEXT, "FILE", SERVE(tls_key), "key of the certificate (PEM)", COMPLETE_FILE},
    {"system", 0, OPT_FLAG, NULL, SERVE(whole_machine),
     "serve the whole machine: home /var/lib/berth, several users"},
    {"multi-user", 0, OPT_FLAG, NULL, SERVE(multi_user),
     "let other users submit through the socket; their jobs run under their user id"},
    {"retain", 0, OPT_DURATION, "TIME", SERVE(retain),
     "remove outputs of finished jobs after this long, such as 30d, and the jobs after as long "
     "again, at most a week later (default: keep)"},
    {"new-database", 0, OPT_FLAG, NULL, SERVE(new_database),
     "start with an empty job database in a home that has lost its database"},
    {"log-json", 0, OPT_FLAG, NULL, SERVE(log_json), "log in JSON lines"},
    {"log-level", 0, OPT_CHOICE, "LEVEL", SERVE(log_level), "log from this level (default info)",
     COMPLETE_CHOICES, "debug|info|warn|error"},
    {"auto", 0, OPT_FLAG, NULL, SERVE(background), "exit after being idle for --idle"},
    {"idle", 0, OPT_DURATION, "TIME", SERVE(idle),
     "with --auto: exit after being idle this long (default 10m)"},
};
static const struct opt_group own_group = OPT_GROUP("Daemon", own_opts);
static const struct opt gpu_opts[] = {
    {"gpu-exclude", 0, OPT_TEXT, "LIST", SERVE(gpu.exclude),
     "GPUs that jobs may not use, by number or UUID, separated by commas"},
    {"gpu-objective", 0, OPT_CHOICE, "NAME", SERVE(gpu.objective),
     "jct: minimise average completion time (default); tardiness: minimise lateness",
     COMPLETE_CHOICES, "jct|tardiness"},
    {"gpu-share", 0, OPT_INT, "N", SERVE(gpu.share),
     "largest number of jobs on one GPU, 1 to 4 (default 2)"},
    {"gpu-restart", 0, OPT_DURATION, "TIME", SERVE(gpu.restart),
     "assumed cost of one preemption until it is measured (default 1m)"},
    {"gpu-replan", 0, OPT_DURATION, "TIME", SERVE(gpu.replan),
     "shortest time between two plans (default 1s)"},
    {"gpu-age-after", 0, OPT_DURATION, "TIME", SERVE(gpu.age),
     "a job gains priority after waiting this long (default 4h)"},
    {"gpu-reserve-after", 0, OPT_DURATION, "TIME", SERVE(gpu.reserve),
     "reserve GPUs for jobs that have waited longer than this (default 1d)"},
    {"master-ports", 0, OPT_TEXT, "FIRST-LAST", SERVE(gpu.master_ports),
     "ports for MASTER_PORT, through which the processes of a GPU job connect (default "
     "23000-26999)"},
    {"gpu-time-scale", 0, OPT_INT, "N", SERVE(gpu.scale),
     "for tests: the GPU planner counts one second as N seconds"},
};
static const struct opt_group gpu_group = OPT_GROUP("GPUs", gpu_opts);
/* idle_since is when the daemon was first seen without work; it counts for --auto only. */
struct serving {
    struct loop *loop;
    struct host *host;
    struct timer *look;
    int64_t idle_ms, idle_since; /* monotonic; 0 = busy */
};

static void serve_on_stop(void *arg)
{
    struct serving *s = arg;

    log_info("serve",
             "stopping on request; running jobs continue and the next start finds them again");
    loop_stop(s->loop);
}

/* SIGHUP: the daemon must survive the end of the terminal that started it. */
static void on_nothing(void *arg UNUSED)
{
}

/* --auto: a daemon that a command started exits when it has had no jobs, no schedules, no messages
 * to send and no clients for idle_ms. */
static void on_look(void *arg)
{
    struct serving *s = arg;
    struct core_stats st = core_stats(host_core(s->host));
    bool busy = st.queued || st.starting || st.running || st.stopping ||
                host_connections(s->host) || core_schedules_wait(host_core(s->host)) ||
                core_studies_wait(host_core(s->host)) || core_hooks_pending(host_core(s->host));

    if (busy) {
        s->idle_since = 0;
    } else if (!s->idle_since) {
        s->idle_since = loop_mono_ms(s->loop);
    } else if (loop_mono_ms(s->loop) - s->idle_since >= s->idle_ms) {
        log_info("serve", "idle; exiting until the next command starts a daemon");
        loop_stop(s->loop);
    }
}

/* What a service manager that waits for us (Type=notify) wants to hear. */
static void notify_ready(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(sa.sun_path))
        return;
    memcpy(sa.sun_path, path, strlen(path));
    if (path[0] == '@')
        sa.sun_path[0] = 0;
    AUTO_FD fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        (void)!sendto(fd, "READY=1", 7, MSG_NOSIGNAL, (struct sockaddr *)&sa,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
}

/* One line on stdout, flushed, so that a program that waits for the line sees it.  The port is the
 * one that was opened. */
static void say_address(const struct host *h, const struct host_conf *conf)
{
    bool v6 = conf->tcp.addr && strchr(conf->tcp.addr, ':');

    printf("berth %s serves %s on unix:%s", conf->version, conf->home, host_socket(h));
    if (conf->tcp.addr)
        printf(" and %s://%s%s%s:%d (token in %s/token)", conf->tcp.tls_cert ? "https" : "http",
               v6 ? "[" : "", conf->tcp.addr, v6 ? "]" : "", host_tcp_port(h), conf->home);
    putchar('\n');
    fflush(stdout);
    if (conf->tcp.addr && !conf->tcp.tls_cert && strncmp(conf->tcp.addr, "127.", 4) != 0 &&
        strcmp(conf->tcp.addr, "::1") != 0)
        log_warn("serve", "the token is sent unencrypted on %s: add --tls-cert and --tls-key",
                 conf->tcp.addr);
}

/* READY is sent after host_open has returned: the sockets listen and the jobs of the last daemon
 * are known. */
static int serve_until_stopped(const struct serve_opts *o, const struct host_conf *conf)
{
    struct serving s = {.loop = loop_new(), .idle_ms = o->idle.set ? o->idle.v : AUTO_IDLE_MS};
    struct err e = {0};

    if (host_open(&s.host, conf, s.loop, &e) < 0) {
        loop_free(s.loop);
        /* Somebody was faster (home_lock): the command that started us finds that one. */
        if (o->background && e.code == ERR_CONFLICT && e.sys == EAGAIN)
            return 0;
        return cli_fail(&e);
    }
    struct signal_watch *term = signal_watch_new(s.loop, SIGTERM, serve_on_stop, &s);
    struct signal_watch *intr = signal_watch_new(s.loop, SIGINT, serve_on_stop, &s);
    struct signal_watch *hup = signal_watch_new(s.loop, SIGHUP, on_nothing, NULL);
    if (o->background) {
        s.look = timer_new(s.loop, on_look, &s);
        timer_start(s.look, 0, MIN(AUTO_LOOK_MS, MAX(s.idle_ms / 4, 50)));
    }
    say_address(s.host, conf);
    notify_ready();
    loop_run(s.loop);
    timer_free(s.look);
    signal_watch_free(term);
    signal_watch_free(intr);
    signal_watch_free(hup);
    host_close(s.host);
    loop_free(s.loop);
    return 0;
}

/* Ports below 1024 need privileges that a job may not have. */
static int port_range(const char *text, struct host_conf *conf, struct err *e)
{
    struct str last, first = str_cut(str_of(text), '-', &last);
    int64_t lo, hi;

    if (!str_to_i64(first, &lo) || !str_to_i64(last, &hi) || lo < 1024 || hi > 65535 || lo > hi)
        return err_set(
            e, ERR_INVALID,
            "--master-ports '%.60s' is not a range of ports from 1024 to 65535; write 23000-26999",
            text);
    conf->master_ports.first = (int)lo;
    conf->master_ports.last = (int)hi;
    return 0;
}

/* How GPUs are given out; what was not said is left to the planner. */
static int gpu_options(const struct serve_opts *o, struct host_conf *conf, struct err *e)
{
    if (opt_range(&o->gpu.share, "--gpu-share", 1, GPU_SHARE_MAX, e) < 0 ||
        opt_range(&o->gpu.scale, "--gpu-time-scale", 1, 1000000, e) < 0)
        return -1;
    conf->gpu = (struct gpu_conf){
        .objective = o->gpu.objective && strcmp(o->gpu.objective, "tardiness") == 0 ? GPU_TARDINESS
                                                                                    : GPU_JCT,
        .per_device = (int32_t)o->gpu.share.v,
        .restart_s = (double)o->gpu.restart.v / 1000,
        .ageing_after_s = (double)o->gpu.age.v / 1000,
        .reserve_after_s = (double)o->gpu.reserve.v / 1000,
        .replan_ms = o->gpu.replan.v,
    };
    conf->gpu_time_scale = o->gpu.scale.set ? (int32_t)o->gpu.scale.v : 1;
    return o->gpu.master_ports ? port_range(o->gpu.master_ports, conf, e) : 0;
}

/* Options that the parser accepts one by one, but that are out of range or need each other. */
static int check_options(const struct serve_opts *o, struct err *e)
{
    if (!o->tls_cert != !o->tls_key)
        return err_set(e, ERR_INVALID, "--tls-cert and --tls-key must be given together");
    if (o->tls_cert && !o->listen)
        return err_set(e, ERR_INVALID, "--tls-cert needs --listen ADDR:PORT");
    return opt_range(&o->slots, "--slots", 1, 100000, e) < 0 ||
                   opt_range(&o->user_limit, "--user-limit", 1, 100000, e) < 0 ||
                   opt_range(&o->gpus, "--gpus", 0, GPU_SET_MAX, e) < 0
               ? -1
               : 0;
}

/* conf borrows its texts from argv, from c and from `addr`, which live until the daemon ends. */
static int serve(struct cli *c, const void *opts, const struct operands *ops UNUSED)
{
    const struct serve_opts *o = opts;
    enum log_level level = LOG_INFO_;
    char addr[64];
    AUTO_FREE struct host_setting *settings = NULL;
    struct err e = {0};

    if (cli_find_home(c, o->whole_machine, &e) < 0)
        return cli_fail(&e);
    struct host_conf conf = {.home = c->home,
                             .tcp = {.tls_cert = o->tls_cert, .tls_key = o->tls_key},
                             .slots = (int32_t)o->slots.v,
                             .mcpu = o->cpus.v,
                             .mem_bytes = o->mem.v,
                             .gpus = o->gpus.set ? (int32_t)o->gpus.v : -1,
                             .gpus_exclude = o->gpu.exclude,
                             .multi_user = o->multi_user || o->whole_machine,
                             .limits = {.per_user = (int32_t)o->user_limit.v},
                             .retain_ms = o->retain.v,
                             .new_database = o->new_database,
                             .parts = c->program->parts,
                             .version = c->program->version};
    if (check_options(o, &e) < 0 || gpu_options(o, &conf, &e) < 0 ||
        c->program->settings(opts, &settings, &e) < 0)
        return cli_fail(&e);
    conf.settings = settings;
    if (o->listen &&
        listen_addr_parse("--listen", o->listen, addr, sizeof(addr), &conf.tcp.port, &e) < 0)
        return cli_fail(&e);
    conf.tcp.addr = o->listen ? addr : NULL;
    conf.ports_addr = o->ports;
    conf.public_names = o->public_names;
    conf.secret_names = o->secret_names;
    conf.engine = o->engine;
    conf.gpus_by_env = o->engine_gpus && !strcmp(o->engine_gpus, "env");
    if (o->log_level)
        log_level_parse(o->log_level, &level);
    log_setup(level, o->log_json, STDERR_FILENO);
    return serve_until_stopped(o, &conf);
}

const struct command cmd_serve = {
    BERTH_COMMAND(SECTION_DAEMON, "serve", "[OPTION…]", serve,
                  "run the daemon: jobs keep running when you log out"),
    .description =
        "Runs in the foreground until SIGTERM or SIGINT. Jobs are not children of the daemon: they "
        "keep running when the daemon stops or is killed, and the next daemon records their "
        "results. The daemon listens on a Unix socket in its home; --listen adds TCP, protected by "
        "the token in the home.\n\nYou rarely start the daemon by hand: the other commands start "
        "one in the background, which exits when it is idle.",
    OPTIONS(struct serve_opts, &own_group, &gpu_group, &common_group),
    .examples = EXAMPLES(
        {"berth serve", "a daemon for you, in the foreground, on this machine's CPUs"},
        {"berth serve --slots 4 --mem 32G", "at most four jobs at once, in 32 GiB"},
        {"berth serve --listen :8642", "also over TCP on loopback, with the token in the home"},
        {"berth serve --listen 0.0.0.0:8642 --tls-cert c.pem --tls-key k.pem", "for the network"},
        {"berth serve --system", "one daemon for all users of the machine (as root)"}),
};
