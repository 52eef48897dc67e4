/* submission.c - what a user of `run-scheduler` asks for, read and checked
 *
 * Owns: the arguments, their limits and defaults, and the words in which they are refused.  Nothing
 * here looks at the host: whether a directory exists or a port is free is submit.c's business.
 *
 * Values may come as JSON of their own type or as text, since old clients send "32" and "true".
 */
#include "dialect/gpu/submission.h"
#include "base/clock.h"
#include "base/util.h"
#include <math.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

#define ARG(field) offsetof(struct gpu_submission, field)
const struct gpu_argument gpu_arguments[] = {
    {NULL, "jobName", GPU_ARG_NAME, ARG(name), 1, GPU_NAME_MAX},
    {"image_name", "dockerImage", GPU_ARG_TEXT, ARG(image), 1, 1000},
    {"script_path", "scriptPath", GPU_ARG_TEXT, ARG(script), 1, 4095},
    {"custom_dir", "directoryToMount", GPU_ARG_DIR, ARG(custom_dir), 1, 4000},
    {"snapshots_dir", "snapshotsDir", GPU_ARG_DIR, ARG(snapshots_dir), 1, 4000},
    {"batch_size", "batchSize", GPU_ARG_INT, ARG(batch_size), 1, 1000000000},
    {"training_set_size", "trainingSetSize", GPU_ARG_INT, ARG(training_set_size), 1,
     INT64_C(1000000000000000)},
    {"max_epochs", "maxEpochs", GPU_ARG_INT, ARG(max_epochs), 1, 1000000000},
    {"is_single_gpu", "isSingleGPU", GPU_ARG_BOOL, ARG(single_gpu), 0, 1},
    {"disable_gpu_sharing", "disableGPUSharing", GPU_ARG_BOOL, ARG(no_sharing), 0, 1},
    {"estimated_memory", "estimatedMemory", GPU_ARG_INT, ARG(memory_mib), 1, 1 << 30},
    {"port_mapping", "portMapping", GPU_ARG_PORTS, ARG(ports), 1, 65535},
    {"est_nhours", "estNHours", GPU_ARG_HOURS, ARG(est_hours), 1, 87600},
    {"priority", "priority", GPU_ARG_INT, ARG(priority), 1, 5},
    {"deadline", "deadline", GPU_ARG_TIME, ARG(deadline), 0, 0},
    {"max_retries", "maxRetries", GPU_ARG_INT, ARG(max_retries), 0, 1000},
    {"launch", "launch", GPU_ARG_LAUNCH, ARG(launch_gpu), 0, 0},
    {"torch_backend", "torchBackend", GPU_ARG_WORD, ARG(torch_backend), 1, 60},
    {"no_gpu", "noGPU", GPU_ARG_FLAG, ARG(no_gpu), 0, 1},
    {"env", "env", GPU_ARG_ENV, ARG(env), 0, 0},
    {NULL, "environment", GPU_ARG_ENV, ARG(environment), 0, 0},
    {NULL, "username", GPU_ARG_TEXT, ARG(username), 1, 63},
    {NULL, "datasetsDir", GPU_ARG_DIR, ARG(datasets_dir), 1, 4000},
};
const size_t gpu_n_arguments = ARRAY_SIZE(gpu_arguments);

/* One argument being read into `s`. */
struct reading {
    const struct gpu_argument *arg;
    const struct json *value;
    struct gpu_submission *s;
    struct arena *a;
    bool options;
    struct err *e;
};

/* ---- words ---- */

/* As the sender wrote it: an option of the command, or a key of the JSON body. */
static const char *argument_name(const struct gpu_argument *a, bool options,
                                 char out[GPU_LABEL_MAX])
{
    if (!options)
        return a->key;
    if (a->type == GPU_ARG_NAME)
        return "job_name";
    snprintf(out, GPU_LABEL_MAX, "--%s", a->option ? a->option : a->key);
    return out;
}

/* customDir is the name under which some clients send directoryToMount. */
static const struct gpu_argument *argument_find(const char *key)
{
    for (size_t i = 0; i < gpu_n_arguments; i++)
        if (!strcmp(gpu_arguments[i].key, key))
            return &gpu_arguments[i];
    return !strcmp(key, "customDir") ? argument_find("directoryToMount") : NULL;
}

const char *gpu_argument_label(const char *key, bool options, char out[GPU_LABEL_MAX])
{
    const struct gpu_argument *a = argument_find(key);

    return a ? argument_name(a, options, out) : key;
}

