/* config.c - what may stand in the YAML files of Atlas, and of which type
 *
 * Owns: the tables of keys, and the two rules that are not about one key: how memory is written,
 * and how a job's `worker` block is laid over the scheduler's.
 */
#include "dialect/atlas/config.h"
#include "base/file.h"
#include "base/units.h"
#include "base/util.h"
#include "base/yaml.h"
#include <math.h>
#include <stdio.h>
#include <strings.h>

enum { CONFIG_MAX = 1 << 20, GIB_BELOW = 1 << 20, WARNING_MAX = 400 };

/* Types a value may have, as bits of enum json_type. */
enum {
    T_BOOL = 1 << JSON_BOOL,
    T_INT = 1 << JSON_INT,
    T_REAL = 1 << JSON_REAL,
    T_STR = 1 << JSON_STR,
    T_LIST = 1 << JSON_ARRAY,
    T_MAP = 1 << JSON_OBJECT,
    T_NUMBER = T_INT | T_REAL,
    T_WORDS = T_STR | T_LIST,
};
/* One key of a YAML file.  A value whose type is not among `types` is an error. */
struct key {
    const char *name;
    unsigned types;
    const struct key *inside; /* keys of the map; NULL = any */
};

static const struct key end_point_keys[] = {{"end_point", T_STR, NULL}, {0}};
static const struct key worker_keys[] = {
    {"image", T_STR, NULL},
    {"entrypoint", T_WORDS, NULL},
    {"command", T_WORDS, NULL},
    {"working_dir", T_STR, NULL},
    {"volumes", T_MAP, NULL},
    {"environment", T_MAP | T_LIST, NULL},
    {"args", T_LIST, NULL},
    {"network", T_STR, NULL},
    {"runtime", T_STR, NULL},
    {"mem_limit", T_STR | T_NUMBER, NULL},
    {"user", T_STR | T_INT, NULL},
    {"ports", T_MAP, NULL},
    {"shm_size", T_STR | T_NUMBER, NULL},
    {0},
};
static const struct key job_keys[] = {
    {"project_name", T_STR, NULL},  {"log_level", T_STR, NULL},
    {"entrypoint", T_WORDS, NULL},  {"params", T_MAP, NULL},
    {"num_gpus", T_INT, NULL},      {"ram", T_NUMBER | T_STR, NULL},
    {"worker", T_MAP, worker_keys}, {0},
};
static const struct key submission_keys[] = {
    {"job_deployment_env", T_STR, NULL},
    {"scheduler_url", T_STR, NULL},
    {"job_results_root", T_STR, NULL},
    {"working_dir_root", T_STR, NULL},
    {"container_config_root", T_STR, NULL},
    {"job_store_dir_root", T_STR, NULL},
    {"cache_config", T_MAP, end_point_keys},
    {"worker", T_MAP, worker_keys},
    {"redis_url", T_STR, NULL},
    {"log_level", T_STR, NULL},
    {"job_notification_channel", T_STR, NULL},
    {"ssh_config", T_MAP, NULL},
    {0},
};
static const struct key results_keys[] = {
    {"redis_end_point", T_STR, NULL},
    {"archive_end_point", T_STR, NULL},
    {"tracker_url", T_STR, NULL},
    {"artifact_path", T_STR, NULL},
    {0},
};
static const struct key execution_keys[] = {
    {"results_config", T_MAP, results_keys},
    {"cache_config", T_MAP, end_point_keys},
    {"log_level", T_STR, NULL},
    {"ssh_config", T_MAP, NULL},
    {"obfuscate_foundations", T_BOOL, NULL},
    {"enable_stages", T_BOOL, NULL},
    {"run_script_environment", T_MAP, NULL},
    {"job_deployment_env", T_STR, NULL},
    {0},
};
static const struct key *const tables[] = {
    [ATLAS_CONFIG_JOB] = job_keys,
    [ATLAS_CONFIG_SUBMISSION] = submission_keys,
    [ATLAS_CONFIG_EXECUTION] = execution_keys,
};

struct checking {
    const char *name;
    atlas_warn_fn warn;
    void *arg;
};

