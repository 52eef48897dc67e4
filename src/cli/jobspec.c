/* jobspec.c - options and files into the body of a submission
 *
 * Owns: which variables travel with a job, where it runs by default (here), how `--param` values
 * are read.  What the keys mean and whether they are right is the model's business: the daemon
 * checks every submission, whoever made it.
 */
#include "cli/jobspec.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rand.h"
#include "base/util.h"
#include "cli/spec_file.h"
#include "host/secret_arg.h"
#include "model/spec.h"
#include <stdio.h>
#include <unistd.h>

enum { KEY_HEX = 32, ID_DIGITS = 24 };

#define JOB(member) offsetof(struct job_opts, member)
static const struct opt job_option_table[] = {
    {"name", 0, OPT_TEXT, "NAME", JOB(name),
     "name of the job in listings (default: the program's name)"},
    {"cpus", 0, OPT_CPUS, "N", JOB(cpus), "CPUs to reserve: 2, 0.5 or 500m"},
    {"mem", 0, OPT_SIZE, "SIZE", JOB(mem), "memory to reserve: 512M, 4G"},
#define X(key, option, type, arg, help) {option, 0, type, arg, JOB(limits.key), help},
    LIMIT_OPTIONS(X)
#undef X
        {"priority", 0, OPT_INT, "N", JOB(priority),
         "jobs with a higher priority start first (default 0)"},
    {"after", 0, OPT_LIST, "JOB", JOB(after), "start only when this job has succeeded",
     COMPLETE_JOB},
    {"notify", 0, OPT_LIST, "EVENT=ACTION", JOB(notify),
     "tell somebody: failure=mail:me@example.org, end=slack:#team, 'waiting>2h=command:LINE', "
     "end=NAME of a hook; of a batch as a whole, or with job: before the event of each job"},
    {"hold", 0, OPT_FLAG, NULL, JOB(hold),
     "submit the job held: it starts only after berth release"},
    {"env", 'e', OPT_LIST, "K=V", JOB(env),
     "set an environment variable, in addition to your environment"},
    {"secret", 0, OPT_LIST, "NAME[=@FILE|=-]", JOB(secrets.names),
     "pass a secret, stored encrypted and never shown: from your environment, a file or stdin"},
    {"no-secret", 0, OPT_LIST, "NAME", JOB(secrets.not_names), "this variable is no secret"},
    {"clean-env", 0, OPT_FLAG, NULL, JOB(clean_env),
     "pass only PATH, HOME, USER, LANG and the variables of --env"},
    {"cwd", 'C', OPT_TEXT, "DIR", JOB(cwd), "working directory (default: the current directory)",
     COMPLETE_DIR},
    {"snapshot", 0, OPT_OPTIONAL, "[=DIR]", JOB(snapshot),
     "keep a copy of the working directory, or of DIR, and start each run in it"},
    {"project", 'p', OPT_TEXT, "NAME", JOB(project), "project of the job", COMPLETE_PROJECT},
    {"queue", 0, OPT_TEXT, "NAME", JOB(queue), "queue of the job", COMPLETE_QUEUE},
    {"node", 0, OPT_LIST, "NAME", JOB(nodes),
     "run only on this node, or on nodes that match a pattern like 'gpu*'"},
    {"asset", 0, OPT_LIST, "FROM[:TO]", JOB(assets),
     "a file or directory that the job needs; a remote node gets a copy below the working "
     "directory",
     COMPLETE_FILE},
    {"stage-dir", 0, OPT_TEXT, "DIR", JOB(stage_dir),
     "working directory on a remote node (default: a new one for each run)"},
    {"param", 0, OPT_LIST, "K=V", JOB(params),
     "a parameter: {K} in the command, berth.params() in Python; a JSON list makes one job for "
     "each value; of a search it is a range"},
    {"array", 0, OPT_INT, "N", JOB(array), "submit N jobs that differ in {index} and $BERTH_INDEX"},
    {"file", 'f', OPT_TEXT, "FILE", JOB(file),
     "read the job or sweep from a YAML or JSON file (- for standard input); options override the "
     "file",
     COMPLETE_FILE},
    {"split-output", 0, OPT_FLAG, NULL, JOB(split_output),
     "store standard error separately from standard output"},
    {"idempotency-key", 0, OPT_TEXT, "TEXT", JOB(key),
     "idempotency key: a repeated submission with the same key returns the first one"},
};
static const struct opt training_option_table[] = {
    {"gpus", 0, OPT_TEXT, "N[-M]", JOB(training.gpus),
     "number of GPUs; with a range the planner chooses the number"},
    {"gpu-mem", 0, OPT_SIZE, "SIZE", JOB(training.gpu_mem),
     "memory used on each GPU: 6G (default: all of it until measured)"},
    {"share", 0, OPT_FLAG, NULL, JOB(training.share),
     "other jobs may share the GPUs (default with --gpu-mem or --epochs)"},
    {"no-share", 0, OPT_FLAG, NULL, JOB(training.no_share), "no other job may share the GPUs"},
    {"epochs", 0, OPT_INT, "N", JOB(training.epochs),
     "total number of epochs; the job reports each and may be preempted in between"},
    {"epoch-steps", 0, OPT_INT, "N", JOB(training.epoch_steps),
     "batches of one epoch on one GPU: measured times of similar jobs are scaled by them"},
    {"estimate", 0, OPT_DURATION, "TIME", JOB(training.estimate),
     "expected run time without other jobs on the GPUs: 3h"},
    {"deadline", 0, OPT_TEXT, "WHEN", JOB(training.deadline),
     "deadline of the job: 2026-11-20T08:00:00Z"},
    {"preempt-signal", 0, OPT_TEXT, "SIGNAL", JOB(training.preempt_signal),
     "signal on which the job writes its checkpoint and exits: USR1"},
    {"checkpoint", 0, OPT_TEXT, "FILE", JOB(training.checkpoint),
     "checkpoint file from which the job resumes", COMPLETE_FILE},
    {"family", 0, OPT_TEXT, "NAME", JOB(training.family),
     "jobs of one family share measured run times and memory use"},
    {"image", 0, OPT_TEXT, "IMAGE", JOB(container.image), "container image of the job"},
    {"container", 0, OPT_LIST, "K=V", JOB(container.options),
     "option of the container: user=root, network=host, shm_size=8G, entrypoint=…, pull=never"},
    {"mount", 0, OPT_LIST, "HOST:TARGET[:ro]", JOB(container.mounts),
     "mount the directory HOST at TARGET in the container"},
    {"port", 0, OPT_LIST, "NODE:CONTAINER", JOB(container.ports),
     "forward a port of the node to a port of the container"},
};
const struct opt_group training_group = OPT_GROUP("GPUs and training", training_option_table);
const struct opt_group job_group = OPT_GROUP("Job", job_option_table);

