/* tpe.c - the engine tpe: where do good trials lie, and bad ones not?
 *
 * A tree-structured Parzen estimator (J. Bergstra et al., 2011) over all parameters at once.  The
 * best trials make one density, a sum of kernels over the whole point, the others and those in
 * flight another; of some points drawn from the first, the one with the largest ratio is proposed.
 *
 * Rules of this one:
 * - Trials with the same set of existing parameters are a branch.  A branch is chosen first, by its
 *   best value less what it may still gain: the spread of its better half, shrinking with the
 * square root of its trials.  So no branch is given up before it was judged.  Then the branch's own
 *   trials make both densities.
 * - The width of kernels follows the spread of the trials that they are made of, so the search
 *   contracts as the good ones do.
 * - A choice is kept with a probability that grows with the number of trials, never beyond 90 %.
 * - The bad density has at most BAD_MAX kernels, evenly picked by rank: the time of a proposal does
 *   not grow with the history.
 */
#include "tune/sobol.h"
#include "tune/study_priv.h"
#include <math.h>

enum { START_TRIALS = 10, GOOD_MAX = 25, BAD_MAX = 300, FAILED_MAX = 50, CANDIDATES = 24 };
enum { BRANCHES_MAX = 64, RANDOM_EVERY = 20, CROSS_EVERY = 3 };
/* One trial of so many goes to the branches in turn. */
enum { EVEN_PART = 4 };

static const double LOG_ROOT_2PI = 0.918938533204672742;

/* Trials with the same set of existing parameters. */
struct tpe_branch {
    uint64_t key;
    uint32_t *ranked; /* best first */
    size_t n;
};

/* A sum of kernels over the parameters `dims`, the ordered ones first. */
struct tpe_density {
    size_t n, k, numeric;
    double *at;       /* n × k centres: positions, or codes of choices */
    double *log_w;    /* n, with everything that does not depend on the point */
    double *width;    /* k; of choices the probability to be drawn again */
    double *inverse;  /* k; 1 / width, of choices the logarithm that other ones cost */
    double *term;     /* n; of one evaluation */
    double log_prior; /* of the part that is spread evenly over the branch */
};

struct tpe_ask {
    struct tune_study *s;
    struct rng rng;
    size_t *dims;
    size_t k, numeric;
    struct tpe_density good, bad;
};

/* ---- branches ---- */
uint64_t study_branch_key(const struct tune_study *s, const double *code)
{
    uint64_t h = 1469598103934665603u;

    for (size_t i = 0; i < s->space->n; i++)
        h = (h ^ (isnan(code[i]) ? 1 : 2)) * 1099511628211u;
    return h;
}

/* The done trials by branch; branches beyond BRANCHES_MAX are left to random draws. */
static size_t tpe_branches(struct tune_study *s, struct tpe_branch *out)
{
    size_t n = 0;

    if (!s->space->conditional) {
        out[0] = (struct tpe_branch){0, s->ranked.p, s->ranked.n};
        return 1;
    }
    for (size_t i = 0; i < s->ranked.n; i++) {
        uint64_t key = study_branch_key(s, study_code(s, s->ranked.p[i]));
        size_t b = 0;
        while (b < n && out[b].key != key)
            b++;
        if (b == BRANCHES_MAX)
            continue;
        if (b == n) {
            out[n].key = key;
            out[n].n = 0;
            out[n++].ranked = arena_alloc(&s->scratch, (s->ranked.n - i) * sizeof(uint32_t));
        }
        out[b].ranked[out[b].n++] = s->ranked.p[i];
    }
    return n;
}

/* A lottery in which the promise of a branch counts: an exponential draw is the luck that its next
 * trials may have. */
static size_t branch_choose(const struct tune_study *s, const struct tpe_branch *all, size_t n,
                            struct rng *r)
{
    size_t best = 0, least = 0;
    double best_score = INFINITY;

