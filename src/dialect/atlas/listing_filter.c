/* listing_filter.c - filters and sorts of a listing, as its query says them
 *
 *   status=completed,failed       one of these texts
 *   user_contains=ada             a part of the text
 *   start_time_starts=11_16_2026_00_00&start_time_ends=…     between, both included; also numbers
 *   loss_isnull=true              has none; false: has one
 *   sort=-loss,start_time
 *
 * A column is one of the fixed ones, or a parameter or a metric, which may be told apart as
 * input_params:n (or parameters:n) and output_metrics:n.
 */
#include "base/util.h"
#include "dialect/atlas/listing_priv.h"
#include <math.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

enum { COLUMN_TEXT_MAX = 64 << 10 };

enum value_kind { VALUE_NONE, VALUE_NUMBER, VALUE_TEXT };
enum column_kind { COLUMN_PLAIN, COLUMN_DATE, COLUMN_DURATION };
/* One cell of the listing.  kind VALUE_NONE = the job has no value in this column; text may then be
 * NULL.  `column` says in which unit `number` counts: dates and durations are milliseconds. */
struct value {
    enum value_kind kind;
    enum column_kind column;
    double number;
    char *text; /* yours; also of numbers */
};

static void value_done(struct value *v)
{
    free(v->text);
}

/* ---- times ---- */

/* Ranges are checked by hand: timegm would turn month 13 into the next January. */
bool atlas_date_parse(const char *text, int64_t *out_ms)
{
    struct tm tm = {0};
    int n = 0;

    if (sscanf(text, "%2d_%2d_%4d_%2d_%2d%n", &tm.tm_mon, &tm.tm_mday, &tm.tm_year, &tm.tm_hour,
               &tm.tm_min, &n) != 5 ||
        text[n] || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 ||
        tm.tm_year < 1970 || tm.tm_hour > 23 || tm.tm_hour < 0 || tm.tm_min > 59 || tm.tm_min < 0)
        return false;
    tm.tm_mon--;
    tm.tm_year -= 1900;
    *out_ms = (int64_t)timegm(&tm) * 1000;
    return true;
}

bool atlas_duration_parse(const char *text, int64_t *out_ms)
{
    int d, h, m, s, n = 0;

    if (sscanf(text, "%5d_%5d_%5d_%5d%n", &d, &h, &m, &s, &n) != 4 || text[n] || d < 0 || h < 0 ||
        m < 0 || s < 0)
        return false;
    *out_ms = (((int64_t)d * 24 + h) * 60 + m) * 60000 + (int64_t)s * 1000;
    return true;
}

void atlas_duration_format(int64_t ms, char out[48])
{
    int64_t s = ms / 1000;

    snprintf(out, 48, "%lldd%lldh%lldm%llds", (long long)(s / 86400), (long long)(s / 3600 % 24),
             (long long)(s / 60 % 60), (long long)(s % 60));
}

const char *atlas_artifact_type(const char *name)
{
    static const struct {
        const char *end, *type;
    } types[] = {
        {"png", "image"}, {"jpg", "image"}, {"jpeg", "image"}, {"svg", "image"},  {"gif", "image"},
        {"wav", "audio"}, {"mp3", "audio"}, {"mp4", "video"},  {"webm", "video"}, {"txt", "text"},
        {"log", "text"},  {"md", "text"},   {"csv", "csv"},    {"json", "json"},  {"pdf", "pdf"},
        {"html", "html"}, {"htm", "html"},
    };
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < ARRAY_SIZE(types); i++)
        if (!strcasecmp(dot + 1, types[i].end))
            return types[i].type;
    return "unknown";
}

/* ---- columns ---- */

/* A date that has not come is no value; a duration of 0 is one. */
static void filter_set_time(struct value *v, enum column_kind column, int64_t ms)
{
    v->column = column;
    if (!ms && column == COLUMN_DATE)
        return;
    v->kind = VALUE_NUMBER;
    v->number = (double)ms;
    v->text = xcalloc(1, 48);
    if (column == COLUMN_DATE)
        atlas_time_text(ms, v->text);
    else
        atlas_duration_format(ms, v->text);
}

/* The number decides about ranges and sorts, the text about everything else. */
static void set_json(struct value *v, const struct json *j)
{
    enum json_type t = json_type(j);

    if (t == JSON_NULL)
        return;
    v->kind = t == JSON_INT || t == JSON_REAL ? VALUE_NUMBER : VALUE_TEXT;
    v->number = v->kind == VALUE_NUMBER ? json_real(j) : 0;
    v->text = t == JSON_STR ? xstrndup(json_str(j).p, json_str(j).n) : json_text(j);
}

