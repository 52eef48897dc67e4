/* test_series.c - points of metrics: kept in few blocks, read back in order, in buckets as by hand
 */
#include "store/db_priv.h"
#include "unit_store.h"
#include <math.h>

static int64_t number(struct fixture *f, const char *sql)
{
    struct db d;
    struct err e = {0};
    int64_t v = -1;

    assert_int_equal(db_open(&d, f->path, DB_READER, &e), 0);
    sqlite3_stmt *st = db_query_text(&d, &e, sql, NULL, 0);
    if (st && db_step(&d, st, &e) == 1)
        v = sqlite3_column_int64(st, 0);
    no_err(&e);
    db_done(&d);
    return v;
}

static struct series_point point_at(size_t i)
{
    return (struct series_point){(int64_t)i, 1700000000000 + (int64_t)i * 7, sin((double)i / 50)};
}

struct got {
    size_t n, wrong;
    struct series_point last;
};

static bool compare(void *arg, const struct point_view *v)
{
    struct got *g = arg;
    struct series_point want = point_at(v->index);

    g->wrong += v->index != g->n || v->step != want.step || v->at_ms != want.at_ms ||
                v->value != want.value || v->run != 1;
    g->n++;
    return true;
}

/* Reports of one, a few and many points: always the same series, in few rows. */
static void test_blocks_grow(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {1, 1, 1, 1, 3, 1, 100, 7, 4096, 1, 1000, 500, 1, 2, 4096, 60};
    uint64_t job = submit_n(f, 1);
    struct series_point p[SERIES_BLOCK_MAX];
    size_t total = 0;
    struct err e = {0};

    for (size_t round = 0; round < 64; round++) {
        size_t n = sizes[round % ARRAY_SIZE(sizes)];
        for (size_t i = 0; i < n; i++)
            p[i] = point_at(total + i);
        stage_points(f, job, 1, "loss", p, n);
        total += n;
        if (round % 5 == 0)
            sync_ok(f);
    }
    for (size_t i = 0; i < 300; i++) {
        p[0] = point_at(total++);
        stage_points(f, job, 1, "loss", p, 1);
    }
    sync_ok(f);
    struct got g = {0};
    assert_int_equal(store_points(f->store, job, STR("loss"), 0, 0, compare, &g, &e), 0);
    assert_int_equal(g.n, total);
    assert_int_equal(g.wrong, 0);
    assert_true(number(f, "SELECT count(*) FROM block") <= (int64_t)(2 * total / 4096 + 12));
    g = (struct got){.n = 5000};
    assert_int_equal(store_points(f->store, job, STR("loss"), 5000, 100, compare, &g, &e), 0);
    assert_int_equal(g.n, 5100);
    assert_int_equal(g.wrong, 0);
    check_sound(f);
}

static bool keep_last(void *arg, const struct series_view *v)
{
    struct buf *b = arg;

    buf_addf(b, "%.*s n=%llu ", STR_ARG(v->name), (unsigned long long)v->n);
    if (v->is_text)
        buf_addf(b, "'%.*s'", STR_ARG(v->text));
    else
        buf_addf(b, "%g", v->value);
    buf_addf(b, " at %lld of run %u in %g..%g;", (long long)v->step, v->run, v->stats.min,
             v->stats.max);
    return true;
}

