/* translate.c - docker-py names to the job form
 *
 * Owns: what a worker finds in its environment and under which paths.
 *
 * A job without an image, or with the standard worker's own, runs with the built-in worker: in its
 * working directory on the host, which it also sees as /job where the host can mount.  With an
 * image of its own it gets the mounts and variables of the container contract.
 *
 * A client sends the paths of its own configuration; the server's stand where both mean the same
 * place, so that a client on another machine need not know them.
 */
#include "dialect/atlas/translate.h"
#include "base/util.h"
#include "base/vec.h"
#include "dialect/atlas/atlas.h"
#include "dialect/atlas/config.h"
#include "dialect/atlas/home.h"
#include "model/spec.h"
#include <stdio.h>

#define IN_CONTAINER_HOME "/root/.foundations/"
#define IN_CONTAINER_CONFIG "/root/.foundations/config"

/* Of the server's environment; a worker's program, libraries, languages and ways out. */
static const char *const passed_on[] = {
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "CUDA_HOME",
    "LD_LIBRARY_PATH",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
};
static const char *const passed_prefixes[] = {"LC_", "PIP_", "XDG_"};

/* A member that must be an object; clients send null, or nothing, where they have nothing to say.
 * -1: it is something else. */
static int submission_member(const struct json *body, const char *key, const struct json **out,
                             struct err *e)
{
    *out = json_get(body, key);
    if (*out && json_type(*out) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "%s must be an object, not %s", key,
                       json_type_name(json_type(*out)));
    return 0;
}

/* The members borrow from the body. */
int atlas_submission_read(const struct json *body, struct atlas_submission *out, struct err *e)
{
    struct atlas_submission s = {0};

    if (json_type(body) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "a job is an object with job_id, spec, metadata, gpu_spec");
    if (!json_has(body, "job_id") || !json_get(body, "spec"))
        return err_set(e, ERR_INVALID, "%s is missing: a job needs job_id and spec",
                       json_has(body, "job_id") ? "spec" : "job_id");
    const struct json *id = json_get(body, "job_id");
    if (json_type(id) != JSON_STR || json_str(id).n != ID_UUID_LEN || !atlas_id_ok(json_str(id).p))
        return err_set(e, ERR_INVALID, "job_id must be a UUID");
    if (submission_member(body, "spec", &s.spec, e) < 0 ||
        submission_member(body, "metadata", &s.metadata, e) < 0 ||
        submission_member(body, "gpu_spec", &s.gpu_spec, e) < 0)
        return -1;
    s.id = json_str(id).p;
    *out = s;
    return 0;
}

/* ---- words ---- */

/* A list, or one text, as words behind those in `out`. */
static int add_words(struct json *out, const struct json *v, const char *key, struct err *e)
{
    if (json_type(v) == JSON_STR) {
        json_push_take(out, json_copy(v));
        return 0;
    }
    if (v && json_type(v) != JSON_ARRAY)
        return err_set(e, ERR_INVALID, "spec.%s must be a string or a list of strings", key);
    for (size_t i = 0; i < json_len(v); i++) {
        const struct json *word = json_at(v, i);
        if (json_type(word) == JSON_STR) {
            json_push_take(out, json_copy(word));
        } else if (json_type(word) == JSON_INT || json_type(word) == JSON_REAL) {
            AUTO_FREE char *text = json_text(word);
            json_push_take(out, json_new_str(str_of(text)));
        } else {
            return err_set(e, ERR_INVALID, "spec.%s[%zu] must be a string", key, i);
        }
    }
    return 0;
}

/* ---- environment ---- */

/* Only names of the lists above: secrets of the server's environment stay with the server. */
static void pass_environment(struct json *env, char *const *from)
{
    for (; from && *from; from++) {
        const char *eq = strchr(*from, '=');
        size_t n = eq ? (size_t)(eq - *from) : 0;
        bool take = false;
        for (size_t i = 0; n && i < ARRAY_SIZE(passed_on); i++)
            take |= strlen(passed_on[i]) == n && !memcmp(*from, passed_on[i], n);
        for (size_t i = 0; n && i < ARRAY_SIZE(passed_prefixes); i++)
            take |= !strncmp(*from, passed_prefixes[i], strlen(passed_prefixes[i]));
        if (!take || !str_is_utf8(str_of(*from)))
            continue;
        AUTO_FREE char *key = xstrndup(*from, n);
        json_set_str(env, key, eq + 1);
    }
}

