/* state.c - GET /gpu-scheduler/jobs: the newest GPU jobs, and one of them by the start of its id
 *
 * Owns: gathering.  A worker thread reads records, forms and runs from the store; the loop thread
 * adds what the planner knows at this moment.
 *
 * Shown are jobs that ask for GPUs, whoever submitted them and however: somebody who wonders where
 * the devices went must find all of them; and jobs of this dialect that run on CPUs.  With all=1
 * those of other users too; their logs and their ends stay theirs.  For one job, `runs` tells of
 * every attempt.
 */
#include "dialect/gpu/state.h"
#include "api/job_json.h"
#include "base/clock.h"
#include "base/util.h"
#include "base/vec.h"
#include "dialect/gpu/dialect_priv.h"
#include "dialect/gpu/translate.h"
#include <stdio.h>

/* PREFIX_MIN: the fewest characters of an id that may name a job. */
enum { DEFAULT_LAST = 10, LAST_MAX = 10000, PAGE = 1000, PREFIX_MIN = 4 };
enum { EXPLAIN_MAX = 20 }; /* each asks the planner for a pass over the queue */

/* One attempt, copied from the store. */
struct run_row {
    uint32_t run;
    int64_t started_ms, ended_ms;
    int exit_code;
    bool ended;
    struct gpu_set gpus;
    char node[64];
};
struct state_call {
    struct gpu_dialect *d;
    struct caller who;
    /* At most so many jobs are listed. */
    size_t last;
    bool everyone, one;
    char ref[ID_UUID_MAX]; /* lower case; "" = a list */
    /* The first two ids that begin with `ref`: two are enough to call it ambiguous. */
    struct id found[2];
    size_t n_found;
    VEC(struct gpu_job_facts) jobs; /* newest first */
    VEC(struct run_row) runs;       /* of the last of `jobs` */
};

static void state_done(void *data)
{
    struct state_call *k = data;

    for (size_t i = 0; i < k->jobs.n; i++)
        gpu_job_facts_done(&k->jobs.p[i]);
    vec_done(&k->jobs);
    vec_done(&k->runs);
}

/* ---- from the store: worker thread ---- */

static char *state_text_copy(struct str s)
{
    return xstrndup(s.p ? s.p : "", s.n);
}

/* Copies what the answer shows: the view is valid during the callback only. */
static void state_keep(struct state_call *k, const struct job_view *v)
{
    struct gpu_job_facts f = {.number = v->seq,
                              .id = v->id,
                              .name = state_text_copy(v->name),
                              .user = state_text_copy(v->user),
                              .reason = state_text_copy(v->reason),
                              .uid = v->uid,
                              .state = v->state,
                              .exit_code = v->exit_code,
                              .created_ms = v->created_ms,
                              .ended_ms = v->ended_ms,
                              .priority = v->priority};

    vec_push(&k->jobs, f);
}

/* Does the id begin with the text that was asked for? */
static bool state_matches(const struct state_call *k, struct id id)
{
    char text[ID_UUID_MAX];

    id_format_uuid(id, text);
    return str_starts(str_of(text), str_of(k->ref));
}

/* A job without GPUs is no business of this listing, unless it came through this dialect. */
static bool state_lists(const struct state_call *k, const struct job_view *v)
{
    AUTO(json) struct json *spec = NULL;
    AUTO_FREE char *text = NULL;
    struct err e;

    if (v->need.gpus > 0)
        return true;
    return v->training.n && store_job_spec(k->d->env.store, v->seq, &text, &e) == 0 &&
           json_parse(str_of(text), "spec", &spec, &e) == 0 &&
           str_eq_c(json_str(json_get(spec, "dialect")), GPU_DIALECT);
}

static bool state_on_job(void *arg, const struct job_view *v)
{
    struct state_call *k = arg;

    if (k->one ? !state_matches(k, v->id) : !state_lists(k, v))
        return true;
    if (!k->one) {
        state_keep(k, v);
        return k->jobs.n < k->last;
    }
    if (!state_lists(k, v))
        return true;
    if (k->n_found == 0)
        state_keep(k, v);
    k->found[k->n_found++] = v->id;
    return k->n_found < 2;
}

/* Adds a run to the sums of the last job of the list, in the order of the runs. */
static bool on_run(void *arg, const struct run_view *v)
{
    struct state_call *k = arg;
    struct gpu_job_facts *f = &vec_last(&k->jobs);
    struct run_row row = {.run = v->key.run,
                          .started_ms = v->started_ms,
                          .ended_ms = v->ended_ms,
                          .exit_code = v->exit_code,
                          .ended = v->ended,
                          .gpus = v->gpus};

    snprintf(row.node, sizeof(row.node), STR_FMT, STR_ARG(v->node));
    vec_push(&k->runs, row);
    free(f->node);
    f->node = state_text_copy(v->node);
    f->runs.gpus = v->gpus;
    f->runs.ended = v->ended;
    f->runs.why = v->why;
    f->runs.exit_code = v->exit_code;
    if (!v->started_ms)
        return true;
    f->runs.starts++;
    if (v->ended)
        f->runs.ran_ms += MAX(v->ended_ms - v->started_ms, 0);
    else
        f->runs.running_since_ms = v->started_ms;
    return true;
}

