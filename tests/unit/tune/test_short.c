/* test_short.c - spaces as people write them in YAML: forms, nesting, conditions, messages */
#include "base/yaml.h"
#include "case.h"

static int short_from(const char *yaml, struct tune_space **out, struct err *e)
{
    AUTO(json) struct json *map = NULL;

    if (yaml_parse(str_of(yaml), "space.yaml", &map, e) < 0)
        fail_msg("%s", e->text);
    return tune_space_from_short(map, out, e);
}

static struct tune_space *short_of(const char *yaml)
{
    struct tune_space *s = NULL;
    struct err e = {0};

    if (short_from(yaml, &s, &e) < 0)
        fail_msg("%s", e.text);
    return s;
}

static const struct tune_dim *dim_of(const struct tune_space *s, const char *name)
{
    long i = tune_space_find(s, str_of(name));

    if (i < 0)
        fail_msg("no parameter %s", name);
    return &s->dims[i];
}

static void the_forms_of_the_manual(void **state UNUSED)
{
    struct tune_space *s = short_of("lr: {log: [1e-5, 1e-1]}\n"
                                    "layers: {int: [1, 8]}\n"
                                    "x: {uniform: [0, 1], step: 0.1}\n"
                                    "opt: [adam, sgd]\n"
                                    "size: {ordinal: [s, m, l]}\n"
                                    "wide: {int: [8, 512], log: true}\n"
                                    "old: {type: float, low: -1, high: 1}\n"
                                    "epochs: 10\n"
                                    "nothing: null\n"
                                    "pick: {const: [1, 2]}\n"
                                    "shape: {choice: [[64], [64, 64]]}\n");

    assert_int_equal(s->n, 11);
    assert_true(dim_of(s, "lr")->log && dim_of(s, "lr")->kind == TUNE_FLOAT);
    assert_true(dim_of(s, "lr")->low == 1e-5 && dim_of(s, "lr")->high == 0.1);
    assert_true(dim_of(s, "layers")->kind == TUNE_INT && dim_of(s, "layers")->count == 8);
    assert_true(dim_of(s, "x")->count == 11);
    assert_true(dim_of(s, "opt")->kind == TUNE_CAT && dim_of(s, "opt")->count == 2);
    assert_true(dim_of(s, "size")->kind == TUNE_ORDINAL);
    assert_true(dim_of(s, "wide")->log && dim_of(s, "wide")->kind == TUNE_INT);
    assert_true(dim_of(s, "old")->kind == TUNE_FLOAT && dim_of(s, "old")->low == -1);
    assert_string_equal(dim_of(s, "epochs")->choices[0].p, "10");
    assert_string_equal(dim_of(s, "nothing")->choices[0].p, "null");
    assert_string_equal(dim_of(s, "pick")->choices[0].p, "[1,2]");
    assert_string_equal(dim_of(s, "shape")->choices[1].p, "[64,64]");
    tune_space_free(s);
}

static void nested_parameters_have_their_path_as_name(void **state UNUSED)
{
    struct tune_space *s = short_of("net:\n"
                                    "  opt: {name: adam, lr: {log: [0.001, 1]}}\n"
                                    "  layers: [{int: [8, 64]}, 32, {units: {int: [1, 2]}}]\n"
                                    "  empty: {}\n"
                                    "pair: [[1, 2], [3, 4]]\n"
                                    "log: {log: true, every: 10}\n");
    static const char *const names[] = {
        "net.opt.name", "net.opt.lr", "net.layers.0", "net.layers.1", "net.layers.2.units",
        "net.empty",    "pair",       "log.log",      "log.every"};

    assert_int_equal(s->n, ARRAY_SIZE(names));
    for (size_t i = 0; i < s->n; i++)
        assert_string_equal(s->dims[i].name, names[i]);
    assert_true(dim_of(s, "net.layers.1")->kind == TUNE_CONST);
    assert_true(dim_of(s, "pair")->kind == TUNE_CAT);
    tune_space_free(s);
}

/* Names are looked for beside the parameter, then further out; a group hands its condition down,
 * and a parent may stand below. */
