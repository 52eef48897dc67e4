/* sim.h - a simulated cluster around the real controller
 *
 * The controller under test is the one of the daemon; its store, backend, clock and chance are
 * replaced: `disk` is a store whose commits take time, fail, or are lost in a crash; `world` are
 * the hosts with their supervisors, which outlive the controller; they go away and come back, and
 * refuse what they cannot take.  Everything follows from one seed.
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
    PLANT_AMNESIA,    /* records of training are acknowledged and not kept */
    PLANT_REFUSED,    /* a host refuses a run and starts it later all the same */
    PLANT_LATE_SAVE,  /* scripts save after start_epoch: an epoch is confirmed without a snapshot */
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
struct disk_schedule {
    struct schedule_row row; /* its texts are the disk's, but for `trouble`, which is not kept */
};
struct disk_run {
    struct run_record rec;
    bool ended;
    enum run_end why;
    enum job_state left; /* what its end made of the job */
};
struct disk_op {
    struct change change; /* its texts are the operation's own */
    ledger_done_fn fn;    /* a barrier when set */
    void *arg;
};
struct disk {
    VEC(struct disk_job) jobs; /* by number - 1 */
    VEC(struct disk_run) runs;
    VEC(struct run_record) ahead; /* starts sent ahead */
    VEC(struct disk_fact) facts;
    VEC(struct disk_schedule) schedules;
    VEC(struct study_row) studies; /* texts are the disk's */
    VEC(struct trial_row) trials;  /* those of a study in the order of their numbers; no reasons */
    VEC(struct disk_op) ops;       /* staged and not yet committed */
    VEC(struct submission *) owned;
    size_t sealed; /* ops of finished turns */
    uint64_t next_job, next_spec, next_batch;
    bool full, unhealthy, dead;
    enum planted planted;
    char queue_paused; /* of "default" */
    char detail[300];  /* of the run whose end was committed last */
};
struct ledger disk_ledger(struct disk *d);
void disk_seal(struct disk *d);   /* end of a turn */
void disk_commit(struct disk *d); /* the writer gets to what is sealed */
void disk_crash(struct disk *d);  /* what was not committed is gone */
void disk_done(struct disk *d);
/* disk_study.c */
void disk_study_apply(struct disk *d, const struct change *c);
void disk_study_submitted(struct disk *d, const struct submission *s);
void disk_study_load(struct disk *d, const struct load_sink *sink);
int disk_read_trials(void *self, uint64_t study, void (*fn)(void *arg, const struct trial_row *r),
                     void *arg, struct err *e);
void disk_study_done(struct disk *d);

