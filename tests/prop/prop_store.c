/* prop_store.c - the store against a model in memory
 *
 * A case is a sequence of changes with commits between them.  After the last one everything the
 * store tells (what a restart loads, lists, counts, runs) must be what the model says, then again
 * after closing and opening.  In the second property a child process applies the changes and is
 * killed in the middle: what is found must be the model after some whole commit, not before the
 * last one that was acknowledged.
 */
#include "../unit/store/fixture.h"
#include "prop.h"
#include <signal.h>
#include <sys/wait.h>

enum { JOBS_MAX = 64, OPS_MAX = 40, PROJECTS = 3 };

enum op_kind {
    OP_SUBMIT,
    OP_RUN,
    OP_START,
    OP_END,
    OP_RANGE,
    OP_STOP,
    OP_RETRY,
    OP_REMOVE,
    OP_REPORT,
    OP_SYNC,
    OP_KINDS
};
struct op {
    enum op_kind kind;
    uint64_t a, b; /* job numbers, counts or choices; made to fit when applied */
};
struct model_job {
    bool exists;
    enum job_state state;
    uint32_t attempt, tries, reports;
    bool cancel, open_run;
    int exit_code;
    uint64_t batch, project;
    int64_t started_ms, ended_ms;
};
struct model {
    struct model_job jobs[JOBS_MAX + 1];
    uint64_t n, batches, events;
};

/* ---- one operation: on the model, and as a change on the store when there is one ---- */

static struct model_job *pick(struct model *m, uint64_t choice, uint64_t *out)
{
    if (!m->n)
        return NULL;
    *out = 1 + choice % m->n;
    return &m->jobs[*out];
}

static void stage(struct fixture *f, struct change c)
{
    if (f)
        fixture_stage(f, &c);
}

static void op_submit(struct model *m, struct fixture *f, const struct op *op, int64_t now)
{
    static const char *const names[PROJECTS] = {"p0", "p1", "p2"};
    size_t n = 1 + op->a % 6;
    uint64_t project = op->b % PROJECTS, batch = 0;

    if (m->n + n > JOBS_MAX)
        return;
    if (op->b % 2)
        batch = ++m->batches;
    for (size_t i = 1; i <= n; i++)
        m->jobs[m->n + i] =
            (struct model_job){.exists = true, .exit_code = -1, .batch = batch, .project = project};
    m->n += n;
    m->events++;
    if (!f)
        return;
    f->next_job = m->n - n + 1;
    f->next_spec = m->n - n + 1;
    f->now_ms = now;
    struct built *b = built_new(f, n, op->a % 2 ? n : 1);
    for (size_t i = 0; i < b->s.n_specs; i++)
        b->s.specs[i].project = str_of(names[project]);
    f->next_batch = batch;
    if (batch)
        built_batch(f, b, "batch", 0);
    stage_submit(f, b);
}

static void op_run(struct model *m, struct fixture *f, const struct op *op, int64_t now)
{
    uint64_t job;
    struct model_job *j = pick(m, op->a, &job);

    if (!j || !j->exists || j->state != JOB_QUEUED)
        return;
    j->state = JOB_STARTING;
    j->attempt++;
    j->tries++;
    j->open_run = true;
    j->started_ms = j->ended_ms = 0;
    j->exit_code = -1;
    m->events++;
    stage(f, (struct change){.kind = CHANGE_RUN_NEW,
                             .at_ms = now,
                             .run_new = {.key = {job, j->attempt}, .node = STR("local")}});
}

static void op_start(struct model *m, struct fixture *f, const struct op *op, int64_t now)
{
    uint64_t job;
    struct model_job *j = pick(m, op->a, &job);

    if (!j || !j->exists || !j->open_run || j->state == JOB_RUNNING)
        return;
    if (j->state == JOB_STARTING)
        j->state = JOB_RUNNING;
    j->started_ms = now;
    m->events++;
    stage(f, (struct change){.kind = CHANGE_RUN_STARTED,
                             .at_ms = now,
                             .run_started = {.key = {job, j->attempt}, .pid = 7}});
}

