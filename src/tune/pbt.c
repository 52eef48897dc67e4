/* pbt.c - the population, and who copies whom (rules: pbt.h)
 *
 * Owns: the parameters, the last value and the last step of every member.
 * A member is ranked by its last value against the last values of all others, also when they are
 * at other steps: members do not wait for each other.
 */
#include "tune/pbt.h"
#include "base/json.h"
#include "base/util.h"
#include "base/vec.h"
#include <math.h>

enum {
    PBT_MEMBERS_MAX = 10000,
    PBT_TRIALS_MAX = 1000000,
    PBT_DRAWS = 100,
    PBT_INTERVAL_MAX = 1000000000
};

struct pbt_member {
    double *code;          /* NULL = no such member */
    double loss;           /* NaN = nothing reported */
    int64_t step, decided; /* the last report; the last decision */
    uint32_t decisions;
    bool left;
};

struct tune_pbt {
    const struct tune_space *space;
    struct tune_pbt_conf conf;
    VEC(struct pbt_member) members;
};

struct tune_pbt *tune_pbt_new(const struct tune_space *space, const struct tune_pbt_conf *conf)
{
    struct tune_pbt *p = xcalloc(1, sizeof(*p));

    p->space = space;
    p->conf = *conf;
    return p;
}

void tune_pbt_free(struct tune_pbt *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->members.n; i++)
        free(p->members.p[i].code);
    FREE_EACH(p->members.p, p);
}

static struct pbt_member *pbt_member(const struct tune_pbt *p, int64_t trial)
{
    if (trial < 1 || (size_t)trial > p->members.n || !p->members.p[trial - 1].code)
        return NULL;
    return &p->members.p[trial - 1];
}

int tune_pbt_join(struct tune_pbt *p, int64_t trial, const double *code, struct err *e)
{
    if (trial < 1 || trial > PBT_TRIALS_MAX)
        return err_set(e, ERR_INVALID,
                       "trial %lld cannot join a population; numbers go from 1 to %d",
                       (long long)trial, PBT_TRIALS_MAX);
    if (pbt_member(p, trial))
        return err_set(e, ERR_CONFLICT, "trial %lld is in the population already",
                       (long long)trial);
    while (p->members.n < (size_t)trial)
        vec_push(&p->members, ((struct pbt_member){.loss = NAN, .step = -1}));
    struct pbt_member *m = &p->members.p[trial - 1];
    m->code = xcalloc(p->space->n, sizeof(double));
    memcpy(m->code, code, p->space->n * sizeof(double));
    return 0;
}

/* ---- who ---- */
struct pbt_rank {
    double loss;
    size_t at;
};

