/* gpu_solve.c - the search for the best choice of columns
 *
 * Greedy by worth per device, then exchanges: a column comes in, what is in its way goes out, and
 * who lost its column that way gets its own again where there is room.  First improvement, until a
 * pass finds none.  Then the same from starting points in which chance has shaken the order; the
 * best of all is the answer.  Same question, same seed, same answer.
 */
#include "sched/gpu_problem_priv.h"

#include <math.h>

enum { PASSES = 6, WAY_MAX = 64, NEAR = 3, LARGE = 6000 };
static const double SHAKE = 0.3, BETTER = 1e-9;

struct search {
    struct gpu_problem *p;
    int32_t *of_job, *of_group; /* the chosen column; GPU_NOBODY */
    int32_t *own;      /* of each job: the column in which it is alone and keeps its place */
    int32_t *node_of;  /* of each column while chosen */
    int32_t *place_of; /* and its place among the columns of that node */
    VEC(int32_t) * at; /* of each node: its chosen columns */
    double *floor;     /* of each node: worth per device of the least dense column that may go */
    bool *stale;       /* floor has to be found anew */
    double value;
};

static struct column *col(const struct search *s, int32_t c)
{
    return &s->p->columns.p[c];
}

/* Chooses column c on that node.  The jobs and the group of c must be in no chosen column. */
static void take_in(struct search *s, int32_t c, int32_t node)
{
    struct column *x = col(s, c);

    for (int32_t i = 0; i < x->n_jobs; i++)
        s->of_job[x->jobs[i]] = c;
    if (x->group != GPU_NOBODY)
        s->of_group[x->group] = c;
    s->node_of[c] = node;
    s->p->nodes.p[node].free -= x->n;
    s->stale[node] = true;
    s->place_of[c] = (int32_t)s->at[node].n;
    vec_push(&s->at[node], c);
    s->value += x->value;
}

static void take_out(struct search *s, int32_t c)
{
    struct column *x = col(s, c);
    int32_t node = s->node_of[c];

    for (int32_t i = 0; i < x->n_jobs; i++)
        s->of_job[x->jobs[i]] = GPU_NOBODY;
    if (x->group != GPU_NOBODY)
        s->of_group[x->group] = GPU_NOBODY;
    s->node_of[c] = GPU_NOBODY;
    s->p->nodes.p[node].free += x->n;
    s->stale[node] = true;
    int32_t last = vec_pop(&s->at[node]);
    s->at[node].p[s->place_of[c]] = last;
    s->place_of[last] = s->place_of[c];
    s->value -= x->value;
}

/* ---- one exchange ---- */

struct way { /* what must go for a column to come in */
    int32_t out[WAY_MAX];
    int32_t n, node;
    double loss;
};

/* The columns that share a job or the group with c; false: one of them may not go. */
static bool conflicts(const struct search *s, int32_t c, struct way *w)
{
    const struct column *x = col(s, c);

    w->n = 0;
    w->loss = 0;
    for (int32_t i = -1; i < x->n_jobs; i++) {
        int32_t o = i >= 0                   ? s->of_job[x->jobs[i]]
                    : x->group != GPU_NOBODY ? s->of_group[x->group]
                                             : GPU_NOBODY;
        if (o == GPU_NOBODY || ints_have(w->out, (size_t)w->n, o))
            continue;
        if (col(s, o)->fixed && col(s, o)->group != x->group)
            return false;
        w->out[w->n++] = o;
        w->loss += col(s, o)->value;
    }
    return true;
}

/* Devices of the node that are free once the columns in the way are out. */
static int32_t freed_on(const struct search *s, const struct way *w, int32_t node)
{
    int32_t n = s->p->nodes.p[node].free;

    for (int32_t i = 0; i < w->n; i++)
        if (s->node_of[w->out[i]] == node)
            n += col(s, w->out[i])->n;
    return n;
}