    /* A branch whose first trials all met a plateau has no spread, and would never be drawn: a part
     * of the trials is shared evenly. */
    for (size_t b = 1; b < n; b++)
        least = all[b].n < all[least].n ? b : least;
    if (all[least].n * n * EVEN_PART < s->ranked.n)
        return least;
    for (size_t b = 0; b < n && n > 1; b++) {
        const double *loss = s->loss.p;
        double top = loss[all[b].ranked[0]], mid = loss[all[b].ranked[all[b].n / 2]];
        /* One trial says nothing about the spread: it is taken for the spread of the study. */
        double spread =
            all[b].n > 2 ? mid - top : loss[s->ranked.p[s->ranked.n / 2]] - loss[s->ranked.p[0]];
        double luck = -log(1 - rng_unit(r));
        double score = top - 2 * spread * luck / sqrt((double)all[b].n);
        if (score < best_score) {
            best_score = score;
            best = b;
        }
    }
    return best;
}

size_t study_branch(struct tune_study *s, struct rng *r)
{
    struct tpe_branch all[BRANCHES_MAX] = {0};
    size_t n = tpe_branches(s, all);

    return all[branch_choose(s, all, n, r)].ranked[0];
}

/* ---- densities ---- */
static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}

/* The logarithm of the part of a kernel that lies in 0 … 1. */
static double log_inside(double mu, double width)
{
    double a = mu / width, b = (1 - mu) / width;

    if (a > 3.5 && b > 3.5)
        return 0;
    return log(normal_cdf(b) - normal_cdf(-a));
}

/* Widths of ordered parameters from the spread of the centres; `floor` keeps them apart from 0. */
static void density_widths(struct tpe_density *d, const struct tpe_ask *a, double least)
{
    double shrink = pow((double)d->n, -1.0 / ((double)a->numeric + 4));

    for (size_t j = 0; j < d->k; j++) {
        const struct tune_dim *dim = &a->s->space->dims[a->dims[j]];
        if (j >= d->numeric) {
            double change = dim->count / ((double)d->n + dim->count);
            d->width[j] = change < 0.1 ? 0.1 : change > 0.8 ? 0.8 : change;
            continue;
        }
        double sum = 0, sq = 0;
        for (size_t i = 0; i < d->n; i++) {
            double x = d->at[i * d->k + j];
            sum += x;
            sq += x * x;
        }
        double mean = sum / (double)d->n, var = sq / (double)d->n - mean * mean;
        /* A few trials know little of their spread: it is drawn towards that of even ones. */
        double prior = 2.0;
        double sd = sqrt((fmax(var, 0) * (double)d->n + prior / 12.0) / ((double)d->n + prior));
        double w = 0.5 * sd * shrink, cell = dim->count > 0 ? 0.5 / dim->count : 0;
        d->width[j] = fmin(fmax(fmax(w, least), cell), 0.3);
    }
}

/* Everything of the kernels that does not depend on the point: weights, widths, and what the bounds
 * cut off. */
static void density_finish(struct tpe_density *d, const struct tpe_ask *a, const double *weight,
                           double total)
{
    double common = 0;

    for (size_t j = 0; j < d->numeric; j++) {
        common -= log(d->width[j]) + LOG_ROOT_2PI;
        d->inverse[j] = 1 / d->width[j];
    }
    /* A choice stays with 1 - width, or is drawn anew among all: the first is the common case. */
    for (size_t j = d->numeric; j < d->k; j++) {
        double even = d->width[j] / a->s->space->dims[a->dims[j]].count;
        common += log(1 - d->width[j] + even);
        d->inverse[j] = log(even / (1 - d->width[j] + even));
    }
    for (size_t i = 0; i < d->n; i++) {
        double w = log((weight ? weight[i] : 1) / total) + common;
        for (size_t j = 0; j < d->numeric; j++)
            w -= log_inside(d->at[i * d->k + j], d->width[j]);
        d->log_w[i] = w;
    }
    d->log_prior = -log(total);
    for (size_t j = d->numeric; j < d->k; j++)
        d->log_prior -= log(a->s->space->dims[a->dims[j]].count);
}

/* One more kernel, around a trial. */
static void density_add(struct tpe_density *d, const struct tpe_ask *a, size_t trial)
{
    const double *code = study_code(a->s, trial);

    for (size_t j = 0; j < d->k; j++) {
        const struct tune_dim *dim = &a->s->space->dims[a->dims[j]];
        double c = code[a->dims[j]];
        d->at[d->n * d->k + j] = j < d->numeric ? tune_dim_unit(dim, c) : c;
    }
    d->n++;
}

