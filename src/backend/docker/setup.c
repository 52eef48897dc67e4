/* setup.c - everything before a container runs: older ones out of the way, image, network, create
 *
 * Each step may be interrupted by a signal only while an image is pulled, the one that takes long.
 */
#include "backend/docker/runner_priv.h"
#include "base/json_out.h"
#include "base/util.h"
#include "io/http_client.h"
#include <inttypes.h>
#include <poll.h>

/* ---- names in paths ---- */

char *engine_path(const char *before, const char *name, const char *after)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, 1 << 16);
    buf_adds(&b, before);
    for (const char *p = name; *p; p++) {
        if (strchr("/:@", *p)) /* engines take these as they are, and only so */
            buf_addc(&b, *p);
        else
            url_encode(&b, (struct str){p, 1});
    }
    buf_adds(&b, after);
    return buf_take(&b, NULL);
}

/* ---- those of earlier runs ---- */

int containers_of(const struct engine *g, const char *home, uint64_t job, struct json **out,
                  struct err *e)
{
    AUTO_FREE char *of_home = xasprintf(LABEL_HOME "=%s", home);
    AUTO_FREE char *of_job = xasprintf(LABEL_JOB "=%" PRIu64, job);
    AUTO(buf) struct buf filter = {0};
    AUTO(buf) struct buf path = {0};

    jw_object(&filter, NULL);
    jw_array(&filter, "label");
    jw_text(&filter, NULL, of_home);
    if (job)
        jw_text(&filter, NULL, of_job);
    jw_end_array(&filter);
    jw_end_object(&filter);
    buf_init(&path, 1 << 12);
    buf_adds(&path, "/containers/json?all=1&filters=");
    url_encode(&path, buf_str(&filter));
    return engine_call(g, "GET", path.p, NULL, out, e);
}

bool container_key(const struct json *one, struct run_key *out)
{
    const struct json *labels = json_get(one, "Labels"), *job = json_get(labels, LABEL_JOB),
                      *run = json_get(labels, LABEL_RUN), *key = json_get(labels, LABEL_KEY);
    int64_t j, r;

    if (key)
        return json_type(key) == JSON_STR && run_key_parse(json_str(key), out) == json_str(key).n;
    if (json_type(job) != JSON_STR || json_type(run) != JSON_STR ||
        !str_to_i64(json_str(job), &j) || !str_to_i64(json_str(run), &r) || j <= 0 || r <= 0 ||
        r > UINT32_MAX)
        return false;
    *out = (struct run_key){(uint64_t)j, (uint32_t)r, 0};
    return true;
}

int container_remove(const struct engine *g, const char *id, struct err *e)
{
    AUTO_FREE char *path = engine_path("/containers/", id, "?force=1&v=1");

    if (engine_call(g, "DELETE", path, NULL, NULL, e) == 0 || e->code == ERR_NOT_FOUND ||
        e->code == ERR_CONFLICT) /* gone, or somebody else is removing it */
        return 0;
    return -1;
}

/* A job has one run at a time, so what runs for it under another number was left behind.  A
 * container with another tag is that of another job. */
void setup_evict(struct runner *r)
{
    AUTO(json) struct json *list = NULL;
    struct err e = {0};
    struct run_key key;

    if (containers_of(&r->g, r->f.home, r->f.key.job, &list, &e) < 0)
        return;
    for (size_t i = 0; i < json_len(list); i++) {
        const struct json *one = json_at(list, i), *id = json_get(one, "Id");
        if (json_type(id) != JSON_STR || !container_key(one, &key) || key.tag != r->f.key.tag ||
            key.run == r->f.key.run)
            continue;
        AUTO_FREE char *name = xstrndup(json_str(id).p, json_str(id).n);
        if (container_remove(&r->g, name, &e) < 0)
            runner_say("cannot remove the container of an earlier run: %s", e.text);
    }
}

/* ---- image ---- */

/* Fills r->image.  ERR_NOT_FOUND: the engine does not have it. */
static int image_ask(struct runner *r, const char *name, struct err *e)
{
    AUTO_FREE char *path = engine_path("/images/", name, "/json");

    json_free(TAKE(r->image));
    return engine_call(&r->g, "GET", path, NULL, &r->image, e);
}

