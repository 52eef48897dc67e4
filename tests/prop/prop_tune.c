/* prop_tune.c - random spaces: points come back from their JSON, engines propose legal points only,
 * finite spaces are used up exactly once */
#include "base/json.h"
#include "base/util.h"
#include "prop.h"
#include "tune/pbt.h"
#include "tune/stop.h"
#include "tune/study.h"
#include <math.h>

enum { DIMS = 6 };

/* A space of up to six parameters, with conditions upon earlier choices. */
static struct tune_space *any_space(struct prop *p, bool finite)
{
    struct json *list = json_new_array();
    struct buf b = {0};
    struct tune_space *s = NULL;
    size_t n = 1 + prop_size(p, DIMS - 1);

    buf_adds(&b, "[");
    for (size_t i = 0; i < n; i++) {
        int kind = (int)prop_choice(p, finite ? 2 : 5);
        int64_t low = prop_int(p, -20, 20), span = prop_int(p, 0, finite ? 4 : 1000);
        buf_addf(&b, "%s{\"name\":\"p%zu\",", i ? "," : "", i);
        if (kind == 0)
            buf_addf(&b, "\"type\":\"cat\",\"choices\":[\"a\",\"b\",3]");
        else if (kind == 1)
            buf_addf(&b, "\"type\":\"int\",\"low\":%lld,\"high\":%lld", (long long)low,
                     (long long)(low + span));
        else if (kind == 2)
            buf_addf(&b, "\"type\":\"ordinal\",\"choices\":[1,2]");
        else if (kind == 3)
            buf_addf(&b, "\"type\":\"float\",\"low\":%g,\"high\":%g", (double)low * 0.37,
                     (double)low * 0.37 + (double)span / 7);
        else if (kind == 4)
            buf_addf(&b, "\"type\":\"expr\",\"value\":\"%lld - 2 ** uniform(%lld, %lld)\"",
                     (long long)low, (long long)low / 2, (long long)low / 2 + 1);
        else
            buf_addf(&b, "\"type\":\"float\",\"low\":%g,\"high\":%g,\"log\":true", exp((double)low),
                     exp((double)low) * (1 + (double)span));
        if (i > 0 && prop_bool(p)) { /* on the first choice before it, if there is one */
            struct err e;
            struct json *j = NULL;
            AUTO_FREE char *so_far = xasprintf("%s}]", b.p);
            if (json_parse(str_of(so_far), "s", &j, &e) == 0)
                for (size_t k = 0; k < i; k++)
                    if (json_get(json_at(j, k), "choices")) {
                        buf_addf(&b, ",\"when\":{\"p%zu\":[%s]}", k,
                                 str_eq_c(json_get_str(json_at(j, k), "type"), "cat") ? "\"a\",3"
                                                                                      : "2");
                        break;
                    }
            json_free(j);
        }
        buf_adds(&b, "}");
    }
    buf_adds(&b, "]");
    struct err e = {0};
    json_free(list);
    list = NULL;
    if (json_parse(buf_str(&b), "space", &list, &e) < 0 || tune_space_parse(list, NULL, &s, &e) < 0)
        prop_check(p, false, "%s: %s", b.p, e.text);
    prop_note(p, "%s", b.p);
    json_free(list);
    buf_done(&b);
    return s;
}

