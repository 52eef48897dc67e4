/* pbt_engine.c - the engine pbt: each trial is a stretch of the training of a member
 *
 * The first trials, one per member, are drawn at random and begin anew.  When a trial has its
 * result, the layer (pbt.h) says how the member goes on: from its own state with the same
 * parameters, or from that of a better member with others.  The next trial of the member has these
 * parameters, and a parent: the trial whose state it continues.  A trial that failed is repeated
 * from where it began, or copies a better member.
 *
 * A point that a person chose is a further member.
 */
#include "base/util.h"
#include "tune/study_priv.h"
#include <math.h>

struct pbt_next {
    size_t member;
    int64_t parent;
    double *code;
};
struct pbt_engine {
    struct tune_pbt *layer;
    VEC(struct pbt_next) next;   /* members that wait, the first first */
    VEC(uint32_t) member;        /* of each trial */
    VEC(int64_t) parent;         /* of each trial */
    VEC(int64_t) state, stretch; /* of each member: the trial with its state, 0 = none; how many */
};

static void pbt_close(void *state)
{
    struct pbt_engine *p = state;

    if (!p)
        return;
    for (size_t i = 0; i < p->next.n; i++)
        free(p->next.p[i].code);
    tune_pbt_free(p->layer);
    FREE_EACH(p->next.p, p->member.p, p->parent.p, p->state.p, p->stretch.p, p);
}

static int pbt_open(struct tune_study *s, void **out, struct err *e UNUSED)
{
    struct pbt_engine *p = xcalloc(1, sizeof(*p));

    s->pbt.seed = s->seed;
    s->pbt.maximize = s->maximize;
    p->layer = tune_pbt_new(s->space, &s->pbt);
    *out = p;
    return 0;
}

int64_t pbt_parent(const void *state, size_t trial)
{
    const struct pbt_engine *p = state;

    return trial < p->parent.n ? p->parent.p[trial] : 0;
}

static int pbt_propose(void *state, struct tune_study *s, int64_t id, double *code, struct err *e)
{
    const struct pbt_engine *p = state;
    struct rng r;

    if (p->next.n) {
        memcpy(code, p->next.p[0].code, s->space->n * sizeof(double));
        return 0;
    }
    if (p->state.n >= (size_t)s->pbt.population)
        return err_set(e, ERR_UNAVAILABLE,
                       "all %zu members of the population are at work; tell a result first",
                       p->state.n);
    study_rng(s, id, DRAW_POINT, &r);
    if (!tune_space_draw(s->space, code, &r))
        return err_set(e, ERR_NOT_FOUND,
                       "random points break the constraints; the space is empty "
                       "or nearly so");
    return 0;
}

/* Codes and the texts of their values do not convert into each other exactly. */
static bool pbt_near(const double *a, const double *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isnan(a[i]) != isnan(b[i]) || fabs(a[i] - b[i]) > 1e-9)
            return false;
    return true;
}

static void pbt_asked(void *state, struct tune_study *s, size_t trial)
{
    struct pbt_engine *p = state;
    const double *code = study_code(s, trial);

    if (p->next.n && pbt_near(p->next.p[0].code, code, s->space->n)) {
        struct pbt_next x = p->next.p[0];
        vec_remove(&p->next, 0);
        vec_push(&p->member, (uint32_t)x.member);
        vec_push(&p->parent, x.parent);
        free(x.code);
        return;
    }
    tune_pbt_join(p->layer, (int64_t)p->state.n + 1, code, NULL);
    vec_push(&p->member, (uint32_t)p->state.n);
    vec_push(&p->parent, 0);
    vec_push(&p->state, 0);
    vec_push(&p->stretch, 0);
}

static void pbt_told(void *state, struct tune_study *s, size_t trial)
{
    struct pbt_engine *p = state;
    size_t m = p->member.p[trial];
    bool done = s->trials.p[trial].outcome == TUNE_DONE;
    struct tune_pbt_step step = {0};

    if (done)
        p->state.p[m] = (int64_t)trial + 1;
    tune_pbt_report(p->layer, (int64_t)m + 1, ++p->stretch.p[m],
                    done ? s->trials.p[trial].value : NAN, &step, NULL);
    if (step.copy_from)
        p->state.p[m] = p->state.p[step.copy_from - 1];
    struct pbt_next x = {.member = m, .parent = p->state.p[m]};
    x.code = xcalloc(s->space->n + 1, sizeof(double));
    memcpy(x.code, tune_pbt_code(p->layer, (int64_t)m + 1), s->space->n * sizeof(double));
    vec_push(&p->next, x);
}

const struct tune_engine tune_members = {.name = "pbt",
                                         .open = pbt_open,
                                         .close = pbt_close,
                                         .propose = pbt_propose,
                                         .asked = pbt_asked,
                                         .told = pbt_told};
