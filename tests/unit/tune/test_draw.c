/* test_draw.c - pictures of a study: what they show, and that names cannot break them */
#include "case.h"
#include "picture.h"
#include "tune/draw.h"
#include "tune/draw_priv.h"

enum { TRIALS = 60 };
#define HOSTILE_SPACE                                                                              \
    "[{\"name\":\"<script>alert(1)</script>\",\"type\":\"float\",\"low\":-1e9,\"high\":1e9},"      \
    "{\"name\":\"\\u001b[2J\\u0007\\u202e\\ufffe\",\"type\":\"cat\",\"choices\":[\"<b>&\\\"'\","   \
    "{\"a\":1},\"\\u4e2d\\u6587\\u4e2d\\u6587\\u4e2d\\u6587\\u4e2d\\u6587\\u4e2d\\u6587\"]},"      \
    "{\"name\":\"%s\",\"type\":\"int\",\"low\":1,\"high\":9}]"

struct drawn {
    struct tune_space *space;
    struct tune_view view;
    double codes[TRIALS * 8], values[TRIALS * 2];
    enum tune_outcome outcomes[TRIALS];
};

/* Random points; the first objective is plain_loss, the second runs against it. */
static void drawn_init(struct drawn *d, const char *items, size_t n)
{
    static const bool maximize[] = {false, true};
    static const char *const names[] = {"loss", "img/s"};
    struct rng r;

    *d = (struct drawn){.space = space_of(items, NULL)};
    rng_seed(&r, 3);
    for (size_t i = 0; i < n; i++) {
        double *code = d->codes + i * d->space->n;
        assert_true(tune_space_draw(d->space, code, &r));
        d->values[2 * i] = plain_loss(d->space, code);
        d->values[2 * i + 1] = 10 * d->values[2 * i] + rng_unit(&r);
        d->outcomes[i] = TUNE_DONE;
    }
    d->view = (struct tune_view){.space = d->space,
                                 .n = n,
                                 .codes = d->codes,
                                 .values = d->values,
                                 .outcomes = d->outcomes,
                                 .n_goals = 2,
                                 .goal_names = names,
                                 .maximize = maximize,
                                 .title = "tabnet"};
}

/* The picture, after the checks that hold for all. */
static void draw_both(const struct tune_view *v, enum tune_picture_kind kind, size_t width,
                      struct buf *svg, struct buf *text)
{
    struct tune_picture p = tune_picture_of(kind);
    struct err e = {0};

    buf_reset(svg);
    buf_reset(text);
    p.width = width;
    assert_int_equal(tune_draw_svg(v, &p, svg, &e), 0);
    if (svg_fault(buf_str(svg)))
        fail_msg("%s: %s", svg_fault(buf_str(svg)), svg->p);
    p.width = width / 8;
    if (kind == TUNE_PARALLEL)
        return;
    assert_int_equal(tune_draw_text(v, &p, text, &e), 0);
    size_t cells = p.width ? (p.width < 24 ? 24 : p.width) : 80;
    if (text_fault(buf_str(text), cells, false))
        fail_msg("%s: %s", text_fault(buf_str(text), cells, false), text->p);
}

static void every_picture_is_whole(void **state UNUSED)
{
    static const size_t counts[] = {0, 1, 2, 3, TRIALS}, widths[] = {0, 100, 300, 1500};
    AUTO(buf) struct buf svg = {0}, text = {0};
    struct drawn d;

    for (size_t n = 0; n < ARRAY_SIZE(counts); n++) {
        drawn_init(&d, MIXED_TREE, counts[n]);
        for (int kind = 0; kind < TUNE_PICTURES; kind++)
            for (size_t w = 0; w < ARRAY_SIZE(widths); w++)
                draw_both(&d.view, (enum tune_picture_kind)kind, widths[w], &svg, &text);
        tune_space_free(d.space);
    }
}

