/* launch.c - from a recorded intention to what execve needs: words, environment, files, token
 *
 * Owns: the names of a run's files and variables (docs/guide.md lists them for users) and the
 * tokens with which a job may report on itself.
 */
#include "base/arena.h"
#include "base/hash.h"
#include "core/core_priv.h"
#include "model/gpu_env.h"
#include "model/vault.h"
#include <stdio.h>

enum {
    PARAMS_ENV_MAX = 32 << 10,
    TOKEN_MAC_BYTES = 20,
};

struct run_key core_run_key(const struct core *c, uint64_t job, struct id id, uint32_t run)
{
    return (struct run_key){job, run, job >= c->jobs.first_tagged ? run_tag(id) : 0};
}

static char *run_path(const struct core *c, struct run_key key, const char *suffix)
{
    return run_file_path(c->conf.home.dir, key, suffix);
}

char *core_log_path(const struct core *c, struct run_key key)
{
    return run_path(c, key, ".log");
}

char *core_err_path(const struct core *c, struct run_key key)
{
    return run_path(c, key, ".err");
}

char *core_run_dir(const struct core *c, struct run_key key)
{
    return run_path(c, key, "");
}

char *core_work_dir(const struct core *c, struct run_key key)
{
    return run_path(c, key, "/work");
}

/* ---- tokens: "<key>.<mac>", nothing to store, nothing to leak from the store ---- */

void core_job_token(const struct core *c, struct run_key key, char out[JOB_TOKEN_MAX])
{
    uint8_t mac[32];
    size_t n = run_key_format(key, out);

    hmac_sha256(c->secret, sizeof(c->secret), out, n, mac);
    out[n++] = '.';
    for (size_t i = 0; i < TOKEN_MAC_BYTES; i++) {
        out[n++] = "0123456789abcdef"[mac[i] >> 4];
        out[n++] = "0123456789abcdef"[mac[i] & 15];
    }
    out[n] = 0;
}

/* Is there a job of this number, and is it the one of the key?  A database that was put back may
 * have another job under the number. */
static bool key_is_current(const struct core *c, struct run_key key)
{
    const struct job *j = core_job(c, key.job);
    const struct ledger *led = &c->conf.ledger;
    struct job_record rec;
    struct err e;

    if (j)
        return j->tag == key.tag;
    return led->read_job(led->self, key.job, &rec, &e) == 0 &&
           core_run_key(c, key.job, rec.id, key.run).tag == key.tag;
}

bool core_job_token_check(const struct core *c, struct str token, struct run_key *out)
{
    char want[JOB_TOKEN_MAX];
    struct run_key key;

    if (!run_key_parse(token, &key))
        return false;
    core_job_token(c, key, want);
    if (strlen(want) != token.n || !equal_const_time(want, token.p, token.n) ||
        !key_is_current(c, key))
        return false;
    *out = key;
    return true;
}

const struct vault *core_vault(const struct core *c)
{
    return c->conf.home.vault;
}

/* ---- environment ---- */

/* Variables of a run; the entries live in the arena, the list does not. */
struct env {
    struct arena *a;
    VEC(char *) list;
    char *token; /* of the run, made once */
};

/* Where it is set; NULL = nowhere.  Every run asks some dozen times among all it inherits. */
static char **env_find(const struct env *v, const char *key, size_t n)
{
    for (size_t i = 0; i < v->list.n; i++)
        if (v->list.p[i][0] == key[0] && !strncmp(v->list.p[i], key, n) && v->list.p[i][n] == '=')
            return &v->list.p[i];
    return NULL;
}

static const char *env_get(const struct env *v, const char *key)
{
    size_t n = strlen(key);
    char **at = env_find(v, key, n);

    return at ? *at + n + 1 : NULL;
}

