/* tune_problems.c - how good are the engines of src/tune?  Own problems of every class
 *
 *   tune_problems ENGINE [SEEDS [TRIALS [PROBLEM]]]      median regret at a quarter and at the end
 *
 * Engines may be tuned upon the problems without a mark; those marked "held" are for judging only.
 * Two to twenty dimensions, rotated, with many basins, noisy, of categories, conditional.
 */
#include "base/json.h"
#include "base/rand.h"
#include "base/util.h"
#include "tune/study.h"
#include <math.h>
#include <string.h>
#include <time.h>

enum { DIMS_MAX = 20, SEEDS_MAX = 50 };
struct tune_problem;
typedef double problem_fn(const struct tune_problem *p, const double *x, size_t n,
                          struct rng *noise);
struct tune_problem {
    const char *name;
    problem_fn *fn;
    size_t dim; /* floats x0 … of low … high, unless `space` says otherwise */
    double low, high;
    bool rotated, held;
    const char *space;
};

/* An orthogonal matrix and an optimum that are the same in every run. */
static void turned(const struct tune_problem *p, const double *x, size_t n, double *out)
{
    struct rng r;
    double q[DIMS_MAX][DIMS_MAX], z[DIMS_MAX];

    rng_seed(&r, 77 + n);
    for (size_t i = 0; i < n; i++)
        z[i] = x[i] - (p->low + (p->high - p->low) * (0.25 + 0.5 * rng_unit(&r)));
    memcpy(out, z, n * sizeof(double));
    if (!p->rotated)
        return;
    for (size_t i = 0; i < n; i++) {
        double norm = 0;
        for (size_t k = 0; k < n; k++)
            q[i][k] = rng_unit(&r) - 0.5;
        for (size_t j = 0; j < i; j++) {
            double dot = 0;
            for (size_t k = 0; k < n; k++)
                dot += q[i][k] * q[j][k];
            for (size_t k = 0; k < n; k++)
                q[i][k] -= dot * q[j][k];
        }
        for (size_t k = 0; k < n; k++)
            norm += q[i][k] * q[i][k];
        out[i] = 0;
        for (size_t k = 0; k < n; k++)
            out[i] += (q[i][k] /= sqrt(norm)) * z[k];
    }
}

static double ellipsoid(const struct tune_problem *p, const double *x, size_t n,
                        struct rng *noise UNUSED)
{
    double z[DIMS_MAX], sum = 0;

    turned(p, x, n, z);
    for (size_t i = 0; i < n; i++)
        sum += pow(100, (double)i / (double)(n - 1)) * z[i] * z[i];
    return sum;
}

static double noisy_bowl(const struct tune_problem *p, const double *x, size_t n, struct rng *noise)
{
    double z[DIMS_MAX], sum = 0;

    turned(p, x, n, z);
    for (size_t i = 0; i < n; i++)
        sum += z[i] * z[i];
    return sum * (1 + 0.1 * (rng_unit(noise) - 0.5));
}

static double waves(const struct tune_problem *p, const double *x, size_t n,
                    struct rng *noise UNUSED)
{
    double z[DIMS_MAX], sum = 0;

    turned(p, x, n, z);
    for (size_t i = 0; i < n; i++)
        sum += z[i] * z[i] + 3 * (1 - cos(2 * z[i]));
    return sum;
}

static double griewank(const struct tune_problem *p, const double *x, size_t n,
                       struct rng *noise UNUSED)
{
    double z[DIMS_MAX], sum = 0, prod = 1;

    turned(p, x, n, z);
    for (size_t i = 0; i < n; i++) {
        sum += z[i] * z[i] / 400;
        prod *= cos(z[i] / sqrt((double)i + 1));
    }
    return sum - prod + 1;
}

static double valley(const struct tune_problem *p, const double *x, size_t n,
                     struct rng *noise UNUSED)
{
    double z[DIMS_MAX], sum = 0;

    turned(p, x, n, z);
    for (size_t i = 0; i + 1 < n; i++) {
        double a = z[i + 1] + 1 - (z[i] + 1) * (z[i] + 1);
        sum += 20 * a * a + z[i] * z[i];
    }
    return sum;
}

static double funnel(const struct tune_problem *p, const double *x, size_t n,
                     struct rng *noise UNUSED)
{
    double z[DIMS_MAX], sum = 0, cs = 0;