static void names_do_not_become_markup(void **state UNUSED)
{
    AUTO(buf) struct buf svg = {0}, text = {0};
    static const char *const names[] = {"</title><script>", "\033[31m"};
    char name[201];
    struct drawn d;

    memset(name, 'W', 200);
    name[200] = 0;
    AUTO_FREE char *items = xasprintf(HOSTILE_SPACE, name);
    drawn_init(&d, items, 40);
    d.view.goal_names = names;
    d.view.title = "</title><script>\033[2J";
    for (int kind = 0; kind < TUNE_PICTURES; kind++) {
        draw_both(&d.view, (enum tune_picture_kind)kind, 0, &svg, &text);
        assert_null(strstr(svg.p, "<script"));
        assert_non_null(strstr(svg.p, "&#60;script&#62;"));
    }
    tune_space_free(d.space);
}

static void values_of_every_kind_are_drawn(void **state UNUSED)
{
    static const double odd[] = {NAN,    INFINITY, -INFINITY, 1.7e308, -1.7e308,
                                 1e-308, 0,        -0.0,      5e-324,  3};
    AUTO(buf) struct buf svg = {0}, text = {0};
    struct drawn d;

    drawn_init(&d, MIXED_TREE, TRIALS);
    for (size_t first = 0; first < ARRAY_SIZE(odd); first++)
        for (size_t other = 0; other < ARRAY_SIZE(odd); other++) { /* also all equal */
            for (size_t i = 0; i < 2 * TRIALS; i++)
                d.values[i] = odd[i % 7 < 3 ? first : other];
            for (int kind = 0; kind < TUNE_PICTURES; kind++)
                draw_both(&d.view, (enum tune_picture_kind)kind, 0, &svg, &text);
        }
    tune_space_free(d.space);
}

static void history_names_the_best_trial(void **state UNUSED)
{
    AUTO(buf) struct buf svg = {0}, text = {0};
    struct drawn d;

    drawn_init(&d, FIVE_FLOATS, 8);
    for (size_t i = 0; i < 8; i++)
        d.values[2 * i] = 10 + (double)i;
    d.values[2 * 4] = 2.5;
    d.values[2 * 5] = NAN;
    d.outcomes[6] = TUNE_FAILED;
    d.outcomes[7] = TUNE_PENDING;
    draw_both(&d.view, TUNE_HISTORY, 0, &svg, &text);
    const char *want = "Best loss: 2.5, trial 5 of 8, 2 failed, 1 not done";
    assert_non_null(strstr(svg.p, want));
    assert_non_null(strstr(text.p, want));
    /* Of an objective to be maximised, the largest. */
    struct tune_picture p = tune_picture_of(TUNE_HISTORY);
    struct err e;
    p.goal = 1;
    d.values[2 * 2 + 1] = 1e6;
    buf_reset(&text);
    assert_int_equal(tune_draw_text(&d.view, &p, &text, &e), 0);
    assert_non_null(strstr(text.p, "Best img/s: 1e6, trial 3 of 8"));
    tune_space_free(d.space);
}

static void far_values_are_left_out_and_said(void **state UNUSED)
{
    AUTO(buf) struct buf svg = {0}, text = {0};
    struct drawn d;

    drawn_init(&d, FIVE_FLOATS, 40);
    d.values[2 * 10] = 1e30;
    d.values[2 * 20] = 1e40;
    draw_both(&d.view, TUNE_HISTORY, 0, &svg, &text);
    assert_non_null(strstr(svg.p, "2 beyond the upper edge"));
    struct draw_axis a = draw_axis_of(&d.view, 0);
    assert_true(a.hi < 100 && draw_axis_at(&a, 1e30) == 1);
    tune_space_free(d.space);
}

static void losses_of_many_sizes_have_a_log_axis(void **state UNUSED)
{
    struct drawn d;
    struct draw_tick t[DRAW_TICKS];

    drawn_init(&d, FIVE_FLOATS, 40);
    for (size_t i = 0; i < 40; i++)
        d.values[2 * i] = pow(10, -6 + (double)i / 5);
    struct draw_axis a = draw_axis_of(&d.view, 0);
    assert_true(a.log && fabs(draw_axis_at(&a, 1e-2) - 0.51) < 0.02);
    size_t n = draw_axis_ticks(&a, 8, t);
    assert_true(n >= 4 && n <= 8);
    assert_string_equal(t[0].text, "1e-6");
    tune_space_free(d.space);
}

