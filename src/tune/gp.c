/* gp.c - the engine gp: a Gaussian process of the loss, and the point with the largest expected
 * gain
 *
 * The kernel is fitted again whenever the results have grown by an eighth, each time from the
 * kernel before and from the prior; between fits the factor of its matrix grows by a row per
 * result.  Trials in flight count as if they had the result that the model expects, failed ones as
 * if they were the worst.  How the best point is searched: gp_search.c.
 *
 * The lengths of the kernel are fitted to where the search has been, mostly one basin, so the model
 * is too sure of all other places.  When the last trials have not improved upon the best, one in
 * DOUBT_EVERY is therefore proposed by the same model with half the lengths.
 *
 * All work is bounded by counts, not by time.  With more than GP_MAX results the engine tpe takes
 * over.  Everything kept between proposals follows from the order of the results alone.
 */
#include "tune/gp_priv.h"
#include <math.h>

enum {
    GP_MAX = 400,
    PENDING_MAX = 64,
    FAILED_MAX = 30,
    ROWS_MAX = GP_MAX + PENDING_MAX + FAILED_MAX
};
enum { GP_START = 10, FIT_MAX = 120, FIT_EVALS = 40 };
/* Of the trials, one in so many is an excursion, once there is something to leave. */
enum { EXCURSION_EVERY = 6, EXCURSION_FROM = 24 };
/* From so many results on some trials doubt the model: before, they cost more than they find. */
enum { LATE_FROM = 60 };
/* A branch that is flat but for a narrow place looks hopeless to one model of all branches; the
 * densities of tpe, which know that branch only, find the place.  This is for conditional spaces.
 */
enum { TPE_EVERY = 4 };
/* While results still improve, doubt costs more than it finds. */
enum { DOUBT_EVERY = 6, DOUBT_AT = 3, STALLED = 12 };
static const double DOUBT_WEIGHT = 4; /* weights are 1 / length² */

/* ---- state ---- */
static void gp_close(void *state)
{
    struct gp *g = state;

    if (g)
        FREE_EACH(g->dims, g->choice, g->kernel.log_weight, g->x, g->l.rows, g);
}

/* Parameters with one value only say nothing and get no coordinate. */
static int gp_open(struct tune_study *s, void **out, struct err *e UNUSED)
{
    struct gp *g = xcalloc(1, sizeof(*g));

    g->dims = xcalloc(s->space->n, sizeof(*g->dims));
    g->choice = xcalloc(s->space->n, sizeof(*g->choice));
    for (size_t i = 0; i < s->space->n; i++)
        if (s->space->dims[i].count != 1) {
            g->choice[g->d] = tune_dim_unordered(&s->space->dims[i]);
            g->dims[g->d++] = i;
        }
    g->kernel = (struct gp_kernel){.d = g->d, .choice = g->choice};
    g->kernel.log_weight = xcalloc(g->d + 1, sizeof(double));
    gp_kernel_reset(&g->kernel);
    g->next_fit = GP_START;
    *out = g;
    return 0;
}

void gp_place(const struct gp *g, const struct tune_space *s, const double *code, double *x)
{
    for (size_t j = 0; j < g->d; j++) {
        double c = code[g->dims[j]];
        if (g->choice[j])
            x[j] = isnan(c) ? -1 : c;
        else
            x[j] = isnan(c) ? 0.5 : tune_dim_unit(&s->dims[g->dims[j]], c);
    }
}

/* The results that a fit looks at: all, or the better half of FIT_MAX and others evenly. */
static size_t gp_fit_set(struct tune_study *s, size_t n, uint32_t *out)
{
    size_t m = 0, best = 0;
    bool *taken = arena_alloc(&s->scratch, s->trials.n * sizeof(bool));
    uint32_t *place = arena_alloc(&s->scratch, s->trials.n * sizeof(uint32_t));

    for (size_t i = 0; i < n; i++)
        place[s->done.p[i]] = (uint32_t)i + 1;
    for (size_t i = 0; i < s->ranked.n && n > FIT_MAX && best < FIT_MAX / 2; i++) {
        uint32_t at = place[s->ranked.p[i]]; /* 0: a later result */
        if (at) {
            out[m++] = at - 1;
            taken[at - 1] = true;
            best++;
        }
    }
    size_t others = MIN(n, FIT_MAX) - m;
    for (size_t i = 0; i < others; i++) {
        size_t at = i * n / others;
        if (!taken[at])
            out[m++] = (uint32_t)at;
    }
    return m;
}

