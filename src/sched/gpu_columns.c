/* gpu_columns.c - who may run with whom on how many devices, and what that is worth
 *
 * Large questions are thinned: only the first LOOK_JOINS who wait are tried next to each group and
 * the next LOOK_PAIRS next to each of themselves, and of the columns that makes the best few are
 * kept.
 */
#include "sched/gpu_problem_priv.h"

enum { THIN_FROM = 32, KEEP_JOINS = 16, KEEP_PAIRS = 6, LOOK_JOINS = 160, LOOK_PAIRS = 48 };
static const double STAYS = 1.1;      /* who goes on where all go on is worth more */
static const double HORIZON_S = 3600; /* a change pays for its restart within this, or not */
static const double WORTH = 1.05;
/* A running job is started anew elsewhere only for a gain of so many restarts: 2 made elastic
 * traces 4 % worse, as the speed on another count is a guess at first. */
static const double MOVE = 12;

static int32_t cand_count_index(const struct cand *c, int32_t n)
{
    for (int32_t i = 0; i < c->n_counts; i++)
        if (c->counts[i] == n)
            return i;
    return -1;
}

/* Speed of one of the jobs in a column against alone on its reference count. */
static double speed_in(const struct gpu_problem *p, const struct column *c, int32_t who)
{
    const struct cand *a = &p->cands.p[c->jobs[who]];
    int32_t i = cand_count_index(a, c->n);
    double s = i < 0 ? 0 : a->speed[i];

    for (int32_t k = 0; k < c->n_jobs; k++)
        if (k != who)
            s *= problem_ratio(p, a, &p->cands.p[c->jobs[k]], c->n);
    return s;
}

/* What one job of the column is worth: price times speed, less the share of the time that a restart
 * costs. */
static double worth(const struct gpu_problem *p, const struct column *c, int32_t who)
{
    const struct cand *a = &p->cands.p[c->jobs[who]];
    double s = speed_in(p, c, who);
    bool stays = a->group != GPU_NOBODY && a->group == c->group;

    if (s <= 0)
        return 0;
    double v = a->price * s;
    if (a->need > 0 && s > a->need) /* enough is enough: the rest counts little */
        v = a->price * (a->need + 0.1 * (s - a->need));
    /* Who joins others costs the devices nothing: those who run go on while it starts. */
    bool joins = a->group == GPU_NOBODY && c->group != GPU_NOBODY && c->n_jobs > 1;
    if (!stays && !joins) {
        double cost = a->started ? a->restart_s : a->restart_s / 2;
        double time = MIN(a->left_s / s, HORIZON_S);
        if (a->group != GPU_NOBODY)
            cost *= MOVE; /* it stops what runs well for a guess */
        v *= MAX(0.1, 1 - cost / (time + cost));
    }
    return v;
}

static void set_value(const struct gpu_problem *p, struct column *c)
{
    bool same = c->group != GPU_NOBODY;

    c->value = 0;
    c->mem_bytes = 0;
    c->fixed = false;
    for (int32_t k = 0; same && k < p->groups.p[c->group].n_jobs; k++) {
        bool here = false;
        for (int32_t i = 0; i < c->n_jobs; i++)
            here |= c->jobs[i] == p->groups.p[c->group].jobs[k];
        same &= here;
    }
    for (int32_t i = 0; i < c->n_jobs; i++) {
        const struct cand *a = &p->cands.p[c->jobs[i]];
        bool stays = same && a->group == c->group;
        c->value += worth(p, c, i) * (stays ? STAYS : 1);
        c->mem_bytes += a->mem_bytes;
        c->fixed |= a->fixed;
    }
}

static bool mates(const struct gpu_problem *p, const struct column *c, int32_t job)
{
    const struct cand *a = &p->cands.p[job];

    if (!a->share || cand_count_index(a, c->n) < 0)
        return false;
    for (int32_t i = 0; i < c->n_jobs; i++) {
        const struct cand *b = &p->cands.p[c->jobs[i]];
        if (!b->share || cand_count_index(b, c->n) < 0 || /* it overran: it is to have fewer */
            !problem_compatible(p, c->jobs[i], job, c->n))
            return false;
    }
    return true;
}

/* Is there a node all of them may run on?  A column that keeps its devices has one. */
static bool somewhere(const struct gpu_problem *p, const struct column *c)
{
    if (c->group != GPU_NOBODY)
        return problem_allows(p, c, (size_t)c->node);
    for (size_t k = 0; k < p->nodes.n; k++)
        if (problem_allows(p, c, k))
            return true;
    return false;
}