static void test_the_last_value_is_exact(void **state)
{
    struct fixture *f = *state;
    AUTO(buf) struct buf b = {0};
    struct err e = {0};
    uint64_t jobs[] = {submit_n(f, 2), 2, 99};

    buf_init(&b, 10000);
    stage_points(f, 1, 1, "loss", &(struct series_point){1, 1, 3}, 1);
    stage_points(f, 1, 1, "loss", &(struct series_point){2, 2, 0.1}, 1);
    stage_points(f, 1, 2, "loss", &(struct series_point){0, 3, 1.5}, 1);
    stage_points(f, 1, 1, "bad", &(struct series_point){1, 1, -INFINITY}, 1);
    stage_points(f, 1, 1, "bad", &(struct series_point){1, 1, NAN}, 1);
    stage_points(f, 2, 1, "none", &(struct series_point){1, 1, NAN}, 1);
    stage_points(f, 2, 1, "mood", &(struct series_point){1, 1, 3}, 1);
    stage_point_text(f, 2, "mood", "better");
    sync_ok(f);
    assert_int_equal(store_series(f->store, jobs, 3, keep_last, &b, &e), 0);
    assert_string_equal(b.p, "loss n=3 1.5 at 0 of run 2 in 0.1..3;"
                             "bad n=2 nan at 1 of run 1 in -inf..-inf;"
                             "none n=1 nan at 1 of run 1 in inf..-inf;"
                             "mood n=2 'better' at 4 of run 1 in 3..3;");
    buf_reset(&b);
    assert_int_equal(store_series_one(f->store, 1, STR("bad"), keep_last, &b, &e), 0);
    assert_string_equal(b.p, "bad n=2 nan at 1 of run 1 in -inf..-inf;");
    assert_int_equal(store_series_one(f->store, 1, STR("mood"), keep_last, &b, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    check_sound(f);
}

static bool tell(void *arg, const struct point_view *v)
{
    if (v->is_text)
        buf_addf(arg, "%llu=%.*s ", (unsigned long long)v->index, STR_ARG(v->text));
    else
        buf_addf(arg, "%llu=%g ", (unsigned long long)v->index, v->value);
    return true;
}

static void test_texts_keep_their_place(void **state)
{
    struct fixture *f = *state;
    AUTO(buf) struct buf b = {0};
    struct err e = {0};
    uint64_t job = submit_n(f, 1);
    char text[16];

    buf_init(&b, 100000);
    stage_point_text(f, job, "mood", "first");
    stage_points(f, job, 1, "mood", (struct series_point[]){{0, 0, 1}, {1, 1, 2}}, 2);
    stage_point_text(f, job, "mood", "then");
    stage_points(f, job, 1, "mood", &(struct series_point){2, 2, 3}, 1);
    stage_point_text(f, job, "mood", "");
    sync_ok(f);
    assert_int_equal(store_points(f->store, job, STR("mood"), 0, 0, tell, &b, &e), 0);
    assert_string_equal(b.p, "0=first 1=1 2=2 3=then 4=3 5= ");
    buf_reset(&b);
    assert_int_equal(store_points(f->store, job, STR("mood"), 2, 2, tell, &b, &e), 0);
    assert_string_equal(b.p, "2=2 3=then ");
    for (int i = 0; i < 250; i++) {
        snprintf(text, sizeof(text), "w%d", i);
        stage_point_text(f, job, "mood", text);
    }
    sync_ok(f);
    assert_int_equal(number(f, "SELECT count(*) FROM word"), 100);
    assert_int_equal(number(f, "SELECT n FROM series"), 256);
    check_sound(f);
}

static void test_buckets_of_the_whole_and_of_a_part(void **state)
{
    struct fixture *f = *state;
    struct series_point p[3000];
    struct series_bucket got[100], want[100];
    uint64_t job = submit_n(f, 1);
    struct err e = {0};

    for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
        p[i] = point_at(i);
        if (i % 97 == 0)
            p[i].value = NAN;
    }
    for (size_t i = 0; i < ARRAY_SIZE(p); i += 250)
        stage_points(f, job, 1, "loss", p + i, 250);
    sync_ok(f);
    struct series_axis axes[] = {{false, 1, 0, 100},
                                 {true, 1, 0, 7},
                                 {false, 1000, 1500, 100},
                                 {true, p[10].at_ms, p[2000].at_ms, 33},
                                 {false, 90000, 90001, 2}};
    for (size_t i = 0; i < ARRAY_SIZE(axes); i++) {
        struct series_axis *a = &axes[i];
        assert_int_equal(store_buckets(f->store, job, STR("loss"), a, got, &e), 0);
        assert_true(a->from <= a->to);
        memset(want, 0, sizeof(want));
        series_fill(a, want, p, ARRAY_SIZE(p));
        for (size_t k = 0; k < a->n; k++) {
            assert_int_equal(got[k].n, want[k].n);
            if (!got[k].n)
                continue;
            assert_true(got[k].min == want[k].min && got[k].max == want[k].max);
            assert_int_equal(got[k].last_x, want[k].last_x);
            assert_memory_equal(&got[k].last, &want[k].last, sizeof(double));
        }
    }
    assert_int_equal(axes[0].to, 2999);
    assert_int_equal(store_buckets(f->store, job, STR("gone"), &axes[0], got, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
}

static bool add_note(void *arg, const struct note_view *v)
{
    buf_addf(arg, "%.*s: %.*s (%.*s, %lld);", STR_ARG(v->author), STR_ARG(v->text),
             STR_ARG(v->project), (long long)v->at_ms);
    return true;
}

static bool add_project(void *arg, const struct project_view *v)
{
    buf_addf(arg, "%.*s by %.*s/%u at %lld '%.*s' notes=%llu queued=%llu;", STR_ARG(v->name),
             STR_ARG(v->owner), v->uid, (long long)v->created_ms, STR_ARG(v->description),
             (unsigned long long)v->notes, (unsigned long long)v->counts[JOB_QUEUED]);
    return true;
}

static void test_notes_and_projects(void **state)
{
    struct fixture *f = *state;
    AUTO(buf) struct buf b = {0};
    struct err e = {0};
    uint64_t job = submit_n(f, 2);

    buf_init(&b, 10000);
    fixture_stage(
        f, &(struct change){.kind = CHANGE_NOTE,
                            .at_ms = 5,
                            .user = STR("eve"),
                            .note = {.job = job, .text = STR("diverged"), .author = STR("eve")}});
    for (int i = 0; i < 2; i++)
        fixture_stage(f, &(struct change){.kind = CHANGE_NOTE,
                                          .at_ms = 6 + i,
                                          .user = STR("bob"),
                                          .note = {.project = STR("vision"),
                                                   .text = i ? STR("second") : STR("first"),
                                                   .author = STR("bob"),
                                                   .uid = 7}});
    fixture_stage(
        f, &(struct change){.kind = CHANGE_PROJECT,
                            .at_ms = 9,
                            .user = STR("bob"),
                            .project = {.name = STR("default"), .description = STR("# All")}});
    sync_ok(f);
    assert_int_equal(store_notes(f->store, STR(""), job, add_note, &b, &e), 0);
    assert_int_equal(store_notes(f->store, STR("vision"), 0, add_note, &b, &e), 0);
    assert_int_equal(store_notes(f->store, STR("default"), 0, add_note, &b, &e), 0);
    assert_string_equal(b.p, "eve: diverged (default, 5);bob: first (vision, 6);"
                             "bob: second (vision, 7);");
    buf_reset(&b);
    assert_int_equal(store_project_list(f->store, add_project, &b, &e), 0);
    assert_string_equal(b.p, "default by ann/1000 at 1700000000000 '# All' notes=0 queued=2;"
                             "vision by bob/7 at 6 '' notes=2 queued=0;");
    assert_int_equal(store_project(f->store, STR("nobody's"), add_project, &b, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    check_sound(f);
}

static void test_parameters_are_merged(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    uint64_t job = submit_n(f, 1);
    struct json *o = NULL;

    stage_mark(f, job, MARK_PARAM, "depth", -1, "9");
    stage_mark(f, job, MARK_PARAM, "opt", -1, "{\"name\":\"adam\"}");
    sync_ok(f);
    assert_int_equal(store_params(f->store, job, &o, &e), 0);
    AUTO_FREE char *text = json_text(o);
    json_free(o);
    assert_string_equal(text, "{\"lr\":0,\"depth\":9,\"opt\":{\"name\":\"adam\"}}");
    assert_int_equal(store_params(f->store, 77, &o, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_blocks_grow),
        with_store(test_the_last_value_is_exact),
        with_store(test_texts_keep_their_place),
        with_store(test_buckets_of_the_whole_and_of_a_part),
        with_store(test_notes_and_projects),
        with_store(test_parameters_are_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