/* The kernel from the first n results, whatever came after them.  Results as they are compete with
 * results that were made normal: the better model decides. */
static void gp_fit_first(struct gp *g, struct tune_study *s, size_t n)
{
    uint32_t set[FIT_MAX];
    double loss[GP_MAX] = {0}, part[FIT_MAX], y[FIT_MAX], cost[2];
    double *x = arena_alloc(&s->scratch, FIT_MAX * (g->d + 1) * sizeof(double));
    double *plain = arena_alloc(&s->scratch, (g->d + 1) * sizeof(double));
    struct gp_kernel other = g->kernel;
    struct gp_warp w;
    size_t m = gp_fit_set(s, n, set);

    for (size_t i = 0; i < n; i++)
        loss[i] = s->loss.p[s->done.p[i]];
    for (size_t i = 0; i < m; i++) {
        memcpy(x + i * g->d, g->x + set[i] * g->d, g->d * sizeof(double));
        part[i] = loss[set[i]];
    }
    other.log_weight = plain;
    memcpy(plain, g->kernel.log_weight, g->d * sizeof(double));
    for (int k = 0; k < 2; k++) {
        gp_warp_fit(&w, k ? 1 : -1, loss, n, &s->scratch);
        for (size_t i = 0; i < m; i++)
            y[i] = gp_warp_value(&w, part[i]);
        cost[k] = gp_kernel_fit(k ? &other : &g->kernel, x, y, m, FIT_EVALS, &s->scratch) +
                  gp_warp_cost(&w, part, m);
        if (k == 0) {
            g->power = w.power;
            if (w.power == 1)
                return;
        }
    }
    if (cost[1] < cost[0]) {
        g->power = 1;
        memcpy(g->kernel.log_weight, plain, g->d * sizeof(double));
        g->kernel.log_scale = other.log_scale;
        g->kernel.log_noise = other.log_noise;
    }
}

/* One more point: its row of K, and of the factor. */
static void gp_append(const struct gp_model *m, struct triangle *l, const double *at)
{
    size_t i = l->n;

    gp_model_row(m, at, i, m->row, m->slope);
    m->row[i] = m->scale + m->noise;
    triangle_append(l, m->row, 1e-10);
}

/* Brings x, the kernel and its factor up to the results of the study. */
static void gp_catch_up(struct gp *g, struct tune_study *s, struct gp_model *m)
{
    if (!g->x) {
        g->x = xcalloc(ROWS_MAX * (g->d + 1), sizeof(double));
        g->l =
            (struct triangle){xcalloc(ROWS_MAX * (ROWS_MAX + 1) / 2, sizeof(double)), 0, ROWS_MAX};
    }
    for (; g->known < s->done.n; g->known++)
        gp_place(g, s->space, study_code(s, s->done.p[g->known]), g->x + g->known * g->d);
    while (g->next_fit <= s->done.n) {
        gp_fit_first(g, s, g->next_fit);
        g->next_fit += MAX(1, g->next_fit / 8);
        g->l.n = 0;
    }
    gp_model_init(m, &g->kernel, ROWS_MAX, &s->scratch);
    m->x = g->x;
    for (size_t i = g->l.n; i < s->done.n; i++)
        gp_append(m, &g->l, g->x + i * g->d);
    m->l = g->l;
}

/* The model with half the lengths; its factor is made for this proposal only. */
static void gp_doubt(struct gp_ask *a)
{
    size_t n = a->m.l.n, d = a->g->d, room = n + PENDING_MAX + FAILED_MAX;

    for (size_t j = 0; j < d; j++)
        a->m.weight[j] *= DOUBT_WEIGHT;
    a->m.l = (struct triangle){arena_alloc(&a->s->scratch, room * (room + 1) / 2 * sizeof(double)),
                               0, room};
    for (size_t i = 0; i < n; i++)
        gp_append(&a->m, &a->m.l, a->g->x + i * d);
}

/* A point without a result: its row is beyond those that are kept for the next proposal, so the
 * next result overwrites it. */
static void gp_add_row(struct gp_ask *a, size_t trial)
{
    struct gp *g = a->g;
    size_t i = a->m.l.n;

    gp_place(g, a->s->space, study_code(a->s, trial), g->x + i * g->d);
    gp_append(&a->m, &a->m.l, g->x + i * g->d);
}

