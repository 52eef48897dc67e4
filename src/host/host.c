/* host.c - the rooms joined: what happens at the end of a turn, after a commit, when idle, at the
 * end
 *
 * A turn: callbacks change the core → core_turn plans and stages → store_flush hands the batch to
 * the writer.  After its commit the writer posts back → barriers run (replies, starts) → events go
 * out.
 */
#include "host/host.h"
#include "api/api.h"
#include "backend/container.h"
#include "base/file.h"
#include "base/log.h"
#include "core/core.h"
#include "dialect/gpu/dialect.h"
#include "host/atlas.h"
#include "host/containers.h"
#include "host/home.h"
#include "host/outside_watch.h"
#include "io/loop.h"
#include "request/service.h"
#include "store/store.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum {
    IDLE_MS = 500,            /* quiet for so long: time for a checkpoint */
    RETAIN_EVERY_MS = 600000, /* look for jobs past their keeping time */
    RETAIN_PIECE = 1000,
    SHUTDOWN_GRACE_MS = 2000,
};

struct host {
    struct host_conf conf;
    struct loop *loop;
    char *home, *socket, *python_path;
    char *
        door; /* directory with a second socket, for containers: mounted, it survives our restart */
    struct home_secrets secrets;
    int lock_fd, tcp_port;
    struct store *store;
    struct core *core;
    struct backend *backend;
    struct outside_watch *outside; /* processes that were not started here */
    struct api *api;
    struct auth *auth;
    struct request_server *requests;
    struct gpu_dialect *gpu;
    struct containers *containers;
    struct atlas *atlas; /* NULL = this home is no database of Atlas */
    struct http_server *http;
    struct timer *wake, *idle, *retain;
    int64_t wake_at;
    size_t works; /* on worker threads: removals of files, plans */
    bool http_down, turning;
    bool closing; /* nothing new is planned: what is under way ends */
};

/* ---- turns ---- */

static void arm_wake(struct host *h)
{
    int64_t at = core_next_wake(h->core);

    if (at == h->wake_at)
        return;
    h->wake_at = at;
    if (at < 0)
        timer_stop(h->wake);
    else
        timer_start(h->wake, at > clock_mono(&clock_system) ? at - clock_mono(&clock_system) : 0,
                    0);
}

static void on_turn_end(void *arg)
{
    struct host *h = arg;

    if (!h->closing)
        core_turn(h->core);
    store_flush(h->store);
    if (!h->closing)
        arm_wake(h);
}

static void on_wake(void *arg)
{
    struct host *h = arg;

    h->wake_at = -1; /* the end of this turn releases what is due and arms the timer again */
}

static void on_idle(void *arg)
{
    struct host *h = arg;

    store_idle(h->store);
}

static void on_drained(void *arg)
{
    struct host *h = arg;

    if (!h->store)
        return; /* posted just before the store was closed */
    store_drain(h->store);
    api_committed(h->api);
    gpu_dialect_committed(h->gpu);
    if (h->atlas)
        atlas_committed(h->atlas);
    timer_start(h->idle, IDLE_MS, 0);
}

static void on_commit(void *arg) /* on the writer's thread */
{
    struct host *h = arg;

    loop_post(h->loop, on_drained, h);
}

/* ---- keeping time of finished jobs ---- */

struct sweeping {
    struct host *h;
    uint64_t jobs[RETAIN_PIECE];
    size_t n;
    struct err e;
    int result;
};

static void retain_work(void *arg)
{
    struct sweeping *s = arg;
    int64_t before = clock_wall(&clock_system) - s->h->conf.retain_ms;

    s->result = store_retain(s->h->store, before, RETAIN_PIECE, s->jobs, &s->n, &s->e);
}

static void on_removed(void *arg, const struct err *e, const struct acted *r)
{
    (void)arg;
    (void)r;
    if (e)
        log_warn("host", "removing old jobs: %s", e->text);
}

static void retain_done(void *arg)
{
    struct sweeping *s = arg;
    const struct caller self = {.uid = s->h->conf.uid, .admin = true, .user = "retention"};

    if (s->result < 0)
        log_warn("host", "looking for old jobs: %s", s->e.text);
    else if (s->n)
        core_remove(s->h->core, s->jobs, s->n, &self, on_removed, NULL);
    free(s);
}

