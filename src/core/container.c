/* container.c - a run with an image: the ordinary run that stands for its container
 *
 * Owns: what such a run is given.  Its command becomes our own program with the facts in its
 * environment (backend/container.h); limits, mounts and variables go to the container, not to that
 * process.  Three directories are mounted at their own paths besides the job's: that of the run,
 * the one with the daemon's socket, and the Python package, so that a job reports from inside as it
 * would outside.
 */
#include "backend/container.h"
#include "base/arena.h"
#include "base/hash.h"
#include "core/core_priv.h"
#include <stdio.h>

void core_home_id(const struct core *c, char out[CORE_HOME_ID_MAX])
{
    static const char purpose[] = "name of the home";
    uint8_t mac[32];

    hmac_sha256(c->secret, sizeof(c->secret), purpose, sizeof(purpose), mac);
    for (size_t i = 0; i < (CORE_HOME_ID_MAX - 1) / 2; i++)
        snprintf(out + 2 * i, 3, "%02x", mac[i]);
}

/* ---- what the job says ---- */

/* The settings of the job, NULL = none.  The caller frees them. */
static struct json *own_settings(const struct spec *s)
{
    struct json *own = NULL;
    struct err e;

    if (s->container.options && json_parse(str_of(s->container.options), "container", &own, &e) < 0)
        return NULL; /* written by json_text: always valid */
    return own;
}

static bool setting_is(const struct json *own, const char *key, const char *value)
{
    const struct json *v = json_get(own, key);

    return json_type(v) == JSON_STR && str_eq_c(json_str(v), value);
}

char **container_ports(const struct spec *s, struct arena *a)
{
    struct json *own;
    size_t n = 0;

    if (!s->container.image || !s->container.ports)
        return s->container.ports;
    own = own_settings(s);
    bool host = setting_is(own, "network", "host");
    json_free(own);
    if (host)
        return s->container.ports;
    while (s->container.ports[n])
        n++;
    char **same = arena_alloc(a, (n + 1) * sizeof(*same));
    for (size_t i = 0; i < n; i++) { /* the engine opens them: for others they are only taken */
        int at = (int)strcspn(s->container.ports[i], ":");
        same[i] =
            arena_printf(a, "%.*s:%.*s", at, s->container.ports[i], at, s->container.ports[i]);
    }
    return same;
}

/* ---- facts ---- */

static struct json *texts(char *const *list)
{
    struct json *j = json_new_array();

    for (; list && *list; list++)
        json_push_take(j, json_new_str(str_of(*list)));
    return j;
}

static size_t texts_count(char *const *list)
{
    size_t n = 0;

    while (list && list[n])
        n++;
    return n;
}

static void add_mount(struct json *list, const char *path, const char *mode)
{
    if (!path || path[0] != '/' || strchr(path, ':')) /* no engine takes such a path */
        return;
    AUTO_FREE char *text = xasprintf("%s:%s%s", path, path, mode);
    json_push_take(list, json_new_str(str_of(text)));
}

/* The mounts of the job and the three directories of ours. */
static struct json *mounts(const struct core *c, const struct spec *s, const char *run_dir)
{
    struct json *list = texts(s->container.mounts);

    add_mount(list, run_dir, "");
    add_mount(list, c->conf.containers.socket_dir, "");
    add_mount(list, c->conf.home.python_path, ":ro");
    return list;
}

/* Devices go by UUID if they have one that the engine knows, else by ordinal.  AMD devices are not
 * named one by one. */
static struct json *devices(const struct core *c, const struct node *n, const struct gpu_set *set)
{
    struct json *gpus = json_new_object(), *nvidia = json_new_array();
    bool amd = false;

    for (size_t i = 0; i < n->n_devices && !c->conf.containers.gpus_by_env; i++) {
        const struct device *d = &n->devices[i];
        char ordinal[16];
        bool named = !strncmp(d->uuid, "GPU-", 4) || !strncmp(d->uuid, "MIG-", 4);
        if (!gpu_set_has(set, (uint32_t)i))
            continue;
        amd |= d->vendor == DEVICE_AMD;
        snprintf(ordinal, sizeof(ordinal), "%d", (int)d->ordinal);
        if (d->vendor != DEVICE_AMD)
            json_push_take(nvidia, json_new_str(str_of(named ? d->uuid : ordinal)));
    }
    json_set_take(gpus, "nvidia", nvidia);
    if (amd)
        json_set_take(gpus, "amd", json_new_bool(true));
    return gpus;
}