/* The form and the runs of one job.  on_run adds to the last job of the list. */
static int read_rest(struct state_call *k, struct gpu_job_facts *f, struct err *e)
{
    struct store *s = k->d->env.store;
    AUTO_FREE char *text = NULL;

    if (store_job_spec(s, f->number, &text, e) == 0 &&
        json_parse(str_of(text), "spec", &f->spec, e) < 0)
        return -1;
    vec_clear(&k->runs);
    return store_runs(s, f->number, on_run, k, e);
}

/* Pages of jobs until there are enough, or until two ids match. */
static int read_jobs(struct state_call *k, struct err *e)
{
    struct job_query q = {.only_uid = !k->everyone, .uid = k->who.uid, .desc = true, .limit = PAGE};
    AUTO_FREE char *cursor = NULL;

    do {
        char *next = NULL;
        q.cursor = cursor;
        if (store_jobs(k->d->env.store, &q, state_on_job, k, &next, e) < 0)
            return -1;
        free(cursor);
        cursor = next;
    } while (cursor && (k->one ? k->n_found < 2 : k->jobs.n < k->last));
    return 0;
}

/* Exactly one job must match the prefix; two are named in the message. */
static int check_found(struct state_call *k, struct err *e)
{
    char a[ID_UUID_MAX], b[ID_UUID_MAX];

    if (k->n_found == 0)
        return err_set(e, ERR_NOT_FOUND,
                       "there is no job '%s'; scheduler-state shows those there are", k->ref);
    if (k->n_found == 1)
        return 0;
    id_format_uuid(k->found[0], a);
    id_format_uuid(k->found[1], b);
    return err_set(e, ERR_CONFLICT, "'%s' begins several ids, such as %s and %s; give more of it",
                   k->ref, a, b);
}

static bool keep_one(void *arg, const struct job_view *v)
{
    struct state_call *k = arg;

    if (!caller_sees(&k->who, v->uid))
        return false;
    state_keep(k, v);
    k->found[k->n_found++] = v->id;
    return false;
}

/* A whole id needs no search.  One that the caller may not see is not there. */
static int read_one(struct state_call *k, struct err *e)
{
    struct store *s = k->d->env.store;
    struct id id;
    uint64_t number;
    struct err why = {0};

    if (!id_parse(str_of(k->ref), &id))
        return read_jobs(k, e);
    if (store_resolve(s, str_of(k->ref), &number, &why) < 0 ||
        store_job(s, number, keep_one, k, &why) < 0) {
        /* check_found then says that there is no such job. */
        if (why.code == ERR_NOT_FOUND)
            return 0;
        *e = why;
        return -1;
    }
    return 0;
}

static int state_work(struct call *c)
{
    struct state_call *k = c->data;

    if (k->one ? read_one(k, &c->err) < 0 || check_found(k, &c->err) < 0
               : read_jobs(k, &c->err) < 0)
        return -1;
    /* read_rest adds to the last of the list, so it grows again one by one. */
    size_t n = k->jobs.n;
    for (k->jobs.n = 1; k->jobs.n <= n; k->jobs.n++)
        if (read_rest(k, &vec_last(&k->jobs), &c->err) < 0) {
            k->jobs.n = n;
            return -1;
        }
    k->jobs.n = n;
    return 0;
}

/* ---- from the controller: loop thread ---- */

/* Zero when there is no such job, or the caller may not see it. */
static struct id id_of(const struct state_call *k, uint64_t job)
{
    struct ledger led = store_ledger(k->d->env.store);
    struct job_record rec;
    struct err e;

    return job && led.read_job(led.self, job, &rec, &e) == 0 && caller_sees(&k->who, rec.uid)
               ? rec.id
               : (struct id){0};
}

/* Loop thread: the planner's view of an active job and the record of its training. */
static void add_planner(const struct state_call *k, struct gpu_job_facts *f)
{
    struct gpu_dialect *d = k->d;
    struct err e;

    f->has_view = core_training(d->env.core, f->number, &f->view);
    f->has_past = core_training_past(d->env.core, f->number, &f->past, &e) == 0;
    if (!f->has_view)
        return;
    for (int32_t i = 0; i < f->view.n_with; i++)
        f->with[i] = id_of(k, f->view.with[i]);
    f->wait_for = id_of(k, f->view.wait_for);
}

