/* event_page.c - a page of events read on a worker thread
 *
 * Owns: the form in which an event leaves, and whose it is.
 *
 * An event is about the jobs first … last, or about none (a queue, a node, a study).  People who
 * are not admins get those about their own jobs and studies; an event about jobs of several people
 * (an admin cancels everything) reaches each of them cut down to their own.
 */
#include "api/event_page.h"
#include "api/job_json.h"
#include "io/http_server.h"

/* The limits of one page: bytes of its text, and jobs of one event that are split by owner. */
enum {
    PAGE_TEXT_MAX = 64 << 20,
    SPLIT_JOBS_MAX = 10000, /* of an event about many people's jobs; the rest is left out */
};

struct event_page *event_page_new(struct store *s, void *owner, uint64_t after, size_t limit)
{
    struct event_page *p = xcalloc(1, sizeof(*p));

    p->store = s;
    p->owner = owner;
    p->after = p->last = after;
    p->limit = limit;
    p->filter.all = true;
    buf_init(&p->text, PAGE_TEXT_MAX);
    return p;
}

void event_page_free(struct event_page *p)
{
    if (!p)
        return;
    buf_done(&p->text);
    vec_done(&p->entries);
    free(p);
}

void event_json(struct buf *b, const struct event_view *v)
{
    jw_object(b, NULL);
    jw_int(b, "seq", (int64_t)v->seq);
    jw_str(b, "kind", v->kind);
    jw_time(b, "at", v->at_ms);
    if (v->first) {
        jw_int(b, "job", (int64_t)v->first);
        jw_int(b, "last", (int64_t)v->last);
    } else {
        jw_null(b, "job");
        jw_null(b, "last");
    }
    jw_raw(b, "data", v->data.n ? v->data : STR("{}"));
    jw_end_object(b);
}

/* uid NULL: nobody asked for the owner, the owner is unknown, or the jobs belong to several people.
 * Such an entry reaches only admins. */
static void event_page_add(struct event_page *p, const struct event_view *v, const uint32_t *uid)
{
    struct event_entry en = {.seq = v->seq,
                             .first = v->first,
                             .last = v->last,
                             .owned = uid != NULL,
                             .uid = uid ? *uid : 0,
                             .at = p->text.n};
    AUTO(buf) struct buf json = {0};
    char kind[64];

    /* The page is read for one person who is not an admin. */
    if (!p->filter.all && !(uid && *uid == p->filter.uid))
        return;
    if (p->sse) {
        buf_init(&json, PAGE_TEXT_MAX);
        event_json(&json, v);
        snprintf(kind, sizeof(kind), STR_FMT, (int)MIN(v->kind.n, sizeof(kind) - 1), v->kind.p);
        sse_format(&p->text, v->seq, kind, buf_str(&json));
    } else {
        event_json(&p->text, v);
    }
    en.n = p->text.n - en.at;
    vec_push(&p->entries, en);
}

/* ---- whose jobs ---- */

static bool keep_uid(void *arg, const struct job_view *v)
{
    *(uint32_t *)arg = v->uid;
    return false;
}

/* False: the job was removed since, so nobody owns the event any more. */
static bool event_owner(struct event_page *p, uint64_t job, uint32_t *out)
{
    struct err e = {0};

    return store_job(p->store, job, keep_uid, out, &e) == 0;
}

/* The jobs of a range, as a query. */
struct range_query {
    struct filter from, to, both;
    char text[2][24];
    const char *values[2];
    struct job_query q;
};

/* One side of the range: the number of a job, as text for the filter and as a value. */
static void range_bound(struct range_query *r, int i, struct filter *f, enum filter_op op,
                        uint64_t n)
{
    snprintf(r->text[i], sizeof(r->text[i]), "%llu", (unsigned long long)n);
    r->values[i] = r->text[i];
    *f = (struct filter){.op = op,
                         .field = FILTER_F_NUMBER,
                         .values = &r->values[i],
                         .n_values = 1,
                         .numeric = true,
                         .number = (double)n};
}

static void range_query_init(struct range_query *r, uint64_t first, uint64_t last)
{
    *r = (struct range_query){0};
    range_bound(r, 0, &r->from, FILTER_GE, first);
    range_bound(r, 1, &r->to, FILTER_LE, last);
    r->both = (struct filter){.op = FILTER_AND, .left = &r->from, .right = &r->to};
    r->q = (struct job_query){.filter = &r->both, .sort = "id", .limit = SPLIT_JOBS_MAX};
}

/* Do all jobs of the event belong to this user?  A count answers that without reading the rows. */
static bool all_of(struct event_page *p, const struct event_view *v, uint32_t uid)
{
    struct range_query r;
    uint64_t counts[JOB_STATE_MAX] = {0}, n = 0;
    struct err e = {0};

    range_query_init(&r, v->first, v->last);
    r.q.only_uid = true;
    r.q.uid = uid;
    if (store_job_counts(p->store, &r.q, counts, &e) < 0)
        return false;
    for (int s = 0; s < JOB_STATE_MAX; s++)
        n += counts[s];
    return n == v->last - v->first + 1;
}

/* State of add_split: the piece that is being collected, and who owns its jobs. */
struct splitting {
    struct event_page *page;
    struct event_view piece; /* neighbours of one person, not yet added */
    uint32_t uid;
};