static void on_retain(void *arg)
{
    struct sweeping *s = xcalloc(1, sizeof(*s));

    s->h = arg;
    work_submit(s->h->loop, retain_work, retain_done, s);
}

/* ---- files of removed jobs ---- */

struct discarding {
    struct host *h;
    size_t n;
    struct run_key keys[];
};

static void discard_run(struct host *h, struct run_key key)
{
    AUTO_FREE char *out = core_log_path(h->core, key), *errs = core_err_path(h->core, key),
                   *dir = core_run_dir(h->core, key);
    struct err e = {0};

    unlink(out);
    unlink(errs);
    container_clean_dir(h->conf.engine, NULL, dir, &e); /* not all in it need be ours */
}

static void discard_work(void *arg)
{
    struct discarding *d = arg;

    for (size_t i = 0; i < d->n; i++)
        for (uint32_t run = 1; run <= d->keys[i].run; run++)
            discard_run(d->h, (struct run_key){d->keys[i].job, run});
}

static void discard_done(void *arg)
{
    struct discarding *d = arg;

    d->h->works--;
    free(d);
}

static void on_discard(void *arg, const struct run_key *last, size_t n)
{
    struct host *h = arg;
    struct discarding *d = xmalloc(sizeof(*d) + n * sizeof(*last));

    *d = (struct discarding){h, n};
    memcpy(d->keys, last, n * sizeof(*last));
    h->works++;
    work_submit(h->loop, discard_work, discard_done, d);
}

/* ---- plans ---- */

struct offloaded {
    struct host *h;
    void (*work)(void *), (*done)(void *);
    void *x;
};

static void offloaded_work(void *arg)
{
    struct offloaded *o = arg;

    o->work(o->x);
}

static void offloaded_done(void *arg)
{
    struct offloaded *o = arg;

    o->h->works--;
    o->done(o->x);
    free(o);
}

static bool on_offload(void *arg, void (*work)(void *), void (*done)(void *), void *x)
{
    struct host *h = arg;
    struct offloaded *o = xmalloc(sizeof(*o));

    *o = (struct offloaded){h, work, done, x};
    h->works++;
    work_submit(h->loop, offloaded_work, offloaded_done, o);
    return true;
}

/* Would a process of a job get this port?  Asked for MASTER_PORT: one of a few thousand. */
static bool on_port_free(void *arg, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)arg;
    return fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
}

/* ---- opening ---- */

static void on_notice(void *arg, struct str text)
{
    (void)arg;
    log_warn("host", STR_FMT, STR_ARG(text));
}

static void request_stop(void *arg)
{
    struct host *h = arg;

    loop_stop(h->loop);
}

static int on_decorate(void *arg, const struct launch *l, const struct launch_facts *f,
                       struct env_sink *out, struct err *e)
{
    return gpu_dialect_decorate(((struct host *)arg)->gpu, l, f, out, e);
}

static int on_dress(void *arg, const struct launch *l, const struct launch_facts *f,
                    struct arena *a, char ***before, struct env_sink *out, struct err *e)
{
    struct host *h = arg;

    return h->atlas ? atlas_dress(h->atlas, l, f, a, before, out, e) : 0;
}

static int on_clean(void *arg, const char *dir, struct err *e)
{
    return container_clean_dir(((struct host *)arg)->conf.engine, NULL, dir, e);
}

static void on_opening(void *arg, struct run_key key, char *const *ports)
{
    gpu_dialect_opening(((struct host *)arg)->gpu, key, ports);
}

static void on_killed(void *arg, struct run_key key)
{
    containers_killed(((struct host *)arg)->containers, key);
}

static void open_containers(struct host *h)
{
    char id[CORE_HOME_ID_MAX];

    core_home_id(h->core, id);
    h->containers = containers_new(h->loop, h->conf.engine, h->home, id);
}

/* ---- nodes ---- */