/* Any other value becomes its JSON text; null is the empty text. */
static void translate_set_text(struct json *env, const char *key, const struct json *v)
{
    if (json_type(v) == JSON_STR) {
        json_set_take(env, key, json_copy(v));
    } else if (v) {
        AUTO_FREE char *text = json_text(v);
        json_set_str(env, key, text);
    } else {
        json_set_str(env, key, "");
    }
}

/* What clients of the original always send, and what means the same place here. */
static bool is_contract(const char *key, const struct json *v)
{
    struct str s = json_type(v) == JSON_STR ? json_str(v) : (struct str){"", 0};

    return (!strcmp(key, "PYTHONPATH") && (str_eq_c(s, "/job/") || str_eq_c(s, "/job"))) ||
           (!strcmp(key, "FOUNDATIONS_HOME") && str_starts(s, STR("/root/.foundations")));
}

/* Lays spec.environment, a map or a list of KEY=value, over what the server set.  Outside of a
 * container the paths that a client sends for a container (is_contract) would name nothing. */
static int lay_environment(struct json *env, const struct json *over, bool container, struct err *e)
{
    for (struct json_it it = {0}; json_type(over) == JSON_OBJECT && json_next(over, &it);)
        if (container || !is_contract(it.key, it.val))
            translate_set_text(env, it.key, it.val);
    for (size_t i = 0; json_type(over) == JSON_ARRAY && i < json_len(over); i++) {
        const struct json *pair = json_at(over, i);
        struct str text = json_type(pair) == JSON_STR ? json_str(pair) : STR("");
        struct str value, key = str_cut(text, '=', &value);
        if (!key.n || key.n == text.n)
            return err_set(e, ERR_INVALID,
                           "spec.environment[%zu] must be a string such as KEY=value", i);
        AUTO_FREE char *name = xstrndup(key.p, key.n);
        json_set_take(env, name, json_new_str(value));
    }
    if (over && json_type(over) != JSON_OBJECT && json_type(over) != JSON_ARRAY)
        return err_set(e, ERR_INVALID, "spec.environment must be a map, or a list of KEY=value");
    return 0;
}

/* The order decides: the server's own variables, then those of Atlas, then those of the submission,
 * each over the ones before.  A container gets none of the server's variables.  NULL: e is set. */
static struct json *environment_of(const struct atlas_submission *s, const struct atlas_world *w,
                                   const char *project, const char *user, bool container,
                                   struct err *e)
{
    struct json *env = json_new_object();
    AUTO_FREE char *work = xasprintf("%s/" ATLAS_DIR_WORK "/%s/", w->home, s->id);
    AUTO_FREE char *archive = xasprintf("%s/" ATLAS_DIR_ARCHIVE "/%s", w->home, s->id);

    if (!container)
        pass_environment(env, w->environ_);
    json_set_str(env, "FOUNDATIONS_USER", user);
    json_set_str(env, "FOUNDATIONS_JOB_ID", s->id);
    json_set_str(env, "FOUNDATIONS_PROJECT_NAME", project);
    if (w->token)
        json_set_str(env, "FOUNDATIONS_TOKEN", w->token);
    json_set_str(env, "FOUNDATIONS_HOME", container ? IN_CONTAINER_HOME : w->home);
    json_set_str(env, "FOUNDATIONS_JOB_ARCHIVE", archive); /* the same path in a container */
    json_set_str(env, "PYTHONPATH", container ? "/job/" : work);
    if (!container) {
        json_set_str(env, "PYTHONUNBUFFERED", "1"); /* or the log comes in pieces of 8 KB */
        json_set_str(env, "FOUNDATIONS_PYTHON", w->python);
    }
    if (lay_environment(env, json_get(s->spec, "environment"), container, e) < 0) {
        json_free(env);
        return NULL;
    }
    return env;
}

/* ---- mounts ---- */

static void translate_add_mount(struct json *list, const char *host, const char *target,
                                bool read_only)
{
    AUTO_FREE char *text = xasprintf("%s:%s%s", host, target, read_only ? ":ro" : "");

    json_push_take(list, json_new_str(str_of(text)));
}

/* Places that the server itself provides, whatever a client says of them.  A client on another
 * machine sends the paths of its own home; they need not exist here. */
static bool is_built_in(struct str bind, const char *host)
{
    return str_eq_c(bind, "/job") || str_eq_c(bind, "/job/") ||
           str_eq_c(bind, IN_CONTAINER_CONFIG) || str_eq_c(bind, IN_CONTAINER_CONFIG "/") ||
           (str_eq_c(bind, host) && strstr(host, "/.foundations/"));
}

