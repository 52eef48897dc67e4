/* study_def.c - the definition of a study: read, compared
 *
 * Owns: the words in which a bad definition is refused; each names the member.
 */
#include "core/study_priv.h"
#include "tune/pbt.h"
#include <stdio.h>

enum { PARALLEL_MAX = 10000, TRIALS_LIMIT_MAX = 100000000 };

static int whole_number(const struct json *def, const char *key, int64_t low, int64_t high,
                        int64_t fallback, int64_t *out, struct err *e)
{
    const struct json *v = json_get(def, key);

    *out = fallback;
    if (!v || json_type(v) == JSON_NULL)
        return 0;
    if (json_type(v) != JSON_INT || json_int(v) < low || json_int(v) > high)
        return err_set(e, ERR_INVALID, "%s: must be a whole number from %lld to %lld", key,
                       (long long)low, (long long)high);
    *out = json_int(v);
    return 0;
}

static bool goal_read(const struct json *o, struct study_goal *out)
{
    struct str low = json_get_str(o, "minimize"), high = json_get_str(o, "maximize");

    *out = (struct study_goal){high.n ? high : low, high.n > 0};
    return json_type(o) == JSON_OBJECT && json_len(o) == 1 && out->metric.n;
}

/* A metric, or a list of them. */
static int objective_read(const struct json *def, struct study_rules *r, struct err *e)
{
    const struct json *o = json_get(def, "objective");
    bool list = json_type(o) == JSON_ARRAY;

    r->n_goals = list ? json_len(o) : 1;
    if (r->n_goals < 1 || r->n_goals > TUNE_OBJECTIVES_MAX)
        return err_set(e, ERR_INVALID, "objective: give 1 to %d metrics, not %zu",
                       TUNE_OBJECTIVES_MAX, r->n_goals);
    for (size_t i = 0; i < r->n_goals; i++) {
        if (!goal_read(list ? json_at(o, i) : o, &r->goals[i]))
            return err_set(e, ERR_INVALID,
                           "objective: give one metric: {\"minimize\": \"loss\"} or {\"maximize\": "
                           "\"acc\"}, or a list of such");
        for (size_t k = 0; k < i; k++)
            if (str_eq(r->goals[i].metric, r->goals[k].metric))
                return err_set(e, ERR_INVALID, "objective: " STR_FMT " is named twice",
                               STR_ARG(r->goals[i].metric));
    }
    return 0;
}

int study_check_goals(const struct study *from, const struct json *def, struct err *e)
{
    struct study_rules r = {0};

    if (objective_read(def, &r, e) < 0)
        return -1;
    if (str_eq_c(json_get_str(def, "engine"), "pbt"))
        return err_set(
            e, ERR_INVALID,
            "from: trials of pbt continue their parents, which another study lacks; leave "
            "from out");
    if (r.n_goals != from->rules.n_goals)
        return err_set(e, ERR_INVALID,
                       "from: study %.80s has %zu objectives, not %zu; name one with as many",
                       from->name, from->rules.n_goals, r.n_goals);
    return 0;
}

/* Settings of the engine pbt, and what does not go together with it. */
static int pbt_read(const struct json *def, const struct study_rules *r, struct tune_pbt_conf *out,
                    struct err *e)
{
    const struct json *set = json_get(def, "pbt");
    bool pbt = str_eq_c(json_get_str(def, "engine"), "pbt");

    if (!pbt && set)
        return err_set(e, ERR_INVALID, "pbt: needs engine: pbt");
    if (tune_pbt_parse(set, out, e) < 0)
        return -1;
    if (!json_has(set, "interval"))
        out->interval = 1;
    if (pbt && json_get(def, "stop"))
        return err_set(e, ERR_INVALID, "stop: the engine pbt judges trials itself; leave stop out");
    if (pbt && r->parallel > out->population)
        return err_set(e, ERR_INVALID,
                       "parallel: the population has %lld members, and each has one trial at a "
                       "time; raise pbt.population",
                       (long long)out->population);
    return 0;
}

int study_rules_read(const struct json *def, struct study_rules *out, struct err *e)
{
    struct study_rules r = {0};
    struct tune_pbt_conf pbt = {0};
    struct str take = json_get_str(def, "take");
    int64_t parallel = 1;

    if (objective_read(def, &r, e) < 0 ||
        whole_number(def, "trials", 1, TRIALS_LIMIT_MAX, -1, &r.trials, e) < 0 ||
        whole_number(def, "warm", 0, TRIALS_LIMIT_MAX, 0, &r.warm, e) < 0 ||
        whole_number(def, "parallel", 1, PARALLEL_MAX, 1, &parallel, e) < 0)
        return -1;
    if (take.n && !str_eq_c(take, "last") && !str_eq_c(take, "best"))
        return err_set(e, ERR_INVALID, "take: must be \"last\" or \"best\", the value that counts");
    r.take_best = str_eq_c(take, "best");
    if (r.take_best && r.n_goals > 1)
        return err_set(e, ERR_INVALID,
                       "take: of several objectives the last values count; leave take out");
    r.parallel = (int32_t)parallel;
    r.has_job = json_has(def, "job");
    if (pbt_read(def, &r, &pbt, e) < 0)
        return -1;
    *out = r;
    return 0;
}

int study_engine_new(const struct json *def, struct tune_study **out, struct err *e)
{
    struct study_rules r;
    struct tune_space *space = NULL;
    bool maximize[TUNE_OBJECTIVES_MAX];
    struct tune_pbt_conf pbt = {0};
    struct str engine = json_get_str(def, "engine");
    char name[40];
    int64_t seed;

    if (study_rules_read(def, &r, e) < 0 ||
        whole_number(def, "seed", 0, INT64_C(1) << 53, 0, &seed, e) < 0 ||
        pbt_read(def, &r, &pbt, e) < 0 ||
        tune_space_from_short_rules(json_get(def, "space"), json_get(def, "constraints"), &space,
                                    e) < 0)
        return -1;
    snprintf(name, sizeof(name), STR_FMT, STR_ARG(engine));
    for (size_t i = 0; i < r.n_goals; i++)
        maximize[i] = r.goals[i].maximize;
    return tune_study_new(space,
                          &(struct tune_conf){.engine = engine.n ? name : NULL,
                                              .seed = (uint64_t)seed,
                                              .maximize = maximize[0],
                                              .budget = r.trials,
                                              .objectives = r.n_goals,
                                              .maximize_each = maximize,
                                              .pbt = &pbt},
                          out, e);
}

/* A job without its environment: each sealing of the same secret gives other bytes, and a shell has
 * other variables each time. */
static struct json *job_without_env(const struct json *job)
{
    struct json *copy = json_copy(job);

    json_del(copy, "env");
    json_del(copy, "sealed");
    return copy;
}

/* The same, but for what people change later and what the core has added. */
bool study_def_same(const struct json *old, const struct json *def)
{
    static const char *const keys[] = {"space",     "constraints", "engine", "seed",
                                       "objective", "take",        "stop",   "pbt"};
    const struct json *job = json_get(old, "job"), *new = json_get(def, "job");

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const struct json *a = json_get(old, keys[i]), *b = json_get(def, keys[i]);
        if ((a || b) && !(a && b && json_equal(a, b)))
            return false;
    }
    if (!job || !new)
        return !job && !new;
    AUTO(json) struct json *a = job_without_env(job), *b = job_without_env(new);
    return json_equal(a, b);
}
