/* gpu_rank.c - who is in question, and what they are worth
 *
 * Every job is looked at once, and only those who run and the most deserving of the waiting are
 * copied out, with what is known of their speeds.
 *
 * Worth: a second's work on a job ends it, and everybody who comes after it, a second sooner.  With
 * the least left going first, those who come after are the ones with more left, so a job's price is
 * their number.  (Dividing by what is left instead, the usual index, overrates short jobs against
 * throughput: it let them take many devices they made poor use of.)  A job on n devices competes
 * with n others for them; by that measure alone gangs would hardly run, so its price grows with a
 * power of n.  With deadlines the price is the apparent tardiness cost: weight over what is left,
 * falling exponentially with the slack.
 */
#include "sched/gpu_problem_priv.h"

#include <math.h>

static const double TINY_S = 300;             /* very short jobs are not worth more than this */
static const double GANG = 0.7;               /* the power of n */
static const double TO_COME = 2;              /* so many are expected after those who are here */
static const double CLAIM = 1e6;              /* who goes before all others */
enum { RUNNING_MAX = 96, WAITING_MIN = 160 }; /* of a large cluster, in one question */
enum { CLAIM_EVERY = 32 }; /* devices for each job that may hold some after waiting too long */
static const double SLACK_LOOKAHEAD = 2; /* in mean run times */

/* How many jobs have more left: by counting, as sorting thousands would take the loop too long.
 * Classes are 7 % wide, and within one the jobs are taken as evenly spread. */
enum { CLASSES = 256 };
struct census {
    uint32_t jobs[CLASSES];  /* of each class */
    uint32_t above[CLASSES]; /* of longer ones */
    size_t n;
};

/* What counts as long: elastic jobs by their work, as they may have it done by many devices. */
static double length_class(const struct gjob *j)
{
    double work = j->plan.left_s * (j->say.n_counts > 1 ? j->say.ref : 1);
    double c = log(MAX(work, 1)) / 0.07;

    return MIN(c, CLASSES - 0.001);
}

static int32_t most_of(const struct gjob *j)
{
    return j->say.counts[j->say.n_counts - 1];
}

/* Alone, with all it can use, and nobody wants it to go. */
static bool gjob_settled(const struct gjob *j)
{
    return j->run.holds && !j->run.n_with && j->run.n == most_of(j) && !j->run.stopping &&
           !j->run.stop_now && !j->run.delivered && !j->overfull;
}

/* On a large cluster: has one node enough free for all who wait or could grow?  Then nobody is
 * paired and who is settled is not in question.  On a small one it pays to look at all: pairs tried
 * early teach what will be needed when it gets crowded. */
bool problem_roomy(const struct gpus *g)
{
    int64_t wanted = 0, most = 0;

    if (g->n_running <= RUNNING_MAX)
        return false;
    for (size_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.p[i].open)
            most = MAX(most, g->nodes.p[i].free);
    for (size_t i = 0; i < g->jobs.n && wanted <= most; i++) {
        const struct gjob *j = g->jobs.p[i];
        wanted += most_of(j) - (j->run.holds ? MIN(j->run.n, most_of(j)) : 0);
    }
    return wanted <= most;
}

static void take_census(const struct gpus *g, bool roomy, int64_t now, struct census *out)
{
    uint32_t sum = 0;

    *out = (struct census){.n = g->jobs.n};
    for (size_t i = 0; i < g->jobs.n; i++) {
        if (!roomy || !gjob_settled(g->jobs.p[i]))
            g->jobs.p[i]->plan.left_s = gpu_left_s(g, g->jobs.p[i], now);
        out->jobs[(size_t)length_class(g->jobs.p[i])]++;
    }
    for (size_t c = CLASSES; c-- > 0; sum += out->jobs[c])
        out->above[c] = sum;
}

static double jct_price(const struct census *c, const struct gjob *j, double weight)
{
    double at = length_class(j), part = at - floor(at);
    double longer = c->above[(size_t)at] + c->jobs[(size_t)at] * (1 - part);

    return weight * pow(j->say.ref, GANG) * (longer + TO_COME) / ((double)c->n + TO_COME);
}

static double gjob_due_s(const struct gpus *g, struct gjob *j)
{
    if (j->say.deadline_ms > 0)
        return (double)j->say.deadline_ms / 1000;
    return (double)j->say.submitted_ms / 1000 + 2 * gpu_total_s(g, j);
}

static double tardiness_price(const struct gpus *g, struct gjob *j, double weight, double left_s,
                              int64_t now, double mean_s)
{
    double slack = gjob_due_s(g, j) - (double)now / 1000 - left_s;

    return weight / (left_s + TINY_S) * exp(-MAX(0, slack) / (SLACK_LOOKAHEAD * mean_s));
}

