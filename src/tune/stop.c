/* stop.c - rungs, medians and patience: the state of the stopping layers (rules: stop.h)
 *
 * Owns: what trials have reported, as far as later answers need it: per trial a fixed number of
 * words, per rung and per step one number of every trial that came by, sorted.
 * Inside, smaller is better: values are turned around when the objective is maximised.
 */
#include "tune/stop.h"
#include "base/util.h"
#include "base/vec.h"
#include <math.h>

enum { STOP_TRIALS_MAX = 100000000, LADDERS_MAX = 24, STOP_CYCLE_MAX = 1 << 12 };
/* Later than rung RISING_RUNGS a rise is noise more often than promise. */
enum { RISING_RUNGS = 3 };
static const double EXTRA_PLACES = 2.5;
/* The next rise as a share of this one: unknown at first, and within what is still a promise. */
static const double RISE_SHARE = 0.6, RISE_SHARE_LEAST = 0.3, RISE_SHARE_MOST = 0.8;
static const int64_t step_max = INT64_C(1) << 52;

typedef VEC(double) sorted_values;

/* What came by at one step: sorted, best first. */
struct stop_board {
    int64_t step;
    sorted_values level;
    sorted_values rising; /* where the curves are likely to end; rungs only */
};

struct stop_ladder {
    VEC(struct stop_board) rungs;
};

struct stop_trial {
    int64_t last_step; /* -1 = nothing reported */
    int64_t best_step; /* of `mark` */
    double best, sum;  /* the best report; the sum of all */
    double mark;       /* the report from which a gain counts: small ones add up */
    double near_sum;   /* of the reports in the last third before the next rung */
    double level;      /* at the last rung */
    double rise;       /* to it from the rung before; 0 = none */
    uint32_t reports, near_n;
    uint32_t rung; /* the next one */
    uint8_t by;    /* the layer that stopped it, 0 = none */
    bool ended;
};

struct tune_stop {
    struct tune_stop_conf conf;
    VEC(struct stop_trial) trials;
    struct stop_ladder ladders[LADDERS_MAX];
    size_t n_ladders;
    uint8_t *cycle; /* hyperband: the ladders of the trials, over and over */
    size_t cycle_n;
    VEC(struct stop_board) steps; /* median: by step */
    int64_t ended;
};