/* Podman files what is built on this machine under localhost/, and does not look there. */
static int image_look(struct runner *r, struct err *e)
{
    if (image_ask(r, r->f.image, e) == 0)
        return 0;
    if (!r->g.podman || e->code != ERR_NOT_FOUND)
        return -1;
    struct err ignored;
    const char *here = arena_printf(&r->f.mem, "localhost/%s", r->f.image);
    if (image_ask(r, here, &ignored) < 0)
        return -1;
    r->f.image = here;
    return 0;
}

static void setup_print_line(const char *text)
{
    runner_say("%s", text);
}

/* 0 = fetched, -1 = not; ends the process when told to stop meanwhile. */
static int pull(struct runner *r, struct err *e)
{
    AUTO_FREE char *path = pull_path(r->f.image);
    struct engine_stream *s = NULL;
    int more = 1;

    struct pull *p = pull_new(r->f.image, setup_print_line);
    if (engine_stream_open(&s, &r->g, "POST", path, pull_feed, p, e) < 0) {
        pull_free(p);
        return -1;
    }
    while (more == 1) {
        struct pollfd fds[] = {{.fd = engine_stream_fd(s), .events = POLLIN},
                               {.fd = r->signals, .events = POLLIN}};
        if (poll(fds, ARRAY_SIZE(fds), -1) <= 0)
            continue;
        if (fds[1].revents)
            runner_signals(r);
        if (fds[0].revents)
            more = engine_stream_read(s, e);
    }
    if (more == 0 && pull_trouble(p))
        more = err_set(e, ERR_NOT_FOUND, "%s", pull_trouble(p));
    else if (more == 0 && engine_stream_status(s) >= 300)
        more = err_set(e, ERR_NOT_FOUND, "the container engine answered with status %d",
                       engine_stream_status(s));
    else if (more == 0)
        pull_end(p);
    engine_stream_free(s);
    pull_free(p);
    return more;
}

void setup_image(struct runner *r)
{
    const char *policy = facts_own(&r->f, "pull") ?: "missing";
    struct err e = {0}, why = {0};
    bool here = image_look(r, &e) == 0;

    if (!here && e.code != ERR_NOT_FOUND && e.code != ERR_INTERNAL && e.code != ERR_INVALID)
        runner_fail(r, "engine", "", "%s", e.text);
    if (!strcmp(policy, "never") && !here)
        runner_fail(r, "image", r->f.image,
                    "image %s is not on this machine and container.pull is \"never\"; load the "
                    "image or remove container.pull",
                    r->f.image);
    if (!strcmp(policy, "always") || !here) {
        if (pull(r, &why) < 0 && !here)
            runner_fail(r, "image", r->f.image,
                        "image %s is not on this machine and cannot be pulled: %s; check its name, "
                        "or load it into the engine by hand",
                        r->f.image, why.text);
        if (why.code)
            runner_say("using the local copy of the image: %s", why.text);
        if (image_look(r, &e) < 0)
            runner_fail(r, "image", r->f.image, "image %s cannot be used: %s", r->f.image, e.text);
    }
}

/* ---- network ---- */

/* A network that can be made: not one of the engine's own words. */
static bool network_is_named(const char *name)
{
    return name && *name && !network_is_host(name) && strcmp(name, "none") != 0 &&
           strcmp(name, "bridge") != 0 && strcmp(name, "default") != 0 &&
           strncmp(name, "container:", 10) != 0;
}

/* ERR_CONFLICT: another run made the same network just now. */
static void network_make(struct runner *r, const char *name)
{
    AUTO_FREE char *path = engine_path("/networks/", name, "");
    struct err e = {0};

    if (engine_call(&r->g, "GET", path, NULL, NULL, &e) == 0)
        return;
    AUTO(json) struct json *body = json_new_object();
    struct json *labels = json_new_object();
    json_set_str(body, "Name", name);
    json_set_take(body, "CheckDuplicate", json_new_bool(true));
    json_set_str(labels, LABEL_HOME, r->f.home);
    json_set_take(body, "Labels", labels);
    if (engine_call(&r->g, "POST", "/networks/create", body, NULL, &e) < 0 &&
        e.code != ERR_CONFLICT)
        runner_fail(r, "container", name, "cannot create network %s: %s", name, e.text);
}

