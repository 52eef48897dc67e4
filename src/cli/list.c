/* list.c - the jobs a listing is about
 *
 * Owns: how options and filter words become one query, and the fetching of pages.
 */
#include "cli/list.h"
#include "base/util.h"
#include "cli/view.h"
#include "model/job.h"
#include <stdio.h>

/* PAGE is the largest page that the daemon gives. */
enum { PAGE = 10000 };

/* A whole term such as name~cnn, as opposed to `and`, `(`, or a piece of `lr < 0.1`. */
static bool is_term(const char *word)
{
    const char *op = strpbrk(word, ":=~<>");

    return op && op > word && op[strspn(op, ":=~<>!")];
}

char *filter_text(const struct operands *ops)
{
    AUTO(buf) struct buf b = {0};

    if (!ops->n)
        return NULL;
    for (size_t i = 0; i < ops->n; i++) {
        if (i)
            buf_adds(&b, is_term(ops->p[i - 1]) && is_term(ops->p[i]) ? " and " : " ");
        buf_adds(&b, ops->p[i]);
    }
    return buf_take(&b, NULL);
}

bool list_restricted(const struct cli *c, const struct operands *ops)
{
    const struct shared_opts *o = &c->opt;

    return ops->n || o->project || o->state || o->user || o->queue || o->batch;
}

/* Initialises b.  What a list and a summary have in common: no sort, limit or cursor. */
static void query_path(const struct cli *c, const struct list_query *q, const char *path,
                       struct buf *b)
{
    buf_init(b, 0);
    buf_adds(b, path);
    query_add(b, "filter", q->filter);
    query_add(b, "state", q->state);
    query_add(b, "project", c->opt.project);
    query_add(b, "user", c->opt.user);
    query_add(b, "queue", c->opt.queue);
    query_add(b, "batch", c->opt.batch);
}

static int fetch_page(struct cli *c, const struct list_query *q, int64_t left, const char *cursor,
                      struct http_response *out, struct err *e)
{
    AUTO(buf) struct buf path = {0};

    query_path(c, q, "/v1/jobs", &path);
    query_add(&path, "sort", q->sort);
    query_add_int(&path, "limit", left < 0 ? PAGE : MIN(left, (int64_t)PAGE));
    query_add(&path, "cursor", cursor);
    return cli_fetch(c, "GET", path.p, NULL, STR(""), out, e);
}

/* {"items":[…],"next":…} cut in two: the daemon writes it in just this order. */
static int cut_page(struct str body, struct str *items, struct json **rest, struct err *e)
{
    static const struct str head = {"{\"items\":", 9}, tail = {"],\"next\":", 9};
    size_t at = body.n;

    while (at > head.n && !(at + tail.n <= body.n && !memcmp(body.p + at, tail.p, tail.n)))
        at--;
    if (!str_starts(body, head) || at <= head.n)
        return err_set(e, ERR_INTERNAL, "the daemon's list of jobs has an unexpected form");
    *items = (struct str){body.p + head.n, at + 1 - head.n};
    AUTO_FREE char *text = xasprintf("{" STR_FMT, (int)(body.n - at - 2), body.p + at + 2);
    return json_parse(str_of(text), "the daemon's answer", rest, e);
}

/* A page with fewer rows than were asked for has no cursor, so `left` need not count rows. */
int list_texts(struct cli *c, const struct list_query *q, void (*page)(void *arg, struct str array),
               void *arg, struct err *e)
{
    AUTO_FREE char *cursor = NULL;
    int64_t left = q->limit;

    do {
        struct http_response r;
        AUTO(json) struct json *rest = NULL;
        struct str items;
        if (fetch_page(c, q, left, cursor, &r, e) < 0)
            return -1;
        int rc = cut_page(buf_str(&r.body), &items, &rest, e);
        if (rc == 0)
            page(arg, items);
        http_response_done(&r);
        struct str next = text_of(rest, "next");
        free(cursor);
        cursor = next.n ? xstrndup(next.p, next.n) : NULL;
        if (rc < 0)
            return -1;
        if (left > 0)
            left -= MIN(left, (int64_t)PAGE);
    } while (cursor && left != 0);
    return 0;
}

int list_pages(struct cli *c, const struct list_query *q,
               void (*page)(void *arg, const struct json *items), void *arg, bool *out_more,
               struct err *e)
{
    AUTO_FREE char *cursor = NULL;
    int64_t left = q->limit;

    do {
        struct http_response r;
        AUTO(json) struct json *reply = NULL;
        if (fetch_page(c, q, left, cursor, &r, e) < 0)
            return -1;
        int rc = json_parse(buf_str(&r.body), "the daemon's answer", &reply, e);
        http_response_done(&r);
        if (rc < 0)
            return -1;
        page(arg, json_get(reply, "items"));
        if (left > 0)
            left -= (int64_t)json_len(json_get(reply, "items"));
        struct str next = text_of(reply, "next");
        free(cursor);
        cursor = next.n ? xstrndup(next.p, next.n) : NULL;
    } while (cursor && left != 0);
    if (out_more)
        *out_more = cursor != NULL;
    return 0;
}

static void push_rows(void *arg, const struct json *items)
{
    for (size_t i = 0; i < json_len(items); i++)
        json_push_take(arg, json_copy(json_at(items, i)));
}

int list_jobs(struct cli *c, const struct list_query *q, struct json *rows, bool *out_more,
              struct err *e)
{
    return list_pages(c, q, push_rows, rows, out_more, e);
}

int list_counts(struct cli *c, const struct list_query *q, struct json **out, struct err *e)
{
    AUTO(buf) struct buf path = {0};

    query_path(c, q, "/v1/jobs/summary", &path);
    return cli_get(c, path.p, out, e);
}

void counts_format(struct buf *b, const struct json *counts, bool colour)
{
    static const enum job_state order[] = {JOB_RUNNING, JOB_STARTING,  JOB_STOPPING,
                                           JOB_QUEUED,  JOB_HELD,      JOB_FAILED,
                                           JOB_LOST,    JOB_CANCELLED, JOB_SUCCEEDED};
    bool first = true;

    for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
        const char *name = job_state_name(order[i]);
        int64_t n = int_of(counts, name);
        if (!n)
            continue;
        buf_addf(b, "%s%s%lld %s%s", first ? "" : ", ",
                 colour ? colour_start(state_colour(str_of(name))) : "", (long long)n, name,
                 colour ? colour_end() : "");
        first = false;
    }
    if (first)
        buf_adds(b, "no jobs");
}

struct json *list_body(const struct cli *c, const char *filter)
{
    const struct {
        const char *key, *value;
    } members[] = {{"filter", filter},    {"state", c->opt.state}, {"project", c->opt.project},
                   {"user", c->opt.user}, {"queue", c->opt.queue}, {"batch", c->opt.batch}};
    struct json *body = json_new_object();

    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        if (members[i].value)
            json_set_str(body, members[i].key, members[i].value);
    if (!json_len(body))
        json_set_take(body, "all", json_new_bool(true));
    return body;
}