    turned(p, x, n, z);
    for (size_t i = 0; i < n; i++) {
        sum += z[i] * z[i];
        cs += cos(3 * z[i]);
    }
    return 10 * (1 - exp(-0.3 * sqrt(sum / (double)n))) + 1 - cs / (double)n;
}

/* A sum of bells of different height and width: the highest is narrow. */
static double bells(const struct tune_problem *p, const double *x, size_t n,
                    struct rng *noise UNUSED)
{
    struct rng r;
    double best = 0;

    rng_seed(&r, 5 + n);
    for (int b = 0; b < 6; b++) {
        double d = 0, width = 0.15 + 0.06 * b, height = b ? 0.9 - 0.08 * b : 1;
        for (size_t i = 0; i < n; i++) {
            double c = 0.15 + 0.7 * rng_unit(&r), u = (x[i] - p->low) / (p->high - p->low);
            d += (u - c) * (u - c);
        }
        best = fmax(best, height * exp(-d / (2 * width * width)));
    }
    return 1 - best;
}

/* Categories: a table with two interacting columns and a number whose best value depends. */
static double table(const struct tune_problem *p UNUSED, const double *x, size_t n UNUSED,
                    struct rng *noise UNUSED)
{
    static const double t[5][4] = {
        {.6, .8, .5, .9}, {.4, .7, .3, .6}, {.9, .0, .8, .7}, {.5, .6, .2, .9}, {.35, .5, .25, .8}};
    double best = 0.2 + 0.15 * x[0];

    return t[(int)x[0]][(int)x[1]] + (x[2] - best) * (x[2] - best) * 3 + 0.1 * fabs(x[3] - 5) / 5 +
           (x[0] == 2 ? 0.5 * fabs(x[4] - 0.7) : 0.3 * x[4]);
}

/* A tree: the good branch looks bad until three of its parameters are right. */
static double tree(const struct tune_problem *p UNUSED, const double *x, size_t n UNUSED,
                   struct rng *noise UNUSED)
{
    double base = (x[1] - 0.3) * (x[1] - 0.3);

    if (x[0] == 0)
        return base + 0.15 + 0.1 * fabs(x[2] - 0.6);
    if (x[0] == 1)
        return base + 0.25 + 0.2 * (x[3] + 2) * (x[3] + 2) / 4;
    if (x[0] == 2)
        return base + 0.3 + 0.05 * fabs(x[4] - 3);
    return base + 1.2 * (x[5] - 0.2) * (x[5] - 0.2) + 0.8 * (x[6] - 0.8) * (x[6] - 0.8) +
           0.2 * fabs(x[7] - 6);
}

static const char table_space[] = "[{\"name\":\"a\",\"type\":\"cat\",\"choices\":[0,1,2,3,4]},"
                                  "{\"name\":\"b\",\"type\":\"cat\",\"choices\":[0,1,2,3]},"
                                  "{\"name\":\"x\",\"type\":\"float\",\"low\":0,\"high\":1},"
                                  "{\"name\":\"i\",\"type\":\"int\",\"low\":1,\"high\":16},"
                                  "{\"name\":\"y\",\"type\":\"float\",\"low\":0,\"high\":1}]";
static const char tree_space[] =
    "[{\"name\":\"k\",\"type\":\"cat\",\"choices\":[0,1,2,3]},"
    "{\"name\":\"s\",\"type\":\"float\",\"low\":0,\"high\":1},"
    "{\"name\":\"p\",\"type\":\"float\",\"low\":0,\"high\":1,\"when\":{\"k\":[0]}},"
    "{\"name\":\"q\",\"type\":\"float\",\"low\":-4,\"high\":4,\"when\":{\"k\":[1]}},"
    "{\"name\":\"i\",\"type\":\"int\",\"low\":1,\"high\":9,\"when\":{\"k\":[2]}},"
    "{\"name\":\"u\",\"type\":\"float\",\"low\":0,\"high\":1,\"when\":{\"k\":[3]}},"
    "{\"name\":\"v\",\"type\":\"float\",\"low\":0,\"high\":1,\"when\":{\"k\":[3]}},"
    "{\"name\":\"w\",\"type\":\"int\",\"low\":1,\"high\":10,\"when\":{\"k\":[3]}}]";