static bool same_codes(const double *a, const double *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

/* The point as JSON and back: bit by bit what the study keeps, and legal. */
static bool point_back(struct prop *p, const struct tune_space *s, const double *code)
{
    struct buf b = {0};
    struct json *j = NULL;
    struct err e = {0};
    double *back = arena_alloc(prop_arena(p), s->n * sizeof(double));

    double *kept = arena_alloc(prop_arena(p), s->n * sizeof(double));
    memcpy(kept, code, s->n * sizeof(double));
    tune_space_canonical(s, kept);
    tune_space_write(s, code, NULL, &b);
    bool ok = json_parse(buf_str(&b), "p", &j, &e) == 0 && tune_space_read(s, j, back, &e) == 0;
    prop_check(p, ok, "%s: %s", b.p, e.text);
    ok = ok && prop_check(p, same_codes(kept, back, s->n), "%s changed", b.p);
    json_free(j);
    buf_done(&b);
    return ok;
}

static bool proposals_are_legal(struct prop *p, void *ctx)
{
    struct tune_space *space = any_space(p, false);
    struct tune_conf conf = {.engine = ctx, .seed = prop_u64(p), .budget = 30};
    struct tune_study *s = NULL;
    struct err e = {0};
    const double *code;
    int64_t id;
    bool ok = true;

    if (!space)
        return false;
    if (!prop_check(p, tune_study_new(space, &conf, &s, &e) == 0, "%s", e.text))
        return false;
    for (int i = 0; ok && i < 30 && tune_study_ask(s, &id, &code, &e) == 0; i++) {
        ok = point_back(p, tune_study_space(s), code);
        if (prop_bool(p))
            tune_study_tell(s, id, TUNE_DONE, prop_double(p), &e);
    }
    tune_study_free(s);
    return ok;
}

/* As many trials as counting finds points, and none twice. */
static bool used_up_once(struct prop *p, void *ctx)
{
    struct tune_space *space = any_space(p, true);
    struct tune_conf conf = {.engine = ctx, .seed = prop_u64(p), .budget = -1};
    struct tune_study *s = NULL;
    struct err e = {0};
    const double *code, *other;
    int64_t id;
    size_t want = 0;

    if (!space)
        return false;
    double *at = arena_alloc(prop_arena(p), space->n * sizeof(double));
    for (bool more = tune_space_count_on(space, NULL, at, true); more && want <= 500;
         more = tune_space_count_on(space, NULL, at, false))
        want++;
    tune_study_new(space, &conf, &s, &e);
    bool ok = true;
    while (ok && want <= 500 && tune_study_ask(s, &id, &code, &e) == 0)
        for (int64_t i = 1; ok && i < id; i++) {
            tune_study_get(s, i, &other);
            ok = prop_check(p, !same_codes(code, other, tune_study_space(s)->n),
                            "trials %lld and %lld are equal", (long long)i, (long long)id);
        }
    ok = ok && (want > 500 || prop_check(p, tune_study_count(s) == want, "%zu trials of %zu points",
                                         tune_study_count(s), want));
    tune_study_free(s);
    return ok;
}

/* A layer that was fed the same reports gives the same answers; with max, none at the last step;
 * and turning values and direction around changes nothing. */
static bool stopping_is_replayable(struct prop *p, void *ctx UNUSED)
{
    struct tune_stop_conf conf = {.layers = 1u << prop_choice(p, 3),
                                  .min = prop_int(p, 1, 4),
                                  .max = prop_int(p, 4, 40),
                                  .eta = prop_int(p, 2, 4),
                                  .warmup = prop_int(p, 0, 5),
                                  .startup = prop_int(p, 0, 3),
                                  .patience = prop_int(p, 1, 5)};
    struct tune_stop_conf other = conf;
    other.maximize = true;
    struct tune_stop *a = tune_stop_new(&conf), *b = tune_stop_new(&conf);
    struct tune_stop *c = tune_stop_new(&other);
    int64_t step[8] = {0};
    size_t n = 20 + prop_size(p, 200);
    bool ok = true;

    for (size_t i = 0; ok && i < n; i++) {
        enum tune_verdict va, vb, vc;
        int64_t t = prop_int(p, 0, 7);
        double x = prop_choice(p, 9) ? prop_double(p) : NAN;
        step[t] += prop_int(p, 0, 3);
        tune_stop_report(a, t + 1, step[t], x, &va, NULL);
        tune_stop_report(b, t + 1, step[t], x, &vb, NULL);
        tune_stop_report(c, t + 1, step[t], -x, &vc, NULL);
        ok = prop_check(p, va == vb, "two answers to the same report") &&
             prop_check(p, va == vc, "another answer when turned around") &&
             prop_check(p, (va == TUNE_STOP) == (tune_stop_reason(a, t + 1) != NULL), "no reason");
        if (prop_choice(p, 9) == 0) {
            tune_stop_finished(a, t + 1);
            tune_stop_finished(b, t + 1);
            tune_stop_finished(c, t + 1);
        }
    }
    tune_stop_free(a);
    tune_stop_free(b);
    tune_stop_free(c);
    return ok;
}

/* The front is what a comparison of all pairs finds. */
static bool front_is_exact(struct prop *p, void *ctx)
{
    struct tune_conf conf = {
        .engine = ctx, .seed = 1, .budget = -1, .objectives = 2 + prop_choice(p, 2)};
    struct tune_space *space = any_space(p, false);
    struct tune_study *s = NULL;
    double values[60][4] = {{0}};
    int64_t ids[60] = {0};
    size_t n = 1 + prop_size(p, 59), m = conf.objectives, at = 0, told = 0;
    const double *code;
    int64_t id;
    struct err e = {0};

    if (!space || tune_study_new(space, &conf, &s, &e) < 0)
        return false;
    for (; told < n && tune_study_ask(s, &id, &code, &e) == 0; told++) {
        for (size_t k = 0; k < m; k++)
            values[told][k] = (double)prop_int(p, 0, 6);
        tune_study_tell_many(s, id, TUNE_DONE, values[told], m, &e);
    }
    size_t front = tune_study_front(s, ids, 60);
    bool ok = true;
    for (size_t i = 0; ok && i < told; i++) {
        bool beaten = false;
        for (size_t j = 0; j < told; j++) {
            bool worse = false, better = false;
            for (size_t k = 0; k < m; k++) {
                worse |= values[j][k] > values[i][k];
                better |= values[j][k] < values[i][k];
            }
            beaten |= better && !worse;
        }
        bool listed = at < front && ids[at] == (int64_t)i + 1;
        at += listed;
        ok = prop_check(p, listed == !beaten, "trial %zu", i + 1);
    }
    tune_study_free(s);
    return ok;
}

/* Whatever members report: parameters stay legal, and the same calls get the same answers. */
static bool populations_stay_legal(struct prop *p, void *ctx UNUSED)
{
    struct tune_space *space = any_space(p, false);
    struct tune_pbt_conf conf = {.seed = prop_u64(p),
                                 .interval = prop_int(p, 1, 3),
                                 .share = 0.25,
                                 .resample = 0.3,
                                 .change = 0.2};
    struct rng r;
    int64_t step[5] = {0};
    bool ok = true;

    if (!space)
        return false;
    struct tune_pbt *a = tune_pbt_new(space, &conf), *b = tune_pbt_new(space, &conf);
    double *code = arena_alloc(prop_arena(p), space->n * sizeof(double));
    rng_seed(&r, 1);
    for (int64_t t = 1; t <= 5; t++) {
        tune_space_draw(space, code, &r);
        tune_pbt_join(a, t, code, NULL);
        tune_pbt_join(b, t, code, NULL);
    }
    for (int i = 0; ok && i < 60; i++) {
        struct tune_pbt_step x, y;
        int64_t t = prop_int(p, 0, 4);
        double value = prop_choice(p, 9) ? prop_double(p) : NAN;
        step[t] += prop_int(p, 0, 2);
        tune_pbt_report(a, t + 1, step[t], value, &x, NULL);
        tune_pbt_report(b, t + 1, step[t], value, &y, NULL);
        ok = prop_check(p, x.copy_from == y.copy_from, "two answers to the same report");
        if (ok && x.code)
            ok = point_back(p, space, x.code) &&
                 prop_check(p, same_codes(x.code, y.code, space->n), "other parameters");
    }
    tune_pbt_free(a);
    tune_pbt_free(b);
    tune_space_free(space);
    return ok;
}

int main(void)
{
    static char random[] = "random", sobol[] = "sobol", grid[] = "grid", tpe[] = "tpe", gp[] = "gp",
                cmaes[] = "cmaes", nsga2[] = "nsga2";

    prop_run("random proposes legal points", 300, proposals_are_legal, random);
    prop_run("sobol proposes legal points", 300, proposals_are_legal, sobol);
    prop_run("grid proposes legal points", 300, proposals_are_legal, grid);
    prop_run("tpe proposes legal points", 300, proposals_are_legal, tpe);
    prop_run("gp proposes legal points", 100, proposals_are_legal, gp);
    prop_run("cmaes proposes legal points", 300, proposals_are_legal, cmaes);
    prop_run("nsga2 proposes legal points", 300, proposals_are_legal, nsga2);
    prop_run("the Pareto front is exact, tpe", 100, front_is_exact, tpe);
    prop_run("the Pareto front is exact, nsga2", 100, front_is_exact, nsga2);
    prop_run("random uses a finite space up, each point once", 150, used_up_once, random);
    prop_run("sobol uses a finite space up, each point once", 150, used_up_once, sobol);
    prop_run("grid uses a finite space up, each point once", 150, used_up_once, grid);
    prop_run("stopping layers answer the same reports the same", 300, stopping_is_replayable, NULL);
    prop_run("populations stay legal", 200, populations_stay_legal, NULL);
    return prop_end();
}