static void op_end(struct model *m, struct fixture *f, const struct op *op, int64_t now)
{
    static const struct {
        enum job_state state;
        enum run_end why;
        int status, code;
    } ends[] = {{JOB_SUCCEEDED, RUN_END_EXITED, 0, 0},  {JOB_FAILED, RUN_END_EXITED, 3 << 8, 3},
                {JOB_FAILED, RUN_END_TIMEOUT, 9, 137},  {JOB_QUEUED, RUN_END_EXITED, 1 << 8, 1},
                {JOB_QUEUED, RUN_END_NEVER_RAN, 0, -1}, {JOB_CANCELLED, RUN_END_CANCELLED, 15, -1},
                {JOB_LOST, RUN_END_NODE_LOST, 0, -1}};
    uint64_t job, k = op->b % ARRAY_SIZE(ends);
    struct model_job *j = pick(m, op->a, &job);

    if (!j || !j->exists || !j->open_run)
        return;
    j->state = ends[k].state;
    j->exit_code = ends[k].code;
    j->open_run = false;
    j->ended_ms = job_state_final(j->state) ? now : 0;
    if (!run_end_is_a_try(ends[k].why))
        j->tries -= j->tries > 0;
    if (job_state_final(j->state))
        j->cancel = false;
    m->events++;
    stage(f, (struct change){
                 .kind = CHANGE_RUN_ENDED,
                 .at_ms = now,
                 .run_ended = {.key = {job, j->attempt},
                               .next = ends[k].state,
                               .outcome = {.why = ends[k].why, .wait_status = ends[k].status}}});
}

static void op_range(struct model *m, struct fixture *f, const struct op *op, int64_t now)
{
    uint64_t first = 1 + op->a % JOBS_MAX, last = MIN(first + op->b % 20, (uint64_t)JOBS_MAX);
    bool any = false;

    for (uint64_t i = first; i <= last; i++) {
        struct model_job *j = &m->jobs[i];
        if (!j->exists || j->state != JOB_QUEUED)
            continue;
        j->state = JOB_CANCELLED;
        j->ended_ms = now;
        any = true;
    }
    m->events += any;
    stage(f, (struct change){.kind = CHANGE_JOB_STATE,
                             .at_ms = now,
                             .job_state = {.first = first,
                                           .last = last,
                                           .from = JOB_QUEUED,
                                           .to = JOB_CANCELLED,
                                           .reason = STR("cancelled")}});
}

static void op_stop(struct model *m, struct fixture *f, const struct op *op, int64_t now)
{
    uint64_t job;
    struct model_job *j = pick(m, op->a, &job);

    if (!j || !j->exists || !j->open_run)
        return;
    j->state = JOB_STOPPING;
    j->cancel = true;
    m->events++;
    stage(f, (struct change){.kind = CHANGE_JOB_CANCEL, .at_ms = now, .job_cancel = {.job = job}});
}

static void op_retry(struct model *m, struct fixture *f, const struct op *op, int64_t now)
{
    uint64_t job;
    struct model_job *j = pick(m, op->a, &job);

    if (!j || !j->exists || !job_state_final(j->state))
        return;
    j->state = JOB_QUEUED;
    j->tries = 0;
    j->cancel = false;
    j->exit_code = -1;
    j->started_ms = j->ended_ms = 0;
    m->events++;
    stage(f, (struct change){.kind = CHANGE_JOB_RETRY, .at_ms = now, .job_retry = {.job = job}});
}

static void op_remove(struct model *m, struct fixture *f, const struct op *op, int64_t now)
{
    uint64_t first = 1 + op->a % JOBS_MAX, last = MIN(first + op->b % 8, (uint64_t)JOBS_MAX);
    bool any = false;

    for (uint64_t i = first; i <= last; i++) {
        any |= m->jobs[i].exists && job_state_final(m->jobs[i].state);
        if (job_state_final(m->jobs[i].state))
            m->jobs[i].exists = false;
    }
    m->events += any;
    stage(f, (struct change){
                 .kind = CHANGE_REMOVE, .at_ms = now, .remove = {.first = first, .last = last}});
}

static void op_report(struct model *m, struct fixture *f, const struct op *op, int64_t now)
{
    uint64_t job;
    struct model_job *j = pick(m, op->a, &job);

    if (!j)
        return;
    if (j->exists) {
        j->reports++;
        m->events++;
    }
    stage(f,
          (struct change){.kind = CHANGE_MARK,
                          .at_ms = now,
                          .mark = {.key = {job, 1}, .kind = "ta"[op->b % 2], .name = STR("loss")}});
}

static void apply(struct model *m, struct fixture *f, const struct op *op, size_t index)
{
    static void (*const fns[])(struct model *, struct fixture *, const struct op *, int64_t) = {
        [OP_SUBMIT] = op_submit, [OP_RUN] = op_run,       [OP_START] = op_start,
        [OP_END] = op_end,       [OP_RANGE] = op_range,   [OP_STOP] = op_stop,
        [OP_RETRY] = op_retry,   [OP_REMOVE] = op_remove, [OP_REPORT] = op_report};

    if (op->kind < ARRAY_SIZE(fns))
        fns[op->kind](m, f, op, 1000 + (int64_t)index);
}

