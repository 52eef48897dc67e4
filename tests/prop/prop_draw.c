/* prop_draw.c - random studies with hostile names and values: every picture is well-formed and
 * fits, shares of variance are shares, and nothing depends on chance */
#include "base/json.h"
#include "picture.h"
#include "prop.h"
#include "tune/draw.h"
#include "tune/importance.h"
#include <math.h>

enum { TRIALS_MAX = 40 };

static struct json *any_name(struct prop *p, size_t number)
{
    struct buf b = {0};
    struct str text = prop_text(p, prop_bool(p) ? 12 : 250);

    buf_addf(&b, "%s" STR_FMT "#%zu", prop_bool(p) ? "<script>&\"'" : "", STR_ARG(text), number);
    struct json *j = json_new_str(buf_str(&b));
    buf_done(&b);
    return j;
}

static void any_range(struct prop *p, struct json *o, bool whole)
{
    double low = whole ? (double)prop_int(p, -50, 50) : prop_double(p) / 4;
    double high = low + (whole ? (double)prop_int(p, 0, 2000) : fabs(low) * prop_unit(p));

    if (!isfinite(low) || !isfinite(high) || fabs(high) > 1e300)
        low = high = 0;
    json_set_take(o, "low", whole ? json_new_int((int64_t)low) : json_new_real(low));
    json_set_take(o, "high", whole ? json_new_int((int64_t)high) : json_new_real(high));
    if (low > 0 && prop_bool(p))
        json_set_take(o, "log", json_new_bool(true));
}

/* Up to five parameters of all kinds; later ones may depend on the first. */
static struct tune_space *any_study_space(struct prop *p)
{
    static const char *const kinds[] = {"float", "int", "cat", "ordinal", "const"};
    struct json *list = json_new_array();
    struct tune_space *s = NULL;
    struct err e = {0};
    size_t n = 1 + prop_size(p, 4);

    for (size_t i = 0; i < n; i++) {
        struct json *o = json_new_object();
        const char *kind = PROP_PICK(p, kinds);
        json_set_take(o, "name", any_name(p, i));
        json_set_str(o, "type", kind);
        if (kind == kinds[0] || kind == kinds[1]) {
            any_range(p, o, kind == kinds[1]);
        } else if (kind == kinds[4]) {
            json_set_take(o, "value", any_name(p, 0));
        } else {
            struct json *choices = json_new_array();
            size_t m = 1 + prop_size(p, 30);
            for (size_t k = 0; k < m; k++)
                json_push_take(choices, any_name(p, k));
            json_set_take(o, "choices", choices);
        }
        json_push_take(list, o);
    }
    bool ok = tune_space_parse(list, NULL, &s, &e) == 0;
    prop_check(p, ok, "%s", e.text);
    json_free(list);
    return s;
}

static double any_value(struct prop *p)
{
    static const double odd[] = {0, 1, NAN, INFINITY, -INFINITY, 1.7e308, -1.7e308, 5e-324};

    return prop_bool(p) ? PROP_PICK(p, odd) : prop_double(p);
}

/* Arrays live as long as the case. */
static struct tune_view any_view(struct prop *p, const struct tune_space *s)
{
    static const enum tune_outcome outcomes[] = {TUNE_DONE, TUNE_DONE, TUNE_FAILED, TUNE_PENDING};
    struct arena *a = prop_arena(p);
    size_t n = prop_size(p, TRIALS_MAX), goals = 1 + prop_choice(p, 1);
    double *codes = arena_alloc(a, (n * s->n + 1) * sizeof(double));
    double *values = arena_alloc(a, (n * goals + 1) * sizeof(double));
    enum tune_outcome *out = arena_alloc(a, (n + 1) * sizeof(*out));
    const char **names = arena_alloc(a, goals * sizeof(char *));
    struct rng r;

