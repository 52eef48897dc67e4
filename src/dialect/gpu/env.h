/* env.h - the variables a job of this dialect finds, besides those that say which GPUs are its own
 *
 * Pure: facts in, variables out.  Every one of them is written at every start; the numbers are
 * plain decimal ones, because the library of old dies of a missing or malformed value.
 */
#pragma once
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

/* Everything is borrowed for the duration of gpu_job_env. */
struct gpu_env_facts {
    const char *job_uuid;
    const char *const *nodes; /* names, in rank order */
    const char *const *addrs; /* where each is reached by the others */
    int32_t n_nodes, node_rank;
    int32_t n_gpus; /* on each node */
    int32_t master_port;
    int32_t n_ranks;     /* processes on each node, each with a port from master_port on; 0 = 1 */
    const char *backend; /* of torch.distributed; NULL = nccl with `driver`, else gloo */
    bool driver;         /* the driver of its GPUs is there */
    int64_t epochs, epochs_done, batch_size, training_set_size; /* 0 = not told, except done */
    bool restarted;
    int64_t reserved_bytes;       /* on each device */
    int32_t heartbeat;            /* steps between messages; 0 = what suits the job */
    int32_t attempt, share;       /* share: jobs on its devices, itself included */
    const char *endpoint, *token; /* NULL = none */
    const char *root_custom, *root_snapshots, *root_data; /* NULL = mounted, or there is none */
};
/* Called once for each variable; key and value are valid during the call only. */
typedef void (*gpu_env_fn)(void *arg, const char *key, const char *value);
void gpu_job_env(const struct gpu_env_facts *f, gpu_env_fn set, void *arg);
/* Steps between two profile messages when nobody says: about four in an epoch, but no less than ten
 * steps apart, since the library of old asks nvidia-smi for each, and no more than five hundred. */
int32_t gpu_heartbeat(const struct gpu_env_facts *f);