/* The model of this proposal: results, then trials in flight and failed ones with made-up results.
 */
static void gp_model_now(struct gp_ask *a)
{
    struct tune_study *s = a->s;
    size_t n = s->done.n, pending = MIN(s->pending.n, PENDING_MAX),
           failed = MIN(s->failed.n, FAILED_MAX);
    double *loss = arena_alloc(&s->scratch, n * sizeof(double)), worst = -INFINITY, sd;
    double *y = arena_alloc(&s->scratch, ROWS_MAX * sizeof(double));
    struct gp_warp w;

    gp_catch_up(a->g, s, &a->m);
    if (a->doubt)
        gp_doubt(a);
    for (size_t i = 0; i < n; i++)
        loss[i] = s->loss.p[s->done.p[i]];
    gp_warp_fit(&w, a->g->power, loss, n, &s->scratch);
    for (size_t i = 0; i < n; i++) {
        y[i] = gp_warp_value(&w, loss[i]);
        worst = fmax(worst, y[i]);
    }
    memcpy(a->m.alpha, y, n * sizeof(double));
    triangle_forward(&a->m.l, a->m.alpha);
    triangle_back(&a->m.l, a->m.alpha);
    a->best = INFINITY; /* in a branch of its own: a branch is improved upon itself */
    for (size_t i = 0; i < n; i++)
        if (!a->one_branch || study_branch_key(s, study_code(s, s->done.p[i])) == a->branch)
            a->best = fmin(a->best, y[i] - a->m.noise * a->m.alpha[i]);
    for (size_t i = 0; i < pending; i++) {
        gp_place(a->g, s->space, study_code(s, s->pending.p[s->pending.n - 1 - i]), a->at);
        gp_model_at(&a->m, a->at, &y[n + i], &sd, NULL);
    }
    for (size_t i = 0; i < pending; i++)
        gp_add_row(a, s->pending.p[s->pending.n - 1 - i]);
    for (size_t i = 0; i < failed; i++) {
        gp_add_row(a, s->failed.p[s->failed.n - 1 - i]);
        y[n + pending + i] = worst;
    }
    if (pending + failed) {
        memcpy(a->m.alpha, y, a->m.l.n * sizeof(double));
        triangle_forward(&a->m.l, a->m.alpha);
        triangle_back(&a->m.l, a->m.alpha);
    }
}

static int gp_propose(void *state, struct tune_study *s, int64_t id, double *code, struct err *e)
{
    struct gp_ask a = {.s = s, .g = state};
    size_t d = a.g->d;
    bool late = s->done.n >= LATE_FROM;

    if (s->done.n < GP_START || !d)
        return study_spread(s, id, code, e);
    if (s->done.n > GP_MAX || (late && s->space->conditional && id % TPE_EVERY == 1))
        return tpe_propose(s, id, code, e);
    study_rng(s, id, DRAW_SEARCH, &a.rng);
    a.at = arena_alloc(&s->scratch, d * sizeof(double));
    a.grad = arena_alloc(&s->scratch, 2 * d * sizeof(double));
    a.moving = arena_alloc(&s->scratch, d * sizeof(size_t));
    if (s->space->conditional && rng_below(&a.rng, 2)) {
        a.one_branch = true;
        a.model = study_code(s, study_branch(s, &a.rng));
        a.branch = study_branch_key(s, a.model);
    }
    a.doubt = late && id % DOUBT_EVERY == DOUBT_AT && id - s->ranked.p[0] > STALLED;
    gp_model_now(&a);
    /* Operations of an evaluation grow with the square of the points. */
    double cost = (double)a.m.l.n * (double)a.m.l.n + 1e3 * (double)d;
    a.evals = (int)fmin(400, fmax(80, 2e7 / cost));
    if (id % EXCURSION_EVERY == 0 && !a.one_branch && s->done.n >= EXCURSION_FROM &&
        gp_excursion(&a, (size_t)(id / EXCURSION_EVERY), code))
        return 0;
    return gp_search(&a, code) ? 0 : study_spread(s, id, code, e);
}

const struct tune_engine tune_gp = {
    .name = "gp", .open = gp_open, .close = gp_close, .propose = gp_propose};