/* Replaces a variable that is set already, so whoever sets last wins. */
static void env_set(struct env *v, const char *key, const char *value)
{
    size_t key_n = strlen(key), value_n = strlen(value);
    char *entry = arena_alloc(v->a, key_n + 1 + value_n + 1);
    char **at = env_find(v, key, key_n);

    memcpy(entry, key, key_n);
    entry[key_n] = '=';
    memcpy(entry + key_n + 1, value, value_n + 1);
    if (at)
        *at = entry;
    else
        vec_push(&v->list, entry);
}

static void env_set_num(struct env *v, const char *key, int64_t n)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", (long long)n);
    env_set(v, key, text);
}

static void set_variable(void *arg, const char *key, const char *value)
{
    env_set(arg, key, value);
}

/* The values of secrets are in the clear only from here on: in the arena of this start, and on
 * their way to the run. */
static int env_secrets(struct env *v, const struct core *c, const struct json *sealed,
                       struct err *e)
{
    if (!c->conf.home.vault)
        return err_set(e, ERR_UNAVAILABLE, "this program cannot read the secrets of the job");
    for (struct json_it it = {0}; json_next(sealed, &it);) {
        char *value = NULL;
        if (vault_open(c->conf.home.vault, it.key, json_str(it.val), &value, e) < 0)
            return -1;
        env_set(v, it.key, value);
        explicit_bzero(value, strlen(value));
        free(value);
    }
    return 0;
}

/* ---- training ---- */

/* What a script needs to resume its training. */
static void env_training(struct env *v, const struct launch *l, const struct launch_facts *f)
{
    AUTO_FREE char *checkpoint = train_checkpoint(l);

    env_set(v, "BERTH_RESTARTED", f->restarted ? "1" : "0");
    env_set_num(v, "BERTH_EPOCHS_DONE", f->epochs_done);
    if (checkpoint)
        env_set(v, "BERTH_CHECKPOINT", checkpoint);
    if (f->n_gpus)
        env_set_num(v, "BERTH_GPUS", f->n_gpus);
}

/* The last variables: those of training jobs, and what the origin of the job adds to its runs. */
static int env_finish(struct env *v, struct core *c, const struct run *r, const struct launch *l,
                      char ***before, struct err *e)
{
    struct launch_extras x = {.mem = v->a, .env = {v, set_variable}};
    struct launch_facts f = {.key = r->key,
                             .gpus = &r->gpus,
                             .node = host_node(r->host),
                             .n_gpus = gpu_set_count(&r->gpus),
                             .endpoint = c->gpu.endpoint,
                             .token = v->token,
                             .ports = container_ports(l->spec, v->a)};

    if (train_facts(c, r->key.job, &f))
        env_training(v, l, &f);
    if (!c->conf.ops->launch || (!l->spec->origin.dialect && !f.ports))
        return 0;
    if (c->conf.ops->launch(c->conf.self, l, &f, &x, e) < 0)
        return -1;
    *before = x.before;
    return 0;
}

/* Memory of an arena is zeroed, so the list ends with NULL. */
static char *const *joined(struct arena *a, char *const *x, char *const *y)
{
    size_t n = 0, m = 0;

    while (x[n])
        n++;
    while (y[m])
        m++;
    char **all = arena_alloc(a, (n + m + 1) * sizeof(*all));
    memcpy(all, x, n * sizeof(*all));
    memcpy(all + n, y, m * sizeof(*all));
    return all;
}

/* One process per GPU: ours starts them, gives each its rank and waits for all. */
static int wrap_ranks(const struct core *c, const struct run *r, struct arena *a, char ***argv,
                      struct err *e)
{
    size_t n = 0;

    if (!c->conf.home.program)
        return err_set(e, ERR_UNAVAILABLE,
                       "launch: gpu needs the path of berth, which is not known here");
    while ((*argv)[n])
        n++;
    char **all = arena_alloc(a, (n + 4) * sizeof(*all));
    all[0] = arena_strdup(a, c->conf.home.program);
    all[1] = arena_strdup(a, "__ranks");
    all[2] = arena_printf(a, "%d", gpu_set_count(&r->gpus));
    memcpy(all + 3, *argv, (n + 1) * sizeof(*all));
    *argv = all;
    return 0;
}