/* Volumes that the server provides itself are skipped. */
static int lay_volumes(struct json *mounts, const struct json *volumes, struct err *e)
{
    for (struct json_it it = {0}; json_next(volumes, &it);) {
        const struct json *bind = json_get(it.val, "bind"), *mode = json_get(it.val, "mode");
        if (json_type(bind) != JSON_STR)
            return err_set(e, ERR_INVALID, "spec.volumes['%.60s'] has no bind path", it.key);
        if (is_built_in(json_str(bind), it.key))
            continue;
        if (it.key[0] != '/' || json_str(bind).p[0] != '/' || strchr(it.key, ':') ||
            memchr(json_str(bind).p, ':', json_str(bind).n))
            return err_set(e, ERR_INVALID,
                           "spec.volumes['%.60s']: both paths must be absolute and have no ':'",
                           it.key);
        translate_add_mount(mounts, it.key, json_str(bind).p,
                            json_type(mode) == JSON_STR && str_eq_c(json_str(mode), "ro"));
    }
    return 0;
}

/* Results and working directories have the same path inside and outside a container. */
static struct json *mounts_of(const struct atlas_submission *s, const struct atlas_world *w,
                              bool container, struct err *e)
{
    struct json *mounts = json_new_array();
    AUTO_FREE char *work = xasprintf("%s/" ATLAS_DIR_WORK, w->home),
                   *mine = xasprintf("%s/%s", work, s->id),
                   *results = xasprintf("%s/" ATLAS_DIR_RESULTS, w->home),
                   *config = xasprintf("%s/" ATLAS_DIR_WORKER_CONFIG, w->home);

    if (container || w->mounts)
        translate_add_mount(mounts, mine, "/job", false);
    if (container) {
        translate_add_mount(mounts, results, results, false);
        translate_add_mount(mounts, work, work, false);
        translate_add_mount(mounts, config, IN_CONTAINER_CONFIG, false);
    }
    if ((container || w->mounts) && lay_volumes(mounts, json_get(s->spec, "volumes"), e) < 0) {
        json_free(mounts);
        return NULL;
    }
    return mounts;
}

/* ---- the form ---- */

/* Borrowed; p is NULL when the member is missing or is no text. */
static struct str translate_text(const struct json *obj, const char *key)
{
    const struct json *v = json_get(obj, key);

    return json_type(v) == JSON_STR ? json_str(v) : (struct str){NULL, 0};
}

static int translate_gpus(const struct atlas_submission *s, int64_t *out, struct err *e)
{
    const struct json *n = json_get(s->gpu_spec, "num_gpus");

    *out = n ? json_int(n) : 0;
    if (n && (json_type(n) != JSON_INT || *out < 0 || *out > 100000))
        return err_set(e, ERR_INVALID, "gpu_spec.num_gpus must be 0 or a larger whole number");
    return 0;
}

/* GPUs are not shared: Atlas promises a whole GPU to a job. */
static int resources_of(const struct atlas_submission *s, const struct atlas_world *w, int64_t gpus,
                        struct json *form, struct err *e)
{
    const struct json *limit = json_get(s->spec, "mem_limit");
    struct json *r = json_new_object();
    int64_t bytes = 0;

    if (limit && atlas_ram_bytes(limit, &bytes, e) < 0) {
        json_free(r);
        return err_wrap(e, "spec.mem_limit");
    }
    /* A limit above the memory of every node would only keep the job from being placed. */
    if (bytes && (!w->mem_bytes || bytes <= w->mem_bytes))
        json_set_int(r, "mem", MAX(bytes, (int64_t)(4 << 20)));
    if (gpus) {
        json_set_int(r, "gpus", gpus);
        json_set_take(r, "gpu_share", json_new_bool(false));
    }
    json_set_take(form, "resources", r);
    return 0;
}

/* The submission is kept as it came, for the answers of /jobs. */
static struct json *extra_of(const struct atlas_submission *s, const char *run)
{
    struct json *extra = json_new_object();

    json_set_take(extra, "spec", json_copy(s->spec));
    json_set_take(extra, "metadata", s->metadata ? json_copy(s->metadata) : json_new_object());
    json_set_take(extra, "gpu_spec", s->gpu_spec ? json_copy(s->gpu_spec) : json_new_object());
    json_set_str(extra, "run", run);
    return extra;
}

/* A container has its entrypoint in its own settings; elsewhere the entrypoint is the first
 * word. */