/* The beginning of a value, on one line. */
static const char *argument_shown(struct str s, char out[84])
{
    size_t n = MIN(s.n, 80);

    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f ? '?' : s.p[i];
    snprintf(out + n, 4, "%s", s.n > n ? "…" : "");
    return out;
}

/* "--batch_size 'x': must be …"; always -1. */
static int argument_bad_value(const struct reading *r, struct str text, const char *what)
{
    char name[GPU_LABEL_MAX], value[84];

    return err_set(r->e, ERR_INVALID, "%s '%s': %s", argument_name(r->arg, r->options, name),
                   argument_shown(text, value), what);
}

static int argument_bad(const struct reading *r, const char *what)
{
    AUTO_FREE char *json = json_type(r->value) == JSON_STR ? NULL : json_text(r->value);

    return argument_bad_value(r, json ? str_of(json) : json_str(r->value), what);
}

/* ---- values ---- */

/* The member of the submission that the argument fills; its type follows from the argument's
 * type. */
static void *field_of(const struct reading *r)
{
    return (char *)r->s + r->arg->offset;
}

static int argument_read_text(const struct reading *r)
{
    struct str s = json_str(r->value);

    if (json_type(r->value) != JSON_STR)
        return argument_bad(r, "must be text");
    if (s.n < (size_t)r->arg->min)
        return argument_bad(r, "must not be empty");
    if (s.n > (size_t)r->arg->max)
        return argument_bad(r, "is too long");
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
            return argument_bad(r, "must not contain control characters");
    *(const char **)field_of(r) = arena_strndup(r->a, s.p, s.n);
    return 0;
}

static int argument_read_word(const struct reading *r)
{
    if (argument_read_text(r) < 0)
        return -1;
    return strchr(*(const char **)field_of(r), ' ') ? argument_bad(r, "must not contain a blank")
                                                    : 0;
}

/* The limit counts characters, not bytes. */
static int argument_read_name(const struct reading *r)
{
    struct str s = json_str(r->value);
    size_t chars = 0;

    if (json_type(r->value) != JSON_STR || s.n == 0)
        return argument_bad(r, "a job needs a name");
    for (struct str rest = s; rest.n > 0; chars++) {
        uint32_t c;
        size_t n = utf8_decode(rest, &c);
        if (n == 0 || c < 0x20 || (c >= 0x7f && c < 0xa0))
            return argument_bad(r, "may hold printable characters only");
        if (c == '/')
            return argument_bad(r, "must not contain a '/'");
        rest = (struct str){rest.p + n, rest.n - n};
    }
    if (chars > (size_t)r->arg->max)
        return argument_bad(r, "is longer than 128 characters");
    *(const char **)field_of(r) = arena_strndup(r->a, s.p, s.n);
    return 0;
}

/* The arguments arrive absolute: the command resolves relative paths. */
static int argument_read_dir(const struct reading *r)
{
    if (argument_read_text(r) < 0)
        return -1;
    const char *path = *(const char **)field_of(r);
    if (path[0] != '/')
        return argument_bad(r, "must be an absolute path on the host");
    if (strchr(path, ':'))
        return argument_bad(r, "must not contain a ':', which separates the two sides of a mount");
    return 0;
}

/* A number, or a text of digits; the message names the limits of the argument. */
static int argument_read_int(const struct reading *r)
{
    int64_t v = 0;
    bool ok = json_type(r->value) == JSON_INT;
    char text[96];

    if (ok)
        v = json_int(r->value);
    else if (json_type(r->value) == JSON_STR)
        ok = str_to_i64(json_str(r->value), &v);
    if (ok && v >= r->arg->min && v <= r->arg->max) {
        *(int64_t *)field_of(r) = v;
        return 0;
    }
    if (r->arg->max > 1000000000)
        snprintf(text, sizeof(text), "must be a whole number, %lld or more",
                 (long long)r->arg->min);
    else
        snprintf(text, sizeof(text), "must be a whole number from %lld to %lld",
                 (long long)r->arg->min, (long long)r->arg->max);
    return argument_bad(r, text);
}

static int argument_read_bool(const struct reading *r)
{
    static const char *const words[] = {"false", "0", "no", "true", "1", "yes"};
    enum json_type t = json_type(r->value);

    if (t == JSON_BOOL) {
        *(bool *)field_of(r) = json_bool(r->value);
        return 0;
    }
    if (t == JSON_INT && (json_int(r->value) == 0 || json_int(r->value) == 1)) {
        *(bool *)field_of(r) = json_int(r->value) == 1;
        return 0;
    }
    struct str s = t == JSON_STR ? json_str(r->value) : STR("");
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (s.n == strlen(words[i]) && !strncasecmp(s.p, words[i], s.n)) {
            *(bool *)field_of(r) = i >= 3;
            return 0;
        }
    return argument_bad(r, "must be true or false");
}

