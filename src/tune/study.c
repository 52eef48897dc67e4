/* study.c - trials and results of a study, and what all engines share
 *
 * Owns: the list of trials, their order by value, and the set of points that were asked.
 * Does not own: how a point is chosen (one file per engine).
 */
#include "base/util.h"
#include "tune/study_priv.h"
#include <math.h>

const char tune_engine_names[] = "auto|gp|tpe|cmaes|nsga2|motpe|pbt|random|sobol|grid";
const char tune_engine_help[] =
    "auto (chooses among the others; the default), gp (Gaussian process), tpe (densities of good "
    "and bad trials), cmaes (adapting distribution), nsga2 and motpe (several objectives), pbt (a "
    "population whose trials continue from others' checkpoints), random, "
    "sobol (quasi-random), grid (every point once)";
static const struct tune_engine *const engines[] = {
    &tune_auto,  &tune_gp,      &tune_tpe,    &tune_cmaes, &tune_nsga2,
    &tune_motpe, &tune_members, &tune_random, &tune_sobol, &tune_grid};

enum { TRIALS_MAX = 100000000, DRAWS_BEFORE_COUNTING = 200 };
/* Counting through a space stops after so many points: with one that is free, or with none that
 * meets the constraints. */
enum { COUNT_FOUND_MAX = 1000000, COUNT_BARREN_MAX = 10000000 };

/* NULL: there is none of this name. */
static const struct tune_engine *engine_named(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
        if (!strcmp(engines[i]->name, name))
            return engines[i];
    return NULL;
}

int tune_study_new(struct tune_space *space_take, const struct tune_conf *conf,
                   struct tune_study **out, struct err *e)
{
    const char *name = conf->engine ? conf->engine : engines[0]->name;
    struct tune_study *s = xcalloc(1, sizeof(*s));

    s->space = space_take;
    s->seed = conf->seed;
    s->maximize = conf->maximize;
    s->budget = conf->budget;
    s->engine = engine_named(name);
    if (conf->pbt)
        s->pbt = *conf->pbt;
    else
        tune_pbt_parse(NULL, &s->pbt, NULL);
    if (!conf->pbt)
        s->pbt.interval = 1;
    if (conf->objectives > 1 && s->engine == &tune_auto)
        s->engine = &tune_motpe;
    if (!s->engine) {
        err_set(e, ERR_INVALID, "there is no engine %.40s; choose one of %s", name,
                tune_engine_names);
    } else if (conf->objectives > TUNE_OBJECTIVES_MAX) {
        err_set(e, ERR_INVALID, "there are %zu objectives; at most %d are possible",
                conf->objectives, TUNE_OBJECTIVES_MAX);
        s->engine = NULL;
    } else if (conf->objectives > 1 && !s->engine->many) {
        err_set(e, ERR_INVALID,
                "the engine %s has one objective; choose motpe, nsga2, random, sobol or grid",
                name);
        s->engine = NULL; /* it has not been opened */
    } else if (!s->engine->open || s->engine->open(s, &s->state, e) == 0) {
        if (conf->objectives > 1)
            s->many = study_many_new(conf->objectives, conf->maximize_each);
        *out = s;
        return 0;
    }
    tune_study_free(s);
    return -1;
}

void tune_study_free(struct tune_study *s)
{
    if (!s)
        return;
    if (s->engine && s->engine->close)
        s->engine->close(s->state);
    study_many_free(s->many);
    tune_space_free(s->space);
    arena_done(&s->scratch);
    FREE_EACH(s->trials.p, s->codes.p, s->loss.p, s->done.p, s->ranked.p, s->failed.p, s->pending.p,
              s->issued, s);
}

/* Near numbers of trials must not give near streams: each word is mixed in by a round of its own.
 */
void study_rng(const struct tune_study *s, int64_t id, enum tune_purpose why, struct rng *out)
{
    uint64_t z = s->seed;

    for (int round = 0; round < 2; round++) {
        z += round ? (uint64_t)why : (uint64_t)id * 8;
        z = (z ^ (z >> 32)) * 0xD6E8FEB86659FD93u;
        z = (z ^ (z >> 29)) * 0x9E3779B97F4A7C15u;
        z ^= z >> 32;
    }
    rng_seed(out, z);
}