/* Tables end with a key without a name. */
static const struct key *key_find(const struct key *keys, const char *name)
{
    for (; keys->name; keys++)
        if (!strcmp(keys->name, name))
            return keys;
    return NULL;
}

/* An unknown key is no error: configs of other versions of Atlas stay usable. */
static void config_warn_unknown(const struct checking *k, const struct key *keys, const char *path,
                                const char *name)
{
    const char *names[32];
    char text[WARNING_MAX];
    size_t n = 0;

    for (; keys[n].name; n++)
        names[n] = keys[n].name;
    const char *near = str_nearest(name, names, n);
    if (near)
        snprintf(text, sizeof(text),
                 "%s: %s%.60s is no known key and is ignored; did you mean '%s'?", k->name, path,
                 name, near);
    else
        snprintf(text, sizeof(text), "%s: %s%.60s is no known key and is ignored", k->name, path,
                 name);
    if (k->warn)
        k->warn(k->arg, text);
}

/* "a string or a list" */
static void types_text(unsigned types, char *out, size_t n)
{
    size_t at = 0;

    out[0] = 0;
    for (unsigned t = JSON_BOOL; t <= JSON_OBJECT; t++)
        if (types & 1u << t && at < n)
            at += (size_t)snprintf(out + at, n - at, "%s%s", at ? " or " : "",
                                   json_type_name((enum json_type)t));
}

/* Checks types on every level; the path in messages is "worker.volumes". */
static int check_keys(const struct checking *k, const struct json *j, const struct key *keys,
                      const char *path, struct err *e)
{
    char want[120], deeper[80];

    for (struct json_it it = {0}; json_next(j, &it);) {
        const struct key *key = key_find(keys, it.key);
        enum json_type t = json_type(it.val);
        if (!key) {
            config_warn_unknown(k, keys, path, it.key);
            continue;
        }
        if (t == JSON_NULL)
            continue; /* a key with nothing behind it is as good as none */
        if (!(key->types & 1u << t)) {
            types_text(key->types, want, sizeof(want));
            return err_set(e, ERR_INVALID, "%.80s: %s%s must be %s, not %s", k->name, path, it.key,
                           want, json_type_name(t));
        }
        snprintf(deeper, sizeof(deeper), "%s%s.", path, it.key);
        if (key->inside && check_keys(k, it.val, key->inside, deeper, e) < 0)
            return -1;
    }
    return 0;
}

/* host path → {bind, mode}: what docker-py takes. */
static int check_volumes(const struct checking *k, const struct json *volumes, struct err *e)
{
    for (struct json_it it = {0}; json_next(volumes, &it);) {
        const struct json *bind = json_get(it.val, "bind"), *mode = json_get(it.val, "mode");
        if (json_type(it.val) != JSON_OBJECT || json_type(bind) != JSON_STR)
            return err_set(
                e, ERR_INVALID,
                "%.80s: worker.volumes['%.60s'] needs a map with 'bind: /path/in/worker' "
                "and 'mode: rw'",
                k->name, it.key);
        if (mode && (json_type(mode) != JSON_STR ||
                     (!str_eq_c(json_str(mode), "rw") && !str_eq_c(json_str(mode), "ro"))))
            return err_set(e, ERR_INVALID, "%.80s: worker.volumes['%.60s'].mode must be rw or ro",
                           k->name, it.key);
        if (it.key[0] != '/' || !json_str(bind).n || json_str(bind).p[0] != '/')
            return err_set(e, ERR_INVALID,
                           "%.80s: worker.volumes['%.60s']: both paths must be absolute", k->name,
                           it.key);
    }
    return 0;
}

/* YAML forbids tabs in indentation, and the parser's own message does not mention the tab. */
static int refuse_tabs(struct str text, const char *name, struct err *e)
{
    for (size_t line = 1; text.n > 0; line++) {
        struct str row = str_cut(text, '\n', &text);
        size_t n = 0;
        while (n < row.n && row.p[n] == ' ')
            n++;
        if (n < row.n && row.p[n] == '\t')
            return err_set(e, ERR_INVALID, "%.120s:%zu:%zu: a tab in the indentation; use spaces",
                           name, line, n + 1);
    }
    return -1;
}

