/* test_linear.c - triangles against plain sums, the minimiser, and the Gaussian process's gradients
 */
#include "case.h"
#include "tune/gp_model.h"

enum { N = 37, D = 3 };

static double k_of(size_t i, size_t j)
{
    double t = (double)i - (double)j;

    return exp(-t * t / 8) + (i == j ? 0.1 : 0);
}

static void a_triangle_solves(void **state UNUSED)
{
    struct triangle t = {xcalloc(N * (N + 1) / 2, sizeof(double)), 0, N};
    double row[N], x[N], b[N];

    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j <= i; j++)
            row[j] = k_of(i, j);
        triangle_append(&t, row, 1e-12);
        x[i] = sin((double)i);
    }
    for (size_t i = 0; i < N; i++) {
        b[i] = 0;
        for (size_t j = 0; j < N; j++)
            b[i] += k_of(i, j) * x[j];
    }
    triangle_forward(&t, b);
    triangle_back(&t, b);
    for (size_t i = 0; i < N; i++)
        assert_true(fabs(b[i] - x[i]) < 1e-9);
    free(t.rows);
}

static double curved(void *ctx, const double *x, double *grad)
{
    double a = x[1] - x[0] * x[0], b = 1 - x[0];

    ++*(int *)ctx;
    grad[0] = -400 * a * x[0] - 2 * b;
    grad[1] = 200 * a;
    return 100 * a * a + b * b;
}

static void the_minimiser_follows_a_valley(void **state UNUSED)
{
    struct arena mem = {0};
    const double lo[2] = {-2, -2}, hi[2] = {2, 2}, low[2] = {-2, -2}, cut[2] = {0.5, 2};
    double x[2] = {-1.2, 1};
    int calls = 0;

    assert_true(linear_minimize(curved, &calls, x, lo, hi, 2, 200, &mem) < 1e-8);
    assert_true(fabs(x[0] - 1) < 1e-3 && calls <= 200);
    x[0] = -1.2;
    x[1] = 1;
    calls = 0;
    linear_minimize(curved, &calls, x, low, cut, 2, 200, &mem); /* the bound holds the best */
    assert_true(fabs(x[0] - 0.5) < 1e-6 && fabs(x[1] - 0.25) < 1e-3);
    x[0] = -1.2;
    x[1] = 1;
    calls = 0;
    linear_minimize(curved, &calls, x, lo, hi, 2, 7, &mem);
    assert_true(calls <= 7);
    arena_done(&mem);
}

/* Points in a cube, the third coordinate a choice of three. */
static void sample(double *x, double *y)
{
    struct rng r;

    rng_seed(&r, 3);
    for (size_t i = 0; i < N; i++) {
        x[i * D] = rng_unit(&r);
        x[i * D + 1] = rng_unit(&r);
        x[i * D + 2] = (double)rng_below(&r, 3);
        y[i] = sin(3 * x[i * D]) + x[i * D + 1] * 0.3 + (x[i * D + 2] == 1 ? 0.5 : 0);
    }
}

static void model_of(struct gp_model *m, const struct gp_kernel *k, const double *x,
                     const double *y, struct arena *mem)
{
    gp_model_init(m, k, N, mem);
    m->x = x;
    m->l = (struct triangle){arena_alloc(mem, N * (N + 1) / 2 * sizeof(double)), 0, N};
    for (size_t i = 0; i < N; i++) {
        gp_model_row(m, x + i * D, i, m->row, m->slope);
        m->row[i] = m->scale + m->noise;
        triangle_append(&m->l, m->row, 1e-10);
    }
    memcpy(m->alpha, y, N * sizeof(double));
    triangle_forward(&m->l, m->alpha);
    triangle_back(&m->l, m->alpha);
}

static void a_process_passes_through_its_points(void **state UNUSED)
{
    static const bool choice[D] = {false, false, true};
    double weight[D], x[N * D], y[N], mean, sd, grad[2 * D];
    struct gp_kernel k = {.d = D, .choice = choice, .log_weight = weight};
    struct arena mem = {0};
    struct gp_model m;

    sample(x, y);
    gp_kernel_reset(&k);
    gp_kernel_fit(&k, x, y, N, 40, &mem);
    assert_true(k.log_weight[0] > k.log_weight[1]); /* the first coordinate bends more */
    model_of(&m, &k, x, y, &mem);
    for (size_t i = 0; i < N; i++) {
        gp_model_at(&m, x + i * D, &mean, &sd, NULL);
        assert_true(fabs(mean - y[i]) < 0.01 && sd < 0.05);
    }
    /* Gradients against differences. */
    double at[D] = {0.4, 0.6, 1}, up, down, su, sn;
    gp_model_at(&m, at, &mean, &sd, grad);
    for (size_t j = 0; j < 2; j++) {
        at[j] += 1e-5;
        gp_model_at(&m, at, &up, &su, NULL);
        at[j] -= 2e-5;
        gp_model_at(&m, at, &down, &sn, NULL);
        at[j] += 1e-5;
        assert_true(fabs((up - down) / 2e-5 - grad[j]) < 1e-4 * (1 + fabs(grad[j])));
        assert_true(fabs((su - sn) / 2e-5 - grad[D + j]) < 1e-3 * (1 + fabs(grad[D + j])));
    }
    assert_true(grad[2] == 0);
    arena_done(&mem);
}

/* Results with a long tail are pulled in, in their order; plain ones stay plain. */
static void long_tails_are_pulled_in(void **state UNUSED)
{
    struct arena mem = {0};
    struct gp_warp w;
    double tail[N], plain[N], last = -INFINITY;

    for (size_t i = 0; i < N; i++) {
        tail[i] = exp((double)i / 3);
        plain[i] = (double)i - 20;
    }
    gp_warp_fit(&w, -1, tail, N, &mem);
    assert_true(w.power < 0.5);
    for (size_t i = 0; i < N; i++) {
        double v = gp_warp_value(&w, tail[i]);
        assert_true(v > last && fabs(v) < 4);
        last = v;
    }
    gp_warp_fit(&w, -1, plain, N, &mem);
    assert_true(w.power >= 0.5);
    gp_warp_fit(&w, 0, plain, N, &mem); /* a power that was chosen before stays */
    assert_true(w.power == 0);
    for (size_t i = 0; i < N; i++)
        plain[i] = 7;
    gp_warp_fit(&w, -1, plain, N, &mem); /* all alike */
    assert_true(isfinite(gp_warp_value(&w, 7)));
    arena_done(&mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_triangle_solves),
        cmocka_unit_test(the_minimiser_follows_a_valley),
        cmocka_unit_test(a_process_passes_through_its_points),
        cmocka_unit_test(long_tails_are_pulled_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