/* Box and Muller; the second of the pair is not kept, so each draw takes two numbers. */
double rng_normal(struct rng *r)
{
    double u = 1 - rng_unit(r), v = rng_unit(r);

    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

/* ---- points that were asked ---- */
static uint64_t point_hash(const double *code, size_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u;

    for (size_t i = 0; i < n; i++) {
        uint64_t k = isnan(code[i]) ? UINT64_MAX : (uint64_t)code[i];
        h = (h ^ k) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    return h;
}

static bool same_point(const double *a, const double *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

/* The slot of the point, or the free slot where it belongs. */
static uint32_t *issued_slot(const struct tune_study *s, const double *code)
{
    size_t mask = s->issued_cap - 1, n = s->space->n;

    for (size_t at = point_hash(code, n) & mask;; at = (at + 1) & mask)
        if (!s->issued[at] || same_point(study_code(s, s->issued[at] - 1), code, n))
            return &s->issued[at];
}

/* The table is at most half full, so that a free slot is near. */
static void issued_put(struct tune_study *s, size_t trial)
{
    if (s->trials.n * 2 > s->issued_cap) {
        free(s->issued);
        s->issued_cap = s->issued_cap ? s->issued_cap * 4 : 256;
        s->issued = xcalloc(s->issued_cap, sizeof(*s->issued));
        for (size_t i = 0; i < trial; i++)
            *issued_slot(s, study_code(s, i)) = (uint32_t)i + 1;
    }
    *issued_slot(s, study_code(s, trial)) = (uint32_t)trial + 1;
}

bool study_issued(const struct tune_study *s, const double *code)
{
    return s->space->finite && s->issued_cap && *issued_slot(s, code);
}

int study_draw_new(struct tune_study *s, struct rng *r, double *code, struct err *e)
{
    const struct tune_space *space = s->space;

    for (int i = 0; i < DRAWS_BEFORE_COUNTING; i++) {
        if (!tune_space_draw(space, code, r))
            break;
        if (!study_issued(s, code))
            return 0;
    }
    if (!space->finite)
        return err_set(e, ERR_NOT_FOUND,
                       "2000 random points broke the constraints; the space is empty or nearly so");
    /* Nearly all points have been asked: count through them and keep one of the rest by lot. */
    double *at = arena_alloc(&s->scratch, space->n * sizeof(double));
    uint64_t found = 0;
    int64_t steps = 0;
    for (bool more = tune_space_count_on(space, NULL, at, true);
         more && steps < (found ? COUNT_FOUND_MAX : (int64_t)s->trials.n + COUNT_BARREN_MAX);
         more = tune_space_count_on(space, NULL, at, false), steps++)
        if (tune_space_allows(space, at) && !study_issued(s, at) && rng_below(r, ++found) == 0)
            memcpy(code, at, space->n * sizeof(double));
    return found ? 0
                 : err_set(e, ERR_NOT_FOUND, "every point of the space has been asked; %zu trials",
                           s->trials.n);
}

/* ---- trials ---- */
int64_t tune_study_record(struct tune_study *s, const double *code)
{
    size_t trial = s->trials.n, n = s->space->n;

    ASSERT(trial < TRIALS_MAX);
    vec_reserve(&s->codes, s->codes.n + n);
    memcpy(s->codes.p + s->codes.n, code, n * sizeof(double));
    s->codes.n += n;
    vec_push(&s->trials, ((struct tune_trial){NAN, TUNE_PENDING}));
    vec_push(&s->loss, NAN);
    vec_push(&s->pending, (uint32_t)trial);
    if (s->space->finite)
        issued_put(s, trial);
    if (s->engine->asked)
        s->engine->asked(s->state, s, trial);
    return (int64_t)trial + 1;
}

/* With constraints, points are drawn until one fits. */
bool tune_study_cheap(const struct tune_study *s)
{
    return s->engine->cheap && !s->space->n_constraints;
}

int tune_study_propose(struct tune_study *s, double *out_code, struct err *e)
{
    if (s->trials.n >= TRIALS_MAX)
        return err_set(e, ERR_LIMIT, "a study has at most %d trials", TRIALS_MAX);
    arena_reset(&s->scratch);
    return s->engine->propose(s->state, s, (int64_t)s->trials.n + 1, out_code, e);
}

int tune_study_ask(struct tune_study *s, int64_t *out_id, const double **out_code, struct err *e)
{
    AUTO_FREE double *mine = xcalloc(s->space->n + 1, sizeof(double));

    if (tune_study_propose(s, mine, e) < 0)
        return -1;
    double *code = arena_alloc(&s->scratch, s->space->n * sizeof(double));
    memcpy(code, mine, s->space->n * sizeof(double));
    /* What is kept is what a reader of the answer would make of it. */
    double *kept = arena_alloc(&s->scratch, s->space->n * sizeof(double));
    memcpy(kept, code, s->space->n * sizeof(double));
    tune_space_canonical(s->space, kept);
    *out_id = tune_study_record(s, kept);
    *out_code = code;
    return 0;
}

/* The first place among the ranked trials with a larger loss. */
static size_t rank_of(const struct tune_study *s, double loss)
{
    size_t lo = 0, hi = s->ranked.n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (s->loss.p[s->ranked.p[mid]] <= loss)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The trial that has a result now: checked, and no longer in flight. */
static int study_land(struct tune_study *s, int64_t id, size_t *out, struct err *e)
{
    if (id < 1 || (size_t)id > s->trials.n)
        return err_set(e, ERR_NOT_FOUND, "there is no trial %lld; the last one is %zu",
                       (long long)id, s->trials.n);
    size_t trial = (size_t)id - 1;
    if (s->trials.p[trial].outcome != TUNE_PENDING)
        return err_set(e, ERR_CONFLICT, "trial %lld has a result already", (long long)id);
    for (size_t i = 0; i < s->pending.n; i++)
        if (s->pending.p[i] == trial) {
            vec_remove(&s->pending, i);
            break;
        }
    *out = trial;
    return 0;
}

static void rank_add(struct tune_study *s, size_t trial)
{
    size_t at = rank_of(s, s->loss.p[trial]);

    vec_push(&s->done, (uint32_t)trial);
    vec_push(&s->ranked, 0);
    memmove(s->ranked.p + at + 1, s->ranked.p + at, (s->ranked.n - 1 - at) * sizeof(*s->ranked.p));
    s->ranked.p[at] = (uint32_t)trial;
}

int tune_study_tell_many(struct tune_study *s, int64_t id, enum tune_outcome outcome,
                         const double *values, size_t n, struct err *e)
{
    bool ok = outcome == TUNE_DONE;
    size_t trial = 0;

    if (ok && n != tune_study_objectives(s))
        return err_set(e, ERR_INVALID, "trial %lld has %zu values, the study %zu objectives",
                       (long long)id, n, tune_study_objectives(s));
    if (study_land(s, id, &trial, e) < 0)
        return -1;
    for (size_t k = 0; ok && k < n; k++)
        ok = isfinite(values[k]);
    s->trials.p[trial] = (struct tune_trial){ok ? values[0] : NAN, ok ? TUNE_DONE : TUNE_FAILED};
    if (!ok) {
        vec_push(&s->failed, (uint32_t)trial);
    } else if (s->many) {
        arena_reset(&s->scratch);
        study_many_add(s, trial, values);
    } else {
        s->loss.p[trial] = s->maximize ? -values[0] : values[0];
        rank_add(s, trial);
    }
    if (s->engine->told)
        s->engine->told(s->state, s, trial);
    return 0;
}

int tune_study_tell(struct tune_study *s, int64_t id, enum tune_outcome outcome, double value,
                    struct err *e)
{
    return tune_study_tell_many(s, id, outcome, &value, 1, e);
}

size_t tune_study_count(const struct tune_study *s)
{
    return s->trials.n;
}

const struct tune_space *tune_study_space(const struct tune_study *s)
{
    return s->space;
}

const struct tune_trial *tune_study_get(const struct tune_study *s, int64_t id,
                                        const double **out_code)
{
    if (id < 1 || (size_t)id > s->trials.n)
        return NULL;
    if (out_code)
        *out_code = study_code(s, (size_t)id - 1);
    return &s->trials.p[id - 1];
}

int64_t tune_study_parent(const struct tune_study *s, int64_t id)
{
    return s->engine == &tune_members ? pbt_parent(s->state, (size_t)id - 1) : 0;
}

int64_t tune_study_best(const struct tune_study *s)
{
    return s->ranked.n && !s->many ? (int64_t)s->ranked.p[0] + 1 : 0;
}