/* Looks for a parameter or metric by its name. */
static bool among(const listed_values *all, const char *name, struct value *v)
{
    for (size_t i = 0; i < all->n; i++)
        if (!strcmp(all->p[i].name, name)) {
            set_json(v, all->p[i].value);
            return true;
        }
    return false;
}

/* The names of the tags as one text, for `contains` and for sorting. */
static void set_tags(struct value *v, const struct listed_job *j)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, COLUMN_TEXT_MAX);
    for (size_t i = 0; i < j->tags.n; i++)
        buf_addf(&b, "%s%s", i ? "," : "", j->tags.p[i].name);
    v->kind = j->tags.n ? VALUE_TEXT : VALUE_NONE;
    v->text = buf_take(&b, NULL);
}

/* What follows the prefix; NULL = the text does not begin with it. */
static const char *after(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(text, prefix, n) ? NULL : text + n;
}

/* False: nobody has such a column.  A fixed one, or any parameter or metric. */
static bool column(const struct listing *l, const struct listed_job *j, const char *name,
                   struct value *v)
{
    const struct atlas_job *a = &j->job;
    const char *text = NULL, *rest;

    *v = (struct value){0};
    if ((rest = after(name, "input_params:")) || (rest = after(name, "parameters:")))
        return among(&j->params, rest, v);
    if ((rest = after(name, "output_metrics:")))
        return among(&j->metrics, rest, v);
    if (!strcmp(name, "start_time"))
        return filter_set_time(v, COLUMN_DATE, a->started_ms), true;
    if (!strcmp(name, "completed_time"))
        return filter_set_time(v, COLUMN_DATE, a->state >= ATLAS_COMPLETED ? a->ended_ms : 0), true;
    if (!strcmp(name, "creation_time"))
        return filter_set_time(v, COLUMN_DATE, a->created_ms), true;
    if (!strcmp(name, "duration"))
        return filter_set_time(v, COLUMN_DURATION, listed_duration_ms(l, j)), true;
    if (!strcmp(name, "tags"))
        return set_tags(v, j), true;
    if (!strcmp(name, "job_id"))
        text = a->id;
    else if (!strcmp(name, "user"))
        text = a->user;
    else if (!strcmp(name, "project") || !strcmp(name, "project_name"))
        text = a->project;
    else if (!strcmp(name, "status"))
        text = atlas_state_names[a->state == ATLAS_PENDING ? ATLAS_QUEUED : a->state];
    if (!text)
        return among(&j->params, name, v) || among(&j->metrics, name, v);
    v->kind = VALUE_TEXT;
    v->text = xstrdup(text);
    return true;
}

/* ---- filters ---- */

/* TEST_STARTS and TEST_ENDS are the bounds of a range, both included. */
enum test { TEST_IS, TEST_CONTAINS, TEST_STARTS, TEST_ENDS, TEST_ISNULL };

/* Numbers compare by value, so "1" finds 1.0; tags compare one by one. */
static bool filter_one_of(const struct value *v, struct str list, bool tags)
{
    double n;

    while (list.n > 0) {
        struct str word = str_cut(list, ',', &list);
        if (v->kind == VALUE_NUMBER && v->column == COLUMN_PLAIN && str_to_double(word, &n) &&
            n == v->number)
            return true;
        if (!tags && v->text && str_eq_c(word, v->text))
            return true;
        for (struct str rest = str_of(tags ? v->text : NULL); rest.n > 0;)
            if (str_eq(str_cut(rest, ',', &rest), word))
                return true;
    }
    return false;
}

/* Where a range begins or ends, in the unit of the column. */
static bool bound(const struct value *v, const char *text, double *out)
{
    int64_t ms;

    if (v->column == COLUMN_DATE
            ? atlas_date_parse(text, &ms)
            : v->column == COLUMN_DURATION && atlas_duration_parse(text, &ms)) {
        *out = (double)ms;
        return true;
    }
    return v->column == COLUMN_PLAIN && str_to_double(str_of(text), out);
}

/* A value that is missing passes only the test for a missing value. */
static bool passes(const struct value *v, enum test t, const char *text, bool tags)
{
    double at;

    switch (t) {
    case TEST_IS:
        return filter_one_of(v, str_of(text), tags);
    case TEST_CONTAINS:
        return v->text && strcasestr(v->text, text);
    case TEST_STARTS:
    case TEST_ENDS:
        if (v->kind == VALUE_NUMBER && bound(v, text, &at))
            return t == TEST_STARTS ? v->number >= at : v->number <= at;
        if (v->kind != VALUE_TEXT)
            return false;
        return t == TEST_STARTS ? strcmp(v->text, text) >= 0 : strcmp(v->text, text) <= 0;
    case TEST_ISNULL:
        return (v->kind == VALUE_NONE) == !strcasecmp(text, "true");
    }
    return true;
}