static size_t make_ops(struct prop *p, struct op ops[OPS_MAX])
{
    size_t n = prop_size(p, OPS_MAX);

    for (size_t i = 0; i < n; i++)
        ops[i] = (struct op){(enum op_kind)prop_choice(p, OP_KINDS - 1),
                             prop_choice(p, JOBS_MAX - 1), prop_choice(p, 100)};
    return n;
}

/* ---- comparing ---- */

struct compare {
    struct prop *p;
    const struct model *m;
    uint64_t seen, events;
    bool ok;
};

static void differ(struct compare *c, bool same, const char *what, uint64_t job)
{
    if (!same && c->ok)
        c->ok = prop_check(c->p, false, "%s of job %llu differs", what, (unsigned long long)job);
}

static void on_job(void *arg, const struct job_record *r)
{
    struct compare *c = arg;
    const struct model_job *j = &c->m->jobs[r->seq];

    differ(c, r->seq <= c->m->n && j->exists && j->state == r->state, "loaded state", r->seq);
    differ(c, j->attempt == r->attempt && j->tries == r->tries, "loaded tries", r->seq);
    differ(c, j->cancel == r->cancel_requested && j->batch == r->batch, "loaded facts", r->seq);
    c->seen++;
}
static void on_run(void *arg, const struct run_record *r)
{
    struct compare *c = arg;
    const struct model_job *j = &c->m->jobs[r->key.job];
    differ(c, j->open_run && j->attempt == r->key.run, "open run", r->key.job);
    c->seen++;
}
static void on_dep(void *arg, const struct dep_record *r)
{
    differ(arg, false, "dependency", r->job);
}
static void on_switch(void *arg, struct str name, enum queue_mode on)
{
    (void)name;
    (void)on;
    differ(arg, false, "switch", 0);
}
static void on_node(void *arg, const struct node_record *r)
{
    (void)r;
    differ(arg, false, "node", 0);
}
static void on_counters(void *arg, uint64_t job, uint64_t spec, uint64_t batch, uint64_t event)
{
    struct compare *c = arg;
    (void)spec;
    differ(c, job == c->m->n + 1 && batch == c->m->batches + 1, "next number", job);
    c->events = event;
}

static void compare_load(struct compare *c, struct fixture *f)
{
    uint64_t want = 0;
    struct err e = {0};
    struct load_sink sink = {.job = on_job,
                             .run = on_run,
                             .dep = on_dep,
                             .queue = on_switch,
                             .node = on_node,
                             .counters = on_counters,
                             .arg = c};

    c->seen = 0;
    for (uint64_t i = 1; i <= c->m->n; i++)
        if (c->m->jobs[i].exists)
            want += !job_state_final(c->m->jobs[i].state) + c->m->jobs[i].open_run;
    if (f->ledger.load(f->ledger.self, &sink, &e) < 0)
        c->ok = prop_check(c->p, false, "load: %s", e.text);
    differ(c, c->seen == want, "number of loaded things", c->seen);
    differ(c, c->events == c->m->events, "number of events", c->events);
}

static bool on_view(void *arg, const struct job_view *v)
{
    struct compare *c = arg;
    const struct model_job *j = &c->m->jobs[v->seq];

    differ(c, j->exists && j->state == v->state, "listed state", v->seq);
    differ(c, j->exit_code == v->exit_code, "exit code", v->seq);
    differ(c, j->started_ms == v->started_ms && j->ended_ms == v->ended_ms, "times", v->seq);
    differ(c, v->project.p[1] == (char)('0' + j->project), "project", v->seq);
    c->seen++;
    return true;
}

/* Every page of a list of these states, in this order; and the counts. */
static void compare_list(struct compare *c, struct fixture *f, uint32_t mask, const char *sort,
                         size_t limit)
{
    struct job_query q = {.state_mask = mask, .sort = sort, .limit = limit, .desc = limit % 2};
    uint64_t want[JOB_STATE_MAX] = {0}, got[JOB_STATE_MAX] = {0}, total = 0;
    char *cursor = NULL, *next = NULL;
    struct err e = {0};

    for (uint64_t i = 1; i <= c->m->n; i++) {
        const struct model_job *j = &c->m->jobs[i];
        if (j->exists && (!mask || mask & 1u << j->state)) {
            want[j->state]++;
            total++;
        }
    }
    c->seen = 0;
    do {
        q.cursor = cursor;
        next = NULL;
        if (store_jobs(f->store, &q, on_view, c, &next, &e) < 0)
            c->ok = prop_check(c->p, false, "list: %s", e.text);
        free(cursor);
        cursor = next;
    } while (cursor);
    differ(c, c->seen == total, "length of the list", c->seen);
    if (store_job_counts(f->store, &q, got, &e) < 0 || memcmp(want, got, sizeof(want)))
        c->ok = prop_check(c->p, false, "counts differ (%s)", e.text);
}

