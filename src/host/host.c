/* host.c - the rooms of one home put together, and taken apart again
 *
 * Owns: the order in which they are opened and closed, and what the core asks of its program.
 */
#include "host/host.h"
#include "api/api.h"
#include "backend/container.h"
#include "base/file.h"
#include "base/log.h"
#include "host/hook_send.h"
#include "host/host_priv.h"
#include "host/outside_watch.h"
#include "model/vault.h"
#include "request/service.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { SHUTDOWN_GRACE_MS = 2000 };

/* ---- what the core asks of its program ---- */

/* Work of the core on a worker thread.  `work` runs there, `done` on the loop thread.  host.works
 * counts it, so that host_close waits for it. */
struct offload {
    struct host *h;
    void (*work)(void *), (*done)(void *);
    void *x;
};

static void offload_work(void *arg)
{
    struct offload *o = arg;

    o->work(o->x);
}

static void offload_done(void *arg)
{
    struct offload *o = arg;

    o->h->works--;
    o->done(o->x);
    free(o);
}

/* core's operation `offload`; true: `done` will be called. */
static bool host_offload(void *arg, void (*work)(void *), void (*done)(void *), void *x)
{
    struct host *h = arg;
    struct offload *o = xmalloc(sizeof(*o));

    *o = (struct offload){h, work, done, x};
    h->works++;
    work_submit(h->loop, offload_work, offload_done, o);
    return true;
}

/* Asked for MASTER_PORT, which is one of a few thousand ports. */
static bool host_port_free(void *arg, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)arg;
    return fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
}

/* core's operation `notice`: a message for the person who reads the daemon's log. */
static void host_notice(void *arg, struct str text)
{
    (void)arg;
    log_warn("host", STR_FMT, STR_ARG(text));
}

/* core's operation `troubled`. */
static void host_troubled(void *arg, struct str text)
{
    struct host *h = arg;

    if (h->api)
        api_troubled(h->api, text);
    parts_troubled(h, text);
}

/* core's operation `launch`.  A port that cannot be opened does not fail the start: job_ports
 * retries while the attempt runs. */
static int host_launch(void *arg, const struct launch *l, const struct launch_facts *f,
                       struct launch_extras *out, struct err *e)
{
    struct host *h = arg;

    if (f->ports)
        job_ports_start_texts(h->env.ports, f->key, f->ports);
    return l->spec->origin.dialect ? parts_launch(h, l, f, out, e) : 0;
}

static void host_run_killed(void *arg, struct run_key key)
{
    containers_killed(((struct host *)arg)->containers, key);
}

/* A job on another node connects to the daemon.  Without a token it is answered nothing. */
static void host_adopt_call(void *arg, int fd)
{
    struct host *h = arg;

    if (!h->http || h->closing)
        close(fd);
    else
        http_server_adopt_stranger_take(h->http, fd, NULL);
}

int host_clean_dir(const struct host_env *env, const char *dir, struct err *e)
{
    return container_clean_dir(env->engine, NULL, dir, e);
}

/* ---- opening ---- */

/* The loop returns to its caller, and that caller closes the host. */
static void host_request_stop(void *arg)
{
    struct host *h = arg;

    loop_stop(h->loop);
}

static void open_containers(struct host *h)
{
    char id[CORE_HOME_ID_MAX];

    core_home_id(h->core, id);
    h->containers = containers_new(h->loop, h->conf.engine, h->paths.home, id);
}

static const struct core_ops host_core_ops = {.notice = host_notice,
                                              .troubled = host_troubled,
                                              .discard = old_jobs_discard,
                                              .launch = host_launch,
                                              .offload = host_offload,
                                              .port_free = host_port_free,
                                              .deliver = hook_deliver,
                                              .open_node = node_backend_open,
                                              .call = host_adopt_call,
                                              .end_step = end_steps_begin,
                                              .end_step_cancel = end_steps_cancel,
                                              .fire = host_fire,
                                              .trial = host_trial,
                                              .zone = host_zone,
                                              .trouble = host_trouble,
                                              .killed = host_run_killed};

static void host_seal_schedule(void *arg, struct json *def)
{
    parts_seal_schedule(arg, def);
}

