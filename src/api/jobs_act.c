/* jobs_act.c - cancel, hold, release, retry, remove: one job, a list of jobs, or all that match
 *
 * Owns: turning a body into job numbers (worker thread), and handing them to the controller in
 * pieces, so that 100 000 jobs do not hold up the loop.
 *
 * A list of names is all or nothing in what it names: an unknown one refuses the request before
 * anything was done.  A filter acts on what matches at that moment; a body that restricts nothing
 * is refused unless it says {"all":true}.
 */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "base/json.h"

enum { ACT_PIECE = 1000 }; /* jobs per loop turn: 3.7 µs each */

/* The form that core_cancel, core_hold, core_release, core_retry and core_remove share. */
typedef void (*act_fn)(struct core *c, const uint64_t *jobs, size_t n, const struct caller *who,
                       core_act_fn done, void *arg);
struct action {
    act_fn fn;
    uint32_t states;     /* those a filter looks among */
    const char *refusal; /* of one job that is in no such state; NULL = then nothing is done */
    /* Answer 204 without a body, as DELETE does. */
    bool no_content;
};
/* One request.  sent counts the jobs that were handed to the core, pending the pieces that the core
 * has not answered yet.  The answer is due when pending is 0 and sent is jobs.n. */
struct act {
    const struct action *what;
    struct list_params params;
    VEC(uint64_t) jobs;
    size_t sent, pending;
    struct acted sum;
    struct err err;
    bool single;
};

#define NOT_ENDED "has not ended; cancel the job or wait for its end"
const struct action act_cancel = {core_cancel, JOB_STATES_ACTIVE, NULL, false};
const struct action act_hold = {
    core_hold, 1u << JOB_QUEUED | 1u << JOB_HELD,
    "is not waiting; only waiting jobs can be held (`berth cancel` stops a running job)", false};
const struct action act_release = {core_release, 1u << JOB_HELD, NULL, false};
const struct action act_retry = {core_retry, JOB_STATES_FINAL, NOT_ENDED, false};
const struct action act_remove = {core_remove, JOB_STATES_FINAL, NOT_ENDED, false};
const struct action act_delete = {core_remove, JOB_STATES_FINAL, NOT_ENDED, true};

/* For call.free_data.  The struct itself lies in the memory of the call. */
static void act_free(void *data)
{
    struct act *a = data;

    vec_done(&a->jobs);
}

/* ---- which jobs: worker thread ---- */

static int cmp_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* The body lists jobs: all of them must exist for this caller, or nothing is done. */
static int jobs_named(struct call *c, const struct json *list)
{
    struct act *a = c->data;
    size_t kept = 0;

    for (size_t i = 0; i < json_len(list); i++) {
        char number[BODY_NUMBER_MAX];
        struct job_facts f;
        struct str ref;

        if (body_job_ref(json_at(list, i), number, &ref, &c->err) < 0 ||
            job_ref_resolve(c, ref, &f, &c->err) < 0)
            return err_wrap(&c->err, "jobs[%zu]", i);
        vec_push(&a->jobs, f.seq);
    }
    /* Neighbours become one change, and nobody is counted twice. */
    if (a->jobs.n > 1)
        qsort(a->jobs.p, a->jobs.n, sizeof(uint64_t), cmp_u64);
    for (size_t i = 0; i < a->jobs.n; i++)
        if (i == 0 || a->jobs.p[i] != a->jobs.p[kept - 1])
            a->jobs.p[kept++] = a->jobs.p[i];
    a->jobs.n = kept;
    return 0;
}

/* The body has a filter: jobs in other states than those of the action are left out silently. */
static int jobs_matching(struct call *c)
{
    struct act *a = c->data;
    struct job_query q;
    uint64_t *found = NULL;
    size_t n = 0;

    if (list_params_query(c, &a->params, &q, &c->err) < 0)
        return -1;
    q.state_mask = q.state_mask ? q.state_mask & a->what->states : a->what->states;
    if (q.state_mask == 0)
        return 0;
    if (store_job_seqs(call_api(c)->conf.store, &q, &found, &n, &c->err) < 0)
        return -1;
    if (n > 1)
        qsort(found, n, sizeof(*found), cmp_u64);
    a->jobs.p = found;
    a->jobs.n = a->jobs.cap = n;
    return 0;
}

/* Copies the text: the body is freed before the query is made. */
static int act_text(struct call *c, const struct json *body, const char *key, const char **out)
{
    struct str text;

    if (body_text(c, body, key, &text) < 0)
        return -1;
    if (text.n > 0)
        *out = arena_strndup(&c->mem, text.p, text.n);
    return 0;
}

