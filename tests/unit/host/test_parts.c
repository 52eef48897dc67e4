/* test_parts.c - a job starts only in a build that contains the dialect it came through */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "host/host_priv.h"
#include "model/spec.h"

static int launched;
static int part_launch(void *self, const struct launch *l, const struct launch_facts *f,
                       struct launch_extras *out, struct err *e)
{
    (void)self, (void)l, (void)f, (void)out, (void)e;
    launched++;
    return 0;
}

static const struct host_part with_launch = {.name = "gpu-scheduler", .launch = part_launch};
static const struct host_part without_launch = {.name = "plain"};

static int parts_try(char *dialect, struct err *e)
{
    int self;
    struct host h = {.n_parts = 2};
    struct spec spec = {.origin = {.dialect = dialect}};
    struct launch l = {.spec = &spec};
    struct launch_facts f = {.key = {12, 1}};
    struct launch_extras out = {0};

    h.parts = xcalloc(2, sizeof(*h.parts));
    h.parts[0].part = &with_launch;
    h.parts[0].self = &self;
    h.parts[1].part = &without_launch; /* not open: this daemon was not asked for it */
    int rc = parts_launch(&h, &l, &f, &out, e);
    free(h.parts);
    return rc;
}

static void test_dialect_of_this_build(void **state)
{
    struct err e = {0};
    char name[] = "gpu-scheduler", plain[] = "plain";

    (void)state;
    launched = 0;
    assert_int_equal(parts_try(name, &e), 0);
    assert_int_equal(launched, 1);
    assert_int_equal(parts_try(plain, &e), 0);
    assert_int_equal(launched, 1);
}

static void test_dialect_of_another_build(void **state)
{
    struct err e = {0};
    char name[] = "atlas";

    (void)state;
    launched = 0;
    assert_int_equal(parts_try(name, &e), -1);
    assert_int_equal(launched, 0);
    assert_string_equal(e.text, "job 12 was submitted through 'atlas', which this build does not "
                                "contain; install a build with it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dialect_of_this_build),
        cmocka_unit_test(test_dialect_of_another_build),
    };
    return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}
