/* gpu_problem_priv.h - the frozen question, and the search over it
 *
 * A column is a set of jobs on the same n devices of one node.  It is anchored when it keeps the
 * devices of a group that runs (those of the group who are not in it must leave), otherwise it is
 * fresh: whoever runs elsewhere must stop first and start again.  A plan is a choice of columns:
 * no job twice, no group twice, no node over-full, and whoever may not be stopped stays.
 */
#pragma once
#include "sched/gpu_priv.h"

enum { GPU_NOBODY = -1, CAND_RATIOS = 6, KEEP_ALL = 96 /* candidates of a small question */ };

struct cand_ratio { /* its own measurement next to one of that family */
    uint32_t family;
    int32_t n;
    float ratio;
};
struct cand { /* a job in question */
    uint64_t job;
    uint32_t family;
    int32_t n_counts, group, n_ratios;
    int32_t counts[GPU_COUNTS_MAX];
    float speed[GPU_COUNTS_MAX]; /* alone on so many, against alone on the reference count */
    struct cand_ratio ratios[CAND_RATIOS];
    float suffers, disturbs; /* factors of the speed model */
    double price;            /* worth of running it at speed 1 for a second */
    double left_s, restart_s;
    double need; /* speed at which it meets its deadline; 0 = the more the better */
    int64_t mem_bytes;
    uint64_t nodes; /* 0 = any */
    /* share: other jobs may run on the same devices.  fixed: the job runs and may not be stopped
     * now.  claim: the job waited so long that it goes before all others (gpu_hold.c). */
    bool share, fixed, claim, started;
};
struct group { /* jobs that run on the same devices */
    int32_t jobs[GPU_SHARE_MAX];
    int32_t n_jobs, n;
    uint32_t node;
    int64_t room; /* for reservations, of its smallest device; 0 = not to be shared */
    bool open;
    bool fixed;  /* somebody in it may not be stopped */
    bool drains; /* nobody joins it: its devices are held for one that waited too long */
};
struct pnode {
    int32_t cap, free; /* free: during the search */
    bool open;
    size_t first_room, n_rooms; /* rooms of its devices, ascending, in problem.rooms */
};
struct column {
    int32_t jobs[GPU_SHARE_MAX];
    int32_t n_jobs, n;
    int32_t group; /* GPU_NOBODY: fresh */
    int32_t node;  /* while chosen */
    bool fixed;    /* somebody in it may not be stopped */
    int64_t mem_bytes;
    double value;
};

struct gpu_problem {
    struct gpu_conf conf;
    uint64_t plan;
    struct rng rng;
    double mean_ratio;
    bool urgent;            /* somebody waits who goes before all below GPU_URGENT */
    VEC(struct cand) cands; /* those who run, then those who wait, best first */
    size_t n_running;
    bool roomy; /* all can have all they can use: nobody need share */
    VEC(struct group) groups;
    VEC(struct pnode) nodes;
    VEC(int64_t) rooms;
    struct speed_fact *facts; /* by hash of (a, b, n), free places have n 0 */
    size_t facts_cap;
    uint8_t *incompatible; /* bit per pair and count class, NULL = none */
    VEC(struct column) columns;
    VEC(int32_t) order;  /* columns, densest first */
    VEC(int32_t) chosen; /* the answer */
    VEC(int32_t) held;   /* candidates devices are held for, and the nodes */
    VEC(uint32_t) held_nodes;
};

void gpu_problem_free(struct gpu_problem *p);
/* On a large cluster: has one node enough free for all who wait or could grow? */
bool problem_roomy(const struct gpus *g);
bool problem_leaving(const struct gjob *j); /* it gives up its devices as soon as it can */
void problem_jobs(struct gpus *g, struct gpu_problem *p, int64_t now); /* fills in the candidates */
double problem_ratio(const struct gpu_problem *p, const struct cand *a, const struct cand *b,
                     int32_t n);
bool problem_compatible(const struct gpu_problem *p, int32_t a, int32_t b, int32_t n);
bool problem_room(const struct gpu_problem *p, size_t node, int32_t n, int64_t mem);
/* May all who are in this column run on that node? */
bool problem_allows(const struct gpu_problem *p, const struct column *c, size_t node);
void problem_hold(struct gpu_problem *p);
void problem_columns(struct gpu_problem *p);