/* Adds the least dense columns of that node until n devices are free; false when they cannot be. */
static bool way_make_room(const struct search *s, struct way *w, int32_t node, int32_t n)
{
    int32_t free = freed_on(s, w, node);

    while (free < n) {
        int32_t worst = GPU_NOBODY;
        double density = INFINITY;
        for (size_t i = 0; i < s->at[node].n; i++) {
            int32_t o = s->at[node].p[i];
            double d = col(s, o)->value / col(s, o)->n;
            if (!col(s, o)->fixed && d < density && !ints_have(w->out, (size_t)w->n, o)) {
                density = d;
                worst = o;
            }
        }
        if (worst == GPU_NOBODY || w->n == WAY_MAX)
            return false;
        w->out[w->n++] = worst;
        w->loss += col(s, worst)->value;
        free += col(s, worst)->n;
    }
    w->node = node;
    return true;
}

/* INFINITY when no column of the node may go. */
static double floor_of(const struct search *s, size_t node)
{
    if (!s->stale[node])
        return s->floor[node];
    double floor = INFINITY;
    for (size_t i = 0; i < s->at[node].n; i++) {
        const struct column *o = col(s, s->at[node].p[i]);
        if (!o->fixed && o->value < floor * o->n)
            floor = o->value / o->n;
    }
    s->stale[node] = false;
    return s->floor[node] = floor;
}

/* The node where x fits best, or of those where room must be made the NEAR that promise to cost
 * least.  Room costs at least the devices lacking at the least density there. */
static int32_t choose_nodes(const struct search *s, const struct column *x, const struct way *w,
                            double limit, int32_t *out, bool *fits)
{
    int32_t slack = INT32_MAX, n = 0;
    double bound[NEAR];

    *fits = false;
    for (size_t k = 0; k < s->p->nodes.n; k++) {
        if (!s->p->nodes.p[k].open || !problem_room(s->p, k, x->n, x->mem_bytes) ||
            !problem_allows(s->p, x, k))
            continue;
        int32_t left = freed_on(s, w, (int32_t)k) - x->n;
        if (left >= 0 && left < slack) {
            slack = left;
            out[0] = (int32_t)k;
            *fits = true;
        }
        if (*fits)
            continue;
        double cost = -left * floor_of(s, k);
        if (w->loss + cost >= limit || (n == NEAR && cost >= bound[NEAR - 1]))
            continue;
        int32_t at = n < NEAR ? n++ : NEAR - 1;
        for (; at > 0 && bound[at - 1] > cost; at--) {
            bound[at] = bound[at - 1];
            out[at] = out[at - 1];
        }
        bound[at] = cost;
        out[at] = (int32_t)k;
    }
    return *fits ? 1 : n;
}

/* The cheapest way in for a column, over the nodes it may go to, that costs less than `limit`. */
static bool find_way(const struct search *s, int32_t c, double limit, struct way *out)
{
    const struct column *x = col(s, c);
    int32_t nodes[NEAR];
    struct way w;
    bool fits, found = false;

    if (!conflicts(s, c, &w))
        return false;
    if (x->group != GPU_NOBODY) {
        *out = w;
        return way_make_room(s, out, (int32_t)s->p->groups.p[x->group].node, x->n);
    }
    int32_t n = choose_nodes(s, x, &w, limit, nodes, &fits);
    for (int32_t i = 0; i < n; i++) {
        struct way t = w;
        if (!way_make_room(s, &t, nodes[i], x->n) || (found && t.loss >= out->loss))
            continue;
        *out = t;
        found = true;
    }
    return found;
}

/* Gives jobs that lost their column to an exchange their own again, if there is room. */
static void console(struct search *s, const struct way *w)
{
    for (int32_t i = 0; i < w->n; i++) {
        const struct column *x = col(s, w->out[i]);
        for (int32_t k = 0; k < x->n_jobs; k++) {
            int32_t own = s->own[x->jobs[k]];
            struct way v;
            if (s->of_job[x->jobs[k]] == GPU_NOBODY && own != GPU_NOBODY &&
                find_way(s, own, 0, &v) && !v.n)
                take_in(s, own, v.node);
        }
    }
}

/* What those who would lose a job or their group to c could get by themselves. */
static double hope_of(const struct search *s, int32_t c)
{
    const struct column *x = col(s, c);
    struct way w;
    double hope = 0;

    if (!conflicts(s, c, &w))
        return -INFINITY;
    for (int32_t i = 0; i < w.n; i++) {
        const struct column *o = col(s, w.out[i]);
        for (int32_t k = 0; k < o->n_jobs; k++) {
            bool taken = s->own[o->jobs[k]] == GPU_NOBODY;
            for (int32_t m = 0; m < x->n_jobs; m++)
                taken |= x->jobs[m] == o->jobs[k];
            hope += taken ? 0 : col(s, s->own[o->jobs[k]])->value;
        }
    }
    return x->value + hope - w.loss <= 0 ? -INFINITY : hope;
}

