/* test_chart.c - the picture is well-formed, complete and safe to show */
#include "case.h"

/* Every tag closes in order; attributes hold no bare quotes. */
static void well_formed(const char *s)
{
    struct str open[32];
    size_t depth = 0;

    while ((s = strchr(s, '<'))) {
        const char *end = strchr(s, '>');
        assert_non_null(end);
        if (s[1] == '/') {
            assert_true(depth > 0);
            depth--;
            assert_memory_equal(open[depth].p, s + 2, open[depth].n);
        } else if (end[-1] != '/') {
            assert_true(depth < ARRAY_SIZE(open));
            open[depth++] = (struct str){s + 1, strcspn(s + 1, " >")};
        }
        s = end;
    }
    assert_int_equal(depth, 0);
}

static size_t count(const char *s, const char *what)
{
    size_t n = 0;

    for (; (s = strstr(s, what)); s++)
        n++;
    return n;
}

static void a_panel_for_each_policy(void **state)
{
    struct sim_conf conf = plain_conf(2);
    struct sim_result fifo, srtf;
    struct err e = {0};
    struct buf b = {0};

    (void)state;
    conf.record = true;
    struct sim_trace t =
        trace_of("job,arrival,gpus,isolated_s\n<a&b>,0,1,6000\n\"\"\"q\"\"\",100,2,"
                 "1200\nc,200,1,600\n",
                 &conf);
    assert_int_equal(sim_run(&t, &conf, "fifo", &fifo, &e), 0);
    assert_int_equal(sim_run(&t, &conf, "srtf", &srtf, &e), 0);
    buf_init(&b, 1 << 20);
    const struct sim_result runs[] = {fifo, srtf};
    sim_chart(&(struct sim_report){"trace.csv", &t, &conf, runs, ARRAY_SIZE(runs)}, &b);
    well_formed(b.p);
    assert_non_null(strstr(b.p, ">fifo</text>"));
    assert_non_null(strstr(b.p, ">srtf</text>"));
    assert_non_null(strstr(b.p, "&#60;a&#38;b&#62;, 1 GPU"));
    assert_null(strstr(b.p, "<script"));
    assert_null(strstr(b.p, "nan"));
    assert_int_equal(count(b.p, "class=\"halt\""), 1);  /* srtf stops the first for the others */
    assert_int_equal(count(b.p, "class=\"curve\""), 4); /* two curves and their legend */
    buf_done(&b);
    sim_result_done(&fifo);
    sim_result_done(&srtf);
    sim_trace_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_panel_for_each_policy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
