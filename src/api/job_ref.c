/* job_ref.c - jobs by the names people use, within what the caller may see
 *
 * Owns: the rule that a person who is not an admin sees only their own jobs, everywhere.  A job of
 * somebody else does not exist for them: same status, same words.
 *
 * Everything but list_params_read runs on worker threads.
 */
#include "api/api_priv.h"
#include "base/clock.h"

/* For store_job: false ends the search after one row. */
static bool keep_facts(void *arg, const struct job_view *v)
{
    struct job_facts *f = arg;

    *f = (struct job_facts){
        .seq = v->seq, .id = v->id, .uid = v->uid, .attempt = v->attempt, .state = v->state};
    return false;
}

static int job_ref_not_found(struct str ref, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "there is no job '" STR_FMT "'; 'berth ls' lists the jobs",
                   (int)MIN(ref.n, 60), ref.p);
}

static int job_ref_ambiguous(struct str ref, struct err *e)
{
    return err_set(e, ERR_CONFLICT,
                   "several job ids begin with '" STR_FMT "'; give more characters",
                   (int)MIN(ref.n, 60), ref.p);
}

/* The search ends at the second match: more than one is ambiguous, however many there are. */
struct own_matches {
    struct job_facts first;
    size_t n;
};

static bool count_match(void *arg, const struct job_view *v)
{
    struct own_matches *m = arg;

    if (m->n++ == 0)
        keep_facts(&m->first, v);
    return m->n < 2;
}

/* A beginning that several ids share may still name one job of the caller's. */
static int resolve_own(struct call *c, struct str ref, struct job_facts *out, struct err *e)
{
    char *text = arena_strndup(&c->mem, ref.p, ref.n);
    const char *values[] = {text};
    struct filter f = {.op = FILTER_EQ, .field = FILTER_F_ID, .values = values, .n_values = 1};
    struct job_query q = {.filter = &f, .only_uid = true, .uid = c->who.caller.uid, .limit = 2};
    struct own_matches m = {0};

    /* A token of a run opens one job only; a search among all jobs of the user would tell more. */
    if (c->who.token.job != 0)
        return job_ref_not_found(ref, e);
    if (store_jobs(call_api(c)->conf.store, &q, count_match, &m, NULL, e) < 0)
        return -1;
    if (m.n == 0)
        return job_ref_not_found(ref, e);
    if (m.n > 1)
        return job_ref_ambiguous(ref, e);
    *out = m.first;
    return 0;
}

/* A token opens its job and no other; else caller_sees decides. */
static bool job_visible(const struct who *w, const struct job_facts *f)
{
    if (w->token.job != 0)
        return f->seq == w->token.job;
    return caller_sees(&w->caller, f->uid);
}

int job_ref_resolve(struct call *c, struct str ref, struct job_facts *out, struct err *e)
{
    struct store *s = call_api(c)->conf.store;
    struct job_facts f = {0};
    struct err why = {0};
    uint64_t seq;

    if (store_resolve(s, ref, &seq, &why) < 0 || store_job(s, seq, keep_facts, &f, &why) < 0) {
        if (why.code == ERR_NOT_FOUND)
            return job_ref_not_found(ref, e);
        if (why.code == ERR_CONFLICT && !c->who.caller.admin)
            return resolve_own(c, ref, out, e);
        *e = why;
        return -1;
    }
    if (!job_visible(&c->who, &f))
        return job_ref_not_found(ref, e);
    *out = f;
    return 0;
}

struct job_query visible_jobs(const struct call *c)
{
    return (struct job_query){
        .only_uid = !c->who.caller.admin, .uid = c->who.caller.uid, .limit = 1};
}

int visible_counts(struct call *c, const struct job_query *q, uint64_t counts[JOB_STATE_MAX],
                   uint64_t *total)
{
    memset(counts, 0, JOB_STATE_MAX * sizeof(*counts));
    if (store_job_counts(call_api(c)->conf.store, q, counts, &c->err) < 0)
        return -1;
    *total = 0;
    for (int s = 0; s < JOB_STATE_MAX; s++)
        *total += counts[s];
    return 0;
}

