/* test_search.c - ranges and files of berth search into a study, and the picture of one under way
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/util.h"
#include "cli/search.h"
#include <math.h>

static struct json *parsed(const char *text)
{
    struct json *j = NULL;
    struct err e = {0};

    if (json_parse(str_of(text), "t", &j, &e) < 0)
        fail_msg("%s: %s", text, e.text);
    return j;
}

static void test_ranges(void **state)
{
    static const struct {
        const char *word, *space; /* NULL = refused */
    } rows[] = {
        {"lr=log:1e-5..1e-1", "{\"lr\":{\"log\":[1e-5,1e-1]}}"},
        {"layers=int:1..8", "{\"layers\":{\"int\":[1,8]}}"},
        {"x=uniform:-1..1:0.25", "{\"x\":{\"uniform\":[-1,1],\"step\":0.25}}"},
        {"units=int:16..1024:log", "{\"units\":{\"int\":[16,1024],\"log\":true}}"},
        {"opt=adam,sgd", "{\"opt\":[\"adam\",\"sgd\"]}"},
        {"size=1,2.5,big", "{\"size\":[1,2.5,\"big\"]}"},
        {"depth=ordinal:1,2,4", "{\"depth\":{\"ordinal\":[1,2,4]}}"},
        {"data=choice:a", "{\"data\":{\"choice\":[\"a\"]}}"},
        {"c=3", "{\"c\":3}"},
        {"flag=true", "{\"flag\":true}"},
        {"url=http://h:80/..", "{\"url\":\"http://h:80/..\"}"},
        {"net=[[1,2],[3]]", "{\"net\":[[1,2],[3]]}"},
        {"x={\"uniform\":[0,1]}", "{\"x\":{\"uniform\":[0,1]}}"},
        {"m=uniform:0..1 when opt=sgd", "{\"m\":{\"uniform\":[0,1],\"when\":{\"opt\":[\"sgd\"]}}}"},
        {"m=a,b when n=1,2", "{\"m\":{\"choice\":[\"a\",\"b\"],\"when\":{\"n\":[1,2]}}}"},
        {"lr=1e-5..1e-1", NULL}, /* which kind? */
        {"lr=log:1e-5", NULL},
        {"lr=log:a..b", NULL},
        {"lr=int:1..8:x", NULL},
        {"lr={\"log\":", NULL},
        {"lr", NULL},
        {"=1", NULL},
        {"m=uniform:0..1 when opt", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO(json) struct json *space = json_new_object();
        struct err e = {0};
        int rc = search_range_add(space, rows[i].word, &e);
        if (!rows[i].space) {
            assert_int_equal(rc, -1);
            assert_non_null(strstr(e.text, rows[i].word));
            continue;
        }
        AUTO_FREE char *text = json_text(space);
        assert_int_equal(rc, 0);
        assert_string_equal(text, rows[i].space);
    }
    AUTO(json) struct json *twice = json_new_object();
    struct err e = {0};
    assert_int_equal(search_range_add(twice, "a=1", &e), 0);
    assert_int_equal(search_range_add(twice, "a=2", &e), -1);
    assert_string_equal(e.text, "--param a is given twice");
}

/* The body of a study from these words and options. */
static int body_of(const struct search_opts *o, const char **words, bool dashed, struct json **out,
                   struct err *e)
{
    struct operands ops = {.p = words, .dashed = dashed};

    while (words[ops.n])
        ops.n++;
    return search_body(o, &ops, out, e);
}