static void density_init(struct tpe_density *d, const struct tpe_ask *a, size_t room)
{
    struct arena *mem = &a->s->scratch;

    *d = (struct tpe_density){.k = a->k, .numeric = a->numeric};
    d->at = arena_alloc(mem, room * a->k * sizeof(double));
    d->log_w = arena_alloc(mem, room * sizeof(double));
    d->width = arena_alloc(mem, a->k * sizeof(double));
    d->inverse = arena_alloc(mem, a->k * sizeof(double));
    d->term = arena_alloc(mem, room * sizeof(double));
}

/* The better the heavier; the even part weighs 1. */
static double kernel_weight(size_t rank, size_t n)
{
    return 1 + (double)(n - rank) / (double)n;
}

/* The best trials of the branch. */
static void tpe_good(struct tpe_ask *a, const struct tpe_branch *b, size_t n_good)
{
    double weight[GOOD_MAX], total = 1;

    density_init(&a->good, a, n_good);
    for (size_t i = 0; i < n_good; i++) {
        density_add(&a->good, a, b->ranked[i]);
        weight[i] = kernel_weight(i, n_good);
        total += weight[i];
    }
    density_widths(&a->good, a, 1e-5);
    density_finish(&a->good, a, weight, total);
}

/* The others, those in flight, and those that failed. */
static void tpe_bad(struct tpe_ask *a, const struct tpe_branch *b, size_t n_good)
{
    struct tune_study *s = a->s;
    uint64_t key = b->key;
    size_t rest = b->n - n_good, n = MIN(rest, BAD_MAX);
    size_t failed = MIN(s->failed.n, FAILED_MAX);

    density_init(&a->bad, a, n + s->pending.n + failed);
    for (size_t i = 0; i < n; i++)
        density_add(&a->bad, a, b->ranked[n_good + i * rest / n]);
    for (size_t i = 0; i < s->pending.n; i++)
        if (!s->space->conditional || study_branch_key(s, study_code(s, s->pending.p[i])) == key)
            density_add(&a->bad, a, s->pending.p[i]);
    for (size_t i = s->failed.n - failed; i < s->failed.n; i++)
        if (!s->space->conditional || study_branch_key(s, study_code(s, s->failed.p[i])) == key)
            density_add(&a->bad, a, s->failed.p[i]);
    if (a->bad.n)
        density_widths(&a->bad, a, 0.02);
    density_finish(&a->bad, a, NULL, (double)a->bad.n + 1);
}

/* The logarithm of the density at x, positions and codes as in `at`. */
static double density_log(const struct tpe_density *d, const double *x)
{
    double top = d->log_prior, sum;

    for (size_t i = 0; i < d->n; i++) {
        const double *at = d->at + i * d->k;
        double e = 0;
        for (size_t j = 0; j < d->numeric; j++) {
            double t = (x[j] - at[j]) * d->inverse[j];
            e += t * t;
        }
        e = d->log_w[i] - 0.5 * e;
        for (size_t j = d->numeric; j < d->k; j++)
            e += x[j] == at[j] ? 0 : d->inverse[j];
        d->term[i] = e;
        top = e > top ? e : top;
    }
    sum = exp(d->log_prior - top);
    for (size_t i = 0; i < d->n; i++)
        if (d->term[i] > top - 30)
            sum += exp(d->term[i] - top);
    return top + log(sum);
}

/* ---- candidates ---- */
/* The kernel of a draw: one of the good, by weight, or n for the even part. */
static size_t draw_kernel(struct tpe_ask *a)
{
    const struct tpe_density *d = &a->good;
    double total = 1, left;

    for (size_t i = 0; i < d->n; i++)
        total += kernel_weight(i, d->n);
    left = rng_unit(&a->rng) * total;
    for (size_t i = 0; i < d->n; i++)
        if ((left -= kernel_weight(i, d->n)) < 0)
            return i;
    return d->n;
}

/* From a kernel, within the bounds; far outside any value will do. */
static double draw_near(struct rng *r, double mu, double width)
{
    for (int tries = 0; tries < 20; tries++) {
        double x = mu + width * rng_normal(r);
        if (x >= 0 && x <= 1)
            return x;
    }
    return rng_unit(r);
}

/* A point of the branch from the good density: codes, and the same as positions in x.  False: it
 * left the branch or breaks a constraint. */
