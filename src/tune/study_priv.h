/* study_priv.h - what engines see of a study, and what a study expects of an engine */
#pragma once
#include "base/vec.h"
#include "tune/pbt.h"
#include "tune/study.h"

/* What random numbers of a trial are for; each has a stream of its own. */
enum tune_purpose { DRAW_POINT = 1, DRAW_SCRAMBLE, DRAW_MODEL, DRAW_SEARCH, DRAW_CHOICE };

/* An engine.  `propose` reads and must not change what later proposals depend on: after a restart
 * it is not called again for the trials that were recorded.  State that depends on the history is
 * changed by `asked` and `told`, which see every trial and every result in their order. */
struct tune_engine {
    const char *name;
    int (*open)(struct tune_study *s, void **out, struct err *e); /* NULL = no state */
    void (*close)(void *state);                                   /* NULL = nothing to free */
    /* Fills in the codes of trial `id`; ERR_NOT_FOUND when there are no more points. */
    int (*propose)(void *state, struct tune_study *s, int64_t id, double *code, struct err *e);
    void (*asked)(void *state, struct tune_study *s, size_t trial); /* may be NULL */
    void (*told)(void *state, struct tune_study *s, size_t trial);  /* may be NULL */
    /* It looks at the order of trials only, so that it can serve several objectives. */
    bool many;
    bool cheap; /* a proposal takes microseconds, whatever the history */
};

extern const struct tune_engine tune_random, tune_sobol, tune_grid, tune_tpe, tune_gp, tune_cmaes,
    tune_auto, tune_nsga2, tune_motpe, tune_members;

struct tune_study {
    struct tune_space *space;
    const struct tune_engine *engine;
    void *state;
    uint64_t seed;
    bool maximize;
    int64_t budget;
    VEC(struct tune_trial) trials;
    VEC(double) codes;    /* n codes of each trial, n = space->n */
    VEC(double) loss;     /* of each trial: the value to minimise; NaN = none */
    VEC(uint32_t) done;   /* trials that succeeded, in the order of their results */
    VEC(uint32_t) ranked; /* the same, best first; equal ones in the order of their results */
    VEC(uint32_t) failed;
    VEC(uint32_t) pending;
    uint32_t *issued; /* finite spaces: a hash table of trials by their points, +1, 0 = free */
    size_t issued_cap;
    struct arena scratch; /* of one proposal */
    /* Several objectives; NULL = one.  `ranked` and `loss` are then made before a proposal. */
    struct study_many *many;
    struct tune_pbt_conf pbt; /* of the engine pbt */
};

/* pbt_engine.c */
int64_t pbt_parent(const void *state, size_t trial);

/* many.c */
struct study_many *study_many_new(size_t m, const bool *maximize);
void study_many_free(struct study_many *y);
/* The values of a trial; it becomes the last of `done`. */
void study_many_add(struct tune_study *s, size_t trial, const double *values);
/* Orders trials by level and room; nothing to do for one objective. */
void study_many_order(struct tune_study *s);

static inline const double *study_code(const struct tune_study *s, size_t trial)
{
    return s->codes.p + trial * s->space->n;
}
/* A generator for one purpose of one trial. */
void study_rng(const struct tune_study *s, int64_t id, enum tune_purpose why, struct rng *out);
/* Was this point of a finite space asked before?  Always false for other spaces. */
bool study_issued(const struct tune_study *s, const double *code);
/* A point at random that was not asked before: ERR_NOT_FOUND when there is none. */
int study_draw_new(struct tune_study *s, struct rng *r, double *code, struct err *e);
/* The point of the Sobol sequence for this trial, or a random one that was not asked before: how
 * engines begin, and what they fall back to. */
int study_spread(struct tune_study *s, int64_t id, double *code, struct err *e);
/* A draw of the normal distribution. */
double rng_normal(struct rng *r);

/* Trials with the same set of existing parameters have the same key. */
uint64_t study_branch_key(const struct tune_study *s, const double *code);
/* The best trial of the branch that is worth a trial now; at least one must have succeeded. */
size_t study_branch(struct tune_study *s, struct rng *r);

/* The proposals of engines that others build upon. */
/* cmaes: begins again at the best trial, with a small spread. */
void cmaes_begin_at_best(void *state, struct tune_study *s);
int tpe_propose(struct tune_study *s, int64_t id, double *code, struct err *e);