/* An empty file is an empty config. */
int atlas_config_parse(struct str text, const char *name, enum atlas_config_kind kind,
                       atlas_warn_fn warn, void *arg, struct json **out, struct err *e)
{
    const struct checking k = {name, warn, arg};
    struct json *j = NULL;

    if (yaml_parse_11(text, name, &j, e) < 0)
        return refuse_tabs(text, name, e);
    if (!j)
        j = json_new_object();
    if (json_type(j) != JSON_OBJECT) {
        err_set(e, ERR_INVALID, "%.120s must hold keys and values, not %s", name,
                json_type_name(json_type(j)));
        json_free(j);
        return -1;
    }
    if (check_keys(&k, j, tables[kind], "", e) < 0 ||
        check_volumes(&k, json_get(json_get(j, "worker"), "volumes"), e) < 0) {
        json_free(j);
        return -1;
    }
    *out = j;
    return 0;
}

int atlas_config_read(const char *path, enum atlas_config_kind kind, atlas_warn_fn warn, void *arg,
                      struct json **out, struct err *e)
{
    AUTO_FREE char *text = NULL;
    size_t n;

    if (file_read_all(path, CONFIG_MAX, &text, &n, e) < 0)
        return -1;
    return atlas_config_parse((struct str){text, n}, path, kind, warn, arg, out, e);
}

/* A number below a million counts GiB, a larger one bytes, as with the original. */
int atlas_ram_bytes(const struct json *ram, int64_t *out_bytes, struct err *e)
{
    enum json_type t = json_type(ram);
    double v;

    if (t == JSON_STR) {
        AUTO_FREE char *upper = xstrndup(json_str(ram).p, json_str(ram).n);
        for (char *c = upper; *c; c++)
            *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
        size_t n = strlen(upper);
        if (n > 1 && upper[n - 1] == 'B')
            upper[n - 1] = 0; /* 512mb */
        if (size_parse(str_of(upper), out_bytes, e) < 0 || *out_bytes <= 0)
            return err_set(e, ERR_INVALID, "ram '%.40s' is no amount of memory; write 4 or 512m",
                           json_str(ram).p);
        return 0;
    }
    if (t != JSON_INT && t != JSON_REAL)
        return err_set(e, ERR_INVALID, "ram must be a number, not %s", json_type_name(t));
    v = json_real(ram);
    if (!(v > 0) || v > 1e15)
        return err_set(e, ERR_INVALID, "ram must be greater than 0");
    *out_bytes = v < GIB_BELOW ? (int64_t)(v * (double)(1 << 30)) : (int64_t)v;
    *out_bytes = MAX(*out_bytes, (int64_t)1); /* 0 would be no limit */
    return 0;
}

/* A key of the job replaces the same key of the submission config as a whole. */
struct json *atlas_worker_merge(const struct json *submission_worker, const struct json *job_worker)
{
    struct json *out = json_type(submission_worker) == JSON_OBJECT ? json_copy(submission_worker)
                                                                   : json_new_object();

    for (struct json_it it = {0}; json_next(job_worker, &it);)
        json_set_take(out, it.key, json_copy(it.val));
    return out;
}

/* With any registry in front and any tag behind. */
bool atlas_image_is_standard(struct str image)
{
    static const char *const names[] = {"atlas-ce/worker", "atlas-ce/worker-gpu",
                                        "dessa-atlas/worker", "dessa-atlas/worker-gpu"};
    size_t n = image.n;

    /* A tag or digest goes; a colon before the last slash is a port. */
    for (size_t i = 0; i < image.n; i++) {
        if (image.p[i] == '/')
            n = image.n;
        else if ((image.p[i] == ':' || image.p[i] == '@') && n == image.n)
            n = i;
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        size_t m = strlen(names[i]);
        if (n >= m && !memcmp(image.p + n - m, names[i], m) &&
            (n == m || image.p[n - m - 1] == '/'))
            return true;
    }
    return false;
}