/* The scheme of its url names the backend. */
static int on_open_node(void *arg, struct core_host *node, const struct json *conf,
                        const struct backend_class **cls, struct backend **b, struct err *e)
{
    struct host *h = arg;
    const struct json *v = json_get(conf, "url");
    struct str url = json_type(v) == JSON_STR ? json_str(v) : STR(""), rest;
    struct str scheme = str_cut(url, ':', &rest);
    AUTO_FREE char *name = xstrndup(scheme.p, scheme.n);

    *cls = str_starts(rest, STR("//")) ? backend_find(name) : NULL;
    if (!*cls || !(*cls)->by_url)
        return err_set(e, ERR_INVALID, "'%.*s' is not the address of a node; write ssh://user@host",
                       (int)MIN(url.n, (size_t)100), url.p);
    struct json *all = json_copy(conf);
    if (h->python_path)
        json_set_str(all, "python_path", h->python_path);
    int rc = (*cls)->open(b, h->home, all, h->loop, &core_backend_events, node, e);
    json_free(all);
    return rc;
}

/* A job elsewhere: it has a token, or gets nothing. */
static void on_call(void *arg, int fd)
{
    struct host *h = arg;

    if (!h->http || h->closing)
        close(fd);
    else
        http_server_adopt_stranger_take(h->http, fd, NULL);
}

int host_open_node(struct host *h, const char *name, const struct json *conf, struct err *e)
{
    bool known = core_node_find(h->core, str_of(name), NULL) != NULL;
    struct core_host *node = core_host_new(h->core, name);
    const struct backend_class *cls = NULL;
    struct backend *b = NULL;

    if (on_open_node(h, node, conf, &cls, &b, e) < 0) {
        if (!known)
            core_host_remove(node);
        return -1;
    }
    core_attach_owned(node, cls, b);
    if (json_bool(json_get(conf, "reserved")))
        core_host_reserve(node);
    return 0;
}

static const struct core_ops host_core_ops = {.notice = on_notice,
                                              .discard = on_discard,
                                              .decorate = on_decorate,
                                              .dress = on_dress,
                                              .opening = on_opening,
                                              .offload = on_offload,
                                              .port_free = on_port_free,
                                              .open_node = on_open_node,
                                              .call = on_call,
                                              .killed = on_killed};

static int open_core(struct host *h, struct err *e)
{
    AUTO_FREE char *db = path_join(h->home, "berth.db");
    AUTO_FREE char *program = realpath("/proc/self/exe", NULL);
    uint64_t seed;

    random_bytes(&seed, sizeof(seed));
    if (store_open(&h->store, db, on_commit, h, e) < 0)
        return err_wrap(e, "opening the job store");
    h->core = core_new(&(struct core_conf){.ledger = store_ledger(h->store),
                                           .clock = clock_system,
                                           .seed = seed,
                                           .ops = &host_core_ops,
                                           .self = h,
                                           .home = {.dir = h->home,
                                                    .socket = h->socket,
                                                    .python_path = h->python_path,
                                                    .program = program,
                                                    .secret = h->secrets.secret,
                                                    .uid = h->conf.uid},
                                           .gpu = {.plan = h->conf.gpu,
                                                   .time_scale = h->conf.gpu_time_scale,
                                                   .master_port_first = h->conf.master_port_first,
                                                   .master_port_last = h->conf.master_port_last},
                                           .containers = {.engine = h->conf.engine,
                                                          .socket_dir = h->door,
                                                          .ports_addr = h->conf.ports_addr,
                                                          .gpus_by_env = h->conf.gpus_by_env},
                                           .limits = h->conf.limits,
                                           .lookahead = true});
    open_containers(h);
    h->auth = auth_new(h->core, h->secrets.token, h->conf.uid, h->conf.multi_user);
    h->gpu = gpu_dialect_new(&(struct gpu_dialect_conf){.loop = h->loop,
                                                        .core = h->core,
                                                        .store = h->store,
                                                        .home = h->home,
                                                        .uid = h->conf.uid,
                                                        .mounts = backend_can_mount(),
                                                        .ports_addr = h->conf.ports_addr,
                                                        .multi_user = h->conf.multi_user,
                                                        .log_limit_bytes = h->conf.gpu_log_bytes,
                                                        .backend = h->conf.torch_backend});
    struct json *conf = json_new_object();
    json_set_int(conf, "slots", h->conf.slots);
    json_set_int(conf, "mcpu", h->conf.mcpu);
    json_set_int(conf, "mem_bytes", h->conf.mem_bytes);
    json_set_int(conf, "gpus", h->conf.gpus);
    json_set_take(conf, "transient", json_new_bool(h->conf.transient));
    json_set_str(conf, "gpus_exclude", h->conf.gpus_exclude);
    struct core_host *local = core_host_new(h->core, NULL);
    int rc =
        backend_local.open(&h->backend, h->home, conf, h->loop, &core_backend_events, local, e);
    json_free(conf);
    if (rc < 0)
        return err_wrap(e, "starting the local backend");
    core_attach(local, &backend_local, h->backend);
    h->outside = outside_watch_new(h->loop, h->core);
    core_track_outside(h->core, &outside_watch_ops, h->outside);
    return core_recover(h->core, e);
}

