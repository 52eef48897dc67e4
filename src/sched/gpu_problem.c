/* gpu_problem.c - freezing the question: who is in question, what they are worth
 *
 * Runs on the loop thread, so it must be cheap: every job is looked at once, and only those who
 * run and the most deserving of the waiting are copied out, with what is known of their speeds.
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

static const int64_t TICK_MS = 60 * 1000;
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
    double work = j->left_s * (j->say.n_counts > 1 ? j->say.ref : 1);
    double c = log(MAX(work, 1)) / 0.07;

    return MIN(c, CLASSES - 0.001);
}

static int32_t most_of(const struct gjob *j)
{
    return j->say.counts[j->say.n_counts - 1];
}

/* Alone, with all it can use, and nobody wants it to go. */
static bool settled(const struct gjob *j)
{
    return j->holds && !j->n_with && j->n == most_of(j) && !j->stopping && !j->stop_now &&
           !j->delivered && !j->overfull;
}

/* On a large cluster: has one node enough free for all who wait or could grow?  Then nobody is
 * paired and who is settled is not in question.  On a small one it pays to look at all: pairs tried
 * early teach what will be needed when it gets crowded. */
static bool is_roomy(const struct gpus *g)
{
    int64_t wanted = 0, most = 0;

    if (g->n_running <= RUNNING_MAX)
        return false;
    for (size_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.p[i].open)
            most = MAX(most, g->nodes.p[i].free);
    for (size_t i = 0; i < g->jobs.n && wanted <= most; i++) {
        const struct gjob *j = g->jobs.p[i];
        wanted += most_of(j) - (j->holds ? MIN(j->n, most_of(j)) : 0);
    }
    return wanted <= most;
}