/* Who the run is, and where it reports.  Inside a container the socket is where its directory is
 * mounted. */
static void env_identity(struct env *v, const struct core *c, const struct run *r,
                         const struct launch *l)
{
    char id[ID_TEXT_MAX];

    id_format(l->id, id);
    env_set(v, "BERTH_HOME", c->conf.home.dir);
    if (l->spec->container.image && c->conf.containers.socket_dir)
        env_set(v, "BERTH_SOCKET", arena_printf(v->a, "%s/sock", c->conf.containers.socket_dir));
    else if (c->conf.home.socket)
        env_set(v, "BERTH_SOCKET", c->conf.home.socket);
    env_set(v, "BERTH_JOB_ID", id);
    env_set_num(v, "BERTH_JOB_NUMBER", (int64_t)r->key.job);
    env_set(v, "BERTH_RUN",
            arena_printf(v->a, "%llu.%u", (unsigned long long)r->key.job, r->key.run));
    env_set(v, "BERTH_JOB_NAME", l->name ? l->name : l->spec->name);
    env_set(v, "BERTH_PROJECT", l->spec->project);
    env_set(v, "BERTH_NODE", host_node(r->host)->name);
    env_set_num(v, "BERTH_ATTEMPT", r->job->tries); /* a run that was never tried does not count */
    env_set(v, "BERTH_JOB_TOKEN", v->token);
    if (l->spec->command.snapshot)
        env_set(v, "BERTH_SNAPSHOT", l->spec->command.snapshot);
    if (l->batch)
        env_set_num(v, "BERTH_INDEX", l->index);
}

/* Our directory comes first, before what the job has set. */
static void env_python(struct env *v, const struct core *c)
{
    const char *was = env_get(v, "PYTHONPATH");

    if (!c->conf.home.python_path)
        return;
    env_set(v, "PYTHONPATH",
            was && *was ? arena_printf(v->a, "%s:%s", c->conf.home.python_path, was)
                        : c->conf.home.python_path);
}

/* The number of an array's job is in its environment; a file for that alone would double its cost.
 */
static bool only_index(const struct json *params)
{
    return json_len(params) == 1 && json_has(params, "index");
}

/* Parameters of more than PARAMS_ENV_MAX bytes are in the file only: the kernel limits what a
 * process is given. */
static void set_params(struct env *v, const struct launch *l, struct run_start *out)
{
    if (!l->params)
        return;
    AUTO_FREE char *json = json_text(l->params);
    struct str text = str_of(arena_strdup(v->a, json));
    if (text.n <= PARAMS_ENV_MAX)
        env_set(v, "BERTH_PARAMS", text.p);
    if (only_index(l->params))
        return;
    out->params_json = text;
    env_set(v, "BERTH_PARAMS_FILE", arena_printf(v->a, "%s/params.json", out->run_dir));
}

/* Moves a path into the arena and frees the original. */
static char *arena_path(struct arena *a, char *path)
{
    char *copy = arena_strdup(a, path);

    free(path);
    return copy;
}

/* On a node that does not share our files the command starts among the copies of its assets. */
static void set_place(const struct run *r, const struct spec *s, struct run_start *out)
{
    if (r->host->ours)
        return;
    out->assets = s->place.assets;
    out->stage_dir = s->place.stage_dir;
    if (s->place.assets || s->place.stage_dir)
        out->cwd = NULL;
}

/* The run starts in a copy of its snapshot, which our own program makes with the rights of the
 * job's user before it becomes the command.  Only the daemon's machine has the store. */
static int set_snapshot(const struct core *c, const struct run *r, const struct launch *l,
                        struct arena *a, struct run_start *out, struct err *e)
{
    const struct spec_command *s = &l->spec->command;

