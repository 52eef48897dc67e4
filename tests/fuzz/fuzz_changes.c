/* fuzz_changes.c - replay: any sequence of changes leaves a sound database
 *
 * Bytes become changes: those a controller could make in the state a job is in, with wild texts and
 * numbers, mixed with changes about jobs that do not exist and submissions that clash.  Each input
 * is one transaction on a database in memory; afterwards every rule of store_check must hold, and
 * the transaction is rolled back.
 */
#include "base/util.h"
#include "store/apply_priv.h"
#include "store/check_priv.h"
#include "store/migrate_priv.h"
#include <stdio.h>

enum { JOBS_MAX = 40 };

struct input {
    const uint8_t *p;
    size_t n;
};
struct known {
    bool exists, open_run;
    enum job_state state;
    uint32_t attempt;
};
struct world {
    struct applier *a;
    struct input in;
    struct known jobs[JOBS_MAX + 1];
    uint64_t n, specs, batches;
};

static uint8_t byte(struct input *in)
{
    if (!in->n)
        return 0;
    in->n--;
    return *in->p++;
}

static int64_t number(struct input *in)
{
    int64_t v = 0;
    for (int i = byte(in) % 9; i > 0; i--)
        v = (int64_t)((uint64_t)v << 8 | byte(in));
    return v;
}

static struct str text(struct input *in)
{
    size_t want = byte(in) % 40, n = MIN(want, in->n);
    struct str s = {(const char *)in->p, n};

    in->p += n;
    in->n -= n;
    return s;
}

static void must(struct world *w, const struct change *c)
{
    struct err e = {0};

    if (apply_change(w->a, c, &e) < 0) {
        fprintf(stderr, "change %d: %s\n", c->kind, e.text);
        abort();
    }
}

/* With a low number, one that is taken: that must be refused and leave nothing. */
static void submit(struct world *w)
{
    size_t n = 1 + byte(&w->in) % 4;
    bool clash = w->n && byte(&w->in) % 8 == 0;
    uint64_t first = clash ? w->n : w->n + 1, wait = 1 + byte(&w->in) % JOBS_MAX;
    struct spec_row spec = {.seq = w->specs + 1,
                            .body = STR("{\"command\":[\"true\"]}"),
                            .name = text(&w->in),
                            .project = text(&w->in),
                            .queue = text(&w->in),
                            .timeout_ms = number(&w->in)};
    struct job_row rows[4] = {0};
    struct submission s = {.specs = &spec,
                           .n_specs = 1,
                           .jobs = rows,
                           .n_jobs = n,
                           .user = text(&w->in),
                           .uid = (uint32_t)number(&w->in)};
    struct err e = {0};

    if (first + n - 1 > JOBS_MAX)
        return;
    if (byte(&w->in) % 2)
        s.batch = (struct batch_row){.seq = w->batches + 1,
                                     .id = {9, w->batches},
                                     .name = text(&w->in),
                                     .slots = (int32_t)number(&w->in),
                                     .first_job = first,
                                     .n_jobs = n};
    for (size_t i = 0; i < n; i++)
        rows[i] = (struct job_row){.seq = first + i,
                                   .id = {1, first + i + (byte(&w->in) % 4 ? 0 : 1000 * first)},
                                   .spec = spec.seq,
                                   .batch = s.batch.seq,
                                   .index = (int64_t)i,
                                   .name = text(&w->in),
                                   .priority = (int32_t)number(&w->in),
                                   .after = &wait,
                                   .n_after = byte(&w->in) % 2};
    if (apply_submit(w->a, &s, number(&w->in), text(&w->in), &e) < 0) {
        ASSERT(clash && e.code == ERR_CONFLICT);
        return;
    }
    ASSERT(!clash || !w->jobs[w->n].exists);
    w->specs++;
    w->batches += s.batch.seq != 0;
    for (size_t i = 0; i < n; i++)
        w->jobs[first + i] = (struct known){.exists = true};
    w->n = first + n - 1;
}

