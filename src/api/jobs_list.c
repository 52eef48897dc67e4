/* jobs_list.c - GET /v1/jobs and /v1/jobs/summary
 *
 * Newest first unless `sort` says otherwise.  The cursor is the store's: it names the last row
 * seen, so rows that come or go between two pages neither repeat nor hide others.
 */
#include "api/api_priv.h"
#include "api/job_json.h"

struct listing {
    struct job_live live; /* first: job_live.c finds it there */
    struct list_params params;
    struct job_column *columns;
    size_t n_columns;
};

/* Numbers that JSON does not know are the words of api/series.c. */
static void put_column(void *arg, size_t i, const struct job_value *v)
{
    struct call *c = arg;
    const char *key = ((struct listing *)c->data)->columns[i].text;

    switch (v->is) {
    case JOB_VALUE_NOTHING:
        jw_null(&c->out, key);
        break;
    case JOB_VALUE_JSON:
        jw_raw(&c->out, key, v->text);
        break;
    case JOB_VALUE_NUMBER:
        jw_number(&c->out, key, v->number);
        break;
    case JOB_VALUE_INTEGER:
        jw_int(&c->out, key, v->integer);
        break;
    case JOB_VALUE_WORDS:
        jw_str(&c->out, key, v->text);
        break;
    }
}

/* The object ends with "gpu":null}, so the null lies five bytes before the end.  False stops the
 * list: the answer has become too large, and call_reply refuses it. */
static bool jobs_list_add(void *arg, const struct job_view *v)
{
    struct call *c = arg;
    struct listing *l = c->data;
    struct buf *b = &c->out;

    job_json_begin(b, v);
    if (l->n_columns) {
        jw_object(b, "columns");
        if (store_columns(call_api(c)->conf.store, v, l->columns, l->n_columns, put_column, c,
                          &c->err) < 0)
            return false;
        jw_end_object(b);
    }
    jw_null(b, "gpu");
    jw_end_object(b);
    job_live_note(c, v, b->n - strlen("null}"));
    return !b->overflow;
}

static int jobs_list_run(struct call *c)
{
    struct job_query q;
    AUTO_FREE char *next = NULL;

    if (list_params_query(c, &((struct listing *)c->data)->params, &q, &c->err) < 0)
        return -1;
    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    if (store_jobs(call_api(c)->conf.store, &q, jobs_list_add, c, &next, &c->err) < 0 ||
        c->err.code)
        return -1;
    jw_end_array(&c->out);
    jw_key(&c->out, STR("next"));
    /* A cursor keeps the time of its list: the same page has another one each time it is asked for.
     * Whether there is one (a quote or the n of null) does count. */
    c->etag.n = c->out.n + 1;
    jw_str_or_null(&c->out, NULL, str_of(next));
    jw_end_object(&c->out);
    return 0;
}

static int summary_run(struct call *c)
{
    uint64_t counts[JOB_STATE_MAX] = {0}, total = 0;
    struct job_query q;

    if (list_params_query(c, &((struct listing *)c->data)->params, &q, &c->err) < 0 ||
        store_job_counts(call_api(c)->conf.store, &q, counts, &c->err) < 0)
        return -1;
    for (int s = 0; s < JOB_STATE_MAX; s++)
        total += counts[s];
    jw_object(&c->out, NULL);
    jw_int(&c->out, "total", (int64_t)total);
    jw_counts(&c->out, counts);
    jw_end_object(&c->out);
    return 0;
}

static void jobs_list_start(struct call *c, call_work_fn run, call_fn then)
{
    struct listing *l = call_alloc(c, sizeof(*l));

    c->data = l;
    c->etag.wanted = true;
    if (list_params_read(c, &l->params, &c->err) < 0 ||
        job_columns_parse(str_of(call_param(c, "columns")), &c->mem, &l->columns, &l->n_columns,
                          &c->err) < 0)
        call_fail(c, &c->err);
    else
        call_work(c, run, then);
}

void jobs_list(struct call *c)
{
    jobs_list_start(c, jobs_list_run, job_live_reply);
}

void jobs_summary(struct call *c)
{
    jobs_list_start(c, summary_run, NULL);
}