static bool any_gpu(const struct core *core)
{
    for (size_t at = 0; at < core_node_count(core); at++) {
        const struct node *n = core_node(core, at);
        if (n && n->n_devices)
            return true;
    }
    return false;
}

/* Loop thread: why waiting jobs wait that the planner of GPUs does not know, the newest ones
 * first. */
static void add_waits(struct state_call *k)
{
    struct core *core = k->d->env.core;
    bool none = !any_gpu(core);
    struct err e;

    for (size_t i = 0, asked = 0; i < k->jobs.n; i++) {
        struct gpu_job_facts *f = &k->jobs.p[i];
        AUTO(json) struct json *why = NULL;
        f->no_gpus = none;
        if (f->state != JOB_QUEUED || f->has_view || asked++ >= EXPLAIN_MAX ||
            core_explain(core, f->number, &why, &e) < 0)
            continue;
        f->waiting = state_text_copy(json_str(json_get(why, "text")));
    }
}

/* A node that is gone, or a device that it has lost, leaves the UUID empty. */
static void put_run(struct buf *b, const struct gpu_dialect *d, const struct run_row *r)
{
    const struct node *node = core_node_find(d->env.core, str_of(r->node), NULL);
    size_t known = node ? node->n_devices : 0;

    jw_object(b, NULL);
    jw_int(b, "run", r->run);
    jw_text(b, "node", r->node);
    jw_time(b, "started", r->started_ms);
    jw_time(b, "ended", r->ended_ms);
    jw_int_or_null(b, "exit", r->exit_code, r->ended && r->exit_code >= 0);
    jw_array(b, "gpus");
    for (int32_t i = -1; (i = gpu_set_next(&r->gpus, (uint32_t)(i + 1))) >= 0;) {
        jw_object(b, NULL);
        jw_int(b, "index", i);
        jw_text(b, "uuid", (size_t)i < known ? node->devices[i].uuid : "");
        jw_end_object(b);
    }
    jw_end_array(b);
    jw_end_object(b);
}

static void state_put_job(struct buf *b, const struct state_call *k, int64_t now)
{
    gpu_job_json(b, &k->jobs.p[0], now);
    b->n--; /* its closing brace */
    jw_array(b, "runs");
    for (size_t i = 0; i < k->runs.n; i++)
        put_run(b, k->d, &k->runs.p[i]);
    jw_end_array(b);
    jw_end_object(b);
}

/* Loop thread: planner and store are read at the same moment for all jobs. */
static void state_then(struct call *c)
{
    struct state_call *k = c->data;
    int64_t now = clock_wall(&clock_system);

    for (size_t i = 0; i < k->jobs.n; i++)
        add_planner(k, &k->jobs.p[i]);
    add_waits(k);
    if (k->one) {
        state_put_job(&c->out, k, now);
    } else {
        jw_object(&c->out, NULL);
        jw_array(&c->out, "items");
        for (size_t i = k->jobs.n; i-- > 0;) /* newest last */
            gpu_job_json(&c->out, &k->jobs.p[i], now);
        jw_end_array(&c->out);
        jw_end_object(&c->out);
    }
    call_reply(c);
}

/* ---- the request ---- */

/* Too short a prefix would match by chance. */
static int read_ref(struct state_call *k, struct str ref, struct err *e)
{
    if (ref.n < PREFIX_MIN || ref.n >= sizeof(k->ref))
        return err_set(e, ERR_NOT_FOUND,
                       "'%.*s' names no job: give its id, or at least the first %d characters",
                       (int)MIN(ref.n, 60), ref.p, PREFIX_MIN);
    for (size_t i = 0; i < ref.n; i++)
        k->ref[i] = (char)(ref.p[i] >= 'A' && ref.p[i] <= 'Z' ? ref.p[i] + 32 : ref.p[i]);
    k->one = true;
    return 0;
}

void gpu_state(struct call *c)
{
    struct state_call *k = call_alloc(c, sizeof(*k));
    const char *all = call_param(c, "all");
    int64_t n;

    k->d = call_gpu(c);
    k->who = c->who.caller;
    c->data = k;
    c->free_data = state_done;
    if (call_param_int(c, "n", DEFAULT_LAST, 1, LAST_MAX, &n, &c->err) < 0 ||
        (c->arg[0].n && read_ref(k, c->arg[0], &c->err) < 0)) {
        call_fail(c, &c->err);
        return;
    }
    k->last = (size_t)n;
    /* Only an admin sees the jobs of others: all of them, or one by a prefix. */
    k->everyone = c->who.caller.admin && (k->one || (all && !strcmp(all, "1")));
    call_work(c, state_work, state_then);
}