static void the_front_has_what_no_trial_beats(void **state UNUSED)
{
    static const double points[][2] = {{1, 1}, {2, 5}, {3, 4}, {2, 5}, {4, 9}, {0.5, 0}, {5, 9}};
    AUTO_FREE size_t *front = NULL;
    struct drawn d;

    drawn_init(&d, FIVE_FLOATS, ARRAY_SIZE(points));
    memcpy(d.values, points, sizeof(points)); /* less of the first, more of the second */
    assert_int_equal(draw_front(&d.view, 0, 1, &front), 4);
    assert_true(front[0] == 5 && front[1] == 0 && front[2] == 1 && front[3] == 4);
    tune_space_free(d.space);
}

static void pictures_that_cannot_be_say_why(void **state UNUSED)
{
    AUTO(buf) struct buf out = {0};
    struct tune_picture p = tune_picture_of(TUNE_PARETO);
    enum tune_picture_kind kind;
    struct err e = {0};
    struct drawn d;

    drawn_init(&d, "[" UNIT_FLOAT("a") "]", 5);
    p.other = 2;
    assert_int_equal(tune_draw_svg(&d.view, &p, &out, &e), -1);
    assert_string_equal(e.text,
                        "the picture pareto needs objective 3, and the study has 2 objectives");
    p = tune_picture_of(TUNE_CONTOUR);
    assert_int_equal(tune_draw_text(&d.view, &p, &out, &e), -1);
    assert_string_equal(e.text, "a contour needs two parameters, and fewer vary in this study");
    p.x = p.y = 0;
    assert_int_equal(tune_draw_svg(&d.view, &p, &out, &e), -1);
    assert_string_equal(e.text, "a contour needs two different parameters of the study");
    p = tune_picture_of(TUNE_PARALLEL);
    assert_int_equal(tune_draw_text(&d.view, &p, &out, &e), -1);
    assert_string_equal(e.text, "the picture parallel does not fit a terminal; write it as SVG");
    assert_int_equal(out.n, 0);
    assert_true(tune_picture_find(STR("contour"), &kind) && kind == TUNE_CONTOUR);
    assert_false(tune_picture_find(STR("contou"), &kind));
    tune_space_free(d.space);
}

static void labels_are_cut_by_cells(void **state UNUSED)
{
    AUTO(buf) struct buf b = {0};

    draw_clean(&b, STR("momentum"), 8);
    assert_string_equal(b.p, "momentum");
    buf_reset(&b);
    draw_clean(&b, STR("momentum"), 7);
    assert_string_equal(b.p, "moment…");
    buf_reset(&b);
    draw_clean(&b, STR("中文中文"), 7); /* two cells each */
    assert_string_equal(b.p, "中文中…");
    buf_reset(&b);
    draw_clean(&b,
               STR("a\x1b\xff"
                   "b"),
               9);
    assert_string_equal(b.p, "a??b");
}

static struct json *json_of(const char *text)
{
    struct json *j = NULL;
    struct err e = {0};

    if (json_parse(str_of(text), "test", &j, &e) < 0)
        fail_msg("%s", e.text);
    return j;
}

