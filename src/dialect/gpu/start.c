/* start.c - the variables a run of a job is given when it starts
 *
 * Owns: the facts behind the variables (env.c writes them).
 */
#include "base/util.h"
#include "dialect/gpu/dialect_priv.h"
#include "dialect/gpu/env.h"

/* ---- variables ---- */

/* A number of the submission as it was sent; 0 when it was not given. */
static int64_t extra_int(const struct json *extra, const char *key)
{
    const struct json *j = json_get(extra, key);

    return json_type(j) == JSON_INT ? json_int(j) : 0;
}

/* The host's side of the mount at this place: yours. */
static char *mounted_at(const struct spec *s, const char *target)
{
    size_t n = strlen(target);

    for (char **m = s->container.mounts; m && *m; m++) {
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

/* Devices of which the daemon was only told the number have no driver that NCCL could use. */
static bool has_driver(const struct launch_facts *f)
{
    for (int32_t i = -1; f->gpus && (i = gpu_set_next(f->gpus, (uint32_t)(i + 1))) >= 0;)
        if (f->node->devices[i].state != DEVICE_UNSEEN)
            return true;
    return false;
}

/* What the job says, then what the daemon says; NULL = neither.  Yours. */
static char *backend_of(const struct gpu_dialect *d, const struct json *extra)
{
    const struct json *own = json_get(extra, "torchBackend");
    struct str s = json_str(own);

    return json_type(own) == JSON_STR ? xstrndup(s.p, s.n) : xstrdup(d->torch_backend);
}

int gpu_launch(void *self, const struct launch *l, const struct launch_facts *f,
               struct launch_extras *out, struct err *e)
{
    struct gpu_dialect *d = self;
    static const char *const here[] = {"127.0.0.1"};
    const struct training *t = &l->spec->train;
    AUTO(json) struct json *extra = NULL;
    struct gpu_view view;
    char uuid[ID_UUID_MAX];

    if (l->spec->origin.extra && json_parse(str_of(l->spec->origin.extra), "extra", &extra, e) < 0)
        return -1;
    id_format_uuid(l->id, uuid);
    const char *const nodes[] = {f->node->name};
    bool there =
        d->env.mounts || l->spec->container.image; /* it finds them where it expects them */
    AUTO_FREE char *custom = there ? NULL : mounted_at(l->spec, "/custom");
    AUTO_FREE char *snapshots = there ? NULL : mounted_at(l->spec, "/snapshots");
    AUTO_FREE char *data = there ? NULL : mounted_at(l->spec, "/data");
    AUTO_FREE char *backend = backend_of(d, extra);
    /* A job that the planner does not know runs alone on its devices. */
    bool planned = core_training(d->env.core, f->key.job, &view);
    gpu_job_env(&(struct gpu_env_facts){.job_uuid = uuid,
                                        .nodes = nodes,
                                        .addrs = here,
                                        .n_nodes = 1,
                                        .n_gpus = f->n_gpus,
                                        .master_port = f->master_port,
                                        .n_ranks = f->n_ports,
                                        .backend = backend,
                                        .driver = has_driver(f),
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
                                        .endpoint = f->endpoint,
                                        .token = f->token,
                                        .root_custom = custom,
                                        .root_snapshots = snapshots,
                                        .root_data = data},
                out->env.set, out->env.self);
    return 0;
}
