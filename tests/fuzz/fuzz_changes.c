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
    struct run_key key = {job, j->attempt};
    struct change c = {.at_ms = at, .user = text(&w->in)};

    if (!j->exists || job_state_final(j->state)) {
        j->exists &= byte(&w->in) % 2;
        c.kind = j->exists ? CHANGE_JOB_RETRY : CHANGE_REMOVE;
        if (j->exists)
            c.job_retry.job = job;
        else
            c.remove.first = job;
        j->state = JOB_QUEUED;
        j->open_run = false;
    } else if (j->state == JOB_QUEUED) {
        c.kind = CHANGE_RUN_NEW;
        key.run = ++j->attempt;
        c.run_new = (struct change_run_new){key, text(&w->in), text(&w->in), 0};
        j->state = JOB_STARTING;
    } else if (byte(&w->in) % 3 == 0) {
        c.kind = CHANGE_RUN_STARTED;
        c.run_started = (struct change_run_started){key, number(&w->in), 0};
        if (j->state == JOB_STARTING)
            j->state = JOB_RUNNING;
    } else if (byte(&w->in) % 3 == 0) {
        c.kind = CHANGE_JOB_CANCEL;
        c.job_cancel.job = job;
        j->state = JOB_STOPPING;
    } else {
        static const enum job_state next[] = {JOB_SUCCEEDED, JOB_FAILED, JOB_CANCELLED, JOB_LOST,
                                              JOB_QUEUED};
        c.kind = CHANGE_RUN_ENDED;
        j->state = next[byte(&w->in) % ARRAY_SIZE(next)];
        c.run_ended = (struct change_run_ended){
            .key = key,
            .next = j->state,
            .outcome = {.why = (enum run_end)(byte(&w->in) % RUN_END_MAX),
                        .wait_status = (int)number(&w->in),
                        .max_rss_bytes = number(&w->in)},
            .detail = text(&w->in),
            .next_try_ms = number(&w->in),
        };
    }
    must(w, &c);
}

/* Changes that need no particular state of a job. */
static void other(struct world *w)
{
    static const enum change_kind kinds[] = {CHANGE_QUEUE,     CHANGE_NODE_NEW, CHANGE_NODE_DRAIN,
                                             CHANGE_NODE_GONE, CHANGE_MARK,     CHANGE_SPOOL,
                                             CHANGE_MARK_GONE, CHANGE_FORGET,   CHANGE_TEXT_POINT,
                                             CHANGE_NOTE,      CHANGE_POINTS,   CHANGE_PROJECT};
    struct change c = {.kind = kinds[byte(&w->in) % ARRAY_SIZE(kinds)], .at_ms = number(&w->in)};
    struct run_key key = {byte(&w->in) % (2 * JOBS_MAX), byte(&w->in) % 3};
    struct str name = text(&w->in), words = text(&w->in);
    bool on = byte(&w->in) % 2;
    char kind = "ptae"[byte(&w->in) % 4];
    int64_t step = number(&w->in);

    c.user = text(&w->in);
    switch (c.kind) {
    case CHANGE_QUEUE:
        c.queue = (struct change_queue){name, on};
        break;
    case CHANGE_NODE_NEW: /* the core sends JSON, never anything else */
        c.node_new = (struct change_node_new){name, STR("{\"url\":\"ssh://a\"}"), on};
        break;
    case CHANGE_NODE_DRAIN:
        c.node_drain = (struct change_node_drain){name, on};
        break;
    case CHANGE_NODE_GONE:
        c.node_gone.name = name;
        break;
    case CHANGE_MARK:
        c.mark = (struct change_mark){key, kind, name, words, step};
        break;
    case CHANGE_MARK_GONE:
        c.mark_gone = (struct change_mark_gone){key.job, kind, name};
        break;
    case CHANGE_POINTS:
        c.points = (struct change_points){key, name, words};
        break;
    case CHANGE_TEXT_POINT:
        c.text_point = (struct change_text_point){key, name, words, step};
        break;
    case CHANGE_SPOOL:
        c.spool = (struct change_spool){key, step, words};
        break;
    case CHANGE_NOTE:
        c.note = (struct change_note){key.job, name, STR("ann"), words, 0};
        break;
    case CHANGE_PROJECT:
        c.project = (struct change_project){name, words, 0};
        break;
    default:
        c.forget = (struct change_forget){c.at_ms, step};
        break;
    }
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
    if (remove)
        must(w, &(struct change){
                    .kind = CHANGE_REMOVE, .at_ms = 1, .remove = {.first = first, .last = last}});
    else
        must(w, &(struct change){.kind = CHANGE_JOB_STATE,
                                 .at_ms = 1,
                                 .job_state = {.first = first,
                                               .last = last,
                                               .from = JOB_QUEUED,
                                               .to = JOB_CANCELLED,
                                               .reason = text(&w->in)}});
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
