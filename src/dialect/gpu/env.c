/* env.c - the variables a job of this dialect finds
 *
 * Owns: their names and forms.
 *
 * Two of them differ from what other launchers set.  WORLD_SIZE is the number of nodes, not of
 * processes, as long as one process drives the devices of a node; with one process per device
 * `berth __ranks` sets it to the usual meaning, together with RANK and LOCAL_RANK, which must not
 * be there otherwise: Lightning would take them for an outside launcher and start no children.
 * JOB_RESTARTED is FALSE also on a later attempt when no epoch was acknowledged before: there is no
 * snapshot to load.
 */
#include "dialect/gpu/env.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/util.h"
#include <stdio.h>

/* Where variables go. */
struct out {
    gpu_env_fn set;
    void *arg;
};

/* A variable without a value is left out. */
static void env_put(const struct out *o, const char *key, const char *value)
{
    if (value)
        o->set(o->arg, key, value);
}

static void env_put_num(const struct out *o, const char *key, int64_t v)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", (long long)v);
    o->set(o->arg, key, text);
}

static void env_put_list(const struct out *o, const char *key, const char *const *words, int32_t n)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, 1 << 20);
    for (int32_t i = 0; i < n; i++)
        buf_addf(&b, "%s%s", i ? "," : "", words[i]);
    o->set(o->arg, key, buf_str(&b).p);
}

/* One step trains one batch on each GPU of each node. */
int32_t gpu_heartbeat(const struct gpu_env_facts *f)
{
    int64_t per_step = MAX(f->batch_size, 1) * MAX(f->n_gpus, 1) * MAX(f->n_nodes, 1);
    int64_t steps = f->training_set_size / per_step / 4;

    return (int32_t)MIN(MAX(steps, 10), 500);
}

/* TF_CONFIG, in the form Python's json.dumps gives it.  Every process is a worker with a port of
 * its own.  The index is that of the first process of this node; with one process per device
 * `berth __ranks` sets that of each. */
static void put_cluster(const struct out *o, const struct gpu_env_facts *f)
{
    AUTO(json) struct json *all = json_new_object();
    struct json *cluster = json_new_object(), *workers = json_new_array(),
                *task = json_new_object();
    int32_t ranks = MAX(f->n_ranks, 1);

    for (int32_t i = 0; i < f->n_nodes * ranks; i++) {
        char host[300];
        snprintf(host, sizeof(host), "%s:%d", f->addrs[i / ranks], f->master_port + i % ranks);
        json_push_take(workers, json_new_str(str_of(host)));
    }
    json_set_take(cluster, "worker", workers);
    json_set_str(task, "type", "worker");
    json_set_int(task, "index", f->node_rank * ranks);
    json_set_take(all, "cluster", cluster);
    json_set_take(all, "task", task);
    AUTO_FREE char *text = json_text_as(all, JSON_PYTHON);
    env_put(o, "TF_CONFIG", text);
}

/* What torch.distributed, Lightning and TensorFlow read. */
static void put_distributed(const struct out *o, const struct gpu_env_facts *f)
{
    env_put(o, "MASTER_ADDR", f->addrs[0]);
    env_put_num(o, "MASTER_PORT", f->master_port);
    env_put_num(o, "WORLD_SIZE", f->n_nodes);
    env_put_num(o, "NODE_RANK", f->node_rank);
    env_put_num(o, "NUM_NODES", f->n_nodes);
    env_put_num(o, "NUM_GPUS", MAX(f->n_gpus, 1)); /* scripts divide by it */
    env_put_list(o, "NODELIST", f->nodes, f->n_nodes);
    put_cluster(o, f);
    env_put(o, "PL_TORCH_DISTRIBUTED_BACKEND",
            f->backend  ? f->backend
            : f->driver ? "nccl"
                        : "gloo");
}

static void env_put_training(const struct out *o, const struct gpu_env_facts *f)
{
    enum { MIB = 1 << 20 };

    env_put(o, "JOB_UUID", f->job_uuid);
    env_put(o, "JOB_RESTARTED", f->restarted && f->epochs_done > 0 ? "TRUE" : "FALSE");
    env_put_num(o, "EPOCHS_DONE", f->epochs_done);
    env_put_num(o, "EPOCHS_TO_BE_DONE", MAX(f->epochs, 1)); /* of a job without: one, so that */
    env_put_num(o, "BATCH_SIZE", MAX(f->batch_size, 1));    /* nobody divides by nothing */
    env_put_num(o, "TRAINING_SET_SIZE", MAX(f->training_set_size, 1));
    env_put_num(o, "HEARTBEAT_FREQ", f->heartbeat > 0 ? f->heartbeat : gpu_heartbeat(f));
    /* In MiB, as estimatedMemory. */
    env_put_num(o, "RESERVED_MEM", f->reserved_bytes / MIB);
}

/* A job on CPUs sees no GPU: the memory of those there are is planned for others. */
static void put_no_gpus(const struct out *o, const struct gpu_env_facts *f)
{
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
                                        "ROCR_VISIBLE_DEVICES"};

    for (size_t i = 0; f->n_gpus == 0 && i < ARRAY_SIZE(names); i++)
        env_put(o, names[i], "");
}

void gpu_job_env(const struct gpu_env_facts *f, gpu_env_fn set, void *arg)
{
    const struct out o = {set, arg};

    env_put_training(&o, f);
    put_distributed(&o, f);
    put_no_gpus(&o, f);
    env_put(&o, "SCHED_ENDPOINT", f->endpoint);
    env_put(&o, "SCHED_TOKEN", f->token);
    env_put_num(&o, "SCHED_ATTEMPT", f->attempt);
    env_put_num(&o, "SCHED_SHARE", MAX(f->share, 1));
    env_put(&o, "SCHED_ROOT_CUSTOM", f->root_custom);
    env_put(&o, "SCHED_ROOT_SNAPSHOTS", f->root_snapshots);
    env_put(&o, "SCHED_ROOT_DATA", f->root_data);
}