static const struct tune_problem problems[] = {
    {"ellipsoid4", ellipsoid, 4, -3, 5, true, false, NULL},
    {"valley3", valley, 3, -3, 3, false, false, NULL},
    {"waves2", waves, 2, -6, 6, false, false, NULL},
    {"waves4r", waves, 4, -6, 6, true, false, NULL},
    {"griewank6", griewank, 6, -20, 20, false, false, NULL},
    {"funnel8", funnel, 8, -8, 8, true, false, NULL},
    {"bells3", bells, 3, 0, 1, false, false, NULL},
    {"noisy6", noisy_bowl, 6, -4, 4, false, false, NULL},
    {"ellipsoid12", ellipsoid, 12, -3, 5, true, false, NULL},
    {"table", table, 5, 0, 0, false, false, table_space},
    {"tree", tree, 8, 0, 0, false, false, tree_space},
    {"ellipsoid20", ellipsoid, 20, -3, 5, false, true, NULL},
    {"valley6r", valley, 6, -2, 2, true, true, NULL},
    {"waves5", waves, 5, -5, 7, false, true, NULL},
    {"griewank3r", griewank, 3, -30, 30, true, true, NULL},
    {"funnel4", funnel, 4, -10, 10, false, true, NULL},
    {"bells5", bells, 5, 0, 1, false, true, NULL},
    {"noisy10r", noisy_bowl, 10, -4, 4, true, true, NULL},
};

static struct tune_space *problem_space(const struct tune_problem *p)
{
    struct buf b = {0};
    struct json *j = NULL;
    struct tune_space *s = NULL;
    struct err e = {0};

    if (p->space)
        buf_adds(&b, p->space);
    for (size_t i = 0; i < p->dim && !p->space; i++)
        buf_addf(&b, "%s{\"name\":\"x%zu\",\"type\":\"float\",\"low\":%g,\"high\":%g}%s",
                 i ? "," : "[", i, p->low, p->high, i + 1 < p->dim ? "" : "]");
    if (json_parse(buf_str(&b), p->name, &j, &e) < 0 || tune_space_parse(j, NULL, &s, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    json_free(j);
    buf_done(&b);
    return s;
}

/* Best true value after a quarter of the trials and at the end. */
static void run_one(const struct tune_problem *p, const char *engine, uint64_t seed, int trials,
                    double *at_quarter, double *at_end)
{
    struct tune_conf conf = {.engine = engine, .seed = seed, .budget = trials};
    struct tune_study *s = NULL;
    struct err e = {0};
    struct rng noise;
    double best = INFINITY;

    rng_seed(&noise, seed + 1000);
    if (tune_study_new(problem_space(p), &conf, &s, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    for (int t = 1; t <= trials; t++) {
        const struct tune_space *space = tune_study_space(s);
        const double *code;
        double x[DIMS_MAX];
        int64_t id;
        if (tune_study_ask(s, &id, &code, &e) < 0)
            break;
        for (size_t i = 0; i < space->n; i++)
            x[i] = space->dims[i].choices || isnan(code[i])
                       ? code[i]
                       : tune_dim_value(&space->dims[i], code[i]);
        double v = p->fn(p, x, space->n, &noise);
        tune_study_tell(s, id, TUNE_DONE, v, &e);
        best = fmin(best, v);
        if (t == trials / 4)
            *at_quarter = best;
    }
    *at_end = best;
    tune_study_free(s);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int seeds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 10,
        trials = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 200;

    for (size_t i = 0; i < ARRAY_SIZE(problems); i++) {
        double quarter[SEEDS_MAX], end[SEEDS_MAX];
        if (argc > 4 && strcmp(argv[4], problems[i].name) &&
            strcmp(argv[4], problems[i].held ? "held" : "open"))
            continue;
        clock_t began = clock();
        for (int k = 0; k < seeds; k++)
            run_one(&problems[i], argv[1], (uint64_t)k + 100, trials, &quarter[k], &end[k]);
        double ms = 1000.0 * (double)(clock() - began) / CLOCKS_PER_SEC / seeds / trials;
        qsort(quarter, (size_t)seeds, sizeof(double), by_value);
        qsort(end, (size_t)seeds, sizeof(double), by_value);
        printf("%-12s %10.4g %10.4g   quartiles %.4g %.4g  %.3f ms%s\n", problems[i].name,
               quarter[seeds / 2], end[seeds / 2], end[seeds / 4], end[seeds * 3 / 4], ms,
               problems[i].held ? "  held" : "");
    }
    return 0;
}
