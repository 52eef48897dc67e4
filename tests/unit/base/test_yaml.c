/* test_yaml.c - YAML into the json tree */
#include "base/util.h"
#include "base/yaml.h"
#include "unit.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static void check(const char *yaml, const char *json)
{
    struct json *j = NULL;
    struct err e = {0};

    if (yaml_parse(str_of(yaml), "t.yaml", &j, &e) < 0)
        fail_msg("%s", e.text);
    AUTO_FREE char *text = json_text(j);
    assert_string_equal(text, json);
    json_free(j);
}

static void check_refused(const char *yaml, enum err_code code, const char *want)
{
    struct json *j = (struct json *)&j;
    struct err e = {0};

    if (yaml_parse(str_of(yaml), "t.yaml", &j, &e) == 0)
        fail_msg("accepted: %s", yaml);
    assert_ptr_equal(j, &j);
    assert_int_equal(e.code, code);
    if (!strstr(e.text, want))
        fail_msg("\"%s\" does not say \"%s\"", e.text, want);
}

TEST(documents)
{
    check("", "null");
    check("# only a comment\n", "null");
    check("---\n...\n", "null");
    check("a: 1\nb:\n  - x\n  - y: 2\n", "{\"a\":1,\"b\":[\"x\",{\"y\":2}]}");
    check("--- [1, 2]\n", "[1,2]");
    check("%YAML 1.2\n---\na: b\n", "{\"a\":\"b\"}");
    check("a:\n", "{\"a\":null}");
    check("\xEF\xBB\xBF"
          "a: 1\n",
          "{\"a\":1}");
    check("a: 1\r\nb: 2\r\n", "{\"a\":1,\"b\":2}");
}

TEST(core_schema)
{
    check("[null, ~, Null, NULL, ]", "[null,null,null,null]");
    check("[true, True, TRUE, false, False, FALSE]", "[true,true,true,false,false,false]");
    check("[yes, no, on, off, y, nULL, tRue]",
          "[\"yes\",\"no\",\"on\",\"off\",\"y\",\"nULL\",\"tRue\"]");
    check("[0, -7, +7, 007, 0x1F, 0o17, 0b1, 0x, 0o8]", "[0,-7,7,7,31,15,\"0b1\",\"0x\",\"0o8\"]");
    check("[1.5, 1e-4, .5, 1., -0.10, 1_000, 1.2.3, 12:30:45]",
          "[1.5,1e-4,0.5,1.0,-0.10,\"1_000\",\"1.2.3\",\"12:30:45\"]");
    check("[9223372036854775807, 9223372036854775808, 0xFFFFFFFFFFFFFFFF]",
          "[9223372036854775807,9223372036854775808,\"0xFFFFFFFFFFFFFFFF\"]");
    check("[\"1\", '1', 'true', \"\", '']", "[\"1\",\"1\",\"true\",\"\",\"\"]");
    check("2026-01-01", "\"2026-01-01\"");
}

TEST(tags)
{
    check("[!!str 1, !!int 7, !!float 1, !!bool true, !!null ~, ! 5]",
          "[\"1\",7,1.0,true,null,\"5\"]");
    check("!!map {a: !!seq [1]}", "{\"a\":[1]}");
    check_refused("!!int x", ERR_INVALID, "t.yaml:1:7: the value does not have the type");
    check_refused("!!python/object:os.system x", ERR_INVALID, "this tag is not known");
    check_refused("a: !foo {b: 1}", ERR_INVALID, "this tag is not known");
}

TEST(text_forms)
{
    check("|\n  a\n  b\n", "\"a\\nb\\n\"");
    check(">-\n  a\n  b\n", "\"a b\"");
    check("\"a\\n\\x41\\u00e9\\U0001F600\"", "\"a\\nA\xC3\xA9\xF0\x9F\x98\x80\"");
    check("'it''s'", "\"it's\"");
    check("''''''''''''''''''''''''''''''''''''''", "\"''''''''''''''''''\"");
    check("' a  \n  b'", "\" a b\"");
    check("'a\n\n \t\n''b''\r\n c\n'", "\"a\\n\\n'b' c \"");
    check("k: ''\nl: 'x # y: [z]'\n", "{\"k\":\"\",\"l\":\"x # y: [z]\"}");
    check("{'k': 'v', 'it''s': ['\xC3\xA9']}", "{\"k\":\"v\",\"it's\":[\"\xC3\xA9\"]}");
    check("\xEF\xBB\xBF'after a mark'", "\"after a mark\"");
    check("a b\n c", "\"a b c\"");
    check("k: python train.py --lr=0.1 # why\n", "{\"k\":\"python train.py --lr=0.1\"}");
}

