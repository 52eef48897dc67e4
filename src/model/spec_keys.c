/* spec_keys.c - every key of a job spec, with its limits, default and one sentence for people */
#include "base/util.h"
#include "model/hook.h"
#include "model/node.h"
#include "model/spec_priv.h"
#include "model/sweep.h"

/* Where the value of a key is stored.  Keys with a reader of their own (command, env) have no
 * place. */
#define IN_SPEC(field)                                                                             \
    .offset = offsetof(struct spec, field), .width = sizeof(((struct spec *)0)->field)

/* In milliseconds, as every duration of a spec. */
#define SECOND INT64_C(1000)
#define HOUR (3600 * SECOND)
#define TEN_YEARS (87660 * HOUR)

/* The order of the rows is the order of keys in the canonical form.  A new row needs no other
 * change unless it has a new kind.  Durations are in milliseconds, sizes in bytes. */
const struct spec_key spec_keys[] = {
    {"name", KEY_TEXT, IN_SPEC(name), .min = 1, .max = SPEC_NAME_MAX,
     .doc = "what listings call the job; by default the base name of its command"},
    {"project", KEY_TEXT, IN_SPEC(project), .min = 1, .max = SPEC_NAME_MAX,
     .doc = "the project it belongs to; \"default\" unless given"},
    {"queue", KEY_TEXT, IN_SPEC(queue), .min = 1, .max = SPEC_NAME_MAX,
     .doc = "the queue it waits in, which can be paused; \"default\" unless given"},
    {"command", KEY_COMMAND, .min = 1, .max = SPEC_WORD_MAX,
     .doc = "one line for /bin/sh, or a list of words that no shell sees; {name} stands for the "
            "parameter of that name when the job has parameters, {{ for a brace"},
    {"cwd", KEY_DIR, IN_SPEC(command.cwd), .min = 1, .max = 4095,
     .doc = "the directory it runs in, absolute; the user's home unless given"},
    {"snapshot", KEY_TEXT, IN_SPEC(command.snapshot), .min = 24, .max = 24,
     .doc = "id of the snapshot of a directory in whose copy each run starts, from POST "
            "/v1/snapshots; in a job file, true takes a snapshot of the working directory"},
    {"snapshot_dir", KEY_TEXT, IN_SPEC(command.snapshot_dir), .min = 1, .max = 4095,
     .doc = "the directory of the snapshot in which it starts, relative; its top unless given"},
    {"env", KEY_ENV, .max = SPEC_ENV_MAX, .doc = "variables of its environment"},
    {"secrets", KEY_SECRETS, .max = 1000,
     .doc = "names of variables of env that are secrets, or patterns for names, as *_TOKEN; !NAME "
            "is an exception: values of secrets are stored encrypted and never shown"},
    {"resources", KEY_RESOURCES, .doc = "what it needs while it runs"},
    {"timeout", KEY_DURATION, IN_SPEC(limits.timeout_ms), .max = TEN_YEARS,
     .doc = "the longest it may run, as 90s, 2h or 1h30m; 0 for no limit"},
    {"grace", KEY_DURATION, IN_SPEC(limits.grace_ms), .max = 24 * HOUR, .fallback = 10 * SECOND,
     .doc = "time between the request to stop (SIGTERM) and SIGKILL"},
    {"retries", KEY_INT, IN_SPEC(retries), .max = SPEC_RETRIES_MAX,
     .doc = "how often it is tried again after a failure"},
    {"retry_lost", KEY_INT, IN_SPEC(retry_lost), .max = SPEC_RETRY_LOST_MAX,
     .doc = "how many of its runs are repeated when they are lost because their supervisor or "
            "node died; such a run does not count against retries"},
    {"backoff", KEY_DURATION, IN_SPEC(backoff_ms), .max = HOUR, .fallback = SECOND,
     .doc = "wait before the first retry; doubles each time, to an hour at most"},
    {"priority", KEY_INT, IN_SPEC(priority), .min = -SPEC_PRIORITY_MAX, .max = SPEC_PRIORITY_MAX,
     .doc = "higher starts first; equal ones in the order of submission"},
    {"hold", KEY_BOOL, IN_SPEC(hold), .doc = "submit it held: it starts only after a release"},
    {"split_output", KEY_BOOL, IN_SPEC(split_output),
     .doc = "keep stdout and stderr in two files instead of one log"},
    {"log_limit", KEY_SIZE, IN_SPEC(limits.log_limit_bytes), .max = INT64_C(1) << 50,
     .doc =
         "how large the log of a run may become, as 64M and at least 64K: above it the middle is "
         "dropped, with a notice; 0 for no limit"},
    {"nice", KEY_INT, IN_SPEC(limits.nice), .min = -20, .max = 19,
     .doc = "nice level of its command: above 0 it yields to other processes of the node, below 0 "
            "needs the right to do so",
     .no_image = "container engines cannot set it; leave it out or set cpus instead"},
    {"nodes", KEY_NODES, IN_SPEC(place.nodes), .max = SPEC_LIST_MAX,
     .doc = "names of the nodes it may run on, or patterns for them, as gpu*; any node unless "
            "given"},
    {"assets", KEY_ASSETS, IN_SPEC(place.assets), .max = SPEC_LIST_MAX,
     .doc = "files and directories it needs, each as from or from:to; a node that does not share "
            "our files gets copies below the directory it starts in there"},
    {"stage_dir", KEY_TEXT, IN_SPEC(place.stage_dir), .min = 1, .max = 4095,
     .doc = "that directory, absolute or below the home of the login there; one of its own for "
            "each run unless given"},
    {"notify", KEY_NOTIFY, IN_SPEC(notify), .max = HOOK_NOTIFY_MAX,
     .doc = "who is told of which event, each as EVENT=ACTION: failure=mail:me@example.org, "
            "end=NAME of a stored hook; events are queued, start, success, failure, cancel, end "
            "and waiting>2h; job: or batch: before the event says of what"},
    {"epochs", KEY_INT, IN_SPEC(train.epochs), .max = 1000000000,
     .doc = "epochs in all; it reports each, may be stopped between two and goes on there later"},
    {"epoch_steps", KEY_INT, IN_SPEC(train.epoch_steps), .max = INT64_C(1000000000000),
     .doc = "batches of one epoch on one GPU; measured times of its family are scaled by them"},
    {"estimate", KEY_DURATION, IN_SPEC(train.estimate_ms), .max = TEN_YEARS,
     .doc = "how long it takes alone on its GPUs, as 3h; replaced by what is measured"},
    {"deadline", KEY_TIME, IN_SPEC(train.deadline_ms),
     .doc = "when it should be done, as 2026-11-20T08:00:00Z"},
    {"preempt_signal", KEY_SIGNAL, IN_SPEC(train.preempt_signal), .min = 1, .max = 64,
     .doc = "signal on which it writes its checkpoint and ends, so that others can have its GPUs: "
            "USR1"},
    {"checkpoint", KEY_PATH, IN_SPEC(train.checkpoint), .min = 1, .max = 4095,
     .doc = "file from which it goes on after a stop"},
    {"family", KEY_TEXT, IN_SPEC(train.family), .min = 1, .max = SPEC_NAME_MAX,
     .doc = "jobs of one family behave alike and learn from each other; by default those of the "
            "same image, program and batch size"},
    {"image", KEY_TEXT, IN_SPEC(container.image), .min = 1, .max = 1000,
     .doc = "container image it runs in"},
    {"container", KEY_CONTAINER, IN_SPEC(container.options),
     .doc = "how the image is run: entrypoint, user, network and so on"},
    {"mounts", KEY_MOUNTS, IN_SPEC(container.mounts), .max = SPEC_LIST_MAX,
     .doc = "directories it sees, each as host:target or host:target:ro"},
    {"ports", KEY_PORTS, IN_SPEC(container.ports), .max = SPEC_LIST_MAX,
     .doc = "ports of the node that lead to its own, each as node:container"},
    {"launch", KEY_LAUNCH, IN_SPEC(train.launch),
     .doc = "node: one process that drives all GPUs; gpu: one process per GPU, with RANK and "
            "WORLD_SIZE"},
    {"dialect", KEY_TEXT, IN_SPEC(origin.dialect), .min = 1, .max = 64,
     .doc = "the interface it was submitted through"},
    {"extra", KEY_EXTRA, IN_SPEC(origin.extra), .max = SPEC_EXTRA_MAX,
     .doc = "facts of that interface, returned as they are"},
    {"params", KEY_PARAMS, .sweep = true,
     .doc = "parameters; in a sweep a list makes one job of every combination"},
    {"after", KEY_AFTER, .sweep = true, .doc = "jobs that must succeed first"},
    {"jobs", KEY_JOBS, .sweep = true,
     .doc = "one job each, with params, name, after and any key above to override"},
    {"array", KEY_INT, .sweep = true, .width = 8, .min = 1, .max = SWEEP_MAX_JOBS,
     .doc = "that many jobs, with {index} from 0"},
    {"slots", KEY_INT, .sweep = true, .width = 4, .min = 1, .max = 1000000,
     .doc = "at most so many of these jobs at once"},
};
const size_t n_spec_keys = ARRAY_SIZE(spec_keys);

