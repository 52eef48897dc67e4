/* speed.c - the speed model: families, what they showed, and the fit through it
 *
 * Owns: the families and the fit of company; that over device counts is in speed_alone.c.
 *
 * The fit of company is done by coordinates: a new fact moves the term of the one who suffers,
 * then that of the one who disturbs, then the mean, each the weighted average of what the others
 * leave over, drawn towards that of its kin as if by facts of weight PULL (and the kin towards 0,
 * the mean towards PRIOR_COMPANY).  A fact touches only its own two families, so learning is cheap
 * however many there are.
 */
#include "sched/speed_priv.h"

#include <math.h>

static const double PRIOR_COMPANY = -0.478; /* log 0.62 */
static const double PULL = 0.7, PULL_MEAN = 6;

/* The name up to its last number. */
static struct kin *kin_of(struct speeds *s, struct str name)
{
    size_t n = name.n;

    while (n > 0 && !(name.p[n - 1] >= '0' && name.p[n - 1] <= '9'))
        n--;
    while (n > 0 && name.p[n - 1] >= '0' && name.p[n - 1] <= '9')
        n--;
    struct str stem = n ? (struct str){name.p, n} : name;
    struct kin *k = map_str_get(&s->kins, stem);
    if (!k) {
        k = xcalloc(1, sizeof(*k));
        map_str_put(&s->kins, stem, k);
    }
    return k;
}

double speed_term(const struct speed_term *own, const struct speed_term *kin, double pull,
                  double rest)
{
    double of_kin = (kin->sum + pull * rest) / (kin->weight + pull);

    return (own->sum + pull * of_kin) / (own->weight + pull);
}

void speed_term_set(struct speed_term *own, struct speed_term *kin, double sum, double weight)
{
    kin->sum += sum - own->sum;
    kin->weight += weight - own->weight;
    *own = (struct speed_term){sum, weight};
}

static double suffers(const struct family *f)
{
    return speed_term(&f->suffers, &f->kin->suffers, PULL, 0);
}

static double disturbs(const struct family *f)
{
    return speed_term(&f->disturbs, &f->kin->disturbs, PULL, 0);
}

struct speeds *speeds_new(void)
{
    struct speeds *s = xcalloc(1, sizeof(*s));
    struct family *none = xcalloc(1, sizeof(*none));

    none->name = xstrdup("");
    none->kin = kin_of(s, (struct str){0});
    vec_push(&s->families, none);
    s->mean = PRIOR_COMPANY;
    s->exponent = SPEED_PRIOR_EXPONENT;
    return s;
}

void speeds_free(struct speeds *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->families.n; i++) {
        struct family *f = s->families.p[i];
        vec_done(&f->alone);
        vec_done(&f->facts);
        vec_done(&f->disturbed);
        free(f->name);
        free(f);
    }
    vec_done(&s->families);
    vec_done(&s->dirty);
    size_t it = 0;
    struct str key;
    void *kin;
    while (map_str_next(&s->kins, &it, &key, &kin))
        free(kin);
    map_str_done(&s->kins);
    map_str_done(&s->by_name);
    free(s);
}

uint32_t speeds_family(struct speeds *s, struct str name)
{
    if (!name.n)
        return SPEED_NO_FAMILY;
    struct family *f = map_str_get(&s->by_name, name);
    if (f)
        return f->index;
    f = xcalloc(1, sizeof(*f));
    f->name = xstrndup(name.p, name.n);
    f->index = (uint32_t)s->families.n;
    f->kin = kin_of(s, name);
    vec_push(&s->families, f);
    map_str_put(&s->by_name, name, f);
    return f->index;
}

struct str speeds_family_name(const struct speeds *s, uint32_t family)
{
    return str_of(s->families.p[family]->name);
}

uint64_t speeds_version(const struct speeds *s, uint32_t family)
{
    return s->families.p[family]->version + 1;
}

/* What the family knows has changed: caches by version are out of date, and the record has to be
 * saved. */
void speeds_touch(struct speeds *s, struct family *f)
{
    f->version++;
    s->changes++;
    if (f->index == SPEED_NO_FAMILY || f->dirty)
        return;
    f->dirty = true;
    vec_push(&s->dirty, f->index);
}

bool speeds_take_dirty(struct speeds *s, uint32_t *family)
{
    if (!s->dirty.n)
        return false;
    *family = vec_pop(&s->dirty);
    s->families.p[*family]->dirty = false;
    return true;
}

/* ---- configurations and own measurements ---- */