static struct json *facts(const struct core *c, const struct run *r, const struct launch *l,
                          const struct run_start *start)
{
    const struct spec *s = l->spec;
    struct json *f = json_new_object(), *own = own_settings(s);
    const struct json *image_command = json_get(own, "image_command");
    char home[CORE_HOME_ID_MAX];

    core_home_id(c, home);
    json_set_str(f, "engine", c->conf.containers.engine);
    json_set_str(f, "home", home);
    json_set_int(f, "job", (int64_t)r->key.job);
    json_set_int(f, "run", r->key.run);
    json_set_int(f, "tag", r->key.tag);
    json_set_str(f, "image", s->container.image);
    if (json_type(image_command) != JSON_BOOL || !json_bool(image_command))
        json_set_take(f, "command", texts(start->argv));
    json_set_take(f, "env", texts(start->envp));
    json_set_take(f, "mounts", mounts(c, s, start->run_dir));
    if (start->change_user)
        json_set_int(f, "check_mounts", (int64_t)texts_count(s->container.mounts));
    json_set_take(f, "ports", texts(s->container.ports));
    json_set_str(f, "ports_addr", c->conf.containers.ports_addr);
    json_set_int(f, "mem", s->need.mem_bytes);
    json_set_int(f, "mcpu", s->need.mcpu);
    json_set_int(f, "grace_ms", s->limits.grace_ms);
    json_set_int(f, "uid", l->uid);
    json_set_int(f, "gid", l->gid);
    json_set_take(f, "gpus", devices(c, host_node(r->host), &r->gpus));
    AUTO_FREE char *work = s->command.snapshot ? core_work_dir(c, r->key) : NULL;
    AUTO_FREE char *start_in =
        work && s->command.snapshot_dir ? xasprintf("%s/%s", work, s->command.snapshot_dir) : NULL;
    json_set_str(f, "workdir", start_in ? start_in : work ? work : s->command.cwd);
    json_set_str(f, "run_dir", start->run_dir);
    json_set_str(f, "endpoint", c->gpu.endpoint);
    json_set_take(f, "container", own);
    return f;
}

/* One variable holds 128 KiB at most, so a long text goes in pieces.  The home stands there too: by
 * it people find what belongs together. */
static char **fact_variables(const struct core *c, struct arena *a, const char *text)
{
    size_t n = strlen(text), pieces = n / CONTAINER_PIECE_MAX + 1;
    char **envp = arena_alloc(a, (pieces + 2) * sizeof(*envp));

    for (size_t i = 0; i < pieces; i++) {
        char number[24] = "";
        size_t at = i * CONTAINER_PIECE_MAX;
        if (i)
            snprintf(number, sizeof(number), "%zu", i);
        envp[i] = arena_printf(a, CONTAINER_FACTS "%s=%.*s", number,
                               (int)MIN(n - at, CONTAINER_PIECE_MAX), text + at);
    }
    envp[pieces] = arena_printf(a, "BERTH_HOME=%s", c->conf.home.dir);
    return envp;
}

int container_wrap(const struct core *c, const struct run *r, const struct launch *l,
                   struct arena *a, struct run_start *start, struct err *e)
{
    if (!r->host->ours)
        return err_set(e, ERR_INVALID,
                       "image %.100s cannot be used on node %s: containers are made on the "
                       "daemon's own machine; name that one under nodes",
                       l->spec->container.image, host_node(r->host)->name);
    if (spec_check_image(l->spec, e) < 0)
        return -1;
    if (!c->conf.home.program)
        return err_set(e, ERR_UNAVAILABLE,
                       "image %.100s cannot be used: the path of berth is not known here",
                       l->spec->container.image);
    char **argv = arena_alloc(a, 3 * sizeof(*argv));
    argv[0] = arena_strdup(a, c->conf.home.program);
    argv[1] = arena_strdup(a, "__container");
    AUTO(json) struct json *told = facts(c, r, l, start);
    AUTO_FREE char *text = json_text(told);
    start->argv = argv;
    start->envp = fact_variables(c, a, text);
    start->cwd = start->run_dir;
    start->mounts = NULL;
    start->need.mem_bytes = start->need.mcpu = 0;
    start->limits.grace_ms += CONTAINER_MARGIN_MS;
    start->container = true;
    return 0;
}