static const struct opt_group *const job_groups[] = {&job_group, &training_group, NULL};

/* ---- environment ---- */

/* Variables of the shell, the terminal or a surrounding job are wrong in a job that runs later. */
static bool is_noise(struct str name)
{
    static const char *const noise[] = {
        "_",   "SHLVL",    "PWD",     "OLDPWD", "LINES",     "COLUMNS",        "PS1",
        "PS2", "WINDOWID", "SSH_TTY", "TMUX",   "TMUX_PANE", "PROMPT_COMMAND", "LS_COLORS",
        "STY", "HISTFILE",
    };

    if (str_starts(name, STR("BERTH_")) || str_starts(name, STR("BASH_FUNC_")) || !name.n)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(noise); i++)
        if (str_eq_c(name, noise[i]))
            return true;
    return false;
}

/* The variables that --clean-env keeps. */
static bool is_basic(struct str name)
{
    static const char *const basic[] = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ"};

    for (size_t i = 0; i < ARRAY_SIZE(basic); i++)
        if (str_eq_c(name, basic[i]))
            return true;
    return str_starts(name, STR("LC_"));
}

struct json *jobspec_env(bool clean)
{
    struct json *env = json_new_object();

    for (char **v = environ; *v; v++) {
        const char *eq = strchr(*v, '=');
        if (!eq || eq == *v)
            continue;
        struct str name = {*v, (size_t)(eq - *v)};
        if (clean ? !is_basic(name) : is_noise(name))
            continue;
        AUTO_FREE char *key = xstrndup(name.p, name.n);
        json_set_take(env, key, json_new_str(str_of(eq + 1)));
    }
    return env;
}

/* Variables of `more` win over those of `env`. */
static void env_lay_over(struct json *env, const struct json *more)
{
    for (struct json_it it = {0}; json_next(more, &it);)
        json_set_take(env, it.key, json_copy(it.val));
}

/* ---- parameters ---- */