struct speed_key speed_key_make(int32_t n, const uint32_t *with, int32_t n_with)
{
    struct speed_key k = {.n = n, .n_with = n_with};

    for (int32_t i = 0; i < n_with; i++) {
        int32_t at = i;
        for (; at > 0 && k.with[at - 1] > with[i]; at--)
            k.with[at] = k.with[at - 1];
        k.with[at] = with[i];
    }
    return k;
}

bool speed_key_equal(const struct speed_key *a, const struct speed_key *b)
{
    if (a->n != b->n || a->n_with != b->n_with)
        return false;
    for (int32_t i = 0; i < a->n_with; i++)
        if (a->with[i] != b->with[i])
            return false;
    return true;
}

const struct speed_point *speed_own_find(const struct speed_own *o, const struct speed_key *k)
{
    for (size_t i = 0; i < o->n; i++)
        if (speed_key_equal(&o->p[i].key, k))
            return &o->p[i];
    return NULL;
}

static const double NEWER = 0.3; /* weight of the latest of many measurements */

void speed_mix(double *value, double *weight, double x, double w)
{
    *weight += w;
    double share = w / *weight;
    double newer = NEWER * MIN(w, 1);
    *value += MAX(share, newer) * (x - *value);
}

bool speed_own_learn(struct speed_own *o, const struct speed_key *k, double log_rate, double weight)
{
    struct speed_point *p = (struct speed_point *)(uintptr_t)speed_own_find(o, k);
    bool is_new = !p;

    if (is_new) {
        vec_push(o, ((struct speed_point){.key = *k}));
        p = &vec_last(o);
    }
    speed_mix(&p->log_rate, &p->weight, log_rate, weight);
    return is_new;
}

/* ---- company ---- */

static struct family_fact *fact_at(const struct family *f, const struct speed_key *k)
{
    for (size_t i = 0; i < f->facts.n; i++)
        if (speed_key_equal(&f->facts.p[i].key, k))
            return &f->facts.p[i];
    return NULL;
}

/* Company never makes a job faster, and no ratio below e^-3 is believed. */
static double clamp_ratio(double log_ratio)
{
    return log_ratio > 0 ? 0 : log_ratio < -3 ? -3 : log_ratio;
}

struct speed_guess speeds_company(const struct speeds *s, uint32_t family,
                                  const struct speed_key *k)
{
    const struct family *f = s->families.p[family];
    const struct family_fact *fact = k->n_with ? fact_at(f, k) : NULL;
    struct speed_guess g = {0, 0};
    double known = 0;

    if (!k->n_with)
        return g;
    for (int32_t i = 0; i < k->n_with; i++) /* the model, or the pairs of a larger group */
    {
        struct speed_key pair = speed_key_make(k->n, &k->with[i], 1);
        const struct family_fact *p = k->n_with > 1 ? fact_at(f, &pair) : NULL;
        g.log += p ? p->log_ratio
                   : clamp_ratio(s->mean + suffers(f) + disturbs(s->families.p[k->with[i]]));
        /* Variances of log ratios: a pair that was measured is trusted more than the model. */
        g.var += p ? 0.02 : 0.09;
    }
    if (fact) {
        known = fact->weight / (fact->weight + 0.08);
        g.log += known * (fact->log_ratio - g.log);
        g.var = g.var * (1 - known) + 0.002;
    }
    g.log = clamp_ratio(g.log);
    return g;
}

/* Moves one term to the weighted mean of its residuals. */
static void fit_suffers(struct speeds *s, struct family *f)
{
    double sum = 0, weight = 0;

    for (size_t i = 0; i < f->facts.n; i++) {
        const struct family_fact *x = &f->facts.p[i];
        if (x->key.n_with != 1)
            continue;
        sum += x->weight * (x->log_ratio - s->mean - disturbs(s->families.p[x->key.with[0]]));
        weight += x->weight;
    }
    speed_term_set(&f->suffers, &f->kin->suffers, sum, weight);
}

static void fit_disturbs(struct speeds *s, struct family *f)
{
    double sum = 0, weight = 0;

    for (size_t i = 0; i < f->disturbed.n; i++) {
        const struct family *a = s->families.p[f->disturbed.p[i]];
        for (size_t k = 0; k < a->facts.n; k++) {
            const struct family_fact *x = &a->facts.p[k];
            if (x->key.n_with != 1 || x->key.with[0] != f->index)
                continue;
            sum += x->weight * (x->log_ratio - s->mean - suffers(a));
            weight += x->weight;
        }
    }
    speed_term_set(&f->disturbs, &f->kin->disturbs, sum, weight);
}

