/* gpu_estimate.c - what is left of a job, how fast it goes, what it weighs
 *
 * A job's rate alone on its reference count is the mean, weighted by certainty, of what its own
 * epochs showed (carried over from other configurations by the speed model), what its family
 * showed, and what its owner said.  How far owners can be trusted is itself learnt: said_var.
 *
 * Its own epochs come first.  Family and owner are heard after that only where these leave a doubt:
 * an epoch in company tells the rate alone up to the effect of the company, and a claim that would
 * need an effect no company has is about other jobs.
 */
#include "sched/gpu_priv.h"

#include <math.h>

/* Long jobs grow important more slowly: a day is much for an hour's work, not for a week's.  With
 * one pace for all, the mean of long traces was 5 % worse. */
static const double AGEING_OWN = 3;
/* Logarithms of rates: the most that company is believed to slow a job down (to a quarter), by how
 * much a claim may miss what was measured (half as much again), how far an estimate may be off what
 * its family showed (ten times), and what two owners may say of the same (twice). */
static const double COMPANY_WORST = 1.386, CLAIM_SLACK = 0.405, FAMILY_RANGE = 2.303,
                    SAID_RANGE = 0.693;
static const double VAR_OWN = 0.0004, VAR_FAMILY = 0.01, VAR_UNKNOWN = 4;

struct speed_key gpu_key(const struct gjob *j)
{
    uint32_t with[SPEED_WITH_MAX];

    for (int32_t i = 0; i < j->run.n_with; i++)
        with[i] = j->run.with[i]->family;
    return speed_key_make(j->run.n, with, j->run.n_with);
}

double gpu_work(const struct gjob *j)
{
    return j->say.epoch_work > 0 ? j->say.epoch_work : 1;
}

/* Adds a guess weighted by its certainty; the caller divides log by var at the end. */
static void add_guess(struct speed_guess *sum, double value, double var)
{
    sum->log += value / var;
    sum->var += 1 / var;
}

/* Does a claim about the rate alone on the reference count go with all that was measured of this
 * job itself?  Alone it is not slower than in company and not very much faster; a claim that misses
 * this range by little is moved into it. */
static bool claim_fits(const struct gpus *g, const struct gjob *j, double *alone)
{
    double lo = -INFINITY, hi = INFINITY, slack = CLAIM_SLACK;

    for (size_t i = 0; i < j->pace.own.n; i++) {
        const struct speed_point *p = &j->pace.own.p[i];
        struct speed_guess n = speeds_scale(g->speeds, j->family, p->key.n, j->say.ref);
        double rate = p->log_rate - n.log;
        lo = MAX(lo, rate);
        hi = MIN(hi, rate + p->key.n_with * COMPANY_WORST);
        slack = MAX(slack, 2 * sqrt(n.var));
    }
    if (*alone < lo - slack || *alone > hi + slack)
        return false;
    *alone = MAX(lo, MIN(hi, *alone));
    return true;
}

/* The rate that its owner's estimate amounts to. */
static double said_rate(const struct gpu_job *say, double work, double estimate_s)
{
    return log(MAX(1, say->epochs) * work / estimate_s);
}

/* What was said of a family and what it showed: does this go with one of them? */
static bool is_of_family(const struct gpus *g, uint32_t family, int32_t ref, double rate)
{
    struct speed_guess showed;
    double said;
    bool has_showed = speeds_alone(g->speeds, family, ref, &showed);
    bool has_said = speeds_said(g->speeds, family, &said);

    return (!has_showed && !has_said) || (has_showed && fabs(showed.log - rate) <= FAMILY_RANGE) ||
           (has_said && fabs(said - rate) <= SAID_RANGE);
}

uint32_t gpu_family(struct gpus *g, const struct gpu_job *say, bool *apart)
{
    uint32_t family = speeds_family(g->speeds, say->family);
    double work = say->epoch_work > 0 ? say->epoch_work : 1;

    *apart = false;
    /* What a job said before a restart is known, and its record has the family it is in. */
    if (family == SPEED_NO_FAMILY || say->estimate_s <= 0 || say->epochs <= 0 ||
        map_u64_get(&g->saved, say->job))
        return family;
    double rate = said_rate(say, work, say->estimate_s);
    for (char c = 'b'; c <= 'z' && !is_of_family(g, family, say->ref, rate); c++) {
        /* No number at the end: they are kin of the first, see speed.c. */
        AUTO_FREE char *name = xasprintf(STR_FMT " %c", STR_ARG(say->family), c);
        family = speeds_family(g->speeds, str_of(name));
        *apart = true;
    }
    speeds_learn_said(g->speeds, family, rate);
    return family;
}

void gpu_base_update(const struct gpus *g, struct gjob *j)
{
    struct speed_guess sum = {0, 0}, family;
    int32_t ref = j->say.ref;
    uint64_t version = speeds_version(g->speeds, j->family) + j->pace.own_version;

    if (j->pace.base_version == version)
        return;
    j->pace.base_version = version;
    for (size_t i = 0; i < j->pace.own.n; i++) {
        const struct speed_point *p = &j->pace.own.p[i];
        struct speed_guess n = speeds_scale(g->speeds, j->family, p->key.n, ref);
        struct speed_guess c = speeds_company(g->speeds, j->family, &p->key);
        add_guess(&sum, p->log_rate - n.log - c.log, n.var + c.var + VAR_OWN / MAX(0.1, p->weight));
    }
    if (j->say.epochs && speeds_alone(g->speeds, j->family, ref, &family) &&
        claim_fits(g, j, &family.log))
        add_guess(&sum, family.log, family.var + VAR_FAMILY);
    double said = said_rate(&j->say, gpu_work(j),
                            j->say.estimate_s > 0 ? j->say.estimate_s : g->conf.unknown_s);
    if (j->say.estimate_s > 0 ? claim_fits(g, j, &said) : sum.var <= 0)
        add_guess(&sum, said, j->say.estimate_s > 0 ? g->trust.said_var : VAR_UNKNOWN);
    j->pace.base = (struct speed_guess){sum.log / sum.var, 1 / sum.var};
}