/* Adds the piece that was collected and begins a new one. */
static void split_flush(struct splitting *s)
{
    size_t n = s->page->entries.n;

    if (s->piece.first)
        event_page_add(s->page, &s->piece, &s->uid);
    if (s->page->entries.n > n)
        vec_last(&s->page->entries).part = true;
    s->piece.first = 0;
}

/* Called for the jobs of the event in the order of their numbers. */
static bool split_job(void *arg, const struct job_view *v)
{
    struct splitting *s = arg;

    if (s->piece.first && (v->uid != s->uid || v->seq != s->piece.last + 1))
        split_flush(s);
    if (!s->piece.first)
        s->piece.first = v->seq;
    s->piece.last = v->seq;
    s->uid = v->uid;
    return true;
}

/* Adds one entry for each run of neighbouring jobs of one owner. */
static void add_split(struct event_page *p, const struct event_view *v)
{
    struct splitting s = {.page = p, .piece = *v};
    struct range_query r;
    AUTO_FREE char *cursor = NULL;

    s.piece.first = 0;
    range_query_init(&r, v->first, v->last);
    store_jobs(p->store, &r.q, split_job, &s, &cursor, &p->err);
    split_flush(&s);
}

/* An event of a study names its owner itself; false: it is about something else. */
static bool study_owner(const struct event_view *v, uint32_t *out)
{
    AUTO(json) struct json *data = NULL;

    if (!str_starts(v->kind, STR("study.")) || json_parse(v->data, "data", &data, NULL) < 0 ||
        !json_has(data, "uid"))
        return false;
    *out = (uint32_t)json_int(json_get(data, "uid"));
    return true;
}

/* Adds an event with the owner of its jobs, so that event_page_select can choose. */
static void add_owned(struct event_page *p, const struct event_view *v)
{
    uint32_t uid;

    if (!v->first && study_owner(v, &uid)) {
        event_page_add(p, v, &uid);
    } else if (!v->first || !event_owner(p, v->first, &uid)) {
        event_page_add(p, v, NULL);
    } else if (v->first == v->last || all_of(p, v, uid)) {
        event_page_add(p, v, &uid);
    } else {
        if (p->owners) /* admins get it whole */
            event_page_add(p, v, NULL);
        add_split(p, v); /* and everybody their part */
    }
}

/* ---- reading ---- */

/* store_events holds a read connection during the callback; whose jobs they are takes another. */
struct kept {
    struct event_view v;
    char *kind, *data;
};
/* State of one read.  `rows` counts all events, also those that the filter leaves out: it tells
 * whether the page is full. */
struct keeping {
    struct event_page *page;
    VEC(struct kept) kept;
    size_t rows;
};

static char *event_text_copy(struct str s)
{
    return xstrndup(s.p ? s.p : "", s.n);
}

/* Called by store_events in the order of the events.  False ends the read. */
static bool event_page_on_row(void *arg, const struct event_view *v)
{
    struct keeping *k = arg;
    struct event_page *p = k->page;
    struct kept one = {.v = *v};

    k->rows++;
    p->last = MAX(p->last, v->seq);
    /* Nobody needs to know the owners: the event can be formatted without a copy. */
    if (p->filter.all && !p->owners) {
        event_page_add(p, v, NULL);
        return !p->text.overflow;
    }
    one.kind = event_text_copy(v->kind);
    one.data = event_text_copy(v->data);
    one.v.kind.p = one.kind;
    one.v.data.p = one.data;
    vec_push(&k->kept, one);
    return true;
}

/* Worker thread.  First all rows are read, then their owners are looked up, because the read
 * connection is free only after the rows. */
void event_page_read(void *page)
{
    struct event_page *p = page;
    struct keeping k = {.page = p};

    store_events(p->store, p->after, p->limit, p->filter.job, event_page_on_row, &k, &p->err);
    for (size_t i = 0; i < k.kept.n; i++) {
        add_owned(p, &k.kept.p[i].v);
        free(k.kept.p[i].kind);
        free(k.kept.p[i].data);
    }
    vec_done(&k.kept);
    p->full = k.rows >= p->limit;
    if (!p->full)
        p->last = MAX(p->last, p->seen);
}

/* Admins get events whole; other users get events and parts of events about their own jobs. */
static bool entry_matches(const struct event_entry *en, const struct event_filter *f)
{
    if (f->job && !(en->first <= f->job && f->job <= en->last))
        return false;
    return f->all ? !en->part : en->owned && en->uid == f->uid;
}

struct str event_page_select(const struct event_page *p, const struct event_filter *f, uint64_t pos,
                             struct buf *some)
{
    size_t i = 0;

    while (i < p->entries.n && p->entries.p[i].seq <= pos)
        i++;
    if (i == p->entries.n)
        return (struct str){"", 0};
    if (f->all && !f->job && !p->owners)
        return (struct str){p->text.p + p->entries.p[i].at, p->text.n - p->entries.p[i].at};
    buf_init(some, PAGE_TEXT_MAX);
    for (; i < p->entries.n; i++)
        if (entry_matches(&p->entries.p[i], f))
            buf_add(some, p->text.p + p->entries.p[i].at, p->entries.p[i].n);
    return buf_str(some);
}