static void compare_sound(struct compare *c, struct fixture *f)
{
    struct buf findings;
    struct err e = {0};

    buf_init(&findings, 1 << 16);
    if (store_check(f->path, &findings, &e) < 0 || findings.n)
        c->ok = prop_check(c->p, false, "check: %s%s", buf_str(&findings).p, e.text);
    buf_done(&findings);
}

static bool same(struct prop *p, struct fixture *f, const struct model *m, uint64_t choice)
{
    static const char *const sorts[] = {"id", "state", "started", "ended", "name", "exit_code"};
    struct compare c = {.p = p, .m = m, .ok = true};

    compare_load(&c, f);
    compare_list(&c, f, 0, sorts[choice % ARRAY_SIZE(sorts)], 1 + choice % 9);
    compare_list(&c, f, (uint32_t)choice % 255 + 1, "id", 1 + choice % 5);
    compare_sound(&c, f);
    return c.ok;
}

/* ---- the properties ---- */

static bool matches_the_model(struct prop *p, void *ctx)
{
    struct fixture f;
    struct model *m = arena_alloc(prop_arena(p), sizeof(*m));
    struct op ops[OPS_MAX];
    struct err e = {0};
    uint64_t choice = prop_choice(p, 1000);
    size_t n = make_ops(p, ops);
    bool ok = true;
    (void)ctx;

    if (!fixture_open(&f, &e))
        return prop_check(p, false, "open: %s", e.text);
    for (size_t i = 0; ok && i < n; i++) {
        apply(m, &f, &ops[i], i);
        if (ops[i].kind == OP_SYNC || i + 1 == n) {
            e = fixture_sync(&f);
            ok = prop_check(p, !e.code, "sync: %s", e.text);
        }
    }
    ok = ok && same(p, &f, m, choice);
    if (ok)
        ok = prop_check(p, fixture_reopen(&f, &e), "reopen: %s", e.text) && same(p, &f, m, choice);
    fixture_close(&f);
    return ok;
}

/* Applies the operations, telling after each commit how many hold; the last ones are flushed and
 * nobody waits for them. */
static _Noreturn void die_halfway(struct fixture *f, const struct op *ops, size_t n, int fd)
{
    struct model m = {0};
    struct err e = {0};

    if (!fixture_reopen(f, &e))
        _exit(2);
    for (size_t i = 0; i < n; i++) {
        apply(&m, f, &ops[i], i);
        if (ops[i].kind != OP_SYNC)
            continue;
        size_t done = i + 1;
        if (fixture_sync(f).code || write(fd, &done, sizeof(done)) != sizeof(done))
            _exit(3);
    }
    store_flush(f->store);
    kill(getpid(), SIGKILL);
    _exit(4);
}

static bool killed_is_a_whole_commit(struct prop *p, void *ctx)
{
    struct fixture f;
    struct model *m = arena_alloc(prop_arena(p), sizeof(*m));
    struct op ops[OPS_MAX];
    struct err e = {0};
    uint64_t choice = prop_choice(p, 1000);
    size_t n = make_ops(p, ops), held = 0, done;
    int fds[2];
    bool ok;
    (void)ctx;

    if (!fixture_open(&f, &e) || pipe(fds) < 0)
        return prop_check(p, false, "open: %s", e.text);
    store_close(f.store);
    f.store = NULL;
    pid_t pid = fork();
    if (pid == 0)
        die_halfway(&f, ops, n, fds[1]);
    close(fds[1]);
    while (read(fds[0], &done, sizeof(done)) == sizeof(done))
        held = done;
    close(fds[0]);
    waitpid(pid, NULL, 0);
    ok = prop_check(p, fixture_reopen(&f, &e), "reopen: %s", e.text);
    /* Either the tail was committed as a whole, or not at all. */
    for (size_t i = 0; i < held; i++)
        apply(m, NULL, &ops[i], i);
    bool tail = ok && store_stats(f.store).last_event != m->events;
    for (size_t i = held; tail && i < n; i++)
        apply(m, NULL, &ops[i], i);
    ok = ok && same(p, &f, m, choice);
    fixture_close(&f);
    return ok;
}

int main(void)
{
    prop_run("the store says what the model says", 100, matches_the_model, NULL);
    prop_run("a killed store holds whole commits", 50, killed_is_a_whole_commit, NULL);
    return prop_end();
}