static void conditions_find_their_parents(void **state UNUSED)
{
    struct tune_space *s =
        short_of("train:\n"
                 "  momentum: {uniform: [0, 1], when: {opt: sgd, kind: [a, b]}}\n"
                 "  opt: [adam, sgd]\n"
                 "  sgd: {when: {opt: sgd}, nesterov: [true, false],\n"
                 "        damp: {uniform: [0, 1], when: {nesterov: false}}}\n"
                 "kind: [a, b, c]\n"
                 "opt: [x, y]\n");
    const struct tune_dim *m = dim_of(s, "train.momentum"), *d = dim_of(s, "train.sgd.damp");

    assert_int_equal(m->n_whens, 2);
    assert_string_equal(s->dims[m->whens[0].parent].name, "train.opt");
    assert_string_equal(s->dims[m->whens[1].parent].name, "kind");
    assert_int_equal(m->whens[1].n, 2);
    assert_int_equal(d->n_whens, 2);
    assert_string_equal(s->dims[d->whens[0].parent].name, "train.opt");
    assert_string_equal(s->dims[d->whens[1].parent].name, "train.sgd.nesterov");
    tune_space_free(s);
    s = short_of("o: [a, b, c]\ng: {when: {o: [a, b]}, x: {int: [1, 2], when: {o: [b, c]}}}\n");
    assert_int_equal(dim_of(s, "g.x")->n_whens, 1);
    assert_int_equal(dim_of(s, "g.x")->whens[0].n, 1);
    assert_true(dim_of(s, "g.x")->whens[0].codes[0] == 1);
    tune_space_free(s);
}

/* A value leads back to its draw, also when the expression falls. */
static void expressions_of_a_draw(void **state UNUSED)
{
    struct tune_space *s = short_of("lr: 10 ** uniform(-4,-1)\n"
                                    "keep: {expr: \"1 - 0.5 * loguniform(0.01, 1)\"}\n"
                                    "width: 2 ** int(5, 9)\n"
                                    "text: the uniform of a guard\n"
                                    "init: {const: \"uniform(0, 1)\"}\n"
                                    "list: [\"sqrt(uniform(1, 4))\", 3]\n");
    const struct tune_dim *lr = dim_of(s, "lr"), *keep = dim_of(s, "keep");
    double code;

    assert_true(lr->kind == TUNE_FLOAT && lr->count == 0);
    assert_float_equal(lr->low, 1e-4, 1e-18);
    assert_float_equal(lr->high, 0.1, 1e-15);
    assert_float_equal(tune_dim_value(lr, 0.5), pow(10, -2.5), 1e-15);
    assert_float_equal(tune_dim_value(keep, 0), 0.995, 1e-12);
    assert_float_equal(tune_dim_value(keep, 1), 0.5, 1e-12);
    AUTO(json) struct json *v = json_new_real(0.95);
    assert_int_equal(tune_dim_code_of(keep, v, &code, NULL), 0);
    assert_float_equal(tune_dim_value(keep, code), 0.95, 1e-12);
    assert_float_equal(code, 0.5, 1e-12); /* 0.1 is the middle of 0.01 … 1 */
    assert_true(dim_of(s, "width")->kind == TUNE_ORDINAL && dim_of(s, "width")->count == 5);
    assert_string_equal(dim_of(s, "width")->choices[4].p, "512");
    assert_float_equal(dim_of(s, "list.0")->high, 2, 1e-12);
    assert_true(dim_of(s, "init")->kind == TUNE_CONST);
    tune_space_free(s);
}

static void misspelt(const char *yaml, const char *want)
{
    struct tune_space *s = NULL;
    struct err e = {0};

    assert_int_equal(short_from(yaml, &s, &e), -1);
    assert_null(s);
    assert_int_equal(e.code, ERR_INVALID);
    assert_string_equal(e.text, want);
}

