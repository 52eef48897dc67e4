/* start.c - what a run of a job is given when it starts: its variables, its ports
 *
 * Owns: the facts behind the variables (env.c writes them), and the ports of jobs from before a
 * restart of the daemon: jobs run on, so theirs must be found and opened again.
 */
#include "base/log.h"
#include "base/util.h"
#include "base/vec.h"
#include "dialect/gpu/dialect_priv.h"
#include "dialect/gpu/env.h"
#include "dialect/gpu/translate.h"

/* ---- variables ---- */

static int64_t extra_int(const struct json *extra, const char *key)
{
    const struct json *j = json_get(extra, key);

    return json_type(j) == JSON_INT ? json_int(j) : 0;
}

/* The host's side of the mount at this place: yours. */
static char *mounted_at(const struct spec *s, const char *target)
{
    size_t n = strlen(target);

    for (char **m = s->train.mounts; m && *m; m++) {
        const char *at = strchr(*m, ':');
        if (at && !strncmp(at + 1, target, n) && (at[1 + n] == 0 || at[1 + n] == ':'))
            return xstrndup(*m, (size_t)(at - *m));
    }
    return NULL;
}

/* Of the smallest of its devices: what a job that reserved none has at least. */
static int64_t device_memory(const struct launch_facts *f)
{
    int64_t least = 0;

    for (int32_t i = -1; f->gpus && (i = gpu_set_next(f->gpus, (uint32_t)(i + 1))) >= 0;) {
        int64_t bytes = f->node->devices[i].mem_bytes;
        least = least ? MIN(least, bytes) : bytes;
    }
    return least;
}

static void sink_set(void *arg, const char *key, const char *value)
{
    struct env_sink *out = arg;

    out->set(out->self, key, value);
}

int gpu_dialect_decorate(struct gpu_dialect *d, const struct launch *l,
                         const struct launch_facts *f, struct env_sink *out, struct err *e)
{
    static const char *const here[] = {"127.0.0.1"};
    const struct training *t = &l->spec->train;
    struct json *extra = NULL;
    struct gpu_view view;
    char uuid[ID_UUID_MAX];

    if (!t->dialect || strcmp(t->dialect, GPU_DIALECT) != 0)
        return 0;
    if (t->extra && json_parse(str_of(t->extra), "extra", &extra, e) < 0)
        return -1;
    id_format_uuid(l->id, uuid);
    const char *const nodes[] = {f->node->name};
    bool there = d->conf.mounts || t->image; /* it finds them where it expects them */
    AUTO_FREE char *custom = there ? NULL : mounted_at(l->spec, "/custom");
    AUTO_FREE char *snapshots = there ? NULL : mounted_at(l->spec, "/snapshots");
    AUTO_FREE char *data = there ? NULL : mounted_at(l->spec, "/data");
    bool planned = core_training(d->conf.core, f->key.job, &view);
    gpu_job_env(&(struct gpu_env_facts){.job_uuid = uuid,
                                        .nodes = nodes,
                                        .addrs = here,
                                        .n_nodes = 1,
                                        .n_gpus = f->n_gpus,
                                        .master_port = f->master_port,
                                        .backend = d->conf.backend,
                                        .epochs = t->epochs,
                                        .epochs_done = f->epochs_done,
                                        .batch_size = extra_int(extra, "batchSize"),
                                        .training_set_size = extra_int(extra, "trainingSetSize"),
                                        .restarted = f->restarted,
                                        .reserved_bytes = f->reserved_mem_bytes
                                                              ? f->reserved_mem_bytes
                                                              : device_memory(f),
                                        .attempt = f->attempt,
                                        .share = planned ? view.n_with + 1 : 1,
                                        .launch_gpu = t->launch == LAUNCH_GPU,
                                        .endpoint = f->endpoint,
                                        .token = f->token,
                                        .root_custom = custom,
                                        .root_snapshots = snapshots,
                                        .root_data = data},
                sink_set, out);
    json_free(extra);
    return 0;
}