/* The database first, then the file `id`: a crash in between leaves a database whose id the next
 * start writes to the home.  A home that ends with its program needs neither. */
static int host_open_store(struct host *h, struct err *e)
{
    AUTO_FREE char *db = path_join(h->paths.home, "berth.db");
    char expect[STORE_ID_MAX];
    struct store_seal seal = {.vault = h->vault, .schedule = host_seal_schedule, .arg = h};
    struct store_home home = {.fresh = h->conf.new_database, .seal = &seal};

    if (h->conf.transient)
        return store_open(&h->store, db, turn_on_commit, h, e);
    if (home_id_read(h->paths.home, expect, e) < 0)
        return -1;
    home.expect = expect[0] ? expect : NULL;
    if (store_open_home(&h->store, db, &home, turn_on_commit, h, e) < 0)
        return -1;
    if (seal.sealed)
        log_info("host", "sealed the secrets that an older program had stored: %llu records",
                 (unsigned long long)seal.sealed);
    if (seal.trouble.code)
        log_warn(
            "host",
            "secrets that an older program stored may still be in %s: %s; the next start tries "
            "again",
            db, seal.trouble.text);
    return home.expect ? 0 : home_id_write(h->paths.home, home.id, e);
}

/* Store, core and local backend, then core_recover.  core_recover comes last: it restores what was
 * recorded and then asks the attached backends what happened meanwhile. */
static int open_core(struct host *h, struct err *e)
{
    uint64_t seed;

    random_bytes(&seed, sizeof(seed));
    if (host_open_store(h, e) < 0)
        return -1;
    h->core = core_new(&(struct core_conf){.ledger = store_ledger(h->store),
                                           .clock = clock_system,
                                           .seed = seed,
                                           .ops = &host_core_ops,
                                           .self = h,
                                           .home = {.dir = h->paths.home,
                                                    .socket = h->paths.socket,
                                                    .python_path = h->paths.python_path,
                                                    .program = h->paths.program,
                                                    .secret = h->secrets.secret,
                                                    .vault = h->vault,
                                                    .uid = h->env.uid,
                                                    .multi_user = h->conf.multi_user},
                                           .gpu = {.plan = h->conf.gpu,
                                                   .time_scale = h->conf.gpu_time_scale,
                                                   .master_port_first = h->conf.master_ports.first,
                                                   .master_port_last = h->conf.master_ports.last},
                                           .containers = {.engine = h->conf.engine,
                                                          .socket_dir = h->paths.socket_dir,
                                                          .ports_addr = h->conf.ports_addr,
                                                          .gpus_by_env = h->conf.gpus_by_env},
                                           .limits = h->conf.limits,
                                           .lookahead = true});
    open_containers(h);
    h->env.hooks = hook_sender_new(h->loop);
    h->env.auth = auth_new(h->core, h->secrets.token, h->env.uid, h->conf.multi_user);
    auth_set_secret(h->env.auth, h->secrets.secret);
    h->env.ports = job_ports_new(h->loop, h->core, h->store,
                                 h->conf.ports_addr ? h->conf.ports_addr : "0.0.0.0");
    struct json *conf = json_new_object();
    json_set_int(conf, "slots", h->conf.slots);
    json_set_int(conf, "mcpu", h->conf.mcpu);
    json_set_int(conf, "mem_bytes", h->conf.mem_bytes);
    json_set_int(conf, "gpus", h->conf.gpus);
    json_set_take(conf, "transient", json_new_bool(h->conf.transient));
    json_set_str(conf, "gpus_exclude", h->conf.gpus_exclude);
    struct core_host *local = core_host_new(h->core, NULL);
    int rc = backend_local.open(&h->backend, h->paths.home, conf, h->loop, &core_backend_events,
                                local, e);
    json_free(conf);
    if (rc < 0)
        return err_wrap(e, "starting the local backend");
    core_attach(local, &backend_local, h->backend);
    h->outside = outside_watch_new(h->loop, h->core);
    core_track_outside(h->core, &outside_watch_ops, h->outside);
    return core_recover(h->core, e);
}