static void test_command_line(void **state)
{
    const char *ranges[] = {"lr=log:1e-5..1e-1"};
    const char *words[] = {"python3", "/x/train.py", "--lr", "{lr}", NULL};
    const char *loss[] = {"loss"};
    struct search_opts o = {.minimize = {loss, 1, 1}, .trials = {200, true}, .parallel = {8, true}};
    AUTO(json) struct json *body = NULL, *same = NULL, *other = NULL;
    struct err e = {0};

    (void)state;
    o.job.params = (struct opt_list){ranges, 1, 1};
    o.job.cwd = "/";
    assert_int_equal(body_of(&o, words, true, &body, &e), 0);
    AUTO_FREE char *space = json_text(json_get(body, "space"));
    AUTO_FREE char *aim = json_text(json_get(body, "objective"));
    const struct json *job = json_get(body, "job");
    assert_string_equal(space, "{\"lr\":{\"log\":[1e-5,1e-1]}}");
    assert_string_equal(aim, "{\"minimize\":\"loss\"}");
    assert_int_equal(json_int(json_get(body, "trials")), 200);
    assert_int_equal(json_int(json_get(body, "parallel")), 8);
    assert_false(json_has(body, "engine") || json_has(body, "seed") || json_has(job, "params"));
    assert_int_equal(json_len(json_get(job, "command")), 4);
    assert_true(json_has(job, "env"));
    /* The name is the script's, and the same for the same search, however long it is to run. */
    const char *name = json_str(json_get(body, "name")).p;
    assert_int_equal(strncmp(name, "train-", 6), 0);
    assert_false(json_has(job, "name")); /* the daemon numbers the trials */
    o.trials.v = 300;
    o.stop = "{\"median\":{\"warmup\":5}}";
    assert_int_equal(body_of(&o, words, true, &same, &e), 0);
    assert_string_equal(name, json_str(json_get(same, "name")).p);
    const struct json *median = json_get(json_get(same, "stop"), "median");
    assert_int_equal(json_int(json_get(median, "warmup")), 5);
    words[1] = "/y/train.py";
    o.stop = "asha";
    assert_int_equal(body_of(&o, words, true, &other, &e), 0);
    assert_string_not_equal(name, json_str(json_get(other, "name")).p);
    assert_string_equal(json_str(json_get(other, "stop")).p, "asha");
}

static void test_what_is_missing(void **state)
{
    const char *ranges[] = {"lr=log:1e-5..1e-1"};
    const char *words[] = {"true", NULL}, *none[] = {NULL};
    const struct search_opts bare = {0};
    const char *loss[] = {"loss"};
    struct search_opts o = {.minimize = {loss, 1, 1}};
    struct json *body = NULL;
    struct err e = {0};

    (void)state;
    assert_int_equal(body_of(&bare, words, true, &body, &e), -1);
    assert_non_null(strstr(e.text, "--minimize loss"));
    assert_int_equal(body_of(&o, words, true, &body, &e), -1);
    assert_non_null(strstr(e.text, "--param 'lr="));
    o.job.params = (struct opt_list){ranges, 1, 1};
    assert_int_equal(body_of(&o, none, false, &body, &e), -1);
    assert_non_null(strstr(e.text, "needs a command"));
}

static void test_several_objectives(void **state)
{
    const char *ranges[] = {"lr=log:1e-5..1e-1"}, *low[] = {"loss"}, *high[] = {"acc", "f1"};
    const char *words[] = {"true", NULL};
    struct search_opts o = {.minimize = {low, 1, 1}, .maximize = {high, 2, 2}};
    AUTO(json) struct json *body = NULL;
    AUTO(buf) struct buf aim = {0}, best = {0}, line = {0};
    struct err e = {0};

    (void)state;
    o.job.params = (struct opt_list){ranges, 1, 1};
    assert_int_equal(body_of(&o, words, true, &body, &e), 0);
    AUTO_FREE char *goals = json_text(json_get(body, "objective"));
    assert_string_equal(goals,
                        "[{\"minimize\":\"loss\"},{\"maximize\":\"acc\"},{\"maximize\":\"f1\"}]");
    search_aim_text(&aim, body, "min", "max");
    assert_string_equal(aim.p, "min loss, max acc, max f1");
    AUTO(json)
    struct json *study =
        parsed("{\"objective\":[{\"minimize\":\"loss\"},{\"maximize\":\"acc\"}],\"best\":null,"
               "\"front\":[{\"number\":7,\"job\":1,\"values\":[0.25,9],\"params\":{\"lr\":0.1}}]}");
    assert_true(search_has_best(study));
    search_best_text(&best, study);
    assert_string_equal(best.p, "a front of 1 trial");
    search_front_text(&line, study, json_at(json_get(study, "front"), 0));
    assert_string_equal(line.p, "trial 7: loss 0.25, acc 9: lr=0.1");
}