/* Something that may happen to this job now; times are positive, as clocks are. */
static void happen(struct world *w)
{
    uint64_t job = 1 + byte(&w->in) % JOBS_MAX;
    struct known *j = &w->jobs[job];
    int64_t at = 1 + (number(&w->in) & INT64_C(0xffffffffffff));
    struct change c = {.at_ms = at, .key = {job, j->attempt}, .user = text(&w->in)};

    if (!j->exists || job_state_final(j->state)) {
        c.kind = j->exists && byte(&w->in) % 2 ? CHANGE_JOB_RETRY : CHANGE_REMOVE;
        c.first = job;
        j->exists &= c.kind == CHANGE_JOB_RETRY;
        j->state = JOB_QUEUED;
        j->open_run = false;
    } else if (j->state == JOB_QUEUED) {
        c.kind = CHANGE_RUN_NEW;
        c.key.run = ++j->attempt;
        c.text = text(&w->in);
        c.name = text(&w->in);
        j->state = JOB_STARTING;
    } else if (byte(&w->in) % 3 == 0) {
        c.kind = CHANGE_RUN_STARTED;
        c.pid = number(&w->in);
        if (j->state == JOB_STARTING)
            j->state = JOB_RUNNING;
    } else if (byte(&w->in) % 3 == 0) {
        c.kind = CHANGE_JOB_CANCEL;
        j->state = JOB_STOPPING;
    } else {
        static const enum job_state next[] = {JOB_SUCCEEDED, JOB_FAILED, JOB_CANCELLED, JOB_LOST,
                                              JOB_QUEUED};
        c.kind = CHANGE_RUN_ENDED;
        c.state = j->state = next[byte(&w->in) % ARRAY_SIZE(next)];
        c.outcome = (struct run_outcome){.why = (enum run_end)(byte(&w->in) % RUN_END_MAX),
                                         .wait_status = (int)number(&w->in),
                                         .max_rss_bytes = number(&w->in)};
        c.text = text(&w->in);
        c.next_try_ms = number(&w->in);
    }
    must(w, &c);
}

static void other(struct world *w)
{
    static const enum change_kind kinds[] = {CHANGE_QUEUE, CHANGE_NODE,    CHANGE_REPORT,
                                             CHANGE_SPOOL, CHANGE_FORGET,  CHANGE_POINTS,
                                             CHANGE_NOTE,  CHANGE_PROJECT, CHANGE_NODE_GONE};
    struct change c = {.kind = kinds[byte(&w->in) % ARRAY_SIZE(kinds)],
                       .at_ms = number(&w->in),
                       .key = {byte(&w->in) % (2 * JOBS_MAX), byte(&w->in) % 3},
                       .name = text(&w->in),
                       .text = text(&w->in),
                       .user = text(&w->in),
                       .flag = byte(&w->in) % 2,
                       .report_kind = "ptae"[byte(&w->in) % 4],
                       .step = number(&w->in),
                       .offset = number(&w->in)};

    if (c.kind == CHANGE_NODE && c.text.n) /* the core sends JSON, never anything else */
        c.text = c.flag ? STR("{\"url\":\"ssh://a\"}") : STR("{}");
    must(w, &c);
}

static void range(struct world *w)
{
    uint64_t first = 1 + byte(&w->in) % JOBS_MAX, last = first + byte(&w->in) % 10;
    bool remove = byte(&w->in) % 2;

    for (uint64_t i = first; i <= MIN(last, (uint64_t)JOBS_MAX); i++) {
        struct known *j = &w->jobs[i];
        if (remove && j->exists && job_state_final(j->state))
            *j = (struct known){0};
        else if (!remove && j->exists && j->state == JOB_QUEUED)
            j->state = JOB_CANCELLED;
    }
    must(w, &(struct change){.kind = remove ? CHANGE_REMOVE : CHANGE_JOB_STATE,
                             .at_ms = 1,
                             .first = first,
                             .last = last,
                             .from_state = JOB_QUEUED,
                             .state = JOB_CANCELLED,
                             .text = text(&w->in)});
}

static void check(struct applier *a)
{
    struct buf findings;
    struct err e = {0};

    buf_init(&findings, 1 << 20);
    if (apply_finish(a, &e) < 0 || check_db(a->db, &findings, &e) < 0 || findings.n) {
        fprintf(stderr, "%s%s\n", buf_str(&findings).p, e.text);
        abort();
    }
    buf_done(&findings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct db db;
    static struct applier a;
    struct world w = {.a = &a, .in = {data, size}};
    struct err e = {0};

    if (!db.h && (db_open(&db, ":memory:", DB_WRITER, &e) < 0 ||
                  migrate(&db, migrations, n_migrations, &e) < 0 || applier_init(&a, &db, &e) < 0))
        abort();
    ASSERT(db_exec(&db, "BEGIN", &e) == 0);
    while (w.in.n) {
        uint8_t choice = byte(&w.in) % 8;
        if (choice == 0)
            submit(&w);
        else if (choice == 1)
            range(&w);
        else if (choice == 2)
            other(&w);
        else
            happen(&w);
    }
    check(&a);
    ASSERT(db_exec(&db, "ROLLBACK", &e) == 0 && applier_reload(&a, &e) == 0);
    return 0;
}