static int argument_read_hours(const struct reading *r)
{
    enum json_type t = json_type(r->value);
    double v = 0;

    if (t == JSON_INT || t == JSON_REAL)
        v = json_real(r->value);
    else if (t != JSON_STR || !str_to_double(json_str(r->value), &v))
        return argument_bad(r, "must be a number of hours");
    if (!(v > (double)r->arg->min))
        return argument_bad(r, "must be more than 1 hour");
    if (!(v <= (double)r->arg->max))
        return argument_bad(r, "must be at most 87600 hours, ten years");
    *(double *)field_of(r) = v;
    return 0;
}

/* A sign would pass str_to_i64 but is no way to write a port. */
static bool argument_port(struct str s, int *out)
{
    int64_t v;

    if (s.n == 0 || s.p[0] == '+' || s.p[0] == '-' || !str_to_i64(s, &v) || v < 1 || v > 65535)
        return false;
    *out = (int)v;
    return true;
}

static int argument_read_ports(const struct reading *r)
{
    struct gpu_submission *s = r->s;

    if (argument_read_text(r) < 0)
        return -1;
    for (struct str rest = str_of(s->ports); rest.n > 0;) {
        struct str to, pair = str_cut(rest, ',', &rest), node = str_cut(pair, ':', &to);
        struct port_pair p;
        if (!argument_port(node, &p.node) || !argument_port(to, &p.container))
            return argument_bad(
                r, "must be nodePort:containerPort pairs separated by commas, each port "
                   "from 1 to 65535, without blanks");
        /* One port of the node can lead to one place only. */
        for (size_t i = 0; i < s->n_ports; i++)
            if (s->port[i].node == p.node)
                return argument_bad(r, "names one nodePort twice");
        if (s->n_ports == GPU_PORTS_MAX)
            return argument_bad(r, "has more than 64 pairs");
        s->port[s->n_ports++] = p;
    }
    /* str_cut ends the loop before it sees the empty pair behind a last comma. */
    if (s->ports[strlen(s->ports) - 1] == ',')
        return argument_bad(r, "ends in a comma");
    return 0;
}

/* Without an offset it is the time of this machine's clock on the wall. */
static bool local_time(const char *text, int64_t *out_ms)
{
    static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
                                        "%Y-%m-%d %H:%M", "%Y-%m-%d"};

    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        struct tm tm = {.tm_isdst = -1};
        const char *end = strptime(text, forms[i], &tm);
        if (end && *end == 0) {
            time_t t = mktime(&tm);
            *out_ms = (int64_t)t * 1000;
            return t > 0;
        }
    }
    return false;
}

/* Kept as UTC, whatever form it was written in. */
static int argument_read_time(const struct reading *r)
{
    char *text = arena_alloc(r->a, TIME_TEXT_MAX);
    struct str s = json_type(r->value) == JSON_STR ? json_str(r->value) : STR("");
    char copy[40];
    int64_t ms;

    snprintf(copy, sizeof(copy), STR_FMT, (int)MIN(s.n, sizeof(copy) - 1), s.p ? s.p : "");
    if (s.n >= sizeof(copy) || (!time_parse_utc(s, &ms) && !local_time(copy, &ms)) || ms <= 0)
        return argument_bad(r, "must be a time such as 2026-11-20T08:00:00Z");
    time_format_utc(ms, text);
    *(const char **)field_of(r) = text;
    return 0;
}

static int argument_read_launch(const struct reading *r)
{
    struct str s = json_type(r->value) == JSON_STR ? json_str(r->value) : STR("");

    if (!str_eq_c(s, "node") && !str_eq_c(s, "gpu"))
        return argument_bad(
            r, "must be node (one process that drives all GPUs) or gpu (one process each)");
    *(bool *)field_of(r) = str_eq_c(s, "gpu");
    return 0;
}

/* ---- variables ---- */

bool gpu_env_reserved(struct str name)
{
    static const char *const names[] = {"MASTER_PORT",
                                        "MASTER_ADDR",
                                        "WORLD_SIZE",
                                        "NODE_RANK",
                                        "TF_CONFIG",
                                        "JOB_UUID",
                                        "JOB_RESTARTED",
                                        "RESERVED_MEM",
                                        "EPOCHS_DONE",
                                        "HEARTBEAT_FREQ",
                                        "NODELIST",
                                        "NUM_GPUS",
                                        "NUM_NODES",
                                        "BATCH_SIZE",
                                        "EPOCHS_TO_BE_DONE",
                                        "TRAINING_SET_SIZE",
                                        "RANK",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "CUDA_VISIBLE_DEVICES",
                                        "NVIDIA_VISIBLE_DEVICES",
                                        "ROCR_VISIBLE_DEVICES"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_eq_c(name, names[i]))
            return true;
    return str_starts(name, STR("SCHED_")) || str_starts(name, STR("BERTH_"));
}