double gpu_log_rate(const struct gpus *g, struct gjob *j, const struct speed_key *k)
{
    const struct speed_point *own = speed_own_find(&j->pace.own, k);

    gpu_base_update(g, j);
    double model = j->pace.base.log + speeds_scale(g->speeds, j->family, k->n, j->say.ref).log +
                   speeds_company(g->speeds, j->family, k).log;
    if (!own)
        return model;
    double trust = own->weight / (own->weight + 0.05);
    return model + trust * (own->log_rate - model);
}

double gpu_speed(const struct gpus *g, struct gjob *j, const struct speed_key *k)
{
    double rate = gpu_log_rate(g, j, k);

    return exp(rate - j->pace.base.log);
}

/* Epochs left, with the part of the present one that has passed since the last mark.  An epoch
 * counts as open until its end is reported, however long it takes. */
static double gpu_epochs_left(const struct gpus *g, struct gjob *j, int64_t now)
{
    double frac = j->progress.frac, left;

    if (j->run.holds && j->run.up && now > j->run.mark_ms) {
        struct speed_key k = gpu_key(j);
        frac += (double)(now - j->run.mark_ms) / 1000 * exp(gpu_log_rate(g, j, &k)) / gpu_work(j);
    }
    left = j->say.epochs - j->progress.done - MIN(frac, 0.98);
    return MAX(left, 0.02);
}

double gpu_total_s(const struct gpus *g, struct gjob *j)
{
    gpu_base_update(g, j);
    return MAX(1, j->say.epochs) * gpu_work(j) / exp(j->pace.base.log);
}

double gpu_left_s(const struct gpus *g, struct gjob *j, int64_t now)
{
    double total = gpu_total_s(g, j), left;

    if (j->say.epochs > 0)
        left = total / j->say.epochs * gpu_epochs_left(g, j, now);
    else {
        double served = j->progress.ref_s;
        if (j->run.holds && j->run.up && now > j->run.mark_ms) {
            struct speed_key k = gpu_key(j);
            served += (double)(now - j->run.mark_ms) / 1000 * gpu_speed(g, j, &k);
        }
        /* Beyond what was said the best guess is that it goes on for half as long again. */
        left = MAX(total - served, 0.5 * MAX(0, served - 0.8 * total));
    }
    return MAX(left, 1);
}

double gpu_overrun(const struct gpus *g, struct gjob *j)
{
    return j->progress.ref_s / MAX(1, gpu_total_s(g, j));
}

/* Seconds of waiting over all waits of the job. */
static double gpu_waited_s(const struct gjob *j, int64_t now)
{
    int64_t ms = j->progress.waited_ms + (j->run.holds ? 0 : now - j->progress.waits_since_ms);

    return (double)MAX(ms, 0) / 1000;
}

/* The five steps of users are a table; priorities beyond it go on by a factor of 1.5 per step. */
static double priority_factor(int32_t priority)
{
    static const double steps[] = {0.5, 0.75, 1, 1.5, 2.5};

    if (priority < -2)
        return 0.5 * pow(1.5, MAX(priority, -20) + 2);
    if (priority > 2)
        return 2.5 * pow(1.5, MIN(priority, 20) - 2);
    return steps[priority + 2];
}

double gpu_weight(const struct gpus *g, struct gjob *j, int64_t now)
{
    double u = gpu_overrun(g, j), late = gpu_waited_s(j, now) - g->conf.ageing_after_s;
    double over = 1 / (1 + 2 * MAX(0, u - 1.1));

    return priority_factor(j->say.priority) * MAX(over, 0.2) *
           (1 + MAX(0, late) / (g->conf.ageing_after_s / 2 + AGEING_OWN * gpu_total_s(g, j)));
}

double gpu_restart_s(const struct gpus *g, const struct gjob *j)
{
    return speeds_restart(g->speeds, j->family, g->conf.restart_s);
}

/* Was the job preempted GPU_STOPS_PER_HOUR times within the last hour? */
static bool stopped_too_often(const struct gjob *j, int64_t now)
{
    if (j->history.n_stopped < GPU_STOPS_PER_HOUR)
        return false;
    return now - j->history.stopped_ms[j->history.n_stopped % GPU_STOPS_PER_HOUR] < 3600 * 1000;
}

bool gpu_may_stop(const struct gpus *g, struct gjob *j, int64_t now, bool urgent)
{
    double ran = (double)(now - j->run.start_ms) / 1000;

    if (j->say.preempt == GPU_PREEMPT_NEVER || stopped_too_often(j, now))
        return false;
    if (j->say.epochs > 0 && j->progress.done >= j->say.epochs - 1)
        return false;
    if (urgent)
        return true;
    if (j->say.epochs > 0 && j->run.epochs_here + 1 < GPU_MIN_EPOCHS)
        return false; /* asked now it stops at the end of this one */
    if (j->say.epochs > 0) {
        struct speed_key k = gpu_key(j);
        ran += gpu_work(j) / exp(gpu_log_rate(g, j, &k)) * (1 - MIN(1, j->progress.frac));
    }
    return ran >= GPU_MIN_RESTARTS * gpu_restart_s(g, j);
}