/* The socket for containers, in a directory of its own that is mounted into them.  A mounted socket
 * file would be that of this daemon for ever; the directory shows the socket of the next one too.
 */
static int listen_for_containers(struct host *h, struct err *e)
{
    AUTO_FREE char *path = path_join(h->paths.socket_dir, "sock");

    if (mkdir(h->paths.socket_dir, h->conf.multi_user ? 0711 : 0700) < 0 && errno != EEXIST)
        return err_sys(e, "cannot make %s", h->paths.socket_dir);
    unlink(path);
    return http_server_listen_unix(h->http, path, h->conf.multi_user ? 0666 : 0600, e);
}

/* A part may keep the pointer to h->env, so all its members must be set before parts_open. */
static void env_complete(struct host *h)
{
    h->env.loop = h->loop;
    h->env.core = h->core;
    h->env.store = h->store;
    h->env.api = h->api;
    h->env.requests = h->requests;
    h->env.home = h->paths.home;
    h->env.program = h->paths.program;
    h->env.engine = h->conf.engine;
    h->env.ports_addr = h->conf.ports_addr;
    h->env.public_names = h->conf.public_names;
    h->env.mounts = backend_can_mount();
    h->env.multi_user = h->conf.multi_user;
}

/* Half of the files that may be open are for connections: a followed log takes a second one, and
 * the store, the journal and the nodes need theirs. */
static struct http_limits limits_of_host(void)
{
    struct http_limits lim = http_limits_default;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < lim.connections) {
        lim.connections = MAX((size_t)files.rlim_cur / 2, 64);
        lim.reserved = lim.connections / 16;
    }
    return lim;
}

static void host_beside_of(void *arg, struct backup_places *out)
{
    const struct host *h = arg;

    host_beside(h->conf.parts, h->paths.home, out);
}

/* Listens last: all routes exist and the core has recovered before the first request can arrive. */
static int open_servers(struct host *h, struct err *e)
{
    const struct host_tcp_conf *tcp = &h->conf.tcp;
    const struct http_limits lim = limits_of_host();

    h->requests = request_server_new(&(struct request_conf){
        .loop = h->loop, .store = h->store, .auth = h->env.auth, .names = h->conf.public_names});
    h->api = api_new(&(struct api_conf){.requests = h->requests,
                                        .loop = h->loop,
                                        .core = h->core,
                                        .store = h->store,
                                        .home = h->paths.home,
                                        .uid = h->env.uid,
                                        .multi_user = h->conf.multi_user,
                                        .version = h->conf.version,
                                        .started_ms = clock_wall(&clock_system),
                                        .shutdown = host_request_stop,
                                        .shutdown_arg = h,
                                        .beside = host_beside_of,
                                        .beside_arg = h});
    env_complete(h);
    if (parts_open(h, e) < 0)
        return -1;
    h->http = http_server_new(h->loop, &lim, request_server_handler(h->requests));
    api_attach(h->api, h->http);
    if (!h->conf.socket)
        unlink(
            h->paths.socket); /* this host has locked the home, so the maker of this file is dead */
    if (http_server_listen_unix(h->http, h->paths.socket, h->conf.multi_user ? 0666 : 0600, e) <
            0 ||
        listen_for_containers(h, e) < 0 || parts_listen(h, e) < 0)
        return -1;
    if (!tcp->addr)
        return 0;
    return http_server_listen_tcp(h->http, tcp->addr, tcp->port, tcp->tls_cert, tcp->tls_key,
                                  &h->tcp_port, e);
}

/* Dialects have no option for the names, so a variable can tell them too. */
static int open_vault(struct host *h, struct err *e)
{
    const char *names = h->conf.secret_names ? h->conf.secret_names : getenv("BERTH_SECRET_NAMES");

    return vault_new(h->secrets.secret, names, &h->vault, e) < 0 ? err_wrap(e, "names of secrets")
                                                                 : 0;
}