/* The port of "127.0.0.1:23456"; 0 when it is not on loopback. */
static int loopback_port(const char *endpoint)
{
    struct str port, host = endpoint ? str_cut(str_of(endpoint), ':', &port) : STR("");
    int64_t n;

    if (!str_starts(host, STR("127.")) || !str_to_i64(port, &n) || n < 1 || n > 65535)
        return 0;
    return (int)n;
}

/* A failure is only logged: the job can do its work without reporting. */
static void open_gateway(struct runner *r, const char *network)
{
    AUTO_FREE char *path = engine_path("/networks/", network, "");
    int to = loopback_port(r->f.endpoint), port = 0;
    AUTO(json) struct json *about = NULL;
    struct err e = {0};
    char addr[64];

    if (!to)
        return;
    int rc = engine_call(&r->g, "GET", path, NULL, &about, &e);
    if (rc == 0 && r->g.rootless)
        rc = err_set(&e, ERR_UNAVAILABLE,
                     "containers of this engine cannot reach the host over the network");
    if (rc == 0 && !gateway_address(about, addr))
        rc = err_set(&e, ERR_UNAVAILABLE, "the host has no address in network %.60s", network);
    if (rc == 0)
        rc = gateway_open(addr, to, &port, &e);
    if (rc < 0) {
        runner_say("the training library in the container cannot reach the scheduler: %s; try "
                   "container.network: host",
                   e.text);
        return;
    }
    r->endpoint = arena_printf(&r->f.mem, "%s:%d", addr, port);
}

void setup_network(struct runner *r)
{
    const char *name = facts_own(&r->f, "network");

    if (network_is_named(name))
        network_make(r, name);
    if (network_is_host(name) || (name && !strcmp(name, "none")) ||
        (name && !strncmp(name, "container:", 10)))
        return;
    open_gateway(r, network_is_named(name) ? name : r->g.podman ? "podman" : "bridge");
}

/* ---- create ---- */

/* Engines bring a small first process along; where that is missing it is done without. */
static bool lacks_init(const struct err *e)
{
    return strstr(e->text, "docker-init") || strstr(e->text, "catatonit") ||
           strstr(e->text, "container-init");
}

/* 0, or -1 with the engine's words. */
static int create(struct runner *r, struct err *e)
{
    AUTO_FREE char *path = engine_path("/containers/create?name=", r->f.name, "");
    AUTO(json)
    struct json *body = create_body(&r->f, &r->g,
                                    &(struct create_with){.image = r->image,
                                                          .endpoint = r->endpoint,
                                                          .mark = getenv("BERTH_MARK"),
                                                          .no_init = r->no_init,
                                                          .groups = r->groups,
                                                          .n_groups = r->n_groups});
    int rc = engine_call(&r->g, "POST", path, body, NULL, e);

    return rc;
}

/* One of this name was made by us before, in a call of which the answer was lost. */
static bool is_ours(struct runner *r)
{
    AUTO_FREE char *path = engine_path("/containers/", r->f.name, "/json");
    AUTO(json) struct json *about = NULL;
    struct run_key key;
    struct err e;

    if (engine_call(&r->g, "GET", path, NULL, &about, &e) < 0)
        return false;
    const struct json *config = json_get(about, "Config"),
                      *home = json_get(json_get(config, "Labels"), LABEL_HOME),
                      *state = json_get(json_get(about, "State"), "Status");
    bool ours = json_type(home) == JSON_STR && str_eq_c(json_str(home), r->f.home) &&
                container_key(config, &key) && run_key_eq(key, r->f.key);
    r->was_started = ours && json_type(state) == JSON_STR &&
                     !str_eq_c(json_str(state), "created") &&
                     !str_eq_c(json_str(state), "configured");
    return ours;
}

bool setup_without_init(struct runner *r, const struct err *e)
{
    struct err ignored = {0};

    if (r->no_init || !lacks_init(e) || json_get(r->f.own, "init"))
        return false;
    r->no_init = true;
    container_remove(&r->g, r->f.name, &ignored);
    return true;
}

void setup_create(struct runner *r)
{
    struct err e = {0};

    if (create(r, &e) == 0 || (e.code == ERR_CONFLICT && is_ours(r)) ||
        (setup_without_init(r, &e) && create(r, &e) == 0))
        return;
    runner_fail(r, e.code == ERR_UNAVAILABLE ? "engine" : "container", r->f.image,
                "cannot create the container: %s", e.text);
}