/* A variable of the scheduler is an error in `env` and left out of `environment`. */
static int add_variable(const struct reading *r, struct json *to, struct str name, struct str value)
{
    AUTO_FREE char *key = xstrndup(name.p, name.n);

    if (name.n == 0 || memchr(name.p, 0, name.n) || memchr(name.p, '=', name.n) ||
        memchr(value.p, 0, value.n))
        return argument_bad(r, "must be NAME=VALUE");
    if (gpu_env_reserved(name)) {
        if (r->arg->offset == ARG(environment))
            return 0; /* the sender's own surroundings, not a wish */
        return argument_bad_value(r, name, "is set by the scheduler and cannot be chosen");
    }
    json_set_take(to, key, json_new_str(value));
    return 0;
}

static int add_object(const struct reading *r, struct json *to, const struct json *variables)
{
    int rc = 0;

    for (struct json_it it = {0}; rc == 0 && json_next(variables, &it);) {
        if (json_type(it.val) != JSON_STR)
            return argument_bad_value(r, str_of(it.key), "must have text as its value");
        rc = add_variable(r, to, str_of(it.key), json_str(it.val));
    }
    return rc;
}

static int add_pair(const struct reading *r, struct json *to, const struct json *pair)
{
    /* Messages show this entry, not the whole list. */
    struct reading one = *r;
    struct str value, s = json_str(pair), name = str_cut(s, '=', &value);

    one.value = pair;
    if (json_type(pair) == JSON_OBJECT)
        return add_object(&one, to, pair);
    if (json_type(pair) != JSON_STR || name.n == s.n)
        return argument_bad(&one, "must be NAME=VALUE");
    return add_variable(&one, to, name, value);
}

/* An object of names and values, or a list of such and of "NAME=VALUE". */
static int argument_read_env(const struct reading *r)
{
    struct json **to = field_of(r);
    int rc = 0;

    *to = json_new_object();
    if (json_type(r->value) == JSON_OBJECT)
        return add_object(r, *to, r->value);
    if (json_type(r->value) != JSON_ARRAY)
        return argument_bad(r, "must be an object of names and values");
    for (size_t i = 0; i < json_len(r->value) && rc == 0; i++)
        rc = add_pair(r, *to, json_at(r->value, i));
    return rc;
}

/* ---- all of it ---- */

static int (*const argument_readers[])(const struct reading *r) = {
    [GPU_ARG_NAME] = argument_read_name,     [GPU_ARG_TEXT] = argument_read_text,
    [GPU_ARG_WORD] = argument_read_word,     [GPU_ARG_FLAG] = argument_read_bool,
    [GPU_ARG_DIR] = argument_read_dir,       [GPU_ARG_INT] = argument_read_int,
    [GPU_ARG_BOOL] = argument_read_bool,     [GPU_ARG_HOURS] = argument_read_hours,
    [GPU_ARG_PORTS] = argument_read_ports,   [GPU_ARG_TIME] = argument_read_time,
    [GPU_ARG_LAUNCH] = argument_read_launch, [GPU_ARG_ENV] = argument_read_env,
};

/* A misspelled key would otherwise silently change a training. */
static int argument_unknown(const char *key, struct err *e)
{
    const char *names[ARRAY_SIZE(gpu_arguments)];

    for (size_t i = 0; i < gpu_n_arguments; i++)
        names[i] = gpu_arguments[i].key;
    const char *near = str_nearest(key, names, gpu_n_arguments);
    char word[84];
    return err_set(e, ERR_INVALID, "'%s' is not a key of a submission%s%s%s",
                   argument_shown(str_of(key), word), near ? "; did you mean " : "",
                   near ? near : "", near ? "?" : "");
}

/* The variable of torch.distributed is the backend, if nothing else names it. */
static int backend_check(struct gpu_submission *s, bool options, struct arena *a, struct err *e)
{
    const struct json *j = json_get(s->env, "PL_TORCH_DISTRIBUTED_BACKEND");
    struct str name = json_str(j);

    if (!j)
        return 0;
    if (s->torch_backend && !str_eq_c(name, s->torch_backend))
        return err_set(e, ERR_INVALID,
                       "%s '%s': PL_TORCH_DISTRIBUTED_BACKEND names another backend, '%.*s'; leave "
                       "one of them out",
                       options ? "--torch_backend" : "torchBackend", s->torch_backend,
                       (int)MIN(name.n, 60), name.p);
    s->torch_backend = name.n ? arena_strndup(a, name.p, name.n) : NULL;
    return 0;
}