    rng_seed(&r, prop_u64(p));
    for (size_t i = 0; i < n; i++) {
        tune_space_draw(s, codes + i * s->n, &r);
        if (s->n && prop_choice(p, 9) == 9) /* a parameter that a trial does not have */
            codes[i * s->n + rng_below(&r, s->n)] = NAN;
        for (size_t g = 0; g < goals; g++)
            values[i * goals + g] = any_value(p);
        out[i] = PROP_PICK(p, outcomes);
    }
    for (size_t g = 0; g < goals; g++) {
        struct str text = prop_text(p, 100);
        names[g] = arena_strndup(a, text.p, text.n);
    }
    return (struct tune_view){.space = s,
                              .n = n,
                              .codes = codes,
                              .values = values,
                              .outcomes = out,
                              .n_goals = goals,
                              .goal_names = prop_bool(p) ? names : NULL,
                              .title = names[0]};
}

static bool picture_is_sound(struct prop *p, const struct tune_view *v, struct tune_picture *pic)
{
    struct buf a = {0}, b = {0};
    struct err e = {0};
    const char *fault = NULL;

    if (tune_draw_svg(v, pic, &a, &e) == 0)
        fault = svg_fault(buf_str(&a));
    bool ok = prop_check(p, !fault, "SVG %d: %s\n%s", pic->kind, fault, a.p);
    if (ok && tune_draw_svg(v, pic, &b, &e) == 0)
        ok = prop_check(p, str_eq(buf_str(&a), buf_str(&b)), "SVG %d differs", pic->kind);
    buf_reset(&a);
    pic->width = prop_size(p, 200);
    size_t cells = pic->width ? (pic->width < 24 ? 24 : pic->width) : 80;
    if (ok && tune_draw_text(v, pic, &a, &e) == 0) {
        fault = text_fault(buf_str(&a), cells, pic->colour);
        ok = prop_check(p, !fault, "text %d of %zu cells: %s\n%s", pic->kind, cells, fault, a.p);
    }
    buf_done(&a);
    buf_done(&b);
    return ok;
}

static bool pictures_are_sound(struct prop *p, void *ctx UNUSED)
{
    struct tune_space *s = any_study_space(p);
    bool ok = true;

    if (!s)
        return false;
    struct tune_view v = any_view(p, s);
    for (int kind = 0; ok && kind < TUNE_PICTURES; kind++) {
        struct tune_picture pic = tune_picture_of((enum tune_picture_kind)kind);
        pic.goal = prop_choice(p, 1);
        pic.width = prop_size(p, 3000);
        pic.colour = prop_bool(p);
        pic.x = prop_int(p, -1, 4);
        ok = picture_is_sound(p, &v, &pic);
    }
    tune_space_free(s);
    return ok;
}

static bool shares_are_shares(struct prop *p, void *ctx UNUSED)
{
    struct tune_space *s = any_study_space(p);
    struct tune_importance m, again;
    bool ok = true;

    if (!s)
        return false;
    struct tune_view v = any_view(p, s);
    uint64_t seed = prop_u64(p);
    tune_importance_find(&v, 0, seed, &m);
    tune_importance_find(&v, 0, seed, &again);
    ok = prop_check(p, m.fit >= 0 && m.fit <= 1, "fit %g", m.fit);
    for (size_t i = 0; ok && i < m.n; i++) {
        ok = prop_check(p, m.single[i] >= 0 && m.single[i] <= 1, "single %g", m.single[i]) &&
             prop_check(p, m.total[i] >= 0 && m.total[i] <= 1, "total %g", m.total[i]) &&
             prop_check(p, m.total[i] == again.total[i], "not the same again");
        for (size_t j = 0; ok && j < i; j++) {
            double x = tune_importance_pair(&m, i, j);
            ok = prop_check(p, x >= 0 && x <= 1, "pair %g", x);
        }
    }
    tune_importance_done(&m);
    tune_importance_done(&again);
    tune_space_free(s);
    return ok;
}

int main(void)
{
    prop_run("pictures are well-formed and fit", 400, pictures_are_sound, NULL);
    prop_run("shares of variance are shares", 400, shares_are_shares, NULL);
    return prop_end();
}