/* What reads as JSON is JSON (numbers, true, lists); everything else is text.  The caller frees the
 * value. */
static struct json *param_value(const char *text)
{
    struct json *j = NULL;
    struct err e;

    if (json_parse(str_of(text), "value", &j, &e) < 0)
        return json_new_str(str_of(text));
    return j;
}

int jobspec_add_options(struct json *map, const char *option, const struct opt_list *list,
                        bool text, struct err *e)
{
    for (size_t i = 0; i < list->n; i++) {
        const char *eq = strchr(list->p[i], '=');
        if (!eq || eq == list->p[i])
            return err_set(e, ERR_INVALID, "--%s '%.60s' is not of the form NAME=VALUE", option,
                           list->p[i]);
        AUTO_FREE char *key = xstrndup(list->p[i], (size_t)(eq - list->p[i]));
        json_set_take(map, key, text ? json_new_str(str_of(eq + 1)) : param_value(eq + 1));
    }
    return 0;
}

/* Adds the words of `option` to the map `key` of the spec.  The map may come from the file. */
static int spec_add_options(struct json *spec, const char *key, const char *option,
                            const struct opt_list *list, struct err *e)
{
    const struct json *had = json_get(spec, key);

    if (!list->n)
        return 0;
    if (had && json_type(had) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "--%s cannot be added: %s of the file is not a map", option,
                       key);
    struct json *map = had ? json_copy(had) : json_new_object();
    json_set_take(spec, key, map);
    return jobspec_add_options(map, option, list, false, e);
}

/* ---- files ---- */

bool jobspec_is_file(const struct operands *ops)
{
    const char *dot = ops->n == 1 && !ops->dashed ? strrchr(ops->p[0], '.') : NULL;

    return dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml") || !strcmp(dot, ".json"));
}

/* Members of `jobs:` with variables of their own get the captured ones beneath. */
static void jobs_env(struct json *spec, const struct json *env)
{
    const struct json *jobs = json_get(spec, "jobs");
    bool any = false;

    for (size_t i = 0; i < json_len(jobs) && !any; i++)
        any = json_get(json_at(jobs, i), "env") != NULL;
    if (!any)
        return;
    struct json *copy = json_new_array();
    for (size_t i = 0; i < json_len(jobs); i++) {
        struct json *job = json_copy(json_at(jobs, i));
        if (json_get(job, "env")) {
            struct json *merged = json_copy(env);
            env_lay_over(merged, json_get(job, "env"));
            json_set_take(job, "env", merged);
        }
        json_push_take(copy, job);
    }
    json_set_take(spec, "jobs", copy);
}

/* ---- all of it ---- */

/* The directory must be absolute, because the daemon has another current directory.  A relative cwd
 * in a file is relative to the file. */
static int set_cwd(struct json *spec, const struct job_opts *o, const char *file, bool image,
                   struct err *e)
{
    char here[4096];
    struct str given = json_get(spec, "cwd") ? json_str(json_get(spec, "cwd")) : STR("");

    if (image) { /* a directory inside it, or its own */
        if (o->cwd)
            json_set_str(spec, "cwd", o->cwd);
        return 0;
    }
    if (!getcwd(here, sizeof(here)))
        return err_sys(e, "cannot read the current directory");
    AUTO_FREE char *text = o->cwd ? xstrdup(o->cwd) : given.n ? xstrndup(given.p, given.n) : NULL;
    AUTO_FREE char *base = xstrdup(here);
    if (!o->cwd && given.n && file && strchr(file, '/')) { /* beside the file that says so */
        AUTO_FREE char *abs = path_absolute(file, here);
        *strrchr(abs, '/') = 0;
        free(base);
        base = TAKE(abs);
    }
    AUTO_FREE char *cwd = text ? path_absolute(text, base) : xstrdup(here);
    json_set_str(spec, "cwd", cwd);
    return 0;
}

/* Flat and nested forms of one resource would contradict each other: options replace both. */
static void set_resources(struct json *spec, const struct job_opts *o)
{
    static const char *const keys[] = {"cpus", "mem", "gpu_mem", "gpu_share"};
    const struct json *had = json_get(spec, "resources");
    AUTO(json) struct json *given = json_new_object();
    struct json *need = had ? json_copy(had) : json_new_object();

    opt_put_json(given, job_groups, o, "cpus|mem|gpu-mem");
    if (o->training.share || o->training.no_share)
        json_set_bool(given, "gpu_share", o->training.share);
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (json_get(given, keys[i])) {
            json_set_take(need, keys[i], json_copy(json_get(given, keys[i])));
            json_del(spec, keys[i]);
        }
    if (json_len(need))
        json_set_take(spec, "resources", need);
    else
        json_free(need);
}