static void fit_mean(struct speeds *s)
{
    double sum = PULL_MEAN * PRIOR_COMPANY, weight = PULL_MEAN;

    for (size_t i = 1; i < s->families.n; i++) {
        const struct family *f = s->families.p[i];
        for (size_t k = 0; k < f->facts.n; k++) {
            const struct family_fact *x = &f->facts.p[k];
            if (x->key.n_with != 1)
                continue;
            sum +=
                x->weight * (x->log_ratio - suffers(f) - disturbs(s->families.p[x->key.with[0]]));
            weight += x->weight;
        }
    }
    s->mean = sum / weight;
}

/* Remembers that family `who` has a fact about `by`, so that fit_disturbs need not walk over all
 * families. */
static void note_disturbed(struct family *by, uint32_t who)
{
    for (size_t i = 0; i < by->disturbed.n; i++)
        if (by->disturbed.p[i] == who)
            return;
    vec_push(&by->disturbed, who);
}

bool speeds_add_fact(struct speeds *s, struct family *f, const struct speed_key *k,
                     double log_ratio, double weight)
{
    struct family_fact *x = fact_at(f, k);
    bool is_new = !x;

    s->changes++;
    if (is_new) {
        vec_push(&f->facts, ((struct family_fact){.key = *k}));
        x = &vec_last(&f->facts);
        s->n_facts++;
        for (int32_t i = 0; i < k->n_with; i++)
            note_disturbed(s->families.p[k->with[i]], f->index);
    }
    speed_mix(&x->log_ratio, &x->weight, log_ratio, weight);
    if (x->weight > 3)
        x->weight = 3; /* the same pair again says nothing new about others */
    if (k->n_with == 1) {
        fit_suffers(s, f);
        fit_disturbs(s, s->families.p[k->with[0]]);
        fit_suffers(s, f);
        /* The mean is a walk over all facts; with many of them one more fact hardly moves it. */
        if (s->n_facts < 64 || (s->n_learned++ & 15) == 0)
            fit_mean(s);
    }
    return is_new;
}

bool speeds_learn_company(struct speeds *s, uint32_t family, const struct speed_key *k,
                          double log_ratio, double weight)
{
    struct family *f = s->families.p[family];

    if (family == SPEED_NO_FAMILY)
        return false;
    for (int32_t i = 0; i < k->n_with; i++)
        if (k->with[i] == SPEED_NO_FAMILY)
            return false;
    speeds_touch(s, f);
    return speeds_add_fact(s, f, k, clamp_ratio(log_ratio), weight);
}

struct speed_terms speeds_terms(const struct speeds *s, uint32_t family)
{
    const struct family *f = s->families.p[family];

    return (struct speed_terms){s->mean, suffers(f), disturbs(f)};
}

uint64_t speeds_changes(const struct speeds *s)
{
    return s->changes;
}

size_t speeds_fact_count(const struct speeds *s)
{
    return s->n_facts;
}

/* Only pairs: larger groups are put together from pairs by whoever holds the copy. */
size_t speeds_facts(const struct speeds *s, struct speed_fact *out)
{
    size_t n = 0;

    for (size_t i = 1; i < s->families.n; i++) {
        const struct family *f = s->families.p[i];
        for (size_t k = 0; k < f->facts.n; k++) {
            if (f->facts.p[k].key.n_with != 1)
                continue;
            out[n] = (struct speed_fact){
                .a = (uint32_t)i,
                .b = f->facts.p[k].key.with[0],
                .n = f->facts.p[k].key.n,
                .log_ratio = speeds_company(s, (uint32_t)i, &f->facts.p[k].key).log};
            n++;
        }
    }
    return n;
}

/* ---- restarts ---- */

void speeds_learn_restart(struct speeds *s, uint32_t family, double seconds)
{
    struct family *f = s->families.p[family];

    speed_mix(&s->restart_s, &s->restart_weight, seconds, 1);
    if (family == SPEED_NO_FAMILY)
        return;
    speed_mix(&f->restart_s, &f->restart_weight, seconds, 1);
    speeds_touch(s, f);
}

double speeds_restart(const struct speeds *s, uint32_t family, double fallback)
{
    const struct family *f = s->families.p[family];

    if (family != SPEED_NO_FAMILY && f->restart_weight > 0)
        return f->restart_s;
    return s->restart_weight > 0 ? s->restart_s : fallback;
}
