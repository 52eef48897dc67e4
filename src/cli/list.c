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
    query_add(&path, "columns", q->columns);
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

/* What a page is given to: its text, or the rows read from it. */
struct page_taker {
    void (*text)(void *arg, struct str array);
    void (*rows)(void *arg, const struct json *items);
    void *arg;
};

/* A page with fewer rows than were asked for has no cursor, so `left` need not count rows. */
static int list_each(struct cli *c, const struct list_query *q, const struct page_taker *t,
                     bool *out_more, struct err *e)
{
    AUTO_FREE char *cursor = NULL;
    int64_t left = q->limit;
    int rc = 0;

    do {
        struct http_response r;
        AUTO(json) struct json *rest = NULL, *rows = NULL;
        struct str items;
        if (fetch_page(c, q, left, cursor, &r, e) < 0)
            return -1;
        rc = cut_page(buf_str(&r.body), &items, &rest, e);
        if (rc == 0 && t->text)
            t->text(t->arg, items);
        else if (rc == 0 && (rc = json_parse(items, "the daemon's answer", &rows, e)) == 0)
            t->rows(t->arg, rows);
        http_response_done(&r);
        struct str next = text_of(rest, "next");
        free(cursor);
        cursor = next.n ? xstrndup(next.p, next.n) : NULL;
        if (left > 0)
            left -= MIN(left, (int64_t)PAGE);
    } while (rc == 0 && cursor && left != 0);
    if (out_more)
        *out_more = cursor != NULL;
    return rc;
}

int list_texts(struct cli *c, const struct list_query *q, void (*page)(void *arg, struct str array),
               void *arg, struct err *e)
{
    return list_each(c, q, &(struct page_taker){page, NULL, arg}, NULL, e);
}

int list_pages(struct cli *c, const struct list_query *q,
               void (*page)(void *arg, const struct json *items), void *arg, bool *out_more,
               struct err *e)
{
    return list_each(c, q, &(struct page_taker){NULL, page, arg}, out_more, e);
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

int list_overview(struct cli *c, const char *filter, const int64_t limits[3], struct json *rows,
                  struct err *e)
{
    static const char *const parts[][2] = {{"running,starting,stopping", "id"},
                                           {"queued,held", "id"},
                                           {"succeeded,failed,cancelled,lost", "-ended"}};

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        const struct list_query q = {filter, parts[i][0], parts[i][1], limits[i], NULL};
        if (list_jobs(c, &q, rows, NULL, e) < 0)
            return -1;
    }
    return 0;
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
        buf_adds(b, first ? "" : ", ");
        colour_addf(b, colour, state_colour(str_of(name)), "%lld %s", (long long)n, name);
        first = false;
    }
    if (first)
        buf_adds(b, "no jobs");
}

struct json *list_body(const struct cli *c, const char *filter)
{
    struct json *body = json_new_object();

    if (filter)
        json_set_str(body, "filter", filter);
    opt_put_json(body, OPTION_GROUPS(&list_group), &c->opt, "state|project|user|queue|batch");
    if (!json_len(body))
        json_set_bool(body, "all", true);
    return body;
}