static void messages_name_path_value_and_remedy(void **state UNUSED)
{
    misspelt("[1]", "the space: [1] must be a map such as {lr: {log: [1e-5, 0.1]}}");
    misspelt("{}", "the space: {} must be a map such as {lr: {log: [1e-5, 0.1]}}");
    misspelt("log: [1, 2]",
             "the space: {\"log\":[1,2]} is one range without a name; write {lr: …}");
    misspelt("o: {lr: {log: [0, 1]}}",
             "o.lr: log: [0,1] must begin above 0, because 0 has no logarithm; try 1e-6");
    misspelt("x: {uniform: [2, 1]}",
             "x: uniform: [2,1] has its low end above its high end; swap them");
    misspelt("x: {int: [1, 8, 2]}",
             "x: int: [1,8,2] must be two numbers [low, high]; steps are written as step: 0.1");
    misspelt("x: {int: [1, 2.5]}",
             "x: int: [1,2.5] must be whole numbers; use uniform for real ones");
    misspelt("x: {uniform: [a, 1]}",
             "x: uniform: [\"a\",1] must be two finite numbers [low, high]");
    misspelt("x: {uniform: [0, 1], step: 0}",
             "x: step: 0 must be a number above 0; remove it for no steps");
    misspelt("x: {int: [0, 9], step: 0.5}", "x: step: 0.5 must be a whole number for an int");
    misspelt("x: {log: [1, 9], step: 2}",
             "x: step: 2 cannot stand beside log; remove one of the two");
    misspelt("x: {int: [1, 9], log: yes please}",
             "x: log: \"yes please\" must be true or false beside another range");
    misspelt(
        "x: {uniform: [0, 1], stepp: 0.1}",
        "x: the key stepp does not belong to uniform; did you mean step; remove it, or give it "
        "a map of its own");
    misspelt("o: []", "o: [] has no value to choose from; add one, or write {const: []}");
    misspelt("o: [1, 1]", "parameter o: two choices are equal; remove one");
    misspelt("a: {b: 1}\na.b: 2", "a.b: two parameters have this name; rename one");
    misspelt("x: {int: [1, 2], when: 3}", "x: when: 3 must be a map such as {opt: [sgd]}");
    misspelt("x: {int: [1, 2], when: {y: []}}",
             "x: when: {\"y\":[]} has an empty list, so this would never exist");
    misspelt("opt: [a]\nx: {int: [1, 2], when: {opf: a}}",
             "x: when: opf is no parameter; did you mean opt");
    misspelt("opt: [a]\nx: {int: [1, 2], when: {opt: b}}",
             "parameter x: when: parameter opt has no choice \"b\"");
    misspelt("a: {int: [1, 2], when: {b: 1}}\nb: {int: [1, 2], when: {a: 1}}",
             "a: when: the conditions lead back to this parameter; remove one of them");
    misspelt("o: [a, b]\ng: {when: {o: a}, x: {int: [1, 2], when: {o: b}}}",
             "g.x: when: no value of o meets all conditions, so it would never exist; remove one");
    misspelt("x: 10 * uniform(1)", "parameter x: expression \"10 * uniform(1)\", column 15: a draw "
                                   "takes two numbers, such as uniform(0, 1)");
    misspelt(
        "x: uniform(0, 1) + uniform(0, 1)",
        "parameter x: expression \"uniform(0, 1) + uniform(0, 1)\", column 24: an expression has "
        "one draw; make the other one a parameter");
    misspelt("x: uniform(-1, 1) ** 2",
             "parameter x: expression \"uniform(-1, 1) ** 2\", column 20: the values must rise or "
             "fall throughout the draw");
    misspelt("x: 1 / uniform(0, 1)",
             "parameter x: expression \"1 / uniform(0, 1)\", column 18: not every draw gives a "
             "finite number");
    misspelt("x: int(-1, 1) ** 2",
             "parameter x: expression \"int(-1, 1) ** 2\", column 16: two draws "
             "give the same number; each must give its own");
    misspelt("x: {expr: 2 * 3}",
             "parameter x: expression \"2 * 3\", column 6: there is no draw such "
             "as uniform(0, 1); write a constant");
    misspelt("x: tan(uniform(0, 1))",
             "parameter x: expression \"tan(uniform(0, 1))\", column 1: there "
             "are uniform, loguniform, int, exp, log, log10 and sqrt only");
    misspelt("x: {type: int, low: 1, high: 2, name: y}",
             "x: name: \"y\" is not needed: the path is the name; remove it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_forms_of_the_manual),
        cmocka_unit_test(nested_parameters_have_their_path_as_name),
        cmocka_unit_test(conditions_find_their_parents),
        cmocka_unit_test(expressions_of_a_draw),
        cmocka_unit_test(messages_name_path_value_and_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