/* "2", or "1-4": at least the first, at most the second. */
static int set_gpus(struct json *spec, const char *text, struct err *e)
{
    struct str max, min = str_cut(str_of(text), '-', &max);
    int64_t lo, hi = 0;

    if (!str_to_i64(min, &lo) || (max.n && !str_to_i64(max, &hi)) || lo < 0)
        return err_set(e, ERR_INVALID,
                       "--gpus '%.40s' is neither a number nor a range; write 2 or 1-4", text);
    const struct json *had = json_get(spec, "resources");
    struct json *need = had ? json_copy(had) : json_new_object();
    json_set_int(need, "gpus", lo);
    json_del(need, "gpus_max");
    if (max.n)
        json_set_int(need, "gpus_max", hi);
    json_set_take(spec, "resources", need);
    json_del(spec, "gpus");
    json_del(spec, "gpus_max");
    return 0;
}

/* A list on the command line replaces the list of the file. */
static void set_list(struct json *spec, const char *key, const struct opt_list *list)
{
    if (list->n)
        json_set_take(spec, key, json_new_words(list->p, list->n));
}

/* Also the container options that are lists or maps. */
static int set_training(struct json *spec, const struct job_opts *o, struct err *e)
{
    const struct training_opts *t = &o->training;

    if (t->share && t->no_share)
        return err_set(e, ERR_INVALID, "--share and --no-share contradict each other; keep one");
    if (t->gpus && set_gpus(spec, t->gpus, e) < 0)
        return -1;
    opt_put_json(spec, job_groups, o, "epochs|epoch-steps|estimate");
    set_list(spec, "mounts", &o->container.mounts);
    set_list(spec, "ports", &o->container.ports);
    return spec_add_options(spec, "container", "container", &o->container.options, e);
}

/* Options that are keys of the spec with the same value.  run_file.c knows a batch again by the
 * text of its spec, so the order of these keys stays as it is. */
static void set_plain_keys(struct json *spec, const struct job_opts *o)
{
    opt_put_json(spec, job_groups, o,
                 "name|project|queue|stage-dir|deadline|preempt-signal|checkpoint|family|image");
    if (o->snapshot)
        json_set_take(spec, "snapshot",
                      *o->snapshot ? json_new_str(str_of(o->snapshot)) : json_new_bool(true));
#define X(key, option, type, arg, help) option "|"
    opt_put_json(spec, job_groups, o,
                 "hold|split-output|" LIMIT_OPTIONS(X) "priority|array|after|notify");
#undef X
    set_list(spec, "nodes", &o->nodes);
    set_list(spec, "assets", &o->assets);
}

/* One word with a space in it is a line for the shell, as with ssh; more words are the words. */
static void set_command(struct json *spec, const struct operands *ops)
{
    if (!ops->n)
        return;
    if (ops->n == 1 && strpbrk(ops->p[0], " \t\n;|&<>"))
        json_set_str(spec, "command", ops->p[0]);
    else
        json_set_take(spec, "command", json_new_words(ops->p, ops->n));
}

/* Lays the options over the spec and the captured environment beneath it. */
static int lay_options(struct json *spec, const struct job_opts *o, const char *file, struct err *e)
{
    /* --image or the file says so: the job runs in a container. */
    bool image = o->container.image || json_get(spec, "image");
    /* An image has an environment of its own: PATH and the like of this host mean nothing there. */
    AUTO(json) struct json *env = image ? json_new_object() : jobspec_env(o->clean_env);

    if (json_get(spec, "env") && json_type(json_get(spec, "env")) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "env of the file is not a map of names to values");
    env_lay_over(env, json_get(spec, "env"));
    jobs_env(spec, env);
    struct secret_words w = {o->secrets.names.p, o->secrets.not_names.p, o->secrets.names.n,
                             o->secrets.not_names.n};
    int rc = jobspec_add_options(env, "env", &o->env, true, e);
    rc = rc < 0 ? rc : secret_args_add(spec, env, &w, e);
    json_set_take(spec, "env", TAKE(env));
    if (rc < 0 || set_cwd(spec, o, file, image, e) < 0 ||
        spec_add_options(spec, "params", "param", &o->params, e) < 0)
        return -1;
    set_plain_keys(spec, o);
    set_resources(spec, o);
    return set_training(spec, o, e);
}

