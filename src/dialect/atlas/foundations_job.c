/* foundations_job.c - what is submitted: job.config.yaml with the options laid over it
 *
 * Owns: which value wins.  Options win over job.config.yaml; its worker block replaces same-named
 * keys of the submission config's; the words after the job directory replace the worker's command.
 * The server adds the mounts and the environment every job has.
 */
#include "base/file.h"
#include "base/rand.h"
#include "base/util.h"
#include "dialect/atlas/base64.h"
#include "dialect/atlas/config.h"
#include "dialect/atlas/foundations.h"
#include <ctype.h>
#include <stdio.h>
#include <sys/stat.h>

int found_job_config(struct foundations *f, const char *dir, struct json **out, struct err *e)
{
    AUTO_FREE char *path = path_join(dir, "job.config.yaml");

    if (atlas_config_read(path, ATLAS_CONFIG_JOB, found_warning, f, out, e) == 0)
        return 0;
    if (e->code != ERR_NOT_FOUND)
        return -1;
    *out = json_new_object();
    return 0;
}

/* A random UUID: version 4, variant 10. */
static void make_uuid(char out[FOUND_UUID_MAX])
{
    uint8_t b[16];
    size_t n = 0;

    random_bytes(b, sizeof(b));
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof(b); i++)
        n += (size_t)snprintf(out + n, FOUND_UUID_MAX - n, "%s%02x",
                              i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

/* ---- who submits ---- */

/* The user name inside a login token.  The server checks the token; the client only shows it. */
static char *name_in_token(const char *token)
{
    struct str rest, payload;
    AUTO(buf) struct buf text = {0};
    AUTO(json) struct json *doc = NULL;
    struct err e;

    str_cut(str_of(token), '.', &rest);
    payload = str_cut(rest, '.', &rest);
    buf_init(&text, 64 << 10);
    if (!base64_decode(payload, &text) || json_parse(buf_str(&text), "token", &doc, &e) < 0)
        return NULL;
    struct str name = json_get_str(doc, "preferred_username");
    return name.n ? xstrndup(name.p, name.n) : NULL;
}

/* ---- resources ---- */

static int take_gpus(const struct found_opts *o, const struct json *config, struct found_job *j,
                     struct err *e)
{
    const struct json *v = json_get(config, "num_gpus");

    if (o->num_gpus.set)
        j->num_gpus = o->num_gpus.v;
    else if (json_type(v) == JSON_INT)
        j->num_gpus = json_int(v);
    else if (v)
        return err_set(e, ERR_INVALID, "num_gpus must be a whole number of 0 or more");
    if (j->num_gpus < 0)
        return err_set(e, ERR_INVALID,
                       "invalid number of GPUs: num_gpus is %lld and must be 0 or more",
                       (long long)j->num_gpus);
    return 0;
}

/* The option wins over job.config.yaml. */
static int take_ram(const struct found_opts *o, const struct json *config, struct found_job *j,
                    struct err *e)
{
    const struct json *v = json_get(config, "ram");
    AUTO(json) struct json *option = NULL;
    int64_t bytes = 0;

    if (o->ram.set)
        v = option = json_new_real(o->ram.v);
    if (!v)
        return 0;
    if (atlas_ram_bytes(v, &bytes, e) < 0)
        return -1;
    json_set_int(j->spec, "mem_limit", bytes);
    return 0;
}

/* ---- the worker ---- */

/* What of a worker block goes to the scheduler as it is. */
static const char *const spec_keys[] = {"image",     "working_dir", "volumes", "network", "runtime",
                                        "mem_limit", "user",        "ports",   "shm_size"};

static void copy_key(struct json *to, const struct json *from, const char *key)
{
    const struct json *v = json_get(from, key);

    if (v)
        json_set_take(to, key, json_copy(v));
}

/* Numbers and truths as docker-py writes them. */
static struct json *env_text(const struct json *v)
{
    if (json_type(v) == JSON_STR)
        return json_copy(v);
    if (json_type(v) == JSON_BOOL)
        return json_new_str(str_of(json_bool(v) ? "True" : "False"));
    if (json_type(v) == JSON_NULL)
        return json_new_str(STR(""));
    AUTO_FREE char *text = json_text(v);
    return json_new_str(str_of(text));
}

/* Docker-py takes only texts as values. */
static int check_env(const struct json *v, struct err *e)
{
    for (struct json_it it = {0}; json_type(v) == JSON_OBJECT && json_next(v, &it);)
        if (json_type(it.val) == JSON_ARRAY || json_type(it.val) == JSON_OBJECT)
            return err_set(e, ERR_INVALID, "worker.environment.%.60s must be a string", it.key);
    for (size_t i = 0; json_type(v) == JSON_ARRAY && i < json_len(v); i++) {
        const struct json *item = json_at(v, i);
        if (json_type(item) != JSON_STR || !memchr(json_str(item).p, '=', json_str(item).n))
            return err_set(e, ERR_INVALID,
                           "worker.environment must be a mapping, or a list of NAME=value");
    }
    return 0;
}

/* A map, or a list of K=V. */
static struct json *env_map(const struct json *v)
{
    struct json *out = json_new_object();

    for (struct json_it it = {0}; json_type(v) == JSON_OBJECT && json_next(v, &it);)
        json_set_take(out, it.key, env_text(it.val));
    for (size_t i = 0; json_type(v) == JSON_ARRAY && i < json_len(v); i++) {
        struct str value, key = str_cut(json_str(json_at(v, i)), '=', &value);
        AUTO_FREE char *name = xstrndup(key.p, key.n);
        json_set_take(out, name, json_new_str(value));
    }
    return out;
}

/* One text as words, the way a shell would cut it: blanks, both quotes, backslashes. */
static struct json *split_words(struct str s)
{
    struct json *words = json_new_array();
    AUTO(buf) struct buf word = {0};
    bool open = false;
    char quote = 0;

    buf_init(&word, s.n + 1);
    for (size_t i = 0; i <= s.n; i++) {
        char c = i < s.n ? s.p[i] : ' ';
        bool blank = c == ' ' || c == '\t' || c == '\n';
        if (i == s.n || (!quote && blank)) {
            if (open)
                json_push_take(words, json_new_str(buf_str(&word)));
            buf_reset(&word);
            open = false;
            continue;
        }
        open = true;
        if (c == quote)
            quote = 0;
        else if (!quote && (c == '"' || c == '\''))
            quote = c;
        else if (c == '\\' && quote != '\'' && i + 1 < s.n)
            buf_addc(&word, s.p[++i]);
        else
            buf_addc(&word, c);
    }
    return words;
}

/* A text or a list, as a list; yours. */
static struct json *as_words(const struct json *v)
{
    return json_type(v) == JSON_STR ? split_words(json_str(v)) : json_copy(v);
}

/* The words of the command line win over command, and command wins over args. */
static struct json *command_of(const struct found_opts *o, const struct json *worker)
{
    struct json *words = json_new_array();
    const struct json *v = json_get(worker, "command");

    for (const char **w = o->ops.p + 2; *w; w++)
        json_push_take(words, json_new_str(str_of(*w)));
    if (json_len(words))
        return words;
    v = v ? v : json_get(worker, "args");
    if (!v)
        return words;
    json_free(words);
    return as_words(v);
}

static bool is_file(const char *dir, struct str name)
{
    AUTO_FREE char *word = xstrndup(name.p, name.n), *path = path_join(dir, word);
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Neither of these stops a submission. */
static void check_command(struct foundations *f, const struct found_job *j, bool own_image)
{
    const struct json *words = json_get(j->spec, "command"), *first;

    first = json_at(words, 0);
    if (!first)
        found_log(f, FOUND_WARNING, "No command was specified.");
    else if (!own_image && json_type(first) == JSON_STR && !is_file(j->dir, json_str(first)))
        found_log(f, FOUND_WARNING,
                  "`" STR_FMT
                  "`, the first word of the command, is not a file in %s; this may be a "
                  "mistake.",
                  STR_ARG(json_str(first)), j->dir);
}

/* Lays the job's worker block over that of the submission config. */
static int take_worker(struct foundations *f, const struct found_opts *o, const struct json *config,
                       const struct json *conf, struct found_job *j, struct err *e)
{
    AUTO(json)
    struct json *worker = atlas_worker_merge(json_get(conf, "worker"), json_get(config, "worker"));
    const struct json *image = json_get(worker, "image"), *entry = json_get(config, "entrypoint"),
                      *env = json_get(worker, "environment");
    bool own_image = json_type(image) == JSON_STR && !atlas_image_is_standard(json_str(image));

    for (size_t i = 0; i < ARRAY_SIZE(spec_keys); i++)
        copy_key(j->spec, worker, spec_keys[i]);
    entry = entry ? entry : json_get(worker, "entrypoint");
    if (o->entrypoint)
        json_set_take(j->spec, "entrypoint", split_words(str_of(o->entrypoint)));
    else if (entry)
        json_set_take(j->spec, "entrypoint", as_words(entry));
    if (check_env(env, e) < 0)
        return -1;
    if (env)
        json_set_take(j->spec, "environment", env_map(env));
    json_set_take(j->spec, "command", command_of(o, worker));
    check_command(f, j, own_image);
    return 0;
}

/* ---- all of it ---- */

/* The option wins over job.config.yaml; without both the project is named after the directory. */
static void take_project(const struct found_opts *o, const struct json *config, struct found_job *j)
{
    const struct json *v = json_get(config, "project_name");
    const char *slash = strrchr(j->dir, '/');

    if (o->project_name && *o->project_name)
        j->project = xstrdup(o->project_name);
    else if (json_type(v) == JSON_STR && json_str(v).n)
        j->project = xstrndup(json_str(v).p, json_str(v).n);
    else
        j->project = xstrdup(slash && slash[1] ? slash + 1 : "default");
}

static int job_take_level(struct foundations *f, const struct json *config, struct err *e)
{
    const struct json *v = json_get(config, "log_level");

    if (!v)
        return 0;
    if (json_type(v) != JSON_STR || !found_level_parse(json_str(v), &f->level))
        return err_set(e, ERR_INVALID,
                       "job.config.yaml: log_level must be DEBUG, INFO, WARNING or ERROR");
    f->long_form = f->level != FOUND_INFO;
    return 0;
}

int found_job_make(struct foundations *f, const struct found_opts *o, const struct json *conf,
                   struct found_job *out, struct err *e)
{
    AUTO(json) struct json *config = NULL;

    make_uuid(out->id);
    out->spec = json_new_object();
    if (found_job_config(f, out->dir, &config, e) < 0 || job_take_level(f, config, e) < 0)
        return -1;
    take_project(o, config, out);
    const struct json *params = json_get(config, "params");
    out->params = params ? json_copy(params) : NULL;
    if (take_worker(f, o, config, conf, out, e) < 0 || take_gpus(o, config, out, e) < 0 ||
        take_ram(o, config, out, e) < 0)
        return -1;
    AUTO_FREE char *user = f->token ? name_in_token(f->token) : NULL;
    out->metadata = json_new_object();
    json_set_str(out->metadata, "project_name", out->project);
    json_set_str(out->metadata, "username", user ? user : "CE User");
    const struct json *channel = json_get(conf, "job_notification_channel");
    if (channel)
        json_set_take(out->metadata, "job_notification_channel", json_copy(channel));
    return 0;
}

void found_job_done(struct found_job *j)
{
    free(j->dir);
    free(j->project);
    json_free(j->params);
    json_free(j->spec);
    json_free(j->metadata);
}
