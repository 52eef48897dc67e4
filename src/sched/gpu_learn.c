/* gpu_learn.c - what the end of an epoch teaches
 *
 * An epoch spent in one configuration is a measurement of it.  One in which company came or went
 * is solved for the configuration that took most of it, the others going by what is known; it
 * counts by its share.  The first epoch of a run also tells what starting cost, if the job says how
 * long the epoch itself took.
 */
#include "sched/gpu_priv.h"

#include <math.h>

static const double SHARE_MIN = 0.25; /* of an epoch, to learn from a part of it */

/* The epoch began later than its first segment: starting took the rest. */
static void trim_start(struct gjob *j, double epoch_s)
{
    double sum = 0;

    for (int32_t i = 0; i < j->run.n_seg; i++)
        sum += j->run.seg[i].seconds;
    for (int32_t i = 0; i < j->run.n_seg && sum > epoch_s; i++) {
        double cut = MIN(j->run.seg[i].seconds, sum - epoch_s);
        j->run.seg[i].seconds -= cut;
        sum -= cut;
    }
}

/* The rate in the configuration of most of the epoch; its share, or 0 when nothing can be said. */
static double solve_rate(struct gpus *g, struct gjob *j, double *log_rate, struct speed_key *key)
{
    int32_t most = 0;
    double sum = 0, rest = gpu_work(j);

    for (int32_t i = 0; i < j->run.n_seg; i++) {
        sum += j->run.seg[i].seconds;
        if (j->run.seg[i].seconds > j->run.seg[most].seconds)
            most = i;
    }
    if (!j->run.n_seg || j->run.seg[most].seconds <= 0)
        return 0;
    for (int32_t i = 0; i < j->run.n_seg; i++)
        if (i != most && !speed_key_equal(&j->run.seg[i].key, &j->run.seg[most].key))
            rest -= j->run.seg[i].seconds * exp(gpu_log_rate(g, j, &j->run.seg[i].key));
    double time = 0;
    for (int32_t i = 0; i < j->run.n_seg; i++)
        if (speed_key_equal(&j->run.seg[i].key, &j->run.seg[most].key))
            time += j->run.seg[i].seconds;
    double share = time / sum;
    *key = j->run.seg[most].key;
    *log_rate = log(MAX(rest, 0.05 * gpu_work(j)) / time);
    return share < SHARE_MIN || rest <= 0.05 * gpu_work(j) ? 0 : share > 0.98 ? 1 : share * share;
}

/* What is known of its rate alone on n devices, whatever its owner said. */
static struct speed_guess alone_on(struct gpus *g, struct gjob *j, int32_t n)
{
    struct speed_guess s = speeds_scale(g->speeds, j->family, n, j->say.ref);

    gpu_base_update(g, j);
    for (size_t i = 0; i < j->pace.own.n; i++)
        if (!j->pace.own.p[i].key.n_with && j->pace.own.p[i].key.n == n)
            return (struct speed_guess){j->pace.own.p[i].log_rate, 0.0005};
    return (struct speed_guess){j->pace.base.log + s.log, j->pace.base.var + s.var};
}

/* Teaches the family how much slower its jobs are in this company.  The measurement counts less
 * the less is known about the speed alone. */
static void learn_ratio(struct gpus *g, struct gjob *j, const struct speed_point *p)
{
    struct speed_guess alone = alone_on(g, j, p->key.n);
    double weight = MIN(p->weight, 1) * 0.02 / (0.02 + alone.var);

    if (speeds_learn_company(g->speeds, j->family, &p->key, p->log_rate - alone.log, weight))
        gpu_due(g);
}

/* Its owner's estimate against what was measured, once per job. */
static void judge_estimate(struct gpus *g, struct gjob *j)
{
    const struct speed_key ref = {.n = j->say.ref};
    const struct speed_point *p = speed_own_find(&j->pace.own, &ref);

    if (j->pace.judged || !p || j->say.estimate_s <= 0)
        return;
    double off = p->log_rate - log(j->say.epochs * gpu_work(j) / j->say.estimate_s);
    j->pace.judged = true;
    g->trust.said_weight = MIN(g->trust.said_weight + 1, 30);
    g->trust.said_var += (off * off - g->trust.said_var) / g->trust.said_weight;
    g->trust.said_var = MAX(g->trust.said_var, 0.0004);
    g->unsaved = true;
}

/* The time from the start of the run to the beginning of its first epoch is the cost of a restart.
 */
static void learn_restart(struct gpus *g, struct gjob *j, int64_t now, double epoch_s)
{
    double cost = (double)(now - j->run.start_ms) / 1000 - epoch_s;

    if (cost >= 0 && cost < 24 * 3600)
        speeds_learn_restart(g->speeds, j->family, cost);
}

void gpu_learn_epoch(struct gpus *g, struct gjob *j, int64_t now, double epoch_s)
{
    bool first = !j->run.epochs_here, told = epoch_s > 0;
    struct speed_key key;
    double log_rate, weight;

    if (!told && first &&
        !j->run.adopted) /* the start is in it: take it out as far as it is known */
        epoch_s = MAX(1, (double)(now - j->run.start_ms) / 1000 - gpu_restart_s(g, j));
    if (epoch_s > 0)
        trim_start(j, epoch_s);
    weight = solve_rate(g, j, &log_rate, &key);
    if (told && first && !j->run.adopted)
        learn_restart(g, j, now, epoch_s);
    if (weight <= 0)
        return;
    if (!told && first)
        weight *= 0.5;
    bool is_new = speed_own_learn(&j->pace.own, &key, log_rate, weight);
    j->pace.own_version++;
    if (is_new)
        gpu_due(g);
    if (key.n_with) {
        learn_ratio(g, j, speed_own_find(&j->pace.own, &key));
        return;
    }
    if (weight >= 0.5)
        speeds_learn_alone(g->speeds, j->family, key.n, log_rate);
    judge_estimate(g, j);
    for (size_t i = 0; i < j->pace.own.n; i++) { /* now the others can be compared with this */
        const struct speed_point *p = &j->pace.own.p[i];
        if (p->key.n_with && p->key.n == key.n)
            learn_ratio(g, j, p);
        else if (!p->key.n_with && p->key.n != key.n)
            speeds_learn_scale(g->speeds, j->family, key.n, p->key.n, log_rate - p->log_rate);
    }
}