int jobspec_complete(const struct job_opts *o, const struct operands *ops, const char *file,
                     struct json *spec, struct err *e)
{
    set_command(spec, ops);
    return lay_options(spec, o, file, e);
}

int jobspec_build(const struct job_opts *o, const struct operands *ops, struct json **out,
                  struct err *e)
{
    bool operand_is_file = !o->file && jobspec_is_file(ops);
    const char *file = operand_is_file ? ops->p[0] : o->file;
    AUTO(json) struct json *spec = file ? NULL : json_new_object();

    if (!file && !ops->n)
        return err_set(e, ERR_INVALID,
                       "a command or a file of jobs is needed, as in: -- python train.py");
    if (file && spec_file_read(file, &spec, e) < 0)
        return -1;
    const struct operands none = {0};
    if (jobspec_complete(o, operand_is_file ? &none : ops, file, spec, e) < 0)
        return -1;
    *out = TAKE(spec);
    return 0;
}

bool jobspec_takes_snapshot(const struct json *spec)
{
    const struct json *v = json_get(spec, "snapshot");
    struct str id = json_type(v) == JSON_STR ? json_str(v) : STR("");

    return json_type(v) == JSON_BOOL ||
           (id.n && (id.n != ID_DIGITS || strspn(id.p, "0123456789abcdef") != id.n));
}

/* Leaves the variables that --env or a file set to another value than this terminal has. */
static void env_drop_own(struct json *of)
{
    const struct json *env = json_get(of, "env");
    struct json *rest = json_new_object();

    for (struct json_it it = {0}; json_next(env, &it);) {
        const char *own = getenv(it.key);
        if (!own || json_type(it.val) != JSON_STR || !str_eq_c(json_str(it.val), own))
            json_set_take(rest, it.key, json_copy(it.val));
    }
    json_set_take(of, "env", rest);
}

/* The same command from another terminal is the same request, so the terminal's variables do not
 * count. */
static char *jobspec_print(const struct json *spec)
{
    static const uint8_t seed[16] = "berth cli";
    AUTO(json) struct json *copy = json_copy(spec);
    const struct json *jobs = json_get(spec, "jobs");
    struct json *list = json_new_array();

    for (size_t i = 0; i < json_len(jobs); i++) {
        struct json *job = json_copy(json_at(jobs, i));
        env_drop_own(job);
        json_push_take(list, job);
    }
    env_drop_own(copy);
    json_set_take(copy, "jobs", list);
    AUTO_FREE char *text = json_text(copy);
    return xasprintf("%016llx", (unsigned long long)siphash24(seed, text, strlen(text)));
}

int jobspec_submit(struct cli *c, const struct json *spec, const struct jobspec_key *k,
                   struct json **out, bool *out_new, struct err *e)
{
    AUTO(json) struct json *own = jobspec_takes_snapshot(spec) ? json_copy(spec) : NULL;
    AUTO_FREE char *line = NULL, *print = NULL, *made_print = NULL;
    const char *key = k->key;
    struct http_response r;
    uint8_t raw[KEY_HEX / 2];
    char made[KEY_HEX + 8] = "cli-";

    if (own && jobspec_take_snapshot(c, own, e) < 0)
        return -1;
    AUTO_FREE char *body = json_text(own ? own : spec);
    /* A key is always sent, since cli_fetch may repeat the call when the connection breaks. */
    if (!key) {
        random_bytes(raw, sizeof(raw));
        for (size_t i = 0; i < sizeof(raw); i++)
            snprintf(made + 4 + 2 * i, 3, "%02x", raw[i]);
    }
    line = xasprintf("Idempotency-Key: %s", key ? key : made);
    if (key && !k->print)
        made_print = jobspec_print(spec);
    if (key)
        print = xasprintf("Idempotency-Fingerprint: %s", k->print ? k->print : made_print);
    const char *headers[] = {"Content-Type: application/json", line, print, NULL};
    if (cli_fetch(c, "POST", "/v1/jobs", headers, str_of(body), &r, e) < 0)
        return -1;
    if (out_new)
        *out_new = r.status == 201;
    int rc = json_parse(buf_str(&r.body), "the daemon's answer", out, e);
    http_response_done(&r);
    return rc;
}