static void write_file(const char *path, const char *text)
{
    struct err e = {0};

    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &e), 0);
}

static void test_files(void **state)
{
    char path[] = "/tmp/berth-search-XXXXXX.yaml";
    const char *words[] = {path, NULL}, *with[] = {path, "./other", NULL};
    const char *ranges[] = {"lr=0.5"};
    struct search_opts o = {.trials = {7, true}};
    AUTO(json) struct json *flat = NULL, *deep = NULL, *over = NULL, *bad = NULL;
    struct err e = {0};

    (void)state;
    AUTO_FD fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    /* A sweep with ranges: params and slots are the space and the parallelism. */
    write_file(path, "command: python train.py --lr {lr}\nparams: {lr: {log: [1e-5, 1e-1]}}\n"
                     "minimize: loss\nslots: 4\ntrials: 3\nresources: {cpus: 2}\n");
    assert_int_equal(body_of(&o, words, false, &flat, &e), 0);
    const struct json *job = json_get(flat, "job");
    AUTO_FREE char *aim = json_text(json_get(flat, "objective"));
    assert_string_equal(aim, "{\"minimize\":\"loss\"}");
    assert_int_equal(json_int(json_get(flat, "parallel")), 4);
    assert_int_equal(json_int(json_get(flat, "trials")), 7); /* options win */
    assert_int_equal(json_int(json_get(json_get(job, "resources"), "cpus")), 2);
    assert_false(json_has(job, "params") || json_has(job, "slots") || json_has(job, "trials"));
    const char *base = strrchr(path, '/') + 1;
    assert_int_equal(strlen(json_str(json_get(flat, "name")).p), strlen(base) - 5);

    write_file(path, "name: mine\nspace: {lr: {log: [1e-5, 1e-1]}, c: 1}\n"
                     "objective: {maximize: acc}\njob: {command: [a, '{lr}']}\n");
    assert_int_equal(body_of(&o, words, false, &deep, &e), 0);
    assert_string_equal(json_str(json_get(deep, "name")).p, "mine");
    assert_int_equal(json_len(json_get(json_get(deep, "job"), "command")), 2);
    /* A range and a command of the command line replace those of the file. */
    o.job.params = (struct opt_list){ranges, 1, 1};
    assert_int_equal(body_of(&o, with, false, &over, &e), 0);
    AUTO_FREE char *space = json_text(json_get(over, "space"));
    AUTO_FREE char *command = json_text(json_get(json_get(over, "job"), "command"));
    assert_string_equal(space, "{\"lr\":0.5,\"c\":1}");
    assert_string_equal(command, "[\"./other\"]");

    write_file(path, "space: {a: 1}\nparams: {a: 2}\ncommand: x\nminimize: loss\n");
    assert_int_equal(body_of(&o, words, false, &bad, &e), -1);
    assert_non_null(strstr(e.text, "params of the file repeats 'space'"));
    write_file(path, "space: {a: 1}\njob: {command: x}\ncpus: 2\nminimize: loss\n");
    assert_int_equal(body_of(&o, words, false, &bad, &e), -1);
    assert_non_null(strstr(e.text, "'cpus' of the file belongs below its key job"));
    write_file(path, "space: {a: 1}\ncommand: x\nminimize: loss\nobjective: {minimize: loss}\n");
    assert_int_equal(body_of(&o, words, false, &bad, &e), -1);
    assert_non_null(strstr(e.text, "keep one"));
    write_file(path, "space: {a: 1}\ncommand: x\nminimize: [loss, ms]\nmaximize: acc\n");
    assert_int_equal(body_of(&o, words, false, &bad, &e), 0);
    assert_int_equal(search_goals(bad), 3);
    assert_true(str_eq_c(search_goal(bad, 2).metric, "acc") && !search_goal(bad, 2).minimize);
    unlink(path);
}

