/* trace_bind.c - a trace made to fit the question: a window of it, a load, types of a table
 *
 * A log of a cluster does not say what its jobs were: with a table each gets a type by chance
 * (from the seed), among those the table knows with that many GPUs, or with the next smaller count
 * there is.  A job that wants more GPUs than there are gets all of them; both are counted, and said
 * to the user.
 */
#include "base/rand.h"
#include "simulate/sim.h"
#include <math.h>

int sim_trace_cut(struct sim_trace *t, size_t first, size_t count, struct err *e)
{
    if (first >= t->jobs.n)
        return err_set(e, ERR_INVALID,
                       "the trace has %zu jobs, there is no number %zu; count "
                       "from 0",
                       t->jobs.n, first);
    count = MIN(count, t->jobs.n - first);
    memmove(t->jobs.p, t->jobs.p + first, count * sizeof(*t->jobs.p));
    t->jobs.n = count;
    double start = t->jobs.p[0].arrival_s;
    for (size_t i = 0; i < count; i++) {
        struct sim_job *j = &t->jobs.p[i];
        j->arrival_s -= start;
        j->deadline_s = j->deadline_s > start ? j->deadline_s - start : 0;
    }
    return 0;
}

void sim_trace_load(struct sim_trace *t, int32_t gpus, double load)
{
    double work = 0, last = t->jobs.p[t->jobs.n - 1].arrival_s;

    for (size_t i = 0; i < t->jobs.n; i++)
        work += t->jobs.p[i].isolated_s * MIN(t->jobs.p[i].gpus, gpus);
    if (last <= 0)
        return;
    double stretch = work / (load * gpus) / last;
    for (size_t i = 0; i < t->jobs.n; i++) {
        struct sim_job *j = &t->jobs.p[i];
        double slack = j->deadline_s - j->arrival_s; /* what it had from its arrival on, it keeps */
        j->arrival_s *= stretch;
        if (j->deadline_s > 0)
            j->deadline_s = j->arrival_s + slack;
    }
}

/* The largest count up to n that some type of the table has; 0 = none. */
static int32_t count_below(const struct sim_table *table, int32_t n)
{
    int32_t best = 0;

    for (int i = 0; i < table->n_counts; i++)
        if (table->counts[i] <= n)
            best = table->counts[i];
    return best;
}

/* A type by chance among those that run on j->gpus devices. */
static int32_t draw_type(const struct sim_table *table, int32_t n, struct rng *rng)
{
    uint64_t fit = 0;

    for (size_t i = 0; i < table->types.n; i++)
        fit += sim_table_rate(table, (uint32_t)i, n, SIM_ALONE) > 0;
    uint64_t pick = rng_below(rng, MAX(fit, (uint64_t)1));
    for (size_t i = 0; i < table->types.n; i++)
        if (sim_table_rate(table, (uint32_t)i, n, SIM_ALONE) > 0 && pick-- == 0)
            return (int32_t)i;
    return -1;
}

static int bind_log(struct sim_trace *t, struct sim_job *j, const struct sim_table *table,
                    int32_t gpus, struct rng *rng, const char *name, struct err *e)
{
    int32_t asked = j->gpus;

    j->gpus = MIN(j->gpus, gpus);
    if (table) {
        j->gpus = count_below(table, j->gpus);
        j->type = j->gpus ? draw_type(table, j->gpus, rng) : -1;
        if (j->type < 0)
            return err_set(e, ERR_INVALID,
                           "%s:%u:%u: no type of the table runs on %d GPUs or "
                           "fewer; add a count to the table or leave it out",
                           name, j->line, j->col, asked);
    }
    t->clipped += j->gpus != asked;
    return 0;
}

/* The job's type in the table. */
static int bind_type(const struct sim_trace *t, struct sim_job *j, const int32_t *map,
                     const struct sim_table *table, struct rng *rng, const char *name,
                     struct err *e)
{
    const char *type = t->types.p[j->type];

    if (!t->typed) {
        j->type = draw_type(table, j->gpus, rng);
        return j->type >= 0 ? 0
                            : err_set(e, ERR_INVALID,
                                      "%s:%u:%u: no type of the table runs on %d "
                                      "GPUs; add one or change the count",
                                      name, j->line, j->col, j->gpus);
    }
    if (map[j->type] < 0) {
        const char *near = str_nearest(type, table->types.p, table->types.n);
        return err_set(e, ERR_INVALID, "%s:%u: column type: \"%s\" is not in the table%s%s%s", name,
                       j->line, type, near ? "; did you mean \"" : "", near ? near : "",
                       near ? "\"?" : "; add it there");
    }
    j->type = map[j->type];
    if (sim_table_rate(table, (uint32_t)j->type, j->gpus, SIM_ALONE) <= 0)
        return err_set(e, ERR_INVALID,
                       "%s:%u:%u: column gpus: the table has no rate of \"%s\" on "
                       "%d GPUs; add it or change the count",
                       name, j->line, j->col, type, j->gpus);
    return 0;
}

/* Our own layout is never changed silently: what does not fit is an error. */
static int bind_own(const struct sim_trace *t, struct sim_job *j, const int32_t *map,
                    const struct sim_table *table, int32_t gpus, struct rng *rng, const char *name,
                    struct err *e)
{
    if (j->gpus > gpus)
        return err_set(e, ERR_INVALID,
                       "%s:%u:%u: column gpus: job %s wants %d GPUs and there are "
                       "%d; raise --gpus",
                       name, j->line, j->col, j->name, j->gpus, gpus);
    return table ? bind_type(t, j, map, table, rng, name, e) : 0;
}

int sim_trace_bind(struct sim_trace *t, const struct sim_table *table, int32_t gpus, uint64_t seed,
                   const char *name, struct err *e)
{
    AUTO_FREE int32_t *map = xcalloc(t->types.n + 1, sizeof(*map));
    struct rng rng;

    rng_seed(&rng, seed);
    for (size_t i = 0; table && i < t->types.n; i++)
        map[i] = sim_table_find(table, t->types.p[i]);
    for (size_t i = 0; i < t->jobs.n; i++) {
        struct sim_job *j = &t->jobs.p[i];
        int rc = t->log ? bind_log(t, j, table, gpus, &rng, name, e)
                        : bind_own(t, j, map, table, gpus, &rng, name, e);
        if (rc < 0)
            return -1;
        /* Steps are derived from the run time; without a table one step is one second. */
        if (j->steps <= 0)
            j->steps = j->isolated_s *
                       (table ? sim_table_rate(table, (uint32_t)j->type, j->gpus, SIM_ALONE) : 1);
    }
    return 0;
}