int host_open(struct host **out, const struct host_conf *c, struct loop *l, struct err *e)
{
    struct host *h = xcalloc(1, sizeof(*h));

    h->conf = *c;
    if (!h->conf.public_names) /* atlas-server has no option for it */
        h->conf.public_names = getenv("BERTH_PUBLIC_NAME");
    h->env.uid = (uint32_t)getuid();
    if (!h->conf.engine) /* the usual variable; jobs do not inherit the daemon's environment */
        h->conf.engine = getenv("DOCKER_HOST");
    h->loop = l;
    h->lock_fd = -1;
    h->paths.home = xstrdup(c->home);
    h->paths.socket = c->socket ? xstrdup(c->socket) : path_join(c->home, "sock");
    h->paths.socket_dir = path_join(c->home, "door");
    h->paths.python_path = c->python_path ? xstrdup(c->python_path) : home_python_path();
    h->paths.program = realpath("/proc/self/exe", NULL);
    if (home_prepare(h->paths.home, c->multi_user, e) < 0 ||
        home_lock(h->paths.home, &h->lock_fd, e) < 0 ||
        home_secrets(h->paths.home, &h->secrets, e) < 0 || open_vault(h, e) < 0 ||
        open_core(h, e) < 0 || open_servers(h, e) < 0) {
        host_close(h);
        return -1;
    }
    turn_start(h);
    job_ports_recover(h->env.ports);
    if (!c->transient)
        containers_sweep(h->containers);
    parts_recovered(h);
    end_steps_open(h);
    snapshots_look(h);
    old_modes_look(h);
    stray_runs_look(h);
    *out = h;
    return 0;
}

/* ---- closing ---- */

static void host_http_down(void *arg)
{
    ((struct host *)arg)->http_down = true;
}

/* Runs the loop until no request, stream or part needs the store any more.  Does nothing when
 * host_open failed before there was a server. */
static void close_servers(struct host *h)
{
    if (!h->http)
        return;
    api_leave(h->api);
    request_server_shut(h->requests);
    parts_shut(h);
    job_ports_shut(h->env.ports);
    http_server_shutdown(h->http, SHUTDOWN_GRACE_MS, host_http_down, h);
    while (!h->http_down || request_server_busy(h->requests) || parts_busy(h) ||
           job_ports_busy(h->env.ports)) /* readers on worker threads need the store */
        loop_run_once(h->loop, true);
    http_server_free(h->http);
}

/* Also undoes a host_open that failed half way: every step accepts what was not opened. */
void host_close(struct host *h)
{
    if (!h)
        return;
    end_steps_shut(h);
    close_servers(h);
    if (h->turn.on) {
        turn_finish(h);
        h->closing = true;
        hook_sender_shut(h->env.hooks);
        /* A store that cannot write may stay busy for ever, so the host waits for a healthy store
         * only. */
        struct ledger led = store_ledger(h->store);
        while ((store_busy(h->store) && led.healthy(led.self)) || h->works ||
               containers_busy(h->containers) || parts_busy(h))
            loop_run_once(h->loop, true);
    }
    turn_stop(h);
    snapshots_shut(h);
    if (h->core) {
        core_close_nodes(h->core);
        core_track_outside(h->core, NULL, NULL);
    }
    if (h->backend)
        backend_local.close(h->backend);
    outside_watch_free(h->outside);
    if (h->store)
        store_close(h->store);
    h->store = NULL;
    loop_run_once(h->loop, false); /* a commit posted by the writer finds its host alive */
    request_server_free(h->requests);
    host_parts_free(h);
    api_free(h->api);
    job_ports_free(h->env.ports);
    auth_free(h->env.auth);
    hook_sender_free(h->env.hooks);
    core_free(h->core);
    vault_free(h->vault);
    host_zones_free(h);
    containers_free(h->containers);
    if (h->lock_fd >= 0)
        close(h->lock_fd);
    FREE_EACH(h->paths.home, h->paths.socket, h->paths.socket_dir, h->paths.python_path,
              h->paths.program, h);
}

struct core *host_core(struct host *h)
{
    return h->core;
}

const char *host_socket(const struct host *h)
{
    return h->paths.socket;
}

int host_tcp_port(const struct host *h)
{
    return h->tcp_port;
}

size_t host_connections(const struct host *h)
{
    return (size_t)http_server_stats(h->http).connections_open;
}
