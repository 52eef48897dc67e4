/* random.c - the engine random: independent draws, and no point twice when their number is finite
 */
#include "tune/study_priv.h"

static int random_propose(void *state UNUSED, struct tune_study *s, int64_t id, double *code,
                          struct err *e)
{
    struct rng r;

    study_rng(s, id, DRAW_POINT, &r);
    return study_draw_new(s, &r, code, e);
}

const struct tune_engine tune_random = {
    .name = "random", .propose = random_propose, .many = true, .cheap = true};
