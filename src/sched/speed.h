/* speed.h - how fast jobs run: what was measured, and what follows for what was not
 *
 * A configuration is a number of devices and the families of those who share them.  Rates are
 * work per second; work is counted in units a family shares (struct gpu_job.epoch_work).  What is
 * known of a job's rate in a configuration is looked up in this order: its own measurement, that
 * of its family, the model.  The model has two parts, both fitted to what was measured so far:
 *
 *   alone on n devices    a * n^b, the exponent drawn towards that of all families
 *   company               log ratio = mean + (how much A suffers) + (how much B disturbs)
 *
 * so a measurement of A next to B says something about A next to C as well.
 */
#pragma once
#include "base/json.h"
#include "base/str.h"

enum { SPEED_WITH_MAX = 3 };
enum { SPEED_NO_FAMILY = 0 };

struct speed_key {
    int32_t n;
    int32_t n_with;
    uint32_t with[SPEED_WITH_MAX]; /* families, ascending */
};
struct speed_point {
    struct speed_key key;
    double log_rate, weight;
};
/* A job's own measurements; few, so a list. */
struct speed_own {
    struct speed_point *p;
    size_t n, cap;
};
struct speed_guess {
    double log, var;
};

struct speeds;
struct speeds *speeds_new(void);
void speeds_free(struct speeds *s);
/* The number of this family, made when new; "" is SPEED_NO_FAMILY, which remembers nothing. */
uint32_t speeds_family(struct speeds *s, struct str name);
struct str speeds_family_name(const struct speeds *s, uint32_t family);

struct speed_key speed_key_make(int32_t n, const uint32_t *with, int32_t n_with);
bool speed_key_equal(const struct speed_key *a, const struct speed_key *b);
const struct speed_point *speed_own_find(const struct speed_own *o, const struct speed_key *k);
/* Mixes a measurement in, newer ones counting 0.3; true when the configuration is new. */
bool speed_own_learn(struct speed_own *o, const struct speed_key *k, double log_rate,
                     double weight);

/* What its jobs' owners said of their rate, a mean; false: none said anything. */
bool speeds_said(const struct speeds *s, uint32_t family, double *log_rate);
void speeds_learn_said(struct speeds *s, uint32_t family, double log_rate);
/* Rate alone on n devices as the family knows it: false when nobody of it was measured alone. */
uint64_t speeds_version(const struct speeds *s, uint32_t family); /* grows with what is learnt */
bool speeds_alone(const struct speeds *s, uint32_t family, int32_t n, struct speed_guess *out);
/* log (rate on n / rate on ref), both alone */
struct speed_guess speeds_scale(const struct speeds *s, uint32_t family, int32_t n, int32_t ref);
/* log (rate in company / rate alone) on as many devices; 0 without company */
struct speed_guess speeds_company(const struct speeds *s, uint32_t family,
                                  const struct speed_key *k);

void speeds_learn_alone(struct speeds *s, uint32_t family, int32_t n, double log_rate);
/* One job was measured on both counts. */
void speeds_learn_scale(struct speeds *s, uint32_t family, int32_t n, int32_t ref, double log);
/* `weight` 1 = both rates were measured well.  True when the pair is new. */
bool speeds_learn_company(struct speeds *s, uint32_t family, const struct speed_key *k,
                          double log_ratio, double weight);
void speeds_learn_restart(struct speeds *s, uint32_t family, double seconds);
double speeds_restart(const struct speeds *s, uint32_t family, double fallback);

/* The terms of the model, for a copy that another thread may use. */
struct speed_terms {
    double mean, suffers, disturbs;
};
struct speed_terms speeds_terms(const struct speeds *s, uint32_t family);
struct speed_fact { /* A next to B alone, on n devices */
    uint32_t a, b;
    int32_t n;
    double log_ratio;
};
/* A copy of the facts is out of date once this number has changed. */
uint64_t speeds_changes(const struct speeds *s); /* grows with every one */
/* An upper bound of what speeds_facts writes, for the size of `out`; facts about larger groups are
 * counted here and left out there. */
size_t speeds_fact_count(const struct speeds *s);
size_t speeds_facts(const struct speeds *s, struct speed_fact *out);

/* ---- keeping ---- */
bool speeds_take_dirty(struct speeds *s, uint32_t *family); /* one that changed since asked */
void speeds_save(const struct speeds *s, uint32_t family, struct buf *out);
/* Adds what speeds_save wrote for this family.  Rows that make no sense are skipped; -1 only when
 * the text is no record at all. */
int speeds_load(struct speeds *s, struct str name, const struct json *j, struct err *e);