/* ---- ports ---- */

static size_t parse_ports(char *const *ports, struct gpu_port out[GPU_PORTS_MAX])
{
    size_t n = 0;

    for (; ports && *ports && n < GPU_PORTS_MAX; ports++)
        n += port_pair_parse(str_of(*ports), &out[n]);
    return n;
}

void gpu_dialect_opening(struct gpu_dialect *d, struct run_key key, char *const *ports)
{
    struct gpu_port list[GPU_PORTS_MAX];

    doors_start(d->doors, key, list, parse_ports(ports, list));
}

/* ---- after a restart ---- */

struct recovery {
    struct gpu_dialect *d;
    VEC(uint64_t) jobs;
    VEC(struct gpu_port) ports; /* ports of jobs.p[i] stand in a row, counts.p[i] of them */
    VEC(size_t) counts;
};

static bool is_candidate(void *arg, const struct job_view *v)
{
    struct recovery *r = arg;

    if (v->need.gpus > 0 || v->state != JOB_QUEUED)
        vec_push(&r->jobs, v->seq);
    return true;
}

/* The engine opens the ports of a container, unless that is on the host's network. */
static bool engine_opens(const struct json *spec)
{
    const struct json *network = json_get(json_get(spec, "container"), "network");

    return json_get(spec, "image") &&
           !(json_type(network) == JSON_STR && str_eq_c(json_str(network), "host"));
}

static void read_ports(struct recovery *r, uint64_t job)
{
    AUTO_FREE char *text = NULL;
    struct json *spec = NULL;
    struct err e;
    size_t n = 0;

    if (store_job_spec(r->d->conf.store, job, &text, &e) == 0 && strstr(text, "\"ports\"") &&
        json_parse(str_of(text), "spec", &spec, &e) == 0) {
        const struct json *list = json_get(spec, "ports");
        for (size_t i = 0; i < json_len(list); i++) {
            struct gpu_port p;
            if (port_pair_parse(json_str(json_at(list, i)), &p)) {
                if (engine_opens(spec))
                    p.container = p.node; /* taken, and nothing of ours to open */
                vec_push(&r->ports, p);
                n++;
            }
        }
    }
    json_free(spec);
    vec_push(&r->counts, n);
}

static void recovery_work(void *arg)
{
    struct recovery *r = arg;
    struct job_query q = {.state_mask = 1u << JOB_QUEUED | 1u << JOB_STARTING | 1u << JOB_RUNNING |
                                        1u << JOB_STOPPING,
                          .limit = 10000};
    AUTO_FREE char *cursor = NULL;
    struct err e;

    do {
        char *next = NULL;
        q.cursor = cursor;
        if (store_jobs(r->d->conf.store, &q, is_candidate, r, &next, &e) < 0) {
            log_warn("ports", "looking for ports of jobs: %s", e.text);
            break;
        }
        free(cursor);
        cursor = next;
    } while (cursor);
    for (size_t i = 0; i < r->jobs.n; i++)
        read_ports(r, r->jobs.p[i]);
}

static void recovery_done(void *arg)
{
    struct recovery *r = arg;
    size_t at = 0;

    request_server_release(r->d->requests);
    for (size_t i = 0; i < r->jobs.n && !r->d->closing; at += r->counts.p[i++]) {
        struct run_key key = {.job = r->jobs.p[i]};
        if (r->counts.p[i] && core_job_active(r->d->conf.core, key.job, NULL))
            doors_start(r->d->doors, key, r->ports.p + at, r->counts.p[i]);
    }
    doors_look(r->d->doors); /* shuts those whose jobs wait */
    vec_done(&r->jobs);
    vec_done(&r->ports);
    vec_done(&r->counts);
    free(r);
}

void gpu_dialect_recover(struct gpu_dialect *d)
{
    struct recovery *r = xcalloc(1, sizeof(*r));

    r->d = d;
    request_server_hold(d->requests);
    work_submit(d->conf.loop, recovery_work, recovery_done, r);
}
