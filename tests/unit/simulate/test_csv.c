/* test_csv.c - rows of CSV as programs and people write them */
#include "case.h"
#include "simulate/csv_priv.h"

static struct csv c;
static struct arena a;
static struct err e;

static void begin(const char *text)
{
    e = (struct err){0};
    arena_done(&a);
    csv_init(&c, str_of(text));
}

static void row_is(uint32_t line, size_t n, const char *const *cells)
{
    assert_int_equal(csv_next(&c, &a, "x.csv", &e), 1);
    assert_int_equal(c.line, line);
    assert_int_equal(c.n, n);
    for (size_t i = 0; i < n; i++)
        assert_true(str_eq_c(c.cells[i], cells[i]));
}
#define ROW(line, ...)                                                                             \
    row_is(line, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                           \
           (const char *[]){__VA_ARGS__})

static void cells_lines_and_places(void **state)
{
    (void)state;
    begin("\xef\xbb\xbf"
          "a,b ,c\r\n\n  1,,3\n");
    ROW(1, "a", "b", "c");
    ROW(3, "1", "", "3");
    assert_int_equal(c.cols[0], 3);
    assert_int_equal(c.cols[2], 6);
    assert_int_equal(csv_next(&c, &a, "x.csv", &e), 0);
}

static void quotes_hold_commas_lines_and_quotes(void **state)
{
    (void)state;
    begin("\"a,b\",\"say \"\"x\"\"\" ,\"two\nlines\"\nnext,\"\",z");
    ROW(1, "a,b", "say \"x\"", "two\nlines");
    ROW(3, "next", "", "z");
}

static void what_is_broken_is_said_with_its_place(void **state)
{
    (void)state;
    begin("a,b\n1,\"open\n");
    ROW(1, "a", "b");
    assert_int_equal(csv_next(&c, &a, "x.csv", &e), -1);
    assert_string_equal(e.text, "x.csv:2:3: a quoted cell has no end; close it with \"");
    begin("\"a\"b");
    assert_int_equal(csv_next(&c, &a, "x.csv", &e), -1);
    assert_string_equal(e.text, "x.csv:1:4: text follows a quoted cell; put a comma between them");
    arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_lines_and_places),
        cmocka_unit_test(quotes_hold_commas_lines_and_quotes),
        cmocka_unit_test(what_is_broken_is_said_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