/* "loss_isnull" becomes "loss": cuts the ending off the name and says which test it asks for. */
static enum test test_of(char *name)
{
    static const struct {
        const char *end;
        enum test test;
    } tests[] = {{"_contains", TEST_CONTAINS},
                 {"_starts", TEST_STARTS},
                 {"_ends", TEST_ENDS},
                 {"_isnull", TEST_ISNULL}};
    size_t n = strlen(name);

    for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
        size_t m = strlen(tests[i].end);
        if (n > m && !strcmp(name + n - m, tests[i].end)) {
            name[n - m] = 0;
            return tests[i].test;
        }
    }
    return TEST_IS;
}

/* Frees the jobs that do not pass the test; the others keep their order. */
static void listing_keep(struct listing *l, char *name, const char *text)
{
    enum test t = test_of(name);
    size_t kept = 0;
    struct listing gone = {0};

    for (size_t i = 0; i < l->jobs.n; i++) {
        struct value v;
        column(l, &l->jobs.p[i], name, &v);
        bool stays = passes(&v, t, text, !strcmp(name, "tags"));
        value_done(&v);
        if (stays)
            l->jobs.p[kept++] = l->jobs.p[i];
        else
            vec_push(&gone.jobs, l->jobs.p[i]);
    }
    l->jobs.n = kept;
    listing_done(&gone);
}

/* ---- sorts ---- */

/* Values of different kinds compare by their texts. */
static int listing_compare(const struct value *a, const struct value *b)
{
    if (a->kind == VALUE_NUMBER && b->kind == VALUE_NUMBER)
        return (a->number > b->number) - (a->number < b->number);
    if (a->kind != VALUE_NONE && b->kind != VALUE_NONE)
        return strcmp(a->text, b->text);
    return 0;
}

/* What has no value comes last, whichever way. */
static int by_column(const struct listing *l, const struct listed_job *x,
                     const struct listed_job *y, const char *name, bool down)
{
    struct value a, b;
    int d;

    column(l, x, name, &a);
    column(l, y, name, &b);
    if (a.kind == VALUE_NONE || b.kind == VALUE_NONE)
        d = (a.kind == VALUE_NONE) - (b.kind == VALUE_NONE);
    else
        d = down ? -listing_compare(&a, &b) : listing_compare(&a, &b);
    value_done(&a);
    value_done(&b);
    return d;
}

/* Argument of listing_by_order. */
struct order {
    const struct listing *l;
    const char *sort; /* "-loss,start_time" */
};

/* Jobs that the wanted columns do not tell apart are sorted by time, the newest first. */
static int listing_by_order(const void *px, const void *py, void *arg)
{
    const struct order *o = arg;

    for (struct str rest = str_of(o->sort); rest.n > 0;) {
        struct str word = str_cut(rest, ',', &rest);
        bool down = word.n && word.p[0] == '-';
        char name[256];
        snprintf(name, sizeof(name), STR_FMT, (int)(word.n - down), word.p + down);
        int d = by_column(o->l, px, py, name, down);
        if (d)
            return d;
    }
    return by_column(o->l, px, py, "start_time", true)
               ?: by_column(o->l, px, py, "creation_time", true);
}

/* The column and direction of the path win over `sort` of the query. */
int listing_select(struct listing *l, const char *col, const char *way, struct err *e)
{
    struct order o = {.l = l, .sort = ""};
    char path_sort[300];

    struct str rest = l->c->query;
    char *name, *text;
    while (http_query_next(&rest, &l->c->mem, &name, &text)) {
        if (!strcmp(name, "sort"))
            o.sort = text;
        else if (*name && strcmp(name, "metric_name") != 0)
            listing_keep(l, name, text);
    }
    if (col) {
        if (strcmp(way, "asc") != 0 && strcmp(way, "desc") != 0)
            return err_set(e, ERR_NOT_FOUND, "sort 'asc' or 'desc', not '%.40s'", way);
        snprintf(path_sort, sizeof(path_sort), "%s%s", strcmp(way, "desc") ? "" : "-", col);
        o.sort = path_sort;
    }
    if (l->jobs.n)
        qsort_r(l->jobs.p, l->jobs.n, sizeof(*l->jobs.p), listing_by_order, &o);
    return 0;
}
