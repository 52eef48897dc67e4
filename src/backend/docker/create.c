/* create.c - what an engine is told about the container of a run
 *
 * Owns: the translation of a run's facts into the Engine API's words.  Pure.
 *
 * The container runs as the submitter unless the job says otherwise, so that what it writes into
 * mounted directories is theirs.  With an engine that itself runs without rights of root, root
 * inside *is* the submitter outside, so that is what it gets there.
 *
 * Output is kept by the engine until the container is removed, in the form of its driver that keeps
 * bytes as they are and drops none: from there it is read again after a broken connection.
 */
#include "backend/docker/docker_priv.h"
#include "base/util.h"
#include <inttypes.h>

/* Returns the new value, which belongs to `in`; so does set_array. */
static struct json *set_object(struct json *in, const char *key)
{
    struct json *o = json_new_object();

    json_set_take(in, key, o);
    return o;
}

static struct json *set_array(struct json *in, const char *key)
{
    struct json *a = json_new_array();

    json_set_take(in, key, a);
    return a;
}

static void push_text(struct json *list, const char *s)
{
    json_push_take(list, json_new_str(str_of(s)));
}

static void set_flag(struct json *o, const char *key, bool v)
{
    json_set_take(o, key, json_new_bool(v));
}

/* ---- variables ---- */

static struct str env_name(struct str s)
{
    struct str value;

    return str_cut(s, '=', &value);
}