/* The socket as containers see it.  A mounted file would be the socket of this daemon for ever; a
 * mounted directory has that of the next one as well. */
static int listen_at_door(struct host *h, struct err *e)
{
    AUTO_FREE char *path = path_join(h->door, "sock");

    if (mkdir(h->door, h->conf.multi_user ? 0711 : 0700) < 0 && errno != EEXIST)
        return err_sys(e, "cannot make %s", h->door);
    unlink(path);
    return http_server_listen_unix(h->http, path, h->conf.multi_user ? 0666 : 0600, e);
}

static int open_given_nodes(struct host *h, struct err *e)
{
    for (size_t i = 0; i < json_len(h->conf.nodes); i++) {
        const struct json *one = json_at(h->conf.nodes, i);
        struct str name = json_str(json_get(one, "name"));
        AUTO_FREE char *text = xstrndup(name.p, name.n);
        if (host_open_node(h, text, json_get(one, "conf"), e) < 0)
            return err_wrap(e, "opening the node %s", text);
    }
    h->conf.nodes = NULL;
    return 0;
}

static int open_doors(struct host *h, struct err *e)
{
    h->requests = request_server_new(
        &(struct request_conf){.loop = h->loop, .store = h->store, .auth = h->auth});
    h->api = api_new(&(struct api_conf){.requests = h->requests,
                                        .loop = h->loop,
                                        .core = h->core,
                                        .store = h->store,
                                        .home = h->home,
                                        .uid = h->conf.uid,
                                        .multi_user = h->conf.multi_user,
                                        .version = h->conf.version,
                                        .started_ms = clock_wall(&clock_system),
                                        .shutdown = request_stop,
                                        .shutdown_arg = h});
    const struct atlas_conf base = {.loop = h->loop,
                                    .core = h->core,
                                    .store = h->store,
                                    .api = h->api,
                                    .requests = h->requests,
                                    .clean = on_clean,
                                    .clean_arg = h};
    gpu_dialect_serve(h->gpu, h->requests);
    if (host_atlas_open(&h->conf, h->home, &base, &h->atlas, e) < 0)
        return -1;
    h->http = http_server_new(h->loop, &http_limits_default, request_server_handler(h->requests));
    api_attach(h->api, h->http);
    if (!h->conf.socket)
        unlink(h->socket); /* the home is locked by us, so whoever made this one is dead */
    if (http_server_listen_unix(h->http, h->socket, h->conf.multi_user ? 0666 : 0600, e) < 0)
        return -1;
    if (listen_at_door(h, e) < 0)
        return -1;
    if (gpu_dialect_listen(h->gpu, h->conf.library_addr, h->conf.library_port, e) < 0)
        return -1;
    if (host_atlas_listen(&h->conf, h->http, e) < 0)
        return -1;
    if (!h->conf.tcp_addr)
        return 0;
    return http_server_listen_tcp(h->http, h->conf.tcp_addr, h->conf.tcp_port, h->conf.tls_cert,
                                  h->conf.tls_key, &h->tcp_port, e);
}

