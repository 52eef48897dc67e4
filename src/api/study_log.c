/* study_log.c - /v1/study-logs: what libraries of searches keep of their studies
 *
 * A log belongs to whoever appends to it; nobody sees those of others.  Lines are parsed and
 * written again on a worker thread, so that each is one line.  An append is answered after its
 * commit, with all lines from `after` on, so that a client needs no second request.
 */
#include "core/study_log.h"
#include "api/api_priv.h"
#include "base/json_out.h"
#include "store/study_log.h"

enum { LOG_LINES_MAX = 10000, LOG_PAGE_MAX = 10000 };

struct study_log_call {
    struct json *body;
    struct buf lines;
    int64_t after, limit; /* after -1 = no lines are wanted */
    uint64_t n, last;
};

static void study_log_free(void *data)
{
    struct study_log_call *d = data;

    json_free(d->body);
    buf_done(&d->lines);
}

static struct study_log_call *study_log_begin(struct call *c)
{
    struct study_log_call *d = c->data = call_alloc(c, sizeof(*d));

    *d = (struct study_log_call){.after = -1, .limit = LOG_PAGE_MAX};
    c->free_data = study_log_free;
    return d;
}

/* ---- reading ---- */

static bool study_log_line(void *arg, uint64_t number, struct str text)
{
    struct call *c = arg;
    struct study_log_call *d = c->data;

    jw_raw(&c->out, NULL, text);
    d->n++;
    d->last = number;
    return true;
}

/* Worker thread. */
static int study_log_page(struct call *c)
{
    struct study_log_call *d = c->data;

    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    if (d->after >= 0 &&
        store_study_log(call_api(c)->conf.store, c->who.caller.uid, c->arg[0], (uint64_t)d->after,
                        (size_t)d->limit, study_log_line, c, &c->err) < 0)
        return -1;
    jw_end_array(&c->out);
    jw_int_or_null(&c->out, "next", (int64_t)d->last, d->n == (uint64_t)d->limit);
    jw_end_object(&c->out);
    return 0;
}

void study_logs_read(struct call *c)
{
    struct study_log_call *d = study_log_begin(c);

    if (call_param_int(c, "after", 0, 0, INT64_MAX, &d->after, &c->err) < 0 ||
        call_param_int(c, "limit", LOG_PAGE_MAX, 1, LOG_PAGE_MAX, &d->limit, &c->err) < 0)
        call_fail(c, &c->err);
    else
        call_work(c, study_log_page, call_reply);
}

static bool study_log_name(void *arg, uint64_t number, struct str text)
{
    struct call *c = arg;

    jw_object(&c->out, NULL);
    jw_str(&c->out, "name", text);
    jw_int(&c->out, "lines", (int64_t)number);
    jw_end_object(&c->out);
    return true;
}

static int study_log_names(struct call *c)
{
    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    if (store_study_logs(call_api(c)->conf.store, c->who.caller.uid, study_log_name, c, &c->err) <
        0)
        return -1;
    jw_end_array(&c->out);
    jw_end_object(&c->out);
    return 0;
}

void study_logs_list(struct call *c)
{
    call_work(c, study_log_names, call_reply);
}

/* ---- appending ---- */

/* Worker thread. */
static int study_log_parse(struct call *c)
{
    static const char *const keys[] = {"lines", "after"};
    struct study_log_call *d = c->data;
    const struct json *body = d->body = body_object(c), *lines = json_get(body, "lines");

    if (!body || body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) < 0 ||
        body_int(c, body, "after", 0, INT64_MAX, &d->after) < 0)
        return -1;
    if (json_type(lines) != JSON_ARRAY || json_len(lines) > LOG_LINES_MAX)
        return err_set(&c->err, ERR_INVALID, "lines: give a list of at most %d objects",
                       LOG_LINES_MAX);
    for (size_t i = 0; i < json_len(lines); i++) {
        if (json_type(json_at(lines, i)) != JSON_OBJECT)
            return body_wrong_type(c, "lines[]", json_at(lines, i), "an object");
        AUTO_FREE char *text = json_text(json_at(lines, i));
        buf_adds(&d->lines, text);
        buf_addc(&d->lines, '\n');
    }
    return 0;
}

/* A core_act_fn. */
static void study_log_durable(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;

    (void)r;
    if (e)
        call_fail(c, e);
    else
        call_work(c, study_log_page, call_reply);
}

static void study_log_store(struct call *c)
{
    struct study_log_call *d = c->data;

    core_study_log_append(call_api(c)->conf.core, c->arg[0], buf_str(&d->lines), &c->who.caller,
                          study_log_durable, c);
}

void study_logs_append(struct call *c)
{
    study_log_begin(c);
    call_keep_body(c);
    call_work(c, study_log_parse, study_log_store);
}

void study_logs_remove(struct call *c)
{
    core_study_log_remove(call_api(c)->conf.core, c->arg[0], &c->who.caller, call_acted, c);
}