static void take_census(const struct gpus *g, bool roomy, int64_t now, struct census *out)
{
    uint32_t sum = 0;

    *out = (struct census){.n = g->jobs.n};
    for (size_t i = 0; i < g->jobs.n; i++) {
        if (!roomy || !settled(g->jobs.p[i]))
            g->jobs.p[i]->left_s = gpu_left_s(g, g->jobs.p[i], now);
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

static double due_s(const struct gpus *g, struct gjob *j)
{
    if (j->say.deadline_ms > 0)
        return (double)j->say.deadline_ms / 1000;
    return (double)j->say.submitted_ms / 1000 + 2 * gpu_total_s(g, j);
}

static double tardiness_price(const struct gpus *g, struct gjob *j, double weight, double left_s,
                              int64_t now, double mean_s)
{
    double slack = due_s(g, j) - (double)now / 1000 - left_s;

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

static int by_key(const void *a, const void *b)
{
    return higher(a, b) ? -1 : higher(b, a) ? 1 : 0;
}

static bool leaving(const struct gjob *j)
{
    return j->holds && (j->delivered || j->stop_now);
}

static void rank(const struct gpus *g, const struct census *c, struct gjob *j, int64_t now,
                 double mean_s, struct ranked *out)
{
    double left = j->left_s, weight = gpu_weight(g, j, now);
    double waited = (double)(now - j->waits_since_ms) / 1000;
    double price = g->conf.objective == GPU_TARDINESS
                       ? tardiness_price(g, j, weight, left, now, mean_s)
                       : jct_price(c, j, weight);
    /* Once it has run, its growing weight sees to it that it runs again; devices are held for it
     * only after a multiple of that time. */
    bool claim = !j->holds && waited > g->conf.reserve_after_s * (1 + 4 * j->attempts);

    if (j->say.priority >= GPU_URGENT)
        price *= CLAIM;
    j->price = price;
    *out = (struct ranked){price / j->say.counts[0], j, left, price, claim};
}

static void freeze_ratios(const struct gpus *g, struct gjob *j, struct cand *c)
{
    for (size_t i = 0; i < j->own.n && c->n_ratios < CAND_RATIOS; i++) {
        const struct speed_point *p = &j->own.p[i];
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
                     .started = j->attempts > 0};

    c.n_counts = gpu_overrun(g, j) > 1.5 ? 1 : j->say.n_counts;
    for (int32_t i = 0; i < c.n_counts; i++) {
        struct speed_key k = {.n = j->say.counts[i]};
        c.counts[i] = k.n;
        c.speed[i] = (float)gpu_speed(g, j, &k);
    }
    freeze_ratios(g, j, &c);
    if (g->conf.objective == GPU_TARDINESS)
        c.need = r->left_s / MAX(1, due_s(g, j) - (double)now / 1000);
    j->at_problem = (int32_t)p->cands.n;
    vec_push(&p->cands, c);
}

static bool ready(const struct gpus *g, const struct gjob *j)
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
                (!oldest || r[i].job->waits_since_ms < oldest->job->waits_since_ms ||
                 (r[i].job->waits_since_ms == oldest->job->waits_since_ms &&
                  r[i].job->serial < oldest->job->serial)))
                oldest = &r[i];
        if (!oldest)
            break;
        oldest->price = oldest->job->price = CLAIM * (double)(keep + 2);
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
        r[i].job->in_question = r[i].job->stopping || i >= n - lowest;
    for (size_t i = 0; i < turn; i++)
        r[(g->plan * turn + i) % n].job->in_question = true;
    for (size_t i = 0; i < n; i++)
        for (int32_t k = 0; k < r[i].job->n_with; k++)
            r[i].job->with[k]->in_question |= r[i].job->in_question;
    for (size_t i = 0; i < n; i++) {
        struct ranked t = r[i];
        if (!t.job->in_question)
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
        j->at_problem = GPU_NOBODY;
        j->in_question = false;
        if (p->roomy && settled(j))
            continue;
        bool runs = j->holds && !leaving(j);
        if (!runs && (j->refused_until > now || !ready(g, j)))
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
static void freeze_jobs(struct gpus *g, struct gpu_problem *p, int64_t now)
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
        qsort(r.runs.p, p->n_running, sizeof(r.runs.p[0]), by_key);
    if (r.waits.n)
        qsort(r.waits.p, r.waits.n, sizeof(r.waits.p[0]), by_key);
    vec_reserve(&p->cands, p->n_running + r.waits.n);
    for (size_t i = 0; i < p->n_running; i++)
        freeze_job(g, p, &r.runs.p[i], now);
    for (size_t i = 0; i < r.waits.n; i++)
        freeze_job(g, p, &r.waits.p[i], now);
    vec_done(&r.runs);
    vec_done(&r.waits);
}

/* ---- groups, nodes, speeds ---- */

static void freeze_group(struct gpus *g, struct gpu_problem *p, struct gjob *j, int64_t now)
{
    const struct gpu_node *nd = &g->nodes.p[j->node];
    struct group q = {.n = j->n, .node = j->node, .open = nd->open, .room = INT64_MAX};

    for (int32_t i = -1; i < j->n_with; i++) {
        struct gjob *o = i < 0 ? j : j->with[i];
        if (o->at_problem == GPU_NOBODY)
            continue; /* it is on its way out */
        struct cand *c = &p->cands.p[o->at_problem];
        c->group = (int32_t)p->groups.n;
        bool urgent = p->urgent && o->say.priority < GPU_URGENT;
        c->fixed = !o->stopping && !gpu_may_stop(g, o, now, urgent);
        q.jobs[q.n_jobs++] = o->at_problem;
    }
    for (int32_t d = gpu_set_next(&j->devices, 0); d >= 0;
         d = d + 1 < GPU_SET_MAX ? gpu_set_next(&j->devices, (uint32_t)d + 1) : -1) {
        const struct gpu_device *dev = &nd->dev.p[d];
        int64_t room = dev->state.usable && dev->state.mem_bytes ? gpu_room(g, dev) : 0;
        q.room = MIN(q.room, MAX(room, 0));
    }
    vec_push(&p->groups, q);
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static bool not_in_question(const struct gpu_device *d)
{
    for (int32_t i = 0; i < d->n_jobs; i++)
        if (!leaving(d->jobs[i]) && d->jobs[i]->at_problem == GPU_NOBODY)
            return true;
    return false;
}

static void freeze_node(const struct gpus *g, struct gpu_problem *p, const struct gpu_node *nd)
{
    struct pnode n = {.open = nd->open, .first_room = p->rooms.n};

    for (size_t i = 0; i < nd->dev.n; i++) {
        const struct gpu_device *d = &nd->dev.p[i];
        if ((!d->state.usable && !d->n_jobs) || not_in_question(d))
            continue;
        n.cap++;
        if (d->state.usable)
            vec_push(&p->rooms, d->state.mem_bytes ? gpu_room(g, d) : INT64_MAX);
    }
    n.n_rooms = p->rooms.n - n.first_room;
    if (n.n_rooms)
        qsort(p->rooms.p + n.first_room, n.n_rooms, sizeof(int64_t), ascending);
    vec_push(&p->nodes, n);
}

static size_t fact_slot(const struct speed_fact *table, size_t cap, uint32_t a, uint32_t b,
                        int32_t n)
{
    uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)n * 0x85ebca6b;
    size_t i = (size_t)(h >> 20) & (cap - 1);

    while (table[i].n && (table[i].a != a || table[i].b != b || table[i].n != n))
        i = (i + 1) & (cap - 1);
    return i;
}

/* All measured pairs as a table of half empty places, made anew when something was learnt;
 * log_ratio holds the ratio itself. */
static void update_facts(struct gpus *g)
{
    size_t n = speeds_fact_count(g->speeds), cap = 16;

    if (g->facts && g->facts_version == speeds_changes(g->speeds))
        return;
    AUTO_FREE struct speed_fact *all = xcalloc(n + 1, sizeof(*all));
    n = speeds_facts(g->speeds, all);
    while (cap < 2 * n)
        cap *= 2;
    free(g->facts);
    g->facts = xcalloc(cap, sizeof(*g->facts));
    g->facts_cap = cap;
    g->facts_version = speeds_changes(g->speeds);
    for (size_t i = 0; i < n; i++) {
        struct speed_fact *f = &g->facts[fact_slot(g->facts, cap, all[i].a, all[i].b, all[i].n)];
        *f = all[i];
        f->log_ratio = exp(all[i].log_ratio);
    }
}

static void freeze_facts(struct gpus *g, struct gpu_problem *p)
{
    update_facts(g);
    p->facts = xmalloc(g->facts_cap * sizeof(*p->facts));
    memcpy(p->facts, g->facts, g->facts_cap * sizeof(*p->facts));
    p->facts_cap = g->facts_cap;
}

double problem_ratio(const struct gpu_problem *p, const struct cand *a, const struct cand *b,
                     int32_t n)
{
    for (int32_t i = 0; i < a->n_ratios; i++)
        if (a->ratios[i].family == b->family && a->ratios[i].n == n)
            return a->ratios[i].ratio;
    const struct speed_fact *f =
        &p->facts[fact_slot(p->facts, p->facts_cap, a->family, b->family, n)];
    if (f->n)
        return f->log_ratio;
    double r = p->mean_ratio * a->suffers * b->disturbs;
    return MIN(r, 1);
}

/* ---- who may not share ---- */

static int32_t count_class(int32_t n)
{
    return n >= 128 ? 7 : 31 - __builtin_clz((unsigned)n);
}

static bool has_count(const struct cand *c, int32_t n)
{
    for (int32_t i = 0; i < c->n_counts; i++)
        if (c->counts[i] == n)
            return true;
    return false;
}

static void freeze_compatible(const struct gpus *g, struct gpu_problem *p)
{
    size_t n = p->cands.n;

    if (!g->hands.compatible || g->conf.per_device < 2 || p->roomy)
        return;
    p->incompatible = xcalloc(n * n + 1, 1);
    for (size_t i = 0; i < n; i++)
        for (size_t k = MAX(i + 1, n > KEEP_ALL ? p->n_running : 0); k < n; k++) {
            const struct cand *a = &p->cands.p[i], *b = &p->cands.p[k];
            if (!a->share || !b->share)
                continue;
            for (int32_t m = 0; m < a->n_counts; m++)
                if (has_count(b, a->counts[m]) &&
                    !g->hands.compatible(g->hands.self, a->job, b->job, a->counts[m]))
                    p->incompatible[i * n + k] |= (uint8_t)(1 << count_class(a->counts[m]));
        }
}

bool problem_compatible(const struct gpu_problem *p, int32_t a, int32_t b, int32_t n)
{
    size_t i = (size_t)MIN(a, b), k = (size_t)MAX(a, b);

    return !p->incompatible || !(p->incompatible[i * p->cands.n + k] >> count_class(n) & 1);
}

bool problem_room(const struct gpu_problem *p, size_t node, int32_t n, int64_t mem)
{
    const struct pnode *nd = &p->nodes.p[node];
    const int64_t *rooms = p->rooms.p + nd->first_room;

    if (nd->n_rooms < (size_t)n)
        return false;
    return !mem || rooms[nd->n_rooms - (size_t)n] >= mem;
}

/* ---- begin, end ---- */

/* Somebody waits, shares, is to stop, or could use more devices. */
static bool something_to_decide(const struct gpus *g)
{
    if (g->jobs.n > g->n_running)
        return true;
    for (size_t i = 0; i < g->jobs.n; i++) {
        const struct gjob *j = g->jobs.p[i];
        if (j->n_with || j->stopping || j->say.n_counts > 1)
            return true;
    }
    return false;
}

struct gpu_problem *gpus_plan_begin(struct gpus *g, int64_t now)
{
    if (g->solving || !g->jobs.n)
        return NULL;
    if (g->tick_ms >= 0 && now >= g->tick_ms)
        g->due = true;
    if (!g->due || now < g->planned_ms + g->conf.replan_ms)
        return NULL;
    if (!something_to_decide(g)) {
        g->due = false;
        g->tick_ms = -1;
        return NULL;
    }
    struct gpu_problem *p = xcalloc(1, sizeof(*p));
    p->conf = g->conf;
    p->roomy = is_roomy(g);
    p->plan = ++g->plan;
    p->mean_ratio = exp(speeds_terms(g->speeds, SPEED_NO_FAMILY).mean);
    rng_seed(&p->rng, g->conf.seed ^ g->plan * UINT64_C(0x9e3779b97f4a7c15));
    freeze_jobs(g, p, now);
    for (size_t i = 0; i < p->cands.n; i++) {
        struct gjob *j = gpu_find(g, p->cands.p[i].job);
        if (j->holds && !leaving(j) && p->cands.p[i].group == GPU_NOBODY)
            freeze_group(g, p, j, now);
    }
    for (size_t i = 0; i < g->nodes.n; i++)
        freeze_node(g, p, &g->nodes.p[i]);
    freeze_facts(g, p);
    freeze_compatible(g, p);
    g->due = false;
    g->solving = true;
    g->planned_ms = now;
    g->tick_ms = g->jobs.n > g->n_running ? now + TICK_MS : -1;
    return p;
}

void gpu_problem_free(struct gpu_problem *p)
{
    vec_done(&p->cands);
    vec_done(&p->groups);
    vec_done(&p->nodes);
    vec_done(&p->rooms);
    free(p->facts);
    vec_done(&p->columns);
    vec_done(&p->order);
    vec_done(&p->chosen);
    vec_done(&p->held);
    vec_done(&p->held_nodes);
    free(p->incompatible);
    free(p);
}