int job_ref_arg(struct call *c, struct job_facts *out)
{
    return job_ref_resolve(c, c->arg[0], out, &c->err);
}

int list_params_read(struct call *c, struct list_params *out, struct err *e)
{
    int64_t limit;

    if (call_param_int(c, "limit", API_PAGE_DEFAULT, 1, API_PAGE_MAX, &limit, e) < 0)
        return -1;
    *out = (struct list_params){.filter = call_param(c, "filter"),
                                .project = call_param(c, "project"),
                                .state = call_param(c, "state"),
                                .user = call_param(c, "user"),
                                .queue = call_param(c, "queue"),
                                .batch = call_param(c, "batch"),
                                .sort = call_param(c, "sort"),
                                .cursor = call_param(c, "cursor"),
                                .limit = (size_t)limit};
    return 0;
}

/* "queued,running" as a mask of 1 << state.  An empty list is 0, which means every state. */
static int state_mask(const char *text, uint32_t *out, struct err *e)
{
    struct str rest = str_of(text);
    uint32_t mask = 0, some;

    while (rest.n > 0) {
        struct str one = str_trim(str_cut(rest, ',', &rest));

        if (one.n == 0)
            continue;
        if (!job_state_set_parse(one, &some)) {
            char word[32];
            const char *near;

            snprintf(word, sizeof(word), STR_FMT, (int)MIN(one.n, sizeof(word) - 1), one.p);
            near = str_nearest(word, job_state_words, ARRAY_SIZE(job_state_words));
            return err_set(e, ERR_INVALID, "state: there is no state '%s'; %s%s", word,
                           near ? "did you mean " : "states are " JOB_STATE_WORDS_TEXT,
                           near ? near : "");
        }
        mask |= some;
    }
    *out = mask;
    return 0;
}

/* A name of a field, else a column.  Without a key the newest job comes first. */
static int sort_key(struct call *c, const char *text, struct job_query *q, struct err *e)
{
    static const char *const keys[] = {"id",      "number",  "name",  "state",    "priority",
                                       "created", "started", "ended", "duration", "exit_code"};
    const char *key = text;

    if (!text) {
        q->desc = true;
        return 0;
    }
    if (*key == '-') {
        q->desc = true;
        key++;
    }
    if (!strcmp(key, "number")) /* numbers and ids are given out in the same order */
        key = "id";
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (!strcmp(key, keys[i])) {
            q->sort = arena_strdup(&c->mem, key);
            return 0;
        }
    struct job_column *by = arena_alloc(&c->mem, sizeof(*by));
    q->by = by;
    return job_column_parse(str_of(key), &c->mem, by, e) < 0 ? err_wrap(e, "sort") : 0;
}

/* To a user who is not an admin, a batch that does not exist looks like another user's: empty. */
static int list_find_batch(struct call *c, const char *name, uint64_t *out, struct err *e)
{
    struct err why = {0};

    if (store_batch_find(call_api(c)->conf.store, str_of(name), out, &why) == 0)
        return 0;
    if (why.code == ERR_NOT_FOUND && !c->who.caller.admin) {
        /* No batch has this number, so the list is empty. */
        *out = INT64_MAX;
        return 0;
    }
    *e = why;
    return -1;
}

int list_params_query(struct call *c, const struct list_params *p, struct job_query *out,
                      struct err *e)
{
    struct job_query q = visible_jobs(c);
    struct filter *f = NULL;

    q.project = p->project;
    q.user = p->user;
    q.queue = p->queue;
    q.cursor = p->cursor;
    q.limit = p->limit ? p->limit : API_PAGE_DEFAULT;

    if (p->filter && filter_parse(str_of(p->filter), clock_wall(&clock_system), &c->mem, &f, e) < 0)
        return -1; /* it names the filter and the column */
    q.filter = f;
    if (p->state && state_mask(p->state, &q.state_mask, e) < 0)
        return -1;
    if (sort_key(c, p->sort, &q, e) < 0)
        return -1;
    if (p->batch && list_find_batch(c, p->batch, &q.batch, e) < 0)
        return -1;
    *out = q;
    return 0;
}
