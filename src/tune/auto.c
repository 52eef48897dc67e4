/* auto.c - the engine auto: the Gaussian process while it is affordable, then what is cheap
 *
 * Up to GP_TRIALS results and GP_DIMS parameters the engine gp proposes.  Beyond that the engines
 * tpe and cmaes take turns: tpe sees choices and branches, cmaes, which begins at the best trial,
 * refines numbers.  Spaces with fewer than two ordered parameters have tpe only.
 */
#include "tune/study_priv.h"

enum { GP_TRIALS = 400, GP_DIMS = 40 };

struct tune_auto {
    void *gp, *cmaes;
    bool late;      /* the engine gp has ended */
    bool can_cmaes; /* there are ordered parameters to refine */
};

static void auto_close(void *state)
{
    struct tune_auto *a = state;

    if (!a)
        return;
    tune_gp.close(a->gp);
    tune_cmaes.close(a->cmaes);
    free(a);
}

static int auto_open(struct tune_study *s, void **out, struct err *e)
{
    struct tune_auto *a = xcalloc(1, sizeof(*a));
    size_t ordered = 0, all = 0;

    for (size_t i = 0; i < s->space->n; i++) {
        bool varies = s->space->dims[i].count != 1;
        all += varies;
        ordered += varies && !tune_dim_unordered(&s->space->dims[i]);
    }
    a->can_cmaes = ordered >= 2;
    a->late = all > GP_DIMS;
    if (tune_gp.open(s, &a->gp, e) < 0 || tune_cmaes.open(s, &a->cmaes, e) < 0) {
        auto_close(a);
        return -1;
    }
    *out = a;
    return 0;
}

/* Odd and even trials: both engines see all results, so neither waits for the other. */
static int auto_propose(void *state, struct tune_study *s, int64_t id, double *code, struct err *e)
{
    struct tune_auto *a = state;

    if (!a->late)
        return tune_gp.propose(a->gp, s, id, code, e);
    if (a->can_cmaes && id % 2)
        return tune_cmaes.propose(a->cmaes, s, id, code, e);
    return tpe_propose(s, id, code, e);
}

/* The change of engines follows from the number of results alone, so a replay makes it too. */
static void auto_told(void *state, struct tune_study *s, size_t trial)
{
    struct tune_auto *a = state;

    if (a->late && a->can_cmaes)
        tune_cmaes.told(a->cmaes, s, trial);
    if (a->late || s->done.n < GP_TRIALS)
        return;
    a->late = true;
    cmaes_begin_at_best(a->cmaes, s);
}

const struct tune_engine tune_auto = {.name = "auto",
                                      .open = auto_open,
                                      .close = auto_close,
                                      .propose = auto_propose,
                                      .told = auto_told};