/* Carries an exchange out if the plan is worth more after it. */
static bool try_in(struct search *s, int32_t c)
{
    struct way w;
    double before = s->value, hope;

    if (s->node_of[c] != GPU_NOBODY || (hope = hope_of(s, c)) < 0 ||
        !find_way(s, c, col(s, c)->value + hope, &w))
        return false;
    double worst = before - w.loss + col(s, c)->value;
    if (worst + hope <= before * (1 + BETTER))
        return false;
    int32_t nodes[WAY_MAX];
    for (int32_t i = 0; i < w.n; i++) {
        nodes[i] = s->node_of[w.out[i]];
        take_out(s, w.out[i]);
    }
    take_in(s, c, w.node);
    if (worst > before * (1 + BETTER)) {
        console(s, &w);
        return true;
    }
    console(s, &w);
    if (s->value > before * (1 + BETTER))
        return true;
    for (int32_t i = 0; i < w.n; i++) { /* back to what it was */
        const struct column *x = col(s, w.out[i]);
        for (int32_t k = 0; k < x->n_jobs; k++)
            if (s->of_job[x->jobs[k]] != GPU_NOBODY && s->of_job[x->jobs[k]] != c)
                take_out(s, s->of_job[x->jobs[k]]);
    }
    take_out(s, c);
    for (int32_t i = 0; i < w.n; i++)
        take_in(s, w.out[i], nodes[i]);
    s->value = before;
    return false;
}

static void improve(struct search *s)
{
    int passes = s->p->columns.n > LARGE ? PASSES / 3 : PASSES;

    for (int pass = 0; pass < passes; pass++) {
        bool better = false;
        for (size_t i = 0; i < s->p->order.n; i++)
            better |= try_in(s, s->p->order.p[i]);
        if (!better)
            break;
    }
}

/* ---- starting points ---- */

/* Whoever may not be stopped stays, with nobody else. */
static void search_clear(struct search *s)
{
    struct gpu_problem *p = s->p;

    for (size_t i = 0; i < p->nodes.n; i++) {
        while (s->at[i].n)
            take_out(s, vec_last(&s->at[i]));
        p->nodes.p[i].free = p->nodes.p[i].cap;
    }
    s->value = 0;
    for (size_t i = 0; i < p->columns.n; i++) {
        struct column *c = &p->columns.p[i];
        int32_t fixed = 0, all = 0;
        if (!c->fixed || s->of_group[c->group] != GPU_NOBODY)
            continue;
        for (int32_t k = 0; k < c->n_jobs; k++)
            fixed += p->cands.p[c->jobs[k]].fixed;
        for (int32_t k = 0; k < p->groups.p[c->group].n_jobs; k++)
            all += p->cands.p[p->groups.p[c->group].jobs[k]].fixed;
        if (fixed == all && c->n_jobs == fixed)
            take_in(s, (int32_t)i, (int32_t)p->groups.p[c->group].node);
    }
}

static void greedy(struct search *s, const int32_t *order, size_t n)
{
    struct way w;

    for (size_t i = 0; i < n; i++) {
        const struct column *x = col(s, order[i]);
        bool taken = false;
        for (int32_t k = 0; k < x->n_jobs; k++)
            taken |= s->of_job[x->jobs[k]] != GPU_NOBODY &&
                     !(x->group != GPU_NOBODY && s->of_job[x->jobs[k]] == s->of_group[x->group]);
        if (taken || !find_way(s, order[i], x->value, &w) || w.loss >= x->value)
            continue;
        bool others = false; /* greedy takes nobody's place but that of its own group */
        for (int32_t k = 0; k < w.n; k++)
            others |= x->group == GPU_NOBODY || w.out[k] != s->of_group[x->group];
        if (others)
            continue;
        if (w.n)
            take_out(s, w.out[0]);
        take_in(s, order[i], w.node);
    }
}

struct keyed {
    double key;
    int32_t column;
};

static int densest(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;

    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return x->column - y->column;
}