TEST(double_quotes)
{
    check("\"a\\tb\\\\\\\"\\/\\x41\\u00e9\\U0001F600\"",
          "\"a\\tb\\\\\\\"/A\xC3\xA9\xF0\x9F\x98\x80\"");
    check("\"\\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\"");
    check("\"one\n  two\n\n\n  three\\\n   four\\ \n  five \\\n\n  six\"",
          "\"one two\\n\\nthreefour  five \\nsix\"");
    check("\"\\N\\_\\e\"", "\"\xC2\x85\xC2\xA0\\u001b\"");
    check("{\"k\\n\": \"\", \"\": \" x \"}", "{\"k\\n\":\"\",\"\":\" x \"}");
    check("\"\\\\\\\n\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\n\"",
          "\"\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\"");
    check_refused("\"\\ud83d\"", ERR_INVALID, "t.yaml:1:4: found invalid Unicode");
}

TEST(keys)
{
    check("1: a\ntrue: b\n~: c\n\"q\": d\n",
          "{\"1\":\"a\",\"true\":\"b\",\"~\":\"c\",\"q\":\"d\"}");
    check("? a\n: 1\n", "{\"a\":1}");
    check_refused("a: 1\nb: 2\na: 3\n", ERR_INVALID, "t.yaml:3:1: key \"a\" is given twice");
    check_refused("1: a\n'1': b\n", ERR_INVALID, "key \"1\" is given twice");
    check_refused("{a: 1, a: 2}", ERR_INVALID, "t.yaml:1:8: key \"a\" is given twice");
    check_refused("? [a]\n: 1\n", ERR_INVALID, "a key must be text");
    check_refused("\"a\\0b\": 1\n", ERR_INVALID, "without NUL");
}

TEST(anchors_and_merging)
{
    check("a: &x [1, 2]\nb: *x\n", "{\"a\":[1,2],\"b\":[1,2]}");
    check("- &a 1\n- &a 2\n- *a\n", "[1,2,2]");
    check("base: &b {lr: 0.1, n: 1}\njob:\n  <<: *b\n  n: 2\n",
          "{\"base\":{\"lr\":0.1,\"n\":1},\"job\":{\"n\":2,\"lr\":0.1}}");
    check("- &a {x: 1, y: 1}\n- &b {y: 2, z: 2}\n- {<<: [*a, *b], w: 0}\n",
          "[{\"x\":1,\"y\":1},{\"y\":2,\"z\":2},{\"w\":0,\"x\":1,\"y\":1,\"z\":2}]");
    check("- &a {x: 1}\n- &b {<<: *a, y: 2}\n- {<<: *b}\n",
          "[{\"x\":1},{\"y\":2,\"x\":1},{\"y\":2,\"x\":1}]");
    check("&k key: *k\n", "{\"key\":\"key\"}");
    check("- &k key\n- {*k : 1}\n", "[\"key\",{\"key\":1}]");
    check("'<<': 1\n", "{\"<<\":1}");
    check_refused("a: *nope\n", ERR_INVALID, "t.yaml:1:4: alias *nope");
    check_refused("a: &a [*a]\n", ERR_INVALID, "alias *a names no anchor that is complete");
    check_refused("<<: 1\na: 2\n", ERR_INVALID, "needs a mapping");
    check_refused("<<:\na: 2\n", ERR_INVALID, "needs a mapping");
    check_refused("<<: [1]\n", ERR_INVALID, "needs a mapping");
    check_refused("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n", ERR_INVALID, "\"<<\" is given twice");
}