/* ---- sorted values ---- */
/* The number of values that are better, or also of equal ones. */
static size_t values_before(const sorted_values *v, double x, bool equal_too)
{
    size_t lo = 0, hi = v->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (v->p[mid] < x || (equal_too && v->p[mid] == x))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void values_add(sorted_values *v, double x)
{
    size_t at = values_before(v, x, true);

    vec_push(v, 0);
    memmove(v->p + at + 1, v->p + at, (v->n - 1 - at) * sizeof(*v->p));
    v->p[at] = x;
}

/* ---- hyperband: which ladder judges a trial ---- */
/* The number of rungs below max: ladder k leaves out the first k of them. */
static size_t rung_count(const struct tune_stop_conf *c)
{
    size_t n = 0;

    for (int64_t at = c->min; at < c->max && n + 1 < LADDERS_MAX; at *= c->eta)
        n++;
    return n;
}

/* Each ladder gets trials in proportion to eta^(rungs) / rungs, so that all cost about the same.
 * The trial goes to the ladder that is furthest behind its share. */
static void ladders_deal(struct tune_stop *s)
{
    double weight[LADDERS_MAX], total = 0, given[LADDERS_MAX] = {0};
    size_t n = s->n_ladders;

    for (size_t k = 0; k < n; k++) {
        size_t rungs = n - 1 - k;
        weight[k] = pow((double)s->conf.eta, (double)rungs) * (double)n / (double)(rungs + 1);
        total += weight[k];
    }
    s->cycle_n = MIN((size_t)ceil(total), (size_t)STOP_CYCLE_MAX);
    s->cycle = xcalloc(s->cycle_n, 1);
    for (size_t i = 0; i < s->cycle_n; i++) {
        size_t most = 0;
        for (size_t k = 0; k < n; k++) {
            given[k] += weight[k] / total;
            if (given[k] > given[most])
                most = k;
        }
        given[most] -= 1;
        s->cycle[i] = (uint8_t)most;
    }
}

struct tune_stop *tune_stop_new(const struct tune_stop_conf *conf)
{
    struct tune_stop *s = xcalloc(1, sizeof(*s));

    s->conf = *conf;
    s->n_ladders = 1;
    if (conf->layers & TUNE_STOP_HYPERBAND) {
        s->n_ladders = rung_count(conf) + 1;
        ladders_deal(s);
    }
    return s;
}

static void boards_free(struct stop_board *boards, size_t n)
{
    for (size_t i = 0; i < n; i++)
        FREE_EACH(boards[i].level.p, boards[i].rising.p);
    free(boards);
}

void tune_stop_free(struct tune_stop *s)
{
    if (!s)
        return;
    for (size_t k = 0; k < LADDERS_MAX; k++)
        boards_free(s->ladders[k].rungs.p, s->ladders[k].rungs.n);
    boards_free(s->steps.p, s->steps.n);
    FREE_EACH(s->trials.p, s->cycle, s);
}

/* ---- asha ---- */
static size_t ladder_of(const struct tune_stop *s, size_t trial)
{
    return s->cycle_n ? s->cycle[trial % s->cycle_n] : 0;
}

/* The step of rung k of a ladder, or a step that no trial reaches. */
static int64_t rung_step(const struct tune_stop *s, size_t ladder, size_t k)
{
    int64_t at = s->conf.min;

    for (size_t i = 0; i < ladder + k; i++)
        at = at > step_max / s->conf.eta ? step_max : at * s->conf.eta;
    return s->conf.max && at >= s->conf.max ? step_max : at;
}

/* How many trials may go on from a rung, of all that came to the first one.  At rung k = 0, 1, …
 * that is one of every 1 + eta^(2.2 (k - 1.3)), and never fewer than eta^-(k + 1) of them, as in
 * successive halving.  So the first rungs are generous, where steps are cheap and ranks are noise,
 * and the last ones, which cost most, are strict.  With 1/eta at once a quarter of the best of 27
 * trials (tests/unit/tune/curves.h) ended at their first report.  A rung that has seen few trials
 * has EXTRA_PLACES more. */
static double rung_places(const struct tune_stop *s, const struct stop_ladder *l,
                          const struct stop_trial *t)
{
    double n = (double)l->rungs.p[0].level.n, eta = (double)s->conf.eta;
    /* A first rung at a later step knows as much as a later one. */
    double known = fmax(t->rung, log(t->reports) / log(eta));
    double gentle = n / (1 + pow(eta, 2.2 * (known - 1.3)));

    if (t->rung > 0 && known < 2.5)
        gentle += EXTRA_PLACES;
    return ceil(fmax(gentle, n / pow(eta, t->rung + 1.0)) - 1e-9);
}

/* Ties go on; a trial without a number does not. */
static bool among_best(const sorted_values *v, double x, double places)
{
    return (double)values_before(v, x, false) < places && !isinf(x);
}

/* Where the curve is likely to end (A. Aitken, 1926): rungs are evenly spaced on the logarithm of
 * steps, where each rise is a share of the one before, so all that is to come is a geometric sum.
 * Two rises tell the share; noise can make it anything, hence its bounds. */
static double rung_extrapolate(struct stop_trial *t, double level)
{
    double rise = t->rung > 0 && isfinite(level) && isfinite(t->level) ? level - t->level : 0;
    double share = t->rise < 0 ? rise / t->rise : RISE_SHARE;

    t->rise = fmin(rise, 0); /* smaller is better: a rise is negative */
    share = fmin(fmax(share, RISE_SHARE_LEAST), RISE_SHARE_MOST);
    return level + t->rise * share / (1 - share);
}

static void rung_pass(struct tune_stop *s, struct stop_ladder *l, struct stop_trial *t, bool *go)
{
    double level = t->near_sum / t->near_n, rising = rung_extrapolate(t, level);

    if (l->rungs.n <= t->rung)
        vec_push(&l->rungs, (struct stop_board){0});
    struct stop_board *b = &l->rungs.p[t->rung];
    values_add(&b->level, level);
    values_add(&b->rising, rising);
    double places = rung_places(s, l, t);
    *go = among_best(&b->level, level, places) ||
          (t->rung < RISING_RUNGS && among_best(&b->rising, rising, places));
    t->level = level;
    t->rung++;
}

/* Reports may leave steps out: then one of them passes several rungs, and the last one judges. */
static bool asha_goes_on(struct tune_stop *s, size_t trial, int64_t step, double x)
{
    struct stop_trial *t = &s->trials.p[trial];
    size_t ladder = ladder_of(s, trial);
    bool go = true;

    int64_t next = rung_step(s, ladder, t->rung);
    int64_t before = t->rung ? rung_step(s, ladder, t->rung - 1) : 0;
    if (step >= next - (next - before) / 3) {
        t->near_sum += x;
        t->near_n++;
    }
    if (step < next)
        return true;
    while (step >= rung_step(s, ladder, t->rung))
        rung_pass(s, &s->ladders[ladder], t, &go);
    t->near_sum = 0;
    t->near_n = 0;
    return go;
}

/* ---- median ---- */
static struct stop_board *step_board(struct tune_stop *s, int64_t step)
{
    size_t lo = 0, hi = s->steps.n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (s->steps.p[mid].step < step)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == s->steps.n || s->steps.p[lo].step != step) {
        vec_push(&s->steps, (struct stop_board){0});
        memmove(s->steps.p + lo + 1, s->steps.p + lo, (s->steps.n - 1 - lo) * sizeof(*s->steps.p));
        s->steps.p[lo] = (struct stop_board){.step = step};
    }
    return &s->steps.p[lo];
}

