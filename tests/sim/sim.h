/* sim.h - a simulated cluster around the real controller
 *
 * The controller under test is the one of the daemon; its store, backend, clock and chance are
 * replaced: `disk` is a store whose commits take time, fail, or are lost in a crash; `world` is the
 * host with its supervisors, which outlives the controller.  Everything follows from one seed.
 */
#pragma once
#include "base/rand.h"
#include "base/vec.h"
#include "core/core.h"

/* Deliberate faults in the surroundings, to show that the checks would notice such a bug in ours.
 */
enum planted {
    PLANT_NOTHING,
    PLANT_EARLY_ACK,  /* barriers run before the commit: an acknowledged job can be lost in a crash
                       */
    PLANT_LATE_START, /* a start of a dead controller runs although the host denied knowing it */
    PLANT_FORGETFUL,  /* after a restart the host denies knowing runs that are alive */
};

/* ---- disk ---- */
struct disk_job {
    struct job_record rec;
    struct submission *submission; /* facts shared by its jobs; owned by the disk */
    VEC(uint64_t) after;
    uint32_t finals; /* times it became final, less the retries by hand */
    bool exists, succeeded_once;
    bool by_hand;   /* retried: it need not wait for what ended badly */
    char *training; /* its record; NULL = it does not train */
};
struct disk_fact {
    char *name, *text;
};
struct disk_run {
    struct run_record rec;
    bool ended;
    enum job_state left; /* what its end made of the job */
};
struct disk_op {
    struct change change;
    char *name, *text; /* what the change borrows */
    ledger_done_fn fn; /* a barrier when set */
    void *arg;
};
struct disk {
    VEC(struct disk_job) jobs; /* by number - 1 */
    VEC(struct disk_run) runs;
    VEC(struct disk_fact) facts;
    VEC(struct disk_op) ops; /* staged and not yet committed */
    VEC(struct submission *) owned;
    size_t sealed; /* ops of finished turns */
    uint64_t next_job, next_spec, next_batch;
    bool full, unhealthy, dead;
    enum planted planted;
    char queue_paused; /* of "default" */
};
struct ledger disk_ledger(struct disk *d);
void disk_seal(struct disk *d);   /* end of a turn */
void disk_commit(struct disk *d); /* the writer gets to what is sealed */
void disk_crash(struct disk *d);  /* what was not committed is gone */
void disk_done(struct disk *d);

/* ---- world ---- */
struct exec {
    struct run_key key;
    struct resources need;
    struct gpu_set gpus;
    struct run_outcome outcome;
    int64_t end_at; /* virtual time */
    bool live, ended;
};
struct msg {
    struct run_key key, after;
    struct resources need;
    struct gpu_set gpus;
    int64_t timeout_ms;
    bool stop;
};
struct happening { /* the journal */
    struct run_key key;
    bool end;
    struct run_outcome outcome;
};
struct world {
    struct rng *rng;
    int64_t now;
    VEC(struct exec) execs;
    VEC(struct msg) channel; /* from the controller, in order */
    VEC(struct msg) stale;   /* left over from controllers that died; may still arrive, any time */
    VEC(struct msg) gated;
    VEC(struct happening) journal;
    VEC(struct run_belief) asked; /* adopt: answers outstanding */
    size_t read;                  /* of the journal, by the living controller */
    struct core *core;            /* NULL while it is dead */
    struct node node;
    struct device devices[2];
    enum planted planted;
    bool dead_calls; /* calls of a dying controller are ignored */
};
extern const struct backend_class backend_sim;
void world_init(struct world *w, struct rng *rng, enum planted planted);
void world_done(struct world *w);
void world_crash_controller(struct world *w);
void world_deliver_msg(struct world *w);       /* one message arrives */
void world_deliver_happening(struct world *w); /* the controller reads one journal record */
void world_answer(struct world *w);            /* one adopt question is answered */
void world_finish(struct world *w, size_t exec, enum run_end why, int status);
void world_advance(struct world *w, int64_t ms); /* time passes; what is due ends */
struct exec *world_find(struct world *w, struct run_key key);

/* ---- one simulation ---- */
struct sim_result {
    char failure[300]; /* "" = all invariants held */
    size_t steps, jobs, crashes;
};
struct sim_result sim_run(uint64_t seed, enum planted planted);