/* ---- candidates ---- */

struct ranked {
    double key;
    struct gjob *job;
    double left_s, price;
    bool claim;
};

static bool higher(const struct ranked *a, const struct ranked *b)
{
    return a->key != b->key ? a->key > b->key : a->job->serial < b->job->serial;
}

/* Puts the k highest first, in no order. */
static void select_top(struct ranked *r, size_t n, size_t k)
{
    size_t lo = 0, hi = n;

    while (hi - lo > 1 && k > lo && k < hi) {
        struct ranked pivot = r[lo + (hi - 1 - lo) / 2];
        size_t i = lo, j = hi - 1;
        for (;;) {
            while (higher(&r[i], &pivot))
                i++;
            while (higher(&pivot, &r[j]))
                j--;
            if (i >= j)
                break;
            struct ranked t = r[i];
            r[i++] = r[j];
            r[j--] = t;
        }
        if (k <= j)
            hi = j + 1;
        else
            lo = j + 1;
    }
}

static int rank_by_key(const void *a, const void *b)
{
    return higher(a, b) ? -1 : higher(b, a) ? 1 : 0;
}

bool problem_leaving(const struct gjob *j)
{
    return j->run.holds && (j->run.delivered || j->run.stop_now);
}

static void rank(const struct gpus *g, const struct census *c, struct gjob *j, int64_t now,
                 double mean_s, struct ranked *out)
{
    double left = j->plan.left_s, weight = gpu_weight(g, j, now);
    double waited = (double)(now - j->progress.waits_since_ms) / 1000;
    double price = g->conf.objective == GPU_TARDINESS
                       ? tardiness_price(g, j, weight, left, now, mean_s)
                       : jct_price(c, j, weight);
    /* Once it has run, its growing weight sees to it that it runs again; devices are held for it
     * only after a multiple of that time. */
    bool claim = !j->run.holds && waited > g->conf.reserve_after_s * (1 + 4 * j->history.attempts);

    if (j->say.priority >= GPU_URGENT)
        price *= CLAIM;
    j->plan.price = price;
    *out = (struct ranked){price / j->say.counts[0], j, left, price, claim};
}

static void freeze_ratios(const struct gpus *g, struct gjob *j, struct cand *c)
{
    for (size_t i = 0; i < j->pace.own.n && c->n_ratios < CAND_RATIOS; i++) {
        const struct speed_point *p = &j->pace.own.p[i];
        if (p->key.n_with != 1)
            continue;
        struct speed_key alone = {.n = p->key.n};
        double ratio = exp(gpu_log_rate(g, j, &p->key) - gpu_log_rate(g, j, &alone));
        c->ratios[c->n_ratios++] =
            (struct cand_ratio){p->key.with[0], p->key.n, (float)MIN(ratio, 1)};
    }
}

static void freeze_job(struct gpus *g, struct gpu_problem *p, const struct ranked *r, int64_t now)
{
    struct gjob *j = r->job;
    struct speed_terms t = speeds_terms(g->speeds, j->family);
    struct cand c = {.job = j->say.job,
                     .nodes = j->say.nodes,
                     .family = j->family,
                     .group = GPU_NOBODY,
                     .suffers = (float)exp(t.suffers),
                     .disturbs = (float)exp(t.disturbs),
                     .price = r->price,
                     .left_s = r->left_s,
                     .restart_s = gpu_restart_s(g, j),
                     .mem_bytes = j->mem_bytes,
                     .share = j->say.share && j->mem_bytes > 0,
                     .claim = r->claim,
                     .started = j->history.attempts > 0};

    c.n_counts = gpu_overrun(g, j) > 1.5 ? 1 : j->say.n_counts;
    for (int32_t i = 0; i < c.n_counts; i++) {
        struct speed_key k = {.n = j->say.counts[i]};
        c.counts[i] = k.n;
        c.speed[i] = (float)gpu_speed(g, j, &k);
    }
    freeze_ratios(g, j, &c);
    if (g->conf.objective == GPU_TARDINESS)
        c.need = r->left_s / MAX(1, gjob_due_s(g, j) - (double)now / 1000);
    j->plan.at_problem = (int32_t)p->cands.n;
    vec_push(&p->cands, c);
}

static bool gjob_ready(const struct gpus *g, const struct gjob *j)
{
    return !g->hands.ready || g->hands.ready(g->hands.self, j->say.job);
}

/* Of those who wait too long, the longest waiting go before all others: few at a time, so that the
 * rest of the devices still serves the mean. */