TEST(expansion_is_bounded)
{
    AUTO(buf) struct buf b = {0};

    buf_adds(&b, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 12; i++) {
        buf_addf(&b, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            buf_addf(&b, "%s*a%d", k ? "," : "", i - 1);
        buf_adds(&b, "]\n");
    }
    check_refused(b.p, ERR_LIMIT, "aliases expand to more than 1000000 values");
}

TEST(text_counts_in_the_expansion)
{
    AUTO(buf) struct buf b = {0};

    buf_adds(&b, "- &a ");
    for (int i = 0; i < 100000; i++)
        buf_addc(&b, 'x');
    for (int i = 0; i < 1000; i++)
        buf_adds(&b, "\n- *a");
    check_refused(b.p, ERR_LIMIT, "32 MiB of text");
}

TEST(depth_is_bounded)
{
    AUTO(buf) struct buf b = {0};

    for (int i = 0; i < 60; i++)
        buf_addc(&b, '[');
    for (int i = 0; i < 60; i++)
        buf_addc(&b, ']');
    check(b.p, b.p);
    buf_reset(&b);
    for (int i = 0; i < 100; i++)
        buf_addc(&b, '[');
    for (int i = 0; i < 100; i++)
        buf_addc(&b, ']');
    struct json *j;
    struct err e;
    assert_int_equal(yaml_parse(buf_str(&b), "t", &j, &e), -1);
    buf_reset(&b);
    buf_adds(&b, "- &a0 [x]\n");
    for (int i = 1; i < 70; i++)
        buf_addf(&b, "- &a%d [*a%d]\n", i, i - 1);
    check_refused(b.p, ERR_LIMIT, "nested deeper");
}

/* JSON writes one character as two escapes; only double quotes make escapes of them. */
TEST(surrogate_pairs)
{
    check("{\"a\": \"x\\uD83D\\uDE00y\", b: '\\ud83d\\ude00', c: \\ud83d\\ude00}",
          "{\"a\":\"x\xF0\x9F\x98\x80y\",\"b\":\"\\\\ud83d\\\\ude00\","
          "\"c\":\"\\\\ud83d\\\\ude00\"}");
    check("? \"\\ud83d\\ude00\"\n: |\n  \\uD83D\\uDE00\n",
          "{\"\xF0\x9F\x98\x80\":\"\\\\uD83D\\\\uDE00\\n\"}");
    check("\"\\ue83d\\uee00\"", "\"\xEE\xA0\xBD\xEE\xB8\x80\""); /* private use, no pair */
    check_refused("[\"\\ud83d\\ude00\", x: y: z]", ERR_INVALID, "t.yaml:1:22: ");
    check_refused("[\"\\\\ud83d\\ude00\"]", ERR_INVALID, "a surrogate without its pair");
    check_refused("[\"\\ude00\"]", ERR_INVALID, "t.yaml:1:5: found invalid Unicode");
}

TEST(size_is_bounded)
{
    AUTO(buf) struct buf b = {0};

    for (int i = 0; i < 100000; i++) /* no limit: libyaml takes time in proportion */
        buf_adds(&b, i % 2 ? "\n" : "  \n");
    buf_adds(&b, "a: 1\n");
    check(b.p, "{\"a\":1}");
    while (b.n <= 8 << 20)
        buf_adds(&b, "                                                               #\n");
    check_refused(b.p, ERR_LIMIT, "write larger files as JSON");
}

TEST(tag_lines_are_bounded)
{
    AUTO(buf) struct buf b = {0};

    buf_adds(&b, "%TAG !e! tag:yaml.org,2002:\n--- !e!str 1");
    check(b.p, "\"1\"");
    buf_reset(&b);
    for (int i = 0; i < 101; i++)
        buf_addf(&b, "%%TAG !e%d! tag:x,2000:\n", i);
    check_refused(b.p, ERR_LIMIT, "t.yaml:101:1: more than 100 %TAG lines");
}

/* These bytes ended a process that read them with an earlier library. */
TEST(control_characters_are_refused)
{
    static const char text[] = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n"
                               "? kxt:\t\0\0\0 \0\0\0\0\0\0\0";
    struct json *j;
    struct err e = {0};

    assert_int_equal(yaml_parse((struct str){text, sizeof(text) - 1}, "t.yaml", &j, &e), -1);
    assert_string_equal(e.text, "t.yaml:4:8: control characters are not allowed");
    check_refused("a: \x01\n", ERR_INVALID, "t.yaml:1:4: control characters");
    check_refused("\xEF\xBB\xBF"
                  "a: b\x7F\n",
                  ERR_INVALID, "t.yaml:1:5: control characters");
}

TEST(places_point_at_values)
{
    check_refused("a: !!int   x\n", ERR_INVALID, "t.yaml:1:12: the value");
    check_refused("\xC3\xA9: [1, &x !!int y]\n", ERR_INVALID, "t.yaml:1:17: the value");
    check_refused("a: !foo\n  b: 1\n", ERR_INVALID, "t.yaml:1:4: this tag");
    check_refused("- {a: 1,\n   'a': 2}", ERR_INVALID, "t.yaml:2:4: key \"a\"");
    check_refused("a: &m 1\nb:\n  <<: *m\n", ERR_INVALID, "t.yaml:4:1: << in this mapping");
    check_refused("a:\n  - b\n c: d\n", ERR_INVALID, "t.yaml:3:2: ");
}

TEST(syntax_errors_have_places)
{
    check_refused("a: b: c\n", ERR_INVALID, "t.yaml:1:5: ");
    check_refused("a: [1, 2\nb: 3\n", ERR_INVALID, "t.yaml:");
    check_refused("a: 'x\n", ERR_INVALID, "t.yaml:");
    check_refused("\tx: 1\n", ERR_INVALID, "t.yaml:");
    check_refused("a: 1\n---\nb: 2\n", ERR_INVALID, "a second document");
    check_refused("a: .inf\n", ERR_INVALID, "t.yaml:1:4: infinity");
    check_refused("a: 1e999\n", ERR_INVALID, "t.yaml:1:4: this number is too large");
    check_refused("a: \xC3\xA9\nb: \xFF\n", ERR_INVALID, "t.yaml:2:4: this is not UTF-8");
    check_refused("\xFF\xFE\n", ERR_INVALID, "t.yaml:1:1: this is not UTF-8");
    check_refused("@x\n", ERR_INVALID, "t.yaml:1:1");
}

TEST(json_is_yaml)
{
    check("{\n\t\"a\": [1, 2.50, \"x\\u00e9\\/\"],\n\t\"b\": {\"c\": null}\n}\n",
          "{\"a\":[1,2.50,\"x\xC3\xA9/\"],\"b\":{\"c\":null}}");
    check("[{\"a\":1},{\"b\":2}]", "[{\"a\":1},{\"b\":2}]");
}

/* What programs that read YAML 1.1 make of it. */
static void check_11(const char *yaml, const char *json)
{
    struct json *j = NULL;
    struct err e = {0};

    if (yaml_parse_11(str_of(yaml), "t.yaml", &j, &e) < 0)
        fail_msg("%s", e.text);
    AUTO_FREE char *text = json_text(j);
    assert_string_equal(text, json);
    json_free(j);
}

TEST(scalars_of_yaml_1_1)
{
    check_11("[yes, No, ON, off, True, y, n]", "[true,false,true,false,true,\"y\",\"n\"]");
    check_11("[~, null, NULL, ]", "[null,null,null]");
    check_11("[017, 0o17, 08, 0x1F, 0b101, -017]", "[15,\"0o17\",\"08\",31,5,-15]");
    check_11("[1_000, +7, -7, 0, -0, 12_34_56]", "[1000,7,-7,0,0,123456]");
    check_11("[1e3, 1.0e+3, 1.0e3, .5, -.5, 1., 1_0.5]",
             "[\"1e3\",1000.0,\"1.0e3\",0.5,\"-.5\",1.0,10.5]");
    check_11("[190:20:30, 1:30, 1:60, -1:30, 1:30.5, '1:30']",
             "[685230,90,\"1:60\",-90,90.5,\"1:30\"]");
    check_11("9999999999999999999:30", "6e+20"); /* too large for a whole number */
    check_11("[2001-12-14, 12 a, _1, '017', \"yes\", 0x, 0b]",
             "[\"2001-12-14\",\"12 a\",\"_1\",\"017\",\"yes\",\"0x\",\"0b\"]");
    check_11("[123456789012345678901234567890]", "[123456789012345678901234567890]");
    struct json *j;
    struct err e = {0};
    assert_int_equal(yaml_parse_11(STR("[.nan]"), "t.yaml", &j, &e), -1);
    assert_int_equal(yaml_parse_11(STR("[-.INF]"), "t.yaml", &j, &e), -1);
    assert_int_equal(yaml_parse_11(STR("!!python/object/apply:os.system [id]"), "t", &j, &e), -1);
}

/* A message belongs to the caller; no library may print one. */
TEST(nothing_is_printed)
{
    char path[] = "/tmp/test-yaml-XXXXXX";
    int file = mkostemp(path, O_CLOEXEC), saved = dup(STDERR_FILENO);
    struct stat st;

    unlink(path);
    dup2(file, STDERR_FILENO);
    struct json *j;
    struct err e;
    int rc = yaml_parse(STR("a: [1\nb: }"), "t.yaml", &j, &e);
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_int_equal(rc, -1);
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_size, 0);
    close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents),
        cmocka_unit_test(core_schema),
        cmocka_unit_test(tags),
        cmocka_unit_test(text_forms),
        cmocka_unit_test(double_quotes),
        cmocka_unit_test(keys),
        cmocka_unit_test(anchors_and_merging),
        cmocka_unit_test(expansion_is_bounded),
        cmocka_unit_test(text_counts_in_the_expansion),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(surrogate_pairs),
        cmocka_unit_test(size_is_bounded),
        cmocka_unit_test(tag_lines_are_bounded),
        cmocka_unit_test(control_characters_are_refused),
        cmocka_unit_test(places_point_at_values),
        cmocka_unit_test(syntax_errors_have_places),
        cmocka_unit_test(json_is_yaml),
        cmocka_unit_test(scalars_of_yaml_1_1),
        cmocka_unit_test(nothing_is_printed),
    };
    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