static void answers_of_the_api_become_a_view(void **state UNUSED)
{
    AUTO(json)
    struct json *study =
        json_of("{\"name\":\"s\",\"objective\":{\"maximize\":\"acc\"},\"space\":{\"lr\":{\"log\":"
                "[0.001,1]},\"opt\":[\"adam\",\"sgd\"]}}");
    AUTO(json)
    struct json *page = json_of(
        "[{\"number\":1,\"state\":\"done\",\"value\":0.5,\"params\":{\"lr\":0.1,\"opt\":\"sgd\"}},"
        "{\"number\":2,\"state\":\"pruned\",\"value\":9,\"params\":{\"lr\":1,\"opt\":\"sgd\"}},"
        "{\"number\":3,\"state\":\"failed\",\"value\":null,\"params\":{\"lr\":1,\"opt\":\"sgd\"}},"
        "{\"number\":4,\"state\":\"running\",\"value\":null,\"params\":{\"lr\":1,\"opt\":\"sgd\"}},"
        "{\"number\":5,\"state\":\"done\",\"value\":2,\"params\":{\"lr\":1,\"opt\":\"adam\"}}]");
    AUTO(json)
    struct json *bad =
        json_of("[{\"number\":6,\"state\":\"done\",\"value\":1,\"params\":{\"lr\":1}}]");
    AUTO(buf) struct buf caption = {0};
    struct tune_trials t;
    struct err e = {0};

    assert_int_equal(tune_trials_open(&t, study, &e), 0);
    assert_int_equal(tune_trials_add(&t, page, &e), 0);
    assert_int_equal(tune_trials_add(&t, bad, &e), -1);
    assert_true(str_starts(str_of(e.text), STR("trial 6: ")));
    struct tune_view v = tune_trials_view(&t);
    struct draw_count c = draw_count_of(&v, 0);
    assert_int_equal(v.n, 5);
    assert_true(fabs(tune_view_code(&v, 0, 0) - 2.0 / 3) < 1e-9 && tune_view_code(&v, 0, 1) == 1);
    draw_caption(&v, 0, &c, &caption);
    assert_string_equal(caption.p,
                        "Best acc: 2, trial 5 of 5, 1 failed, 1 stopped early, 1 not done");
    tune_trials_done(&t);
    json_del(study, "space");
    assert_int_equal(tune_trials_open(&t, study, &e), -1);
    tune_trials_done(&t);
}

static void answers_with_several_objectives(void **state)
{
    AUTO(json)
    struct json *study =
        json_of("{\"name\":\"s\",\"objective\":[{\"minimize\":\"ms\"},{\"maximize\":\"acc\"}],"
                "\"space\":{\"x\":{\"uniform\":[0,1]}}}");
    AUTO(json)
    struct json *page = json_of(
        "[{\"number\":1,\"state\":\"done\",\"value\":5,\"values\":[5,0.5],\"params\":{\"x\":0}},"
        "{\"number\":2,\"state\":\"done\",\"value\":7,\"values\":[7,0.9],\"params\":{\"x\":1}},"
        "{\"number\":3,\"state\":\"failed\",\"value\":null,\"params\":{\"x\":1}}]");
    const struct tune_picture p = tune_picture_of(TUNE_PARETO);
    AUTO(buf) struct buf text = {0}, svg = {0};
    struct tune_trials t;
    struct err e = {0};

    (void)state;
    assert_int_equal(tune_trials_open(&t, study, &e), 0);
    assert_int_equal(tune_trials_add(&t, page, &e), 0);
    struct tune_view v = tune_trials_view(&t);
    assert_int_equal(v.n_goals, 2);
    assert_true(tune_view_value(&v, 1, 1) == 0.9 && tune_view_maximizes(&v, 1));
    assert_false(tune_view_has(&v, 2, 1));
    assert_int_equal(tune_draw_text(&v, &p, &text, &e), 0);
    assert_int_equal(tune_draw_svg(&v, &p, &svg, &e), 0);
    assert_non_null(strstr(text.p, "acc"));
    assert_non_null(strstr(svg.p, "acc"));
    tune_trials_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_picture_is_whole),
        cmocka_unit_test(names_do_not_become_markup),
        cmocka_unit_test(values_of_every_kind_are_drawn),
        cmocka_unit_test(history_names_the_best_trial),
        cmocka_unit_test(far_values_are_left_out_and_said),
        cmocka_unit_test(losses_of_many_sizes_have_a_log_axis),
        cmocka_unit_test(the_front_has_what_no_trial_beats),
        cmocka_unit_test(pictures_that_cannot_be_say_why),
        cmocka_unit_test(labels_are_cut_by_cells),
        cmocka_unit_test(answers_of_the_api_become_a_view),
        cmocka_unit_test(answers_with_several_objectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