/* What one argument cannot tell by itself. */
static int submission_check(const struct gpu_submission *s, bool options, struct err *e)
{
    if (s->no_gpu && s->launch_gpu)
        return err_set(
            e, ERR_INVALID,
            "%s 'gpu': starts one process per GPU, and a job with %s has none; start the "
            "processes in the script, for example with torchrun",
            options ? "--launch" : "launch", options ? "--no_gpu" : "noGPU");
    if (s->no_gpu && s->memory_mib)
        return err_set(e, ERR_INVALID,
                       "%s '%lld': a job with %s uses no GPU memory; leave one of them out",
                       options ? "--estimated_memory" : "estimatedMemory", (long long)s->memory_mib,
                       options ? "--no_gpu" : "noGPU");
    if (!s->name)
        return err_set(e, ERR_INVALID, "%s is missing: a job needs a name",
                       options ? "job_name" : "jobName");
    if (!s->script && !s->image)
        return err_set(e, ERR_INVALID, "%s is missing: without %s there is nothing to run",
                       options ? "--script_path" : "scriptPath",
                       options ? "--image_name" : "dockerImage");
    if (!s->max_epochs && !s->batch_size && !s->training_set_size)
        return 0;
    const struct {
        int64_t v;
        const char *option, *key;
    } all[] = {{s->max_epochs, "--max_epochs", "maxEpochs"},
               {s->batch_size, "--batch_size", "batchSize"},
               {s->training_set_size, "--training_set_size", "trainingSetSize"}};
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (!all[i].v)
            return err_set(e, ERR_INVALID,
                           "%s is missing: the number of epochs, the batch size and the size of "
                           "the training set go together",
                           options ? all[i].option : all[i].key);
    return 0;
}

int gpu_submission_read(const struct json *body, bool options, struct arena *a,
                        struct gpu_submission *out, struct err *e)
{
    struct gpu_submission s = {.priority = 3, .single_gpu = true, .options = options};
    int rc = 0;

    if (json_type(body) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "a submission is a JSON object with jobName, scriptPath …");
    for (struct json_it it = {0}; rc == 0 && json_next(body, &it);) {
        const struct gpu_argument *arg = argument_find(it.key);
        if (!arg)
            rc = argument_unknown(it.key, e);
        else if (it.val) /* null is as good as absent */
            rc = argument_readers[arg->type](&(struct reading){arg, it.val, &s, a, options, e});
    }
    if (rc == 0)
        rc = backend_check(&s, options, a, e) < 0 ? -1 : submission_check(&s, options, e);
    if (rc < 0)
        gpu_submission_done(&s);
    else
        *out = s;
    return rc;
}

void gpu_submission_done(struct gpu_submission *s)
{
    json_free(s->env);
    json_free(s->environment);
    s->env = s->environment = NULL;
}

/* NULL: the argument was not given. */
static struct json *value_json(const struct gpu_submission *s, const struct gpu_argument *arg)
{
    const void *at = (const char *)s + arg->offset;

    switch (arg->type) {
    case GPU_ARG_INT:
        return *(const int64_t *)at ? json_new_int(*(const int64_t *)at) : NULL;
    case GPU_ARG_BOOL:
        return json_new_bool(*(const bool *)at);
    case GPU_ARG_FLAG:
        return *(const bool *)at ? json_new_bool(true) : NULL;
    case GPU_ARG_HOURS:
        return *(const double *)at > 0 ? json_new_real(*(const double *)at) : NULL;
    case GPU_ARG_LAUNCH:
        return json_new_str(*(const bool *)at ? STR("gpu") : STR("node"));
    case GPU_ARG_ENV:
        return json_copy(*(struct json *const *)at);
    default:
        return *(const char *const *)at ? json_new_str(str_of(*(const char *const *)at)) : NULL;
    }
}

struct json *gpu_submission_json(const struct gpu_submission *s, bool bare)
{
    struct json *out = json_new_object();

    for (size_t i = 0; i < gpu_n_arguments; i++) {
        const struct gpu_argument *arg = &gpu_arguments[i];
        struct json *v = bare && arg->type == GPU_ARG_ENV ? NULL : value_json(s, arg);
        if (v)
            json_set_take(out, arg->key, v);
    }
    return out;
}
