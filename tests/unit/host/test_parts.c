/* test_parts.c - a job starts only in a build that contains the dialect it came through, and the
 * schedules of a dialect are its own */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "core/schedule.h"
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
    struct host h = {.parts.n = 2};
    struct spec spec = {.origin = {.dialect = dialect}};
    struct launch l = {.spec = &spec};
    struct launch_facts f = {.key = {12, 1}};
    struct launch_extras out = {0};

    h.parts.p = xcalloc(2, sizeof(*h.parts.p));
    h.parts.p[0].part = &with_launch;
    h.parts.p[0].self = &self;
    h.parts.p[1].part = &without_launch; /* not open: this daemon was not asked for it */
    int rc = parts_launch(&h, &l, &f, &out, e);
    free(h.parts.p);
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

/* ---- schedules ---- */

static struct err refused;
static void on_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    (void)arg, (void)r;
    refused = e ? *e : (struct err){0};
}

/* The firing is the core's again: it answers whoever asked for the run. */
static void part_fire(void *self, struct firing *f)
{
    struct err e = {0};

    (void)self;
    launched++;
    err_set(&e, ERR_BUSY, "not now");
    core_fired_take(f, NULL, &e);
}

static const struct host_part with_fire = {.name = "atlas", .fire = part_fire};

static void fire(struct host *h, struct core *core, const char *dialect)
{
    struct firing *f = xcalloc(1, sizeof(*f));

    *f = (struct firing){
        .core = core, .name = xstrdup("nightly"), .def = json_new_object(), .done = on_submitted};
    parts_fire(h, str_of(dialect), f);
}

static void test_schedule_of_a_dialect(void **state)
{
    struct core *core = core_new(&(struct core_conf){.clock = clock_system});
    struct open_part parts[] = {{&with_launch, &launched}, {&with_fire, &launched}};
    struct host h = {.parts = {parts, 2}};

    (void)state;
    launched = 0;
    fire(&h, core, "atlas");
    assert_int_equal(launched, 1);
    assert_string_equal(refused.text, "not now");
    fire(&h, core, "gpu-scheduler");
    assert_int_equal(launched, 1);
    assert_string_equal(refused.text, "schedule nightly was made through 'gpu-scheduler', which "
                                      "this daemon does not serve");
    core_free(core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dialect_of_this_build),
        cmocka_unit_test(test_dialect_of_another_build),
        cmocka_unit_test(test_schedule_of_a_dialect),
    };
    return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}