/* The value of a variable in a list of "K=V". */
static bool env_list_value(const struct json *list, const char *name, struct str *out)
{
    for (size_t i = 0; i < json_len(list); i++) {
        struct str value, key = str_cut(json_str(json_at(list, i)), '=', &value);
        if (str_eq_c(key, name)) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* What the job says stands over what the image says, except that the image keeps its own modules
 * in reach: PYTHONPATH is ours, the job's, then the image's. */
static void push_variable(struct facts *f, const struct create_with *w, struct json *env,
                          struct str s)
{
    struct str name = env_name(s), own;
    struct str value = {s.p + name.n + 1, s.n - MIN(s.n, name.n + 1)};
    const struct json *image = json_get(json_get(w->image, "Config"), "Env");

    if (w->endpoint && f->endpoint && str_eq_c(value, f->endpoint))
        push_text(env, arena_printf(&f->mem, STR_FMT "=%s", STR_ARG(name), w->endpoint));
    else if (str_eq_c(name, "PYTHONPATH") && env_list_value(image, "PYTHONPATH", &own) && own.n)
        push_text(env, arena_printf(&f->mem, STR_FMT ":" STR_FMT, STR_ARG(s), STR_ARG(own)));
    else
        json_push_take(env, json_new_str(s));
}

static void set_env(struct json *body, struct facts *f, const struct create_with *w)
{
    const struct json *list = json_get(f->doc, "env");
    struct json *env = set_array(body, "Env");

    for (size_t i = 0; i < json_len(list); i++)
        push_variable(f, w, env, json_str(json_at(list, i)));
    if (w->mark) /* by it the processes inside are known as this run's */
        push_text(env, arena_printf(&f->mem, "BERTH_MARK=%s", w->mark));
}

/* ---- what runs ---- */

/* A text is one word, a list is the words; "" or [] takes the image's own away. */
static void set_words(struct json *body, const char *key, const struct json *v)
{
    if (json_type(v) == JSON_ARRAY) {
        json_set_take(body, key, json_copy(v));
        return;
    }
    if (json_type(v) != JSON_STR)
        return;
    struct json *list = set_array(body, key);
    json_push_take(list, json_copy(v));
}

/* NULL = the user that the image names. */
static const char *user_of(struct facts *f, const struct engine *g)
{
    const char *said = facts_own(f, "user");

    if (said && !strcmp(said, "image"))
        return NULL;
    if (said)
        return said;
    if (g->rootless)
        return "0:0";
    return arena_printf(&f->mem, "%" PRIu32 ":%" PRIu32, f->uid, f->gid);
}

static void set_process(struct json *body, struct facts *f, const struct engine *g)
{
    const char *dir = facts_own(f, "workdir") ?: f->workdir;

    json_set_str(body, "Image", f->image);
    if (json_type(json_get(f->doc, "command")) == JSON_ARRAY)
        json_set_take(body, "Cmd", json_copy(json_get(f->doc, "command")));
    set_words(body, "Entrypoint", json_get(f->own, "entrypoint"));
    if (dir)
        json_set_str(body, "WorkingDir", dir);
    if (user_of(f, g))
        json_set_str(body, "User", user_of(f, g));
    if (facts_own(f, "hostname"))
        json_set_str(body, "Hostname", facts_own(f, "hostname"));
    set_flag(body, "AttachStdout", true);
    set_flag(body, "AttachStderr", true);
}

/* Ours come last: the labels of a job must not replace those by which its container is found. */
static void set_labels(struct json *body, struct facts *f)
{
    const struct json *more = json_get(f->own, "labels");
    struct json *labels = set_object(body, "Labels");

    for (struct json_it it = {0}; json_next(more, &it);)
        json_set_take(labels, it.key, json_copy(it.val));
    json_set_str(labels, LABEL_HOME, f->home);
    json_set_str(labels, LABEL_JOB, arena_printf(&f->mem, "%" PRIu64, f->key.job));
    json_set_str(labels, LABEL_RUN, arena_printf(&f->mem, "%" PRIu32, f->key.run));
    char key[RUN_KEY_TEXT_MAX];
    run_key_format(f->key, key);
    json_set_str(labels, LABEL_KEY, key);
}

/* ---- where and with what ---- */

static void set_ports(struct json *body, struct json *host, const struct facts *f)
{
    const struct json *list = json_get(f->doc, "ports");
    struct json *exposed, *bindings;

    if (!json_len(list))
        return;
    exposed = set_object(body, "ExposedPorts");
    bindings = set_object(host, "PortBindings");
    for (size_t i = 0; i < json_len(list); i++) {
        struct str inside, outside = str_cut(json_str(json_at(list, i)), ':', &inside);
        AUTO_FREE char *key = xasprintf(STR_FMT "/tcp", STR_ARG(inside));
        struct json *all =
            json_get(bindings, key) ? json_copy(json_get(bindings, key)) : json_new_array();
        struct json *one = json_new_object();

        json_set_take(one, "HostPort", json_new_str(outside));
        if (f->ports_addr)
            json_set_str(one, "HostIp", f->ports_addr);
        json_push_take(all, one);
        json_set_take(bindings, key, all);
        json_set_take(exposed, key, json_new_object());
    }
}

/* NVIDIA: by request of the devices planned.  AMD: the device files; which of them it uses is in
 * ROCR_VISIBLE_DEVICES. */
static void create_set_gpus(struct json *host, const struct facts *f)
{
    const struct json *gpus = json_get(f->doc, "gpus");
    struct json *list, *one;

    if (json_len(json_get(gpus, "nvidia"))) {
        list = set_array(host, "DeviceRequests");
        one = json_new_object();
        json_set_take(one, "DeviceIDs", json_copy(json_get(gpus, "nvidia")));
        struct json *capabilities = set_array(one, "Capabilities"), *gpu = json_new_array();
        push_text(gpu, "gpu");
        json_push_take(capabilities, gpu);
        json_push_take(list, one);
    }
    if (json_type(json_get(gpus, "amd")) == JSON_BOOL) {
        static const char *const files[] = {"/dev/kfd", "/dev/dri"};
        list = set_array(host, "Devices");
        for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
            one = json_new_object();
            json_set_str(one, "PathOnHost", files[i]);
            json_set_str(one, "PathInContainer", files[i]);
            json_set_str(one, "CgroupPermissions", "rwm");
            json_push_take(list, one);
        }
    }
}

static void set_limits(struct json *host, const struct facts *f)
{
    const struct json *shm = json_get(f->own, "shm_size");

    if (f->mem_bytes) {
        json_set_int(host, "Memory", f->mem_bytes);
        json_set_int(host, "MemorySwap", f->mem_bytes); /* no swap beyond it */
    }
    if (f->mcpu)
        json_set_int(host, "NanoCpus", f->mcpu * 1000000);
    if (json_type(shm) == JSON_INT)
        json_set_int(host, "ShmSize", json_int(shm));
}

/* With a user of its own choice the container gets only the groups of that user. */
static void set_groups(struct json *host, struct facts *f, const struct engine *g,
                       const struct create_with *w)
{
    if (!w->n_groups || g->rootless || facts_own(f, "user"))
        return;
    struct json *list = set_array(host, "GroupAdd");
    for (size_t i = 0; i < w->n_groups; i++)
        push_text(list, arena_printf(&f->mem, "%u", (unsigned)w->groups[i]));
}

static void set_log(struct json *host, const struct engine *g)
{
    struct json *log = set_object(host, "LogConfig"), *conf = json_new_object();

    json_set_str(log, "Type", g->podman ? "k8s-file" : "local");
    if (!g->podman) { /* one file that is never cut */
        json_set_str(conf, "max-size", "100000g");
        json_set_str(conf, "max-file", "1");
        json_set_str(conf, "compress", "false");
    }
    json_set_take(log, "Config", conf);
}

static void set_host(struct json *body, struct facts *f, const struct engine *g,
                     const struct create_with *w)
{
    struct json *host = set_object(body, "HostConfig");
    const char *network = facts_own(f, "network");
    const struct {
        const char *to, *from;
    } texts[] = {{"Runtime", "runtime"}, {"IpcMode", "ipc"}};

    json_set_take(host, "Binds", json_copy(json_get(f->doc, "mounts")));
    set_limits(host, f);
    create_set_gpus(host, f);
    set_groups(host, f, g, w);
    set_log(host, g);
    set_flag(host, "Init", !w->no_init && facts_flag(f, "init", true));
    set_flag(host, "ReadonlyRootfs", facts_flag(f, "read_only", false));
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (facts_own(f, texts[i].from))
            json_set_str(host, texts[i].to, facts_own(f, texts[i].from));
    if (network)
        json_set_str(host, "NetworkMode", network);
    if (!network_is_host(network))
        set_ports(body, host, f);
}

struct json *create_body(struct facts *f, const struct engine *g, const struct create_with *w)
{
    struct json *body = json_new_object();

    set_process(body, f, g);
    set_env(body, f, w);
    set_labels(body, f);
    set_host(body, f, g, w);
    return body;
}