/* Columns by worth per device, each key shaken by up to that share. */
static void sort_columns(struct gpu_problem *p, double shake, int32_t *out)
{
    AUTO_FREE struct keyed *k = xcalloc(p->columns.n + 1, sizeof(*k));

    for (size_t i = 0; i < p->columns.n; i++) {
        const struct column *c = &p->columns.p[i];
        double f = shake > 0 ? 1 + shake * (2 * rng_unit(&p->rng) - 1) : 1;
        k[i] = (struct keyed){c->value / c->n * f, (int32_t)i};
    }
    qsort(k, p->columns.n, sizeof(*k), densest);
    for (size_t i = 0; i < p->columns.n; i++)
        out[i] = k[i].column;
}

/* ---- the answer ---- */

static void search_init(struct search *s, struct gpu_problem *p)
{
    *s = (struct search){.p = p};
    s->of_job = xmalloc((p->cands.n + 1) * sizeof(int32_t));
    s->own = xmalloc((p->cands.n + 1) * sizeof(int32_t));
    s->of_group = xmalloc((p->groups.n + 1) * sizeof(int32_t));
    s->node_of = xmalloc((p->columns.n + 1) * sizeof(int32_t));
    s->place_of = xmalloc((p->columns.n + 1) * sizeof(int32_t));
    s->at = xcalloc(p->nodes.n + 1, sizeof(*s->at));
    s->floor = xcalloc(p->nodes.n + 1, sizeof(*s->floor));
    s->stale = xcalloc(p->nodes.n + 1, sizeof(*s->stale));
    memset(s->stale, 1, p->nodes.n);
    memset(s->of_job, 0xff, p->cands.n * sizeof(int32_t));
    memset(s->own, 0xff, p->cands.n * sizeof(int32_t));
    memset(s->of_group, 0xff, p->groups.n * sizeof(int32_t));
    memset(s->node_of, 0xff, p->columns.n * sizeof(int32_t));
    for (size_t i = 0; i < p->columns.n; i++) {
        const struct column *c = &p->columns.p[i];
        int32_t *own = &s->own[c->jobs[0]];
        bool stays = p->cands.p[c->jobs[0]].group == c->group && c->group != GPU_NOBODY;
        if (c->n_jobs == 1 &&
            (*own == GPU_NOBODY || stays ||
             (p->columns.p[*own].group == GPU_NOBODY && c->value > p->columns.p[*own].value)))
            *own = (int32_t)i;
    }
}

static void search_done(struct search *s)
{
    for (size_t i = 0; i < s->p->nodes.n; i++)
        vec_done(&s->at[i]);
    FREE_EACH(s->at, s->floor, s->stale, s->of_job, s->own, s->of_group, s->node_of, s->place_of);
}

static void keep_if_best(struct search *s, double *best)
{
    struct gpu_problem *p = s->p;

    if (s->value <= *best)
        return;
    *best = s->value;
    vec_clear(&p->chosen);
    for (size_t i = 0; i < p->nodes.n; i++)
        for (size_t k = 0; k < s->at[i].n; k++) {
            vec_push(&p->chosen, s->at[i].p[k]);
            col(s, s->at[i].p[k])->node = (int32_t)i;
        }
}

void gpu_problem_solve(struct gpu_problem *p)
{
    struct search s;
    double best = -1;

    problem_hold(p);
    problem_columns(p);
    search_init(&s, p);
    AUTO_FREE int32_t *shaken = xcalloc(p->columns.n + 1, sizeof(*shaken));
    vec_reserve(&p->order, p->columns.n + 1);
    sort_columns(p, 0, p->order.p);
    p->order.n = p->columns.n;
    search_clear(&s);
    greedy(&s, p->order.p, p->order.n);
    int32_t effort = p->roomy || p->columns.n > LARGE ? MIN(p->conf.effort, 0) : p->conf.effort;
    for (int32_t round = 0; round <= effort; round++) {
        if (round > 0) {
            search_clear(&s);
            sort_columns(p, SHAKE, shaken);
            greedy(&s, shaken, p->order.n);
        }
        if (p->conf.effort >= 0)
            improve(&s);
        keep_if_best(&s, &best);
    }
    if (p->conf.effort < 0)
        keep_if_best(&s, &best);
    search_done(&s);
}