static bool median_goes_on(struct tune_stop *s, const struct stop_trial *t, int64_t step)
{
    struct stop_board *b = step_board(s, step);
    bool judge = b->level.n && step >= s->conf.warmup && s->ended >= s->conf.startup;
    bool go = !judge || t->best <= b->level.p[b->level.n / 2];

    values_add(&b->level, t->sum / t->reports);
    return go;
}

/* ---- reports ---- */
/* What is no finite number is worse than everything.  Sums of the rest must not overflow. */
static double stop_loss(const struct tune_stop *s, double value)
{
    double x = s->conf.maximize ? -value : value;

    return !isfinite(x) ? INFINITY : fmin(fmax(x, -1e290), 1e290);
}

static unsigned layer_that_stops(struct tune_stop *s, size_t trial, int64_t step, double x)
{
    unsigned by = 0, ladders = TUNE_STOP_ASHA | TUNE_STOP_HYPERBAND;
    struct stop_trial *t = &s->trials.p[trial];
    bool whole = s->conf.max && step >= s->conf.max;

    /* Every layer sees the report, also when another one has stopped the trial. */
    if ((s->conf.layers & ladders) && !asha_goes_on(s, trial, step, x))
        by = s->conf.layers & ladders;
    if ((s->conf.layers & TUNE_STOP_MEDIAN) && !median_goes_on(s, t, step) && !by)
        by = TUNE_STOP_MEDIAN;
    if ((s->conf.layers & TUNE_STOP_PATIENT) && step - t->best_step >= s->conf.patience && !by)
        by = TUNE_STOP_PATIENT;
    return whole ? 0 : by;
}

/* The trial's record, made when it is the first call for it; NULL when there can be none. */
static struct stop_trial *stop_trial(struct tune_stop *s, int64_t trial)
{
    if (trial < 1 || trial > STOP_TRIALS_MAX)
        return NULL;
    while (s->trials.n < (size_t)trial)
        vec_push(&s->trials, ((struct stop_trial){.last_step = -1, .best = INFINITY}));
    return &s->trials.p[trial - 1];
}

int tune_stop_report(struct tune_stop *s, int64_t trial, int64_t step, double value,
                     enum tune_verdict *out, struct err *e)
{
    struct stop_trial *t = stop_trial(s, trial);
    double x = stop_loss(s, value);

    if (!t)
        return err_set(e, ERR_INVALID, "there can be no trial %lld; trials count from 1",
                       (long long)trial);
    if (step < 0 || step >= step_max)
        return err_set(e, ERR_INVALID, "trial %lld reports step %lld; steps count from 0",
                       (long long)trial, (long long)step);
    if (step > t->last_step && !t->by) {
        if (t->last_step < 0 || x < t->mark - s->conf.delta) {
            t->best_step = step;
            t->mark = x;
        }
        t->best = MIN(t->best, x);
        t->last_step = step;
        t->sum += x;
        t->reports++;
        t->by = (uint8_t)layer_that_stops(s, (size_t)trial - 1, step, x);
    }
    *out = t->by ? TUNE_STOP : TUNE_CONTINUE;
    return 0;
}

void tune_stop_finished(struct tune_stop *s, int64_t trial)
{
    struct stop_trial *t = stop_trial(s, trial);

    if (!t || t->ended)
        return;
    t->ended = true;
    s->ended++;
}

const char *tune_stop_reason(const struct tune_stop *s, int64_t trial)
{
    unsigned by = trial < 1 || (size_t)trial > s->trials.n ? 0 : s->trials.p[trial - 1].by;

    return by == TUNE_STOP_ASHA        ? "asha"
           : by == TUNE_STOP_HYPERBAND ? "hyperband"
           : by == TUNE_STOP_MEDIAN    ? "median"
           : by == TUNE_STOP_PATIENT   ? "patient"
                                       : NULL;
}