/* `slots` stands last: at the top of a form it is a key of sweeps, so it has no flat form. */
const struct spec_key resource_keys[] = {
    {"cpus", KEY_CPUS, IN_SPEC(need.mcpu), .max = INT64_C(1000000) * 1000,
     .doc = "CPUs it uses: 2, 0.5 or 500m; unstated takes a slot but no share of CPUs"},
    {"mem", KEY_SIZE, IN_SPEC(need.mem_bytes), .min = 1 << 20, .max = INT64_C(1) << 50,
     .doc = "memory it uses, as 512M or 4G (powers of 1024)"},
    {"gpus", KEY_INT, IN_SPEC(need.gpus), .max = NODE_MAX_GPUS, .doc = "GPUs it wants"},
    {"gpus_max", KEY_INT, IN_SPEC(train.gpus_max), .max = NODE_MAX_GPUS,
     .doc = "GPUs it can use at most: it gets between gpus and gpus_max"},
    {"gpu_mem", KEY_SIZE, IN_SPEC(train.gpu_mem_bytes), .min = 1 << 20, .max = INT64_C(1) << 50,
     .doc = "memory it uses on each GPU, as 6G; unstated takes all of it"},
    {"gpu_share", KEY_SHARE, IN_SPEC(train.share),
     .doc = "may others use its GPUs as well; by default yes when gpu_mem or epochs are given"},
    {"slots", KEY_INT, IN_SPEC(need.slots), .min = 1, .max = 1000000, .fallback = 1,
     .doc = "slots of the node it occupies"},
};
const size_t n_resource_keys = ARRAY_SIZE(resource_keys);

const struct spec_key *spec_key_find(const struct spec_key *keys, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        /* The first byte is compared first, since a bulk submit looks up very many keys. */
        if (keys[i].name[0] == name.p[0] && str_eq_c(name, keys[i].name))
            return &keys[i];
    return NULL;
}

int spec_unknown_key(const char *path, const char *name, const struct spec_key *keys, size_t n,
                     bool sweep, struct err *e)
{
    /* Room for both tables together. */
    const char *names[64];
    size_t count = 0;
    const char *near;

    for (size_t i = 0; i < n; i++)
        if (sweep || !keys[i].sweep)
            names[count++] = keys[i].name;
    /* The flat forms, cpus, mem, gpus and so on, are keys of a spec too. */
    for (size_t i = 0; keys == spec_keys && i + 1 < n_resource_keys; i++)
        names[count++] = resource_keys[i].name;
    near = str_nearest(name, names, count);
    if (near)
        return err_set(e, ERR_INVALID, "%s%.60s: unknown key; did you mean \"%s\"?", path, name,
                       near);
    return err_set(e, ERR_INVALID,
                   "%s%.60s: unknown key; see `berth schema job` for the known ones", path, name);
}