/* A misspelled key would widen the selection, so unknown keys are refused. */
static int act_check_keys(struct call *c, const struct json *j)
{
    static const char *const known[] = {"jobs", "filter", "project", "state",
                                        "user", "queue",  "batch",   "all"};

    for (struct json_it it = {0}; json_next(j, &it);) {
        size_t k = 0;
        const char *near;

        while (k < ARRAY_SIZE(known) && strcmp(known[k], it.key) != 0)
            k++;
        if (k < ARRAY_SIZE(known))
            continue;
        near = str_nearest(it.key, known, ARRAY_SIZE(known));
        return err_set(&c->err, ERR_INVALID, "unknown key '%.40s'; %s%s", it.key,
                       near ? "did you mean "
                            : "use jobs, filter, project, state, user, queue, "
                              "batch or all",
                       near ? near : "");
    }
    return 0;
}

static int act_read_body(struct call *c, const struct json *j)
{
    struct act *a = c->data;
    struct list_params *p = &a->params;

    if (json_type(j) != JSON_OBJECT)
        return err_set(&c->err, ERR_INVALID,
                       "the body must be an object such as {\"jobs\":[1,2]} or "
                       "{\"filter\":\"state:queued\"}, not %s",
                       json_type_name(json_type(j)));
    if (act_check_keys(c, j) < 0)
        return -1;
    if (json_has(j, "jobs")) {
        if (json_type(json_get(j, "jobs")) != JSON_ARRAY || json_len(j) > 1)
            return err_set(&c->err, ERR_INVALID,
                           "jobs: must be a list of numbers or ids, without other keys beside it");
        return jobs_named(c, json_get(j, "jobs"));
    }
    if (act_text(c, j, "filter", &p->filter) < 0 || act_text(c, j, "project", &p->project) < 0 ||
        act_text(c, j, "state", &p->state) < 0 || act_text(c, j, "user", &p->user) < 0 ||
        act_text(c, j, "queue", &p->queue) < 0 || act_text(c, j, "batch", &p->batch) < 0)
        return -1;
    if (!p->filter && !p->project && !p->state && !p->user && !p->queue && !p->batch &&
        !json_bool(json_get(j, "all")))
        return err_set(
            &c->err, ERR_INVALID,
            "the body names no jobs; give \"jobs\", a filter, or \"all\": true for every "
            "job that you may change");
    return jobs_matching(c);
}

/* Worker thread: fills a->jobs. */
static int act_run(struct call *c)
{
    struct act *a = c->data;
    struct job_facts f;

    if (a->single) {
        if (job_ref_arg(c, &f) < 0)
            return -1;
        vec_push(&a->jobs, f.seq);
        return 0;
    }
    AUTO(json) struct json *j = call_json_body(c);
    return j ? act_read_body(c, j) : -1;
}

/* ---- doing it: loop thread ---- */

/* For one job a refusal is an error; for many jobs the answer counts them. */
static void act_reply(struct call *c)
{
    struct act *a = c->data;

    if (a->err.code != ERR_NONE) {
        call_fail(c, &a->err);
        return;
    }
    if (a->single && a->sum.unknown > 0) {
        err_set(&c->err, ERR_NOT_FOUND, "job " STR_FMT " was removed", STR_ARG(c->arg[0]));
        call_fail(c, &c->err);
        return;
    }
    if (a->single && a->what->refusal && a->sum.already > 0) {
        err_set(&c->err, ERR_CONFLICT, "job " STR_FMT " %s", STR_ARG(c->arg[0]), a->what->refusal);
        call_fail(c, &c->err);
        return;
    }
    if (!a->what->no_content) {
        acted_reply(c, NULL, &a->sum, 4);
        return;
    }
    c->status = 204;
    call_reply(c);
}

/* Loop thread, once for each piece, after its commit.  An error of one piece becomes the answer;
 * the other pieces were done all the same. */
static void act_on_acted(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;
    struct act *a = c->data;

    a->pending--;
    if (e) {
        a->err = *e;
    } else {
        a->sum.done += r->done;
        a->sum.already += r->already;
        a->sum.denied += r->denied;
        a->sum.unknown += r->unknown;
    }
    if (a->pending == 0 && a->sent == a->jobs.n)
        act_reply(c);
}

/* The pieces do not wait for each other's commit: the writer takes several at once. */
static void act_piece(struct call *c)
{
    struct act *a = c->data;
    const uint64_t *from = a->jobs.p + a->sent;
    size_t n = MIN(a->jobs.n - a->sent, (size_t)ACT_PIECE);
    bool last = a->sent + n == a->jobs.n;

    a->sent += n;
    a->pending++;
    if (!last)
        call_later(c, act_piece);
    a->what->fn(call_api(c)->conf.core, from, n, &c->who.caller, act_on_acted, c);
}

static void act_then(struct call *c)
{
    struct act *a = c->data;

    if (a->jobs.n == 0)
        act_reply(c);
    else
        act_piece(c);
}

static void act_start(struct call *c, bool single)
{
    struct act *a = call_alloc(c, sizeof(*a));

    a->what = c->route->arg;
    a->single = single;
    call_keep_body(c);
    c->data = a;
    c->free_data = act_free;
    call_work(c, act_run, act_then);
}

void jobs_act_one(struct call *c)
{
    act_start(c, true);
}

void jobs_act_many(struct call *c)
{
    act_start(c, false);
}