static int by_loss(const void *a, const void *b)
{
    const struct pbt_rank *x = a, *y = b;

    if (x->loss != y->loss)
        return x->loss < y->loss ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* The member that this one copies, or SIZE_MAX: it is not among the worst, or nobody is better. */
static size_t pbt_source(const struct tune_pbt *p, size_t at, struct rng *r)
{
    AUTO_FREE struct pbt_rank *rank = xcalloc(p->members.n, sizeof(*rank));
    size_t n = 0, place = 0;

    for (size_t i = 0; i < p->members.n; i++) {
        const struct pbt_member *m = &p->members.p[i];
        if (m->code && !m->left && !isnan(m->loss))
            rank[n++] = (struct pbt_rank){m->loss, i};
    }
    qsort(rank, n, sizeof(*rank), by_loss);
    while (rank[place].at != at)
        place++;
    size_t k = MIN((size_t)ceil(p->conf.share * (double)n), n / 2);
    if (place < n - k)
        return SIZE_MAX;
    const struct pbt_rank *from = &rank[rng_below(r, k)];
    return from->loss < p->members.p[at].loss ? from->at : SIZE_MAX;
}

/* ---- with which parameters ---- */
/* A number moves by the change of its range or, of few values, to a neighbour; a choice stays. */
static double perturbed(const struct tune_pbt *p, const struct tune_dim *d, double code,
                        struct rng *r)
{
    if (rng_unit(r) < p->conf.resample)
        return tune_dim_code(d, rng_unit(r));
    if (tune_dim_unordered(d) || d->count == 1)
        return code;
    double sign = rng_below(r, 2) ? 1 : -1, by = p->conf.change * rng_unit(r);
    double next = tune_dim_code(d, tune_dim_unit(d, code) + sign * by);
    if (d->count > 0 && next == code)
        next = fmin(fmax(code + sign, 0), d->count - 1);
    return next;
}

/* The parameters of the source, changed; as they are when no change meets the constraints. */
static void pbt_explore(const struct tune_pbt *p, const double *from, double *out, struct rng *r)
{
    for (int tries = 0; tries < PBT_DRAWS; tries++) {
        for (size_t i = 0; i < p->space->n; i++)
            out[i] = isnan(from[i]) ? NAN : perturbed(p, &p->space->dims[i], from[i], r);
        tune_space_settle(p->space, out, r);
        if (tune_space_allows(p->space, out))
            return;
    }
    memcpy(out, from, p->space->n * sizeof(double));
}

/* Each decision of each member has numbers of its own, so that the order of others' reports does
 * not change them. */
static void pbt_rng(const struct tune_pbt *p, size_t at, uint32_t decision, struct rng *out)
{
    uint64_t z = p->conf.seed ^ ((uint64_t)(at + 1) * 0x9E3779B97F4A7C15u);

    z = (z ^ (z >> 32)) * 0xD6E8FEB86659FD93u + decision;
    rng_seed(out, z ^ (z >> 29));
}

int tune_pbt_report(struct tune_pbt *p, int64_t trial, int64_t step, double value,
                    struct tune_pbt_step *out, struct err *e)
{
    struct pbt_member *m = pbt_member(p, trial);
    struct rng r;

    if (!m || m->left)
        return err_set(e, ERR_NOT_FOUND, "trial %lld is not in the population; let it join first",
                       (long long)trial);
    if (step < 0)
        return err_set(e, ERR_INVALID, "trial %lld reports step %lld; steps count from 0",
                       (long long)trial, (long long)step);
    *out = (struct tune_pbt_step){0};
    if (step <= m->step)
        return 0;
    double loss = p->conf.maximize ? -value : value;
    m->step = step;
    m->loss = isfinite(loss) ? loss : INFINITY;
    if (step - m->decided < p->conf.interval)
        return 0;
    m->decided = step;
    pbt_rng(p, (size_t)trial - 1, m->decisions++, &r);
    size_t from = pbt_source(p, (size_t)trial - 1, &r);
    if (from == SIZE_MAX)
        return 0;
    pbt_explore(p, p->members.p[from].code, m->code, &r);
    m->loss = p->members.p[from].loss;
    *out = (struct tune_pbt_step){.copy_from = (int64_t)from + 1, .code = m->code};
    return 0;
}

void tune_pbt_leave(struct tune_pbt *p, int64_t trial)
{
    struct pbt_member *m = pbt_member(p, trial);

    if (m)
        m->left = true;
}

const double *tune_pbt_code(const struct tune_pbt *p, int64_t trial)
{
    const struct pbt_member *m = pbt_member(p, trial);

    return m ? m->code : NULL;
}

/* ---- settings ---- */
static int pbt_number(const struct json_it *it, double low, double high, bool whole, double *out,
                      struct err *e)
{
    enum json_type t = json_type(it->val);
    double x = json_real(it->val);

    if ((t != JSON_INT && (whole || t != JSON_REAL)) || !(x >= low && x <= high)) {
        AUTO_FREE char *text = json_text(it->val);
        return err_set(e, ERR_INVALID, "pbt.%s is %.40s; use a %snumber from %g to %g", it->key,
                       text, whole ? "whole " : "", low, high);
    }
    *out = x;
    return 0;
}

int tune_pbt_parse(const struct json *j, struct tune_pbt_conf *out, struct err *e)
{
    static const char *const keys[] = {"interval", "share", "resample", "change", "population"};
    double x[] = {10, 0.25, 0.25, 0.2, 8};
    static const double low[] = {1, 0.01, 0, 0, 2},
                        high[] = {PBT_INTERVAL_MAX, 0.5, 1, 1, PBT_MEMBERS_MAX};

    if (json_type(j) != JSON_NULL && json_type(j) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "pbt is %s; write {interval: 10}",
                       json_type_name(json_type(j)));
    for (struct json_it it = {0}; json_next(j, &it);) {
        size_t k = 0;
        while (k < ARRAY_SIZE(keys) && strcmp(keys[k], it.key) != 0)
            k++;
        if (k == ARRAY_SIZE(keys)) {
            const char *near = str_nearest(it.key, keys, ARRAY_SIZE(keys));
            return err_set(e, ERR_INVALID, "pbt has no setting %.40s; %s%s", it.key,
                           near ? "did you mean " : "its first is ", near ? near : keys[0]);
        }
        if (pbt_number(&it, low[k], high[k], k == 0 || k == 4, &x[k], e) < 0)
            return -1;
    }
    out->interval = (int64_t)x[0];
    out->share = x[1];
    out->resample = x[2];
    out->change = x[3];
    out->population = (int64_t)x[4];
    return 0;
}