#define SPACE "\"space\":{\"lr\":{\"log\":[1e-5,0.1]},\"c\":1}"
static void test_same_search(void **state)
{
    AUTO(json) struct json *body = parsed("{" SPACE ",\"objective\":{\"minimize\":\"loss\"}}");
    AUTO(json)
    struct json *as_is =
        parsed("{\"name\":\"s\",\"space\":{\"c\":1.0,\"lr\":{\"log\":[0.00001,1e-1]}},"
               "\"objective\":{\"minimize\":\"loss\"},\"engine\":\"tpe\",\"seed\":4}");
    AUTO(json)
    struct json *other = parsed("{\"name\":\"s\",\"space\":{\"c\":1},"
                                "\"objective\":{\"minimize\":\"loss\"}}");
    struct err e = {0};

    (void)state;
    assert_int_equal(search_same(body, as_is, &e), 0); /* engine and seed were not asked for */
    assert_int_equal(search_same(body, other, &e), -1);
    assert_string_equal(e.text,
                        "there is a search 's' with another space ({\"c\":1}); choose another "
                        "--name, or remove it with: berth search rm s");
    json_set_int(body, "seed", 5);
    assert_int_equal(search_same(body, as_is, &e), -1);
    assert_non_null(strstr(e.text, "another seed (4)"));
}

static void test_curve(void **state)
{
    const double values[] = {8, 9, NAN, 4, 2, INFINITY, 3, 1};
    struct search_curve c = {0}, up = {0};
    AUTO(buf) struct buf b = {0}, narrow = {0}, none = {0}, rising = {0};

    (void)state;
    search_curve_add(&c, 9, true);
    search_curve_draw(&none, &c, 10);
    assert_int_equal(none.n, 0);
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        search_curve_add(&c, values[i], true);
        search_curve_add(&up, values[i], false);
    }
    assert_int_equal(c.best.n, 7); /* NaN and infinity are no results */
    search_curve_draw(&b, &c, 40);
    assert_string_equal(b.p, "███▅▂▂▁");
    assert_int_equal(text_width(buf_str(&b)), 7);
    search_curve_draw(&narrow, &c, 3);
    assert_int_equal(text_width(buf_str(&narrow)), 3);
    search_curve_draw(&rising, &up, 6); /* the largest is the best: it ends at the top */
    assert_string_equal(rising.p, "▁█████");
    search_curve_done(&c);
    search_curve_done(&up);
}

static void test_frame(void **state)
{
    AUTO(json)
    struct json *study =
        parsed("{\"name\":\"lr\",\"objective\":{\"minimize\":\"loss\"},\"trials\":40,"
               "\"state\":\"running\",\"counts\":{\"asked\":16,\"running\":4,\"done\":10,"
               "\"failed\":1,\"pruned\":1,\"waiting\":0},\"best\":{\"number\":7,\"job\":42,"
               "\"value\":0.031,\"params\":{\"lr\":0.01,\"opt\":\"adam\"}}}");
    struct search_curve c = {0};

    (void)state;
    search_curve_add(&c, 2, true);
    search_curve_add(&c, 1, true);
    for (size_t width = 45; width < 150; width++) {
        AUTO(buf) struct buf b = {0};
        search_frame(&b, study, &c, width, 90000, false);
        assert_non_null(strstr(b.p, "12/40, 4 running, 1 failed, 1m30s left"));
        if (width > 60)
            assert_non_null(strstr(b.p, "\n  best loss 0.031 in trial 7: lr=0.01 opt=adam\n"));
        for (struct str rest = buf_str(&b); rest.n;)
            assert_true(text_width(str_cut(rest, '\n', &rest)) <= width);
    }
    search_curve_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),          cmocka_unit_test(test_command_line),
        cmocka_unit_test(test_what_is_missing), cmocka_unit_test(test_several_objectives),
        cmocka_unit_test(test_files),           cmocka_unit_test(test_same_search),
        cmocka_unit_test(test_curve),           cmocka_unit_test(test_frame),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