static void keep_claims(struct ranked *r, size_t n, size_t devices)
{
    struct ranked *oldest = NULL;
    size_t keep = 1 + devices / CLAIM_EVERY;

    while (keep-- > 0) {
        oldest = NULL;
        for (size_t i = 0; i < n; i++)
            if (r[i].claim && r[i].price < CLAIM &&
                (!oldest ||
                 r[i].job->progress.waits_since_ms < oldest->job->progress.waits_since_ms ||
                 (r[i].job->progress.waits_since_ms == oldest->job->progress.waits_since_ms &&
                  r[i].job->serial < oldest->job->serial)))
                oldest = &r[i];
        if (!oldest)
            break;
        oldest->price = oldest->job->plan.price = CLAIM * (double)(keep + 2);
        oldest->key = oldest->price;
    }
    for (size_t i = 0; i < n; i++)
        r[i].claim = r[i].claim && r[i].price >= CLAIM;
}

/* On a large cluster only some of those who run are in question: all who were asked to stop, those
 * worth least, and in turn a few of the others, each with its company.  Puts them first. */
static size_t keep_running(struct gpus *g, struct ranked *r, size_t n)
{
    size_t kept = 0, lowest = RUNNING_MAX * 2 / 3, turn = RUNNING_MAX / 3;

    if (n <= RUNNING_MAX)
        return n;
    select_top(r, n, n - lowest);
    for (size_t i = 0; i < n; i++)
        r[i].job->plan.in_question = r[i].job->run.stopping || i >= n - lowest;
    for (size_t i = 0; i < turn; i++)
        r[(g->plan * turn + i) % n].job->plan.in_question = true;
    for (size_t i = 0; i < n; i++)
        for (int32_t k = 0; k < r[i].job->run.n_with; k++)
            r[i].job->run.with[k]->plan.in_question |= r[i].job->plan.in_question;
    for (size_t i = 0; i < n; i++) {
        struct ranked t = r[i];
        if (!t.job->plan.in_question)
            continue;
        r[i] = r[kept];
        r[kept++] = t;
    }
    return kept;
}

struct ranking {
    VEC(struct ranked) runs, waits;
    size_t devices, free;
};

static void rank_all(struct gpus *g, struct gpu_problem *p, int64_t now, struct ranking *out)
{
    struct census census;
    double mean_s = 0;

    for (size_t i = 0; i < g->nodes.n; i++) {
        out->devices += (size_t)g->nodes.p[i].usable;
        out->free += (size_t)g->nodes.p[i].free;
    }
    if (g->conf.objective == GPU_TARDINESS)
        for (size_t i = 0; i < g->jobs.n; i++)
            mean_s += gpu_total_s(g, g->jobs.p[i]) / (double)g->jobs.n;
    take_census(g, p->roomy, now, &census);
    vec_reserve(&out->runs, g->n_running);
    vec_reserve(&out->waits, g->jobs.n - g->n_running);
    for (size_t i = 0; i < g->jobs.n; i++) {
        struct gjob *j = g->jobs.p[i];
        struct ranked r;
        j->plan.at_problem = GPU_NOBODY;
        j->plan.in_question = false;
        if (p->roomy && gjob_settled(j))
            continue;
        bool runs = j->run.holds && !problem_leaving(j);
        if (!runs && (j->plan.refused_until > now || !gjob_ready(g, j)))
            continue;
        rank(g, &census, j, now, MAX(mean_s, 1), &r);
        if (runs) {
            vec_push(&out->runs, r);
        } else {
            p->urgent |= j->say.priority >= GPU_URGENT;
            vec_push(&out->waits, r);
        }
    }
}

/* Those who run, and the best of those who wait. */
void problem_jobs(struct gpus *g, struct gpu_problem *p, int64_t now)
{
    struct ranking r = {0};

    rank_all(g, p, now, &r);
    keep_claims(r.waits.p, r.waits.n, r.devices);
    size_t want = r.devices > 64 ? MAX(WAITING_MIN, r.free + 64) : 3 * r.devices + 8;
    if (r.waits.n > want) {
        select_top(r.waits.p, r.waits.n, want);
        r.waits.n = want;
    }
    p->n_running = keep_running(g, r.runs.p, r.runs.n);
    if (p->n_running)
        qsort(r.runs.p, p->n_running, sizeof(r.runs.p[0]), rank_by_key);
    if (r.waits.n)
        qsort(r.waits.p, r.waits.n, sizeof(r.waits.p[0]), rank_by_key);
    vec_reserve(&p->cands, p->n_running + r.waits.n);
    for (size_t i = 0; i < p->n_running; i++)
        freeze_job(g, p, &r.runs.p[i], now);
    for (size_t i = 0; i < r.waits.n; i++)
        freeze_job(g, p, &r.waits.p[i], now);
    vec_done(&r.runs);
    vec_done(&r.waits);
}