static void start_turning(struct host *h)
{
    h->wake = timer_new(h->loop, on_wake, h);
    h->idle = timer_new(h->loop, on_idle, h);
    h->retain = timer_new(h->loop, on_retain, h);
    h->wake_at = -1;
    timer_start(h->idle, IDLE_MS, 0); /* the first jobs should find a log that need not grow */
    if (h->conf.retain_ms)
        timer_start(h->retain, IDLE_MS, RETAIN_EVERY_MS);
    loop_on_turn_end(h->loop, on_turn_end, h);
    h->turning = true;
}

int host_open(struct host **out, const struct host_conf *c, struct loop *l, struct err *e)
{
    struct host *h = xcalloc(1, sizeof(*h));

    h->conf = *c;
    h->conf.uid = (uint32_t)getuid();
    if (!h->conf.engine) /* as everybody names it; jobs do not inherit our environment */
        h->conf.engine = getenv("DOCKER_HOST");
    h->loop = l;
    h->lock_fd = -1;
    h->home = xstrdup(c->home);
    h->socket = c->socket ? xstrdup(c->socket) : path_join(c->home, "sock");
    h->door = path_join(c->home, "door");
    h->python_path = c->python_path ? xstrdup(c->python_path) : home_python_path();
    if (home_prepare(h->home, c->multi_user, e) < 0 || home_lock(h->home, &h->lock_fd, e) < 0 ||
        home_secrets(h->home, &h->secrets, e) < 0 || open_core(h, e) < 0 ||
        open_given_nodes(h, e) < 0 || open_doors(h, e) < 0) {
        host_close(h);
        return -1;
    }
    start_turning(h);
    gpu_dialect_recover(h->gpu);
    if (!c->transient)
        containers_sweep(h->containers);
    if (h->atlas)
        atlas_recover(h->atlas);
    *out = h;
    return 0;
}

/* ---- closing ---- */

static void on_http_down(void *arg)
{
    ((struct host *)arg)->http_down = true;
}

static void close_doors(struct host *h)
{
    if (!h->http)
        return;
    request_server_shut(h->requests);
    api_end_streams(h->api);
    gpu_dialect_shut(h->gpu);
    if (h->atlas)
        atlas_shut(h->atlas);
    http_server_shutdown(h->http, SHUTDOWN_GRACE_MS, on_http_down, h);
    while (!h->http_down || request_server_busy(h->requests) || gpu_dialect_busy(h->gpu) ||
           (h->atlas && atlas_busy(h->atlas))) /* readers on worker threads need the store */
        loop_run_once(h->loop, true);
    http_server_free(h->http);
}

void host_close(struct host *h)
{
    if (!h)
        return;
    close_doors(h);
    if (h->turning) {
        on_turn_end(h);
        h->closing = true;
        struct ledger led = store_ledger(h->store);
        while ((store_busy(h->store) && led.healthy(led.self)) || h->works ||
               containers_busy(h->containers) || (h->atlas && atlas_busy(h->atlas)))
            loop_run_once(h->loop, true);
        loop_off_turn_end(h->loop, on_turn_end, h);
    }
    timer_free(h->wake);
    timer_free(h->idle);
    timer_free(h->retain);
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
    atlas_free(h->atlas);
    api_free(h->api);
    gpu_dialect_free(h->gpu);
    auth_free(h->auth);
    core_free(h->core);
    containers_free(h->containers);
    if (h->lock_fd >= 0)
        close(h->lock_fd);
    free(h->home);
    free(h->socket);
    free(h->door);
    free(h->python_path);
    free(h);
}

struct core *host_core(struct host *h)
{
    return h->core;
}

struct store *host_store(struct host *h)
{
    return h->store;
}

const char *host_socket(const struct host *h)
{
    return h->socket;
}

int host_tcp_port(const struct host *h)
{
    return h->tcp_port;
}

const char *host_library(const struct host *h)
{
    return gpu_dialect_endpoint(h->gpu);
}

size_t host_connections(const struct host *h)
{
    return (size_t)http_server_stats(h->http).connections_open;
}
