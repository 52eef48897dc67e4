/* speed_priv.h - what speed.c, speed_alone.c and speed_save.c share */
#pragma once
#include "base/map.h"
#include "base/vec.h"
#include "sched/speed.h"

static const double SPEED_PRIOR_EXPONENT = 0.8;

/* A family alone on n devices: its rate (weight 0: nobody was measured), and where it lies on the
 * curve of the family, which also knows ratios of jobs whose work is not comparable. */
struct family_alone {
    int32_t n;
    double log_rate, weight, log_rel, rel_weight;
};
struct family_fact { /* its rate in company against that alone */
    struct speed_key key;
    double log_ratio, weight;
};
/* A term of the model: the evidence for it, weighted. */
struct speed_term {
    double sum, weight;
};
/* Families whose names differ in the last number only, such as the batch size: what is known of one
 * is the best guess for another. */
struct kin {
    struct speed_term suffers, disturbs, slope; /* sums over its families */
};
struct family {
    char *name;
    uint32_t index;
    bool dirty;
    uint64_t version;               /* of what it knows; callers cache by it */
    VEC(struct family_alone) alone; /* by n */
    VEC(struct family_fact) facts;
    VEC(uint32_t) disturbed; /* families with a fact about this one */
    struct kin *kin;
    struct speed_term suffers, disturbs, slope;
    double restart_s, restart_weight;
    double said, said_weight; /* log rate as owners estimated it */
};
struct speeds {
    VEC(struct family *) families; /* [0] is that of jobs without one */
    struct map_str by_name, kins;
    VEC(uint32_t) dirty;
    double mean, exponent;
    struct speed_term slope;
    double restart_s, restart_weight;
    size_t n_facts, n_learned;
    uint64_t changes;
};

/* A term of one family: its evidence, drawn towards that of its kin, and that towards `rest`. */
double speed_term(const struct speed_term *own, const struct speed_term *kin, double pull,
                  double rest);
void speed_term_set(struct speed_term *own, struct speed_term *kin, double sum, double weight);
/* Running mean: plain while there are few measurements, then the newest counts most. */
void speed_mix(double *value, double *weight, double x, double w);
void speeds_touch(struct speeds *s, struct family *f);
bool speeds_add_fact(struct speeds *s, struct family *f, const struct speed_key *k,
                     double log_ratio, double weight);
/* As it was saved; the fit follows. */
void speeds_put_alone(struct speeds *s, uint32_t family, const struct family_alone *a);