/* c and one more, when that is worth more than c alone. */
static bool column_join(const struct gpu_problem *p, const struct column *c, int32_t job,
                        int64_t room, struct column *out)
{
    if (c->n_jobs >= p->conf.per_device || c->mem_bytes + p->cands.p[job].mem_bytes > room ||
        !mates(p, c, job))
        return false;
    *out = *c;
    out->jobs[out->n_jobs++] = job;
    if (!somewhere(p, out))
        return false;
    double sum = 0;
    for (int32_t i = 0; i < out->n_jobs; i++) {
        const struct cand *a = &p->cands.p[out->jobs[i]];
        sum += speed_in(p, out, i) / a->speed[cand_count_index(a, out->n)];
    }
    if (sum < WORTH)
        return false;
    set_value(p, out);
    return out->value > c->value;
}

static int column_by_value(const void *a, const void *b)
{
    const struct column *x = a, *y = b;

    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return x->jobs[x->n_jobs - 1] - y->jobs[y->n_jobs - 1];
}

/* Of the columns from `first` on the best `keep`. */
static void thin(struct gpu_problem *p, size_t first, size_t keep)
{
    if (p->cands.n <= THIN_FROM || p->columns.n - first <= keep)
        return;
    qsort(p->columns.p + first, p->columns.n - first, sizeof(struct column), column_by_value);
    p->columns.n = first + keep;
}

static void group_columns(struct gpu_problem *p, int32_t group)
{
    const struct group *q = &p->groups.p[group];
    unsigned all = (1U << q->n_jobs) - 1, must = 0;
    bool large = p->cands.n > KEEP_ALL;
    size_t from = large ? p->n_running : 0;
    size_t to = large ? MIN(from + LOOK_JOINS, p->cands.n) : p->cands.n;

    for (int32_t i = 0; i < q->n_jobs; i++)
        must |= p->cands.p[q->jobs[i]].fixed ? 1U << i : 0;
    for (unsigned set = 1; set <= all; set++) {
        struct column c = {.n = q->n, .group = group, .node = (int32_t)q->node}, more;
        if ((set & must) != must)
            continue;
        for (int32_t i = 0; i < q->n_jobs; i++)
            if (set >> i & 1)
                c.jobs[c.n_jobs++] = q->jobs[i];
        set_value(p, &c);
        if (c.n_jobs > 1 && c.mem_bytes > q->room && !(set == must))
            continue; /* over-full: somebody has to go */
        vec_push(&p->columns, c);
        size_t first = p->columns.n;
        for (size_t k = from; q->open && q->room > 0 && !q->drains && !p->roomy && k < to; k++)
            if (p->cands.p[k].group != group && !p->cands.p[k].fixed &&
                column_join(p, &c, (int32_t)k, q->room, &more))
                vec_push(&p->columns, more);
        thin(p, first, KEEP_JOINS);
    }
}

static void fresh_columns(struct gpu_problem *p, int32_t job)
{
    const struct cand *a = &p->cands.p[job];
    int64_t room = 0;

    if (a->fixed)
        return;
    for (size_t k = 0; k < p->nodes.n; k++)
        if (p->nodes.p[k].open && p->nodes.p[k].n_rooms)
            room = MAX(room, p->rooms.p[p->nodes.p[k].first_room + p->nodes.p[k].n_rooms - 1]);
    for (int32_t i = 0; i < a->n_counts; i++) {
        struct column c = {.n = a->counts[i],
                           .group = GPU_NOBODY,
                           .node = GPU_NOBODY,
                           .jobs = {job},
                           .n_jobs = 1},
                      more;
        if (a->group != GPU_NOBODY && p->groups.p[a->group].n == c.n &&
            p->groups.p[a->group].n_jobs == 1)
            continue; /* it has that */
        set_value(p, &c);
        vec_push(&p->columns, c);
        if (a->group != GPU_NOBODY || p->roomy)
            continue;
        size_t first = p->columns.n;
        size_t to = (size_t)job + 1 + (p->cands.n > KEEP_ALL ? LOOK_PAIRS : p->cands.n);
        for (size_t k = (size_t)job + 1; k < MIN(to, p->cands.n); k++)
            if (p->cands.p[k].group == GPU_NOBODY && column_join(p, &c, (int32_t)k, room, &more))
                vec_push(&p->columns, more);
        thin(p, first, KEEP_PAIRS);
    }
}

void problem_columns(struct gpu_problem *p)
{
    for (size_t i = 0; i < p->groups.n; i++)
        group_columns(p, (int32_t)i);
    for (size_t i = 0; i < p->cands.n; i++)
        fresh_columns(p, (int32_t)i);
}