/* ---- world ---- */
enum { MAX_EPOCHS = 6, MAX_RANKS = 3, SIM_DEVICES = 4, SIM_HOSTS = 3 };
#define SIM_EPOCH_MS INT64_C(1700000000000) /* wall clock at virtual time 0 */
#define SIM_GPU_BYTES (INT64_C(16) << 30)
enum rank_state {
    RANK_ASKS,
    RANK_COMPUTES,
    RANK_REPORTS,
    RANK_WAITS, /* for the acknowledgement */
    RANK_SAVES, /* rank 0 only: between end_epoch and start_epoch */
    RANK_STOPPED,
    RANK_FINISHED
};
struct rank {
    enum rank_state state;
    int32_t epoch; /* the present one, or the next */
};
struct journey {             /* of one job, over all attempts */
    int32_t reported, acked; /* epochs: said to a controller, heard back by some rank */
    int32_t obeyed;          /* epochs behind it when it last stopped because it was told to */
    uint32_t snapshot;       /* epochs that the saved weights have seen, a bit each */
};
struct exec {
    struct run_key key;
    int host; /* where */
    struct resources need;
    struct gpu_set gpus;
    struct run_outcome outcome;
    int64_t end_at; /* virtual time */
    bool live, ended;
    /* training */
    int32_t epochs, from; /* in all; done before, as it was told */
    int n_ranks;
    struct rank ranks[MAX_RANKS];
    int8_t said[MAX_EPOCHS]; /* to the ranks, for each epoch; -1 = nobody asked */
    uint32_t weights;        /* epochs that the weights in memory have seen, a bit each */
    int64_t checkpoint;      /* number of its file; 0 = none */
    bool made_room, checked, judged;
};
struct msg {
    struct run_key key, after;
    struct resources need;
    struct gpu_set gpus;
    int64_t timeout_ms, checkpoint;
    int32_t epochs, from;
    int n_ranks;
    bool stop, signal, withdraw;
};
struct happening { /* the journal */
    struct run_key key;
    bool end;
    bool absent; /* a start that was sent ahead was taken back */
    struct run_outcome outcome;
};
struct sim_host {
    struct world *world;
    int at;
    struct node node;
    struct device devices[SIM_DEVICES];
    VEC(struct msg) channel; /* from the controller, in order */
    VEC(struct msg) stale;   /* left over from controllers that died; may still arrive, any time */
    VEC(struct msg) gated;
    VEC(struct happening) journal;
    VEC(struct run_belief) asked;   /* adopt: answers outstanding */
    VEC(struct run_key) taken_back; /* stopped before they were sent; the controller is to hear */
    size_t read;                    /* of the journal, by the living controller */
    struct core_host *host;         /* this one, in it */
    bool cut;                       /* nothing passes between it and the controller */
};
struct sim_step { /* the end step of a run; outlives the controller, as files do */
    struct run_key key;
    bool under_way; /* begun by the living controller and not reported */
    bool over;      /* reported, or abandoned by the controller */
};
struct world {
    struct rng *rng;
    int64_t now;
    struct sim_host hosts[SIM_HOSTS];
    int n_hosts;
    VEC(struct exec) execs;
    struct core *core; /* NULL while it is dead */
    enum planted planted;
    bool dead_calls;                 /* calls of a dying controller are ignored */
    bool full_disks;                 /* some runs end while theirs is full */
    VEC(struct journey) journeys;    /* by job number - 1 */
    VEC(struct sim_step) steps;      /* of every run for which one was ever begun */
    size_t kills[RANK_FINISHED + 1]; /* of training scripts, by what rank 0 was doing */
    VEC(int64_t) saved;              /* checkpoint number → when it was written; 0 = never */
    char failure[200];               /* what a rank went through and should not have */
};
extern const struct backend_class backend_sim, backend_sim_far;
/* The first host is this machine: nothing comes between. */
static inline bool world_far(int host)
{
    return host > 0;
}
void world_init(struct world *w, struct rng *rng, enum planted planted);
void world_done(struct world *w);
void world_crash_controller(struct world *w);
/* The hosts of a new controller: opened and attached, as many as there are. */
void world_attach(struct world *w, struct backend *backends[SIM_HOSTS]);
/* Each of these does it for some host for which there is something to do. */
void world_deliver_msg(struct world *w);       /* one message arrives */
void world_deliver_happening(struct world *w); /* the controller reads one journal record */
void world_answer(struct world *w);            /* one adopt question is answered */
void world_refuse(struct world *w);            /* a run that did not get through is given back */
void world_cut(struct world *w, int host, bool cut);
void world_finish(struct world *w, size_t exec, enum run_end why, int status);
void world_advance(struct world *w, int64_t ms); /* time passes; what is due ends */
struct exec *world_find(struct world *w, struct run_key key);
/* End steps: begun by the controller (core_ops), reported some time later. */
bool world_end_step(struct world *w, struct run_key key);
void world_end_step_cancel(struct world *w, struct run_key key);
void world_end_step_report(struct world *w); /* some step under way is complete, or failed */
const struct sim_step *world_step_of(const struct world *w, struct run_key key); /* or NULL */

/* ---- trainers ---- */
void trainer_begin(struct world *w, struct exec *x);
void trainer_signal(struct world *w, struct exec *x);
void world_train(struct world *w); /* some rank of some run does its next thing */
struct journey *world_journey(struct world *w, uint64_t job);
int64_t world_file_time(void *self, const char *path); /* self: the world */

/* ---- one simulation ---- */
struct sim_result {
    char failure[300];                  /* "" = all invariants held */
    size_t steps, jobs, crashes, stops; /* stops: runs that made room */
    size_t kills[RANK_FINISHED + 1];    /* see struct world */
};
struct sim_result sim_run(uint64_t seed, enum planted planted);