static int words_of(const struct atlas_submission *s, bool container, struct json *command,
                    const char **run, struct err *e)
{
    const struct json *entry = json_get(s->spec, "entrypoint");

    *run = container || entry ? ATLAS_RUN_EXEC : ATLAS_RUN_SCRIPT;
    if (!container && entry && add_words(command, entry, "entrypoint", e) < 0)
        return -1;
    return add_words(command, json_get(s->spec, "command"), "command", e);
}

/* How the image is run.  Without an entrypoint of the job's the image's own stands. */
static struct json *container_of(const struct atlas_submission *s)
{
    static const struct {
        const char *theirs, *ours;
    } same[] = {{"entrypoint", "entrypoint"}, {"working_dir", "workdir"}, {"user", "user"},
                {"network", "network"},       {"runtime", "runtime"},     {"shm_size", "shm_size"},
                {"hostname", "hostname"}};
    struct json *c = json_new_object();

    json_set_str(c, "workdir", "/job/job_source");
    json_set_str(c, "network", "foundations-atlas");
    for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
        const struct json *v = json_get(s->spec, same[i].theirs);
        if (v)
            json_set_take(c, same[i].ours, json_copy(v));
    }
    if (!json_len(json_get(s->spec, "command")) &&
        json_type(json_get(s->spec, "command")) != JSON_STR)
        json_set_take(c, "image_command", json_new_bool(true));
    return c;
}

/* What listings call it: the first word, within what a name may be. */
static struct json *translate_name(struct str word)
{
    return json_new_str(word.n ? (struct str){word.p, MIN(word.n, (size_t)SPEC_NAME_MAX)}
                               : STR("job"));
}

/* A job with more GPUs than any node has is accepted and fails in its turn; its log says why. */
static int translate_fill(const struct atlas_submission *s, const struct atlas_world *w,
                          struct json *form, struct err *e)
{
    struct str image = translate_text(s->spec, "image"),
               project = translate_text(s->metadata, "project_name"),
               user = translate_text(s->metadata, "username");
    bool container = image.n && !atlas_image_is_standard(image);
    struct json *command = json_new_array();
    const char *run = ATLAS_RUN_SCRIPT;
    int64_t gpus;

    json_set_take(form, "command", command);
    json_set_str(form, "project", project.n ? project.p : "default");
    json_set_str(form, "queue", ATLAS_QUEUE);
    json_set_str(form, "dialect", ATLAS_DIALECT);
    json_set_str(form, "grace", "5s");
    json_set_str(form, "log_limit", "1G");
    if (translate_gpus(s, &gpus, e) < 0 || words_of(s, container, command, &run, e) < 0)
        return -1;
    struct json *env = environment_of(s, w, project.n ? project.p : "default",
                                      user.n ? user.p : "CE User", container, e);
    if (!env)
        return -1;
    json_set_take(form, "env", env);
    struct json *mounts = mounts_of(s, w, container, e);
    if (!mounts)
        return -1;
    if (json_len(mounts))
        json_set_take(form, "mounts", mounts);
    else
        json_free(mounts);
    AUTO_FREE char *cwd = xasprintf("%s/" ATLAS_DIR_WORK "/%s", w->home, s->id);
    struct json *extra = extra_of(s, run);
    json_set_str(form, "cwd", cwd);
    json_set_take(form, "extra", extra);
    if (!json_len(command))
        json_push_take(command, json_new_str(STR("-"))); /* python reads nothing and is done */
    json_set_take(form, "name", translate_name(json_str(json_at(command, 0))));
    if (gpus > w->gpus) { /* it fails in its turn, with this as its log */
        AUTO_FREE char *text =
            xasprintf("Foundations ERROR: Job '%s' expects to use more GPUs (%lld) than available "
                      "(%d), removing from the queue",
                      s->id, (long long)gpus, w->gpus);
        json_set_str(extra, "run", ATLAS_RUN_REFUSE);
        json_set_str(extra, "refused", text);
        json_del(form, "mounts"); /* what the worker prints needs none, and one may be missing */
        gpus = 0;
    } else if (container) {
        json_set_take(form, "image", json_new_str(image));
        json_set_take(form, "container", container_of(s));
    }
    return resources_of(s, w, gpus, form, e);
}

int atlas_translate(const struct atlas_submission *s, const struct atlas_world *w,
                    struct json **out, struct err *e)
{
    struct json *form = json_new_object();

    if (translate_fill(s, w, form, e) < 0) {
        json_free(form);
        return -1;
    }
    *out = form;
    return 0;
}