static bool tpe_candidate(struct tpe_ask *a, const double *model, double *code, double *x)
{
    const struct tpe_density *d = &a->good;
    const struct tune_space *space = a->s->space;
    size_t kernel = draw_kernel(a);

    memcpy(code, model, space->n * sizeof(double));
    for (size_t j = 0; j < a->k; j++) {
        const struct tune_dim *dim = &space->dims[a->dims[j]];
        double at = kernel < d->n ? d->at[kernel * d->k + j] : 0;
        bool even = kernel == d->n || (j >= a->numeric && rng_unit(&a->rng) < d->width[j]);
        double c =
            even || j < a->numeric
                ? tune_dim_code(dim, even ? rng_unit(&a->rng) : draw_near(&a->rng, at, d->width[j]))
                : at;
        code[a->dims[j]] = c;
        x[j] = j < a->numeric ? tune_dim_unit(dim, c) : c;
    }
    for (size_t i = 0; i < space->n && space->conditional; i++)
        if (tune_space_active(space, code, i) == isnan(code[i]))
            return false;
    return tune_space_allows(space, code) && !study_issued(a->s, code);
}

/* The parameters of the branch that can vary, ordered ones first. */
static void tpe_dims(struct tpe_ask *a, const double *model)
{
    const struct tune_space *space = a->s->space;

    a->dims = arena_alloc(&a->s->scratch, space->n * sizeof(*a->dims));
    for (int choices = 0; choices < 2; choices++) {
        for (size_t i = 0; i < space->n; i++)
            if (!isnan(model[i]) && space->dims[i].count != 1 &&
                tune_dim_unordered(&space->dims[i]) == choices)
                a->dims[a->k++] = i;
        if (!choices)
            a->numeric = a->k;
    }
}

/* The best of the candidates; false: none was legal. */
static bool tpe_search(struct tpe_ask *a, const double *model, double *out)
{
    size_t n = a->s->space->n;
    double *code = arena_alloc(&a->s->scratch, n * sizeof(double));
    double *x = arena_alloc(&a->s->scratch, a->k * sizeof(double)), best = -INFINITY;

    for (int found = 0, tries = 0; found < CANDIDATES && tries < CANDIDATES * 8; tries++) {
        if (!tpe_candidate(a, model, code, x))
            continue;
        found++;
        double gain = density_log(&a->good, x) - density_log(&a->bad, x);
        if (gain > best) {
            best = gain;
            memcpy(out, code, n * sizeof(double));
        }
    }
    return best > -INFINITY;
}

/* A tenth of the trials, two at least. */
static size_t good_count(size_t n)
{
    size_t good = (size_t)ceil(0.1 * (double)n);

    return good < 2 ? MIN(n, 2) : MIN(good, GOOD_MAX);
}

int tpe_propose(struct tune_study *s, int64_t id, double *code, struct err *e)
{
    struct tpe_ask a = {.s = s};
    struct tpe_branch all[BRANCHES_MAX] = {0};

    study_rng(s, id, DRAW_MODEL, &a.rng);
    bool chance = s->space->conditional && rng_below(&a.rng, RANDOM_EVERY) == 0;
    if (s->done.n < START_TRIALS || chance)
        return study_spread(s, id, code, e);
    size_t n = tpe_branches(s, all);
    const struct tpe_branch *b = &all[branch_choose(s, all, n, &a.rng)];
    const double *model = study_code(s, b->ranked[0]);
    size_t n_good = good_count(b->n);
    tpe_dims(&a, model);
    tpe_good(&a, b, n_good);
    tpe_bad(&a, b, n_good);
    return tpe_search(&a, model, code) ? 0 : study_spread(s, id, code, e);
}

/* Of several objectives the good trials are those of the first levels (many.c).  The density lies
 * around them one by one; what two of them have in common, and a front in pieces, is better found
 * by crossing them, which every third trial does. */
static int tpe_engine_propose(void *state UNUSED, struct tune_study *s, int64_t id, double *code,
                              struct err *e)
{
    if (s->many && id % CROSS_EVERY == 0)
        return tune_nsga2.propose(NULL, s, id, code, e);
    study_many_order(s);
    return tpe_propose(s, id, code, e);
}

const struct tune_engine tune_tpe = {.name = "tpe", .propose = tpe_engine_propose, .many = true};
const struct tune_engine tune_motpe = {
    .name = "motpe", .propose = tpe_engine_propose, .many = true};