    if (!r->host->ours)
        return err_set(
            e, ERR_INVALID,
            "snapshot %.24s cannot be used on node %s: snapshots are on the daemon's own "
            "machine; name that one under nodes, or submit without a snapshot",
            s->snapshot, host_node(r->host)->name);
    if (!c->conf.home.program)
        return err_set(e, ERR_UNAVAILABLE,
                       "snapshot %.24s cannot be used: the path of berth is not known here",
                       s->snapshot);
    char **before = arena_alloc(a, 8 * sizeof(*before));
    before[0] = arena_strdup(a, c->conf.home.program);
    before[1] = arena_strdup(a, "__checkout");
    before[2] = arena_printf(a, "%s/snapshots/%u", c->conf.home.dir, l->uid);
    before[3] = s->snapshot;
    before[4] = arena_path(a, core_work_dir(c, r->key));
    before[5] = s->snapshot_dir ? s->snapshot_dir : arena_strdup(a, "");
    before[6] = arena_strdup(a, "--");
    out->argv = joined(a, before, out->argv);
    out->cwd = out->run_dir;
    return 0;
}

int launch_build(struct core *c, const struct run *r, const struct launch *l, struct arena *a,
                 struct run_start *out, struct err *e)
{
    struct env v = {.a = a, .token = arena_alloc(a, JOB_TOKEN_MAX)};
    char **argv, **extra, **before = NULL;

    if (l->spec->container.image && l->spec->train.launch == LAUNCH_GPU)
        return err_set(e, ERR_INVALID,
                       "launch: gpu does not go with an image; let the command start its processes "
                       "itself, as torchrun does");
    if (spec_argv(&l->spec->command, l->params, a, &argv, &extra, e) < 0 ||
        (l->spec->train.launch == LAUNCH_GPU && wrap_ranks(c, r, a, &argv, e) < 0))
        return -1;
    *out = (struct run_start){.key = r->key,
                              .argv = argv,
                              .uid = l->uid,
                              .gid = l->gid,
                              .change_user = l->uid != c->conf.home.uid,
                              .limits = l->spec->limits,
                              .need = l->spec->need,
                              .wants_space = r->job->full > 0,
                              .journal = r->journal,
                              .mounts = l->spec->container.mounts,
                              .log_path = arena_path(a, core_log_path(c, r->key)),
                              .run_dir = arena_path(a, core_run_dir(c, r->key))};
    if (l->spec->split_output)
        out->err_path = arena_path(a, core_err_path(c, r->key));
    if (r->chain.prev)
        out->after = r->chain.prev->key;
    for (char **k = l->spec->command.env; *k; k++)
        vec_push(&v.list, *k);
    for (char **k = extra; k && *k; k++)
        vec_push(&v.list, *k);
    if (l->sealed && env_secrets(&v, c, l->sealed, e) < 0) {
        vec_done(&v.list);
        return -1;
    }
    core_job_token(c, r->key, v.token);
    env_identity(&v, c, r, l);
    env_set(&v, "BERTH_RUN_DIR", out->run_dir);
    env_python(&v, c);
    gpu_env(host_node(r->host), &r->gpus, set_variable, &v);
    set_params(&v, l, out);
    if (env_finish(&v, c, r, l, &before, e) < 0) {
        vec_done(&v.list);
        return -1;
    }
    const char *home = env_get(&v, "HOME");
    out->cwd = l->spec->command.cwd ? l->spec->command.cwd
               : home && *home      ? arena_strdup(a, home)
                                    : "/";
    set_place(r, l->spec, out);
    /* Most jobs never use their directory; the first program that writes there makes it. */
    out->make_run_dir = out->params_json.n || out->change_user || out->mounts ||
                        l->spec->container.image || l->spec->command.snapshot;
    char **envp = arena_alloc(a, (v.list.n + 1) * sizeof(*envp));
    if (v.list.n)
        memcpy(envp, v.list.p, v.list.n * sizeof(*envp));
    vec_done(&v.list);
    out->envp = envp;
    if (l->spec->container.image && container_wrap(c, r, l, a, out, e) < 0)
        return -1;
    if (l->spec->command.snapshot && set_snapshot(c, r, l, a, out, e) < 0)
        return -1;
    if (before)
        out->argv = joined(a, before, out->argv);
    return 0;
}
