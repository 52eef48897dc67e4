/* report_lines.c - lines of a spool, read into what the store takes
 *
 * Training loops write hundreds of thousands of these, nearly all of one shape: an object of short
 * keys with plain numbers and plain texts.  That shape is read by hand, without building anything;
 * a line that is anything else (escapes, nested values, spaces) goes through the JSON parser.  Both
 * give the same result, which a property test compares.
 *
 * Points of one metric are gathered and packed together; a text among them ends the block, so the
 * order of a metric is kept.
 */
#include "core/report_lines.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/map.h"
#include "core/track.h"
#include "model/series.h"
#include <ctype.h>
#include <math.h>

enum {
    SUMMARY_NAMES = 20, /* metrics whose last value the event tells */
    POINT_TEXT_MAX = 1000,
    NUMBER_MAX = 64, /* more than any double needs */
};

/* ---- one line, as far as it is understood ---- */

struct value {
    enum { V_NONE, V_NUMBER, V_TEXT, V_JSON } type;
    bool whole; /* a number without fraction or exponent: `i` is it */
    int64_t i;
    double d;
    struct str s; /* text, or the JSON of anything else; empty for NaN and infinities */
};
struct values {
    struct value one;
    const struct value *list; /* when it was an array of numbers and texts */
    size_t n;
    bool is_list;
};
struct line {
    struct str kind, name;
    struct value x;
    struct values v, s, t;
};

struct gather { /* points of one metric that are not packed yet */
    struct gather *next;
    struct str name;
    VEC(struct series_point) points;
    double last;
    bool has_last;
};
struct reading {
    struct report_batch *b;
    struct map_str metrics; /* name → struct gather */
    struct gather *first, **end;
    VEC(struct value) pool; /* of arrays in the line at hand */
    int64_t now_ms;
};

/* ---- numbers ---- */

static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

struct digits {
    uint64_t m;   /* all digits without the point */
    int n, point; /* how many, not counting zeros in front; how many of them behind the point */
    bool fraction;
};

/* Returns where the digits end; NULL: JSON has no such number (no digit, a leading zero, a bare
 * point). */
static const char *read_digits(const char *p, const char *end, struct digits *d)
{
    const char *start = p;

    for (; p < end && (isdigit((unsigned char)*p) || (*p == '.' && !d->fraction)); p++) {
        if (*p == '.') {
            d->fraction = true;
            continue;
        }
        if (d->n < 19)
            d->m = d->m * 10 + (uint64_t)(*p - '0');
        d->n += d->n || *p != '0';
        d->point += d->fraction;
    }
    if (p == start || p[-1] == '.' || *start == '.')
        return NULL;
    return *start == '0' && p > start + 1 && start[1] != '.' ? NULL : p;
}

/* A JSON number at p; where it ends, or NULL.  What 53 bits and one division of exact numbers give
 * is exact; the rest is left to the C library. */
static const char *line_read_number(const char *p, const char *end, struct value *out)
{
    const char *start = p;
    bool minus = p < end && *p == '-';
    struct digits d = {0};
    int exp = 0;

    p = read_digits(p + minus, end, &d);
    if (!p)
        return NULL;
    if (p < end && (*p == 'e' || *p == 'E')) {
        bool negative = p + 1 < end && p[1] == '-';
        p += 1 + (p + 1 < end && (p[1] == '-' || p[1] == '+'));
        const char *from = p;
        for (; p < end && isdigit((unsigned char)*p); p++)
            exp = MIN(exp * 10 + (*p - '0'), 100000);
        if (p == from)
            return NULL;
        exp = negative ? -exp : exp;
        d.fraction = true;
    }
    size_t n = (size_t)(p - start);
    if (n >= NUMBER_MAX || (!d.fraction && d.n > 18))
        return NULL; /* the careful way */
    *out = (struct value){.type = V_NUMBER, .whole = !d.fraction, .s = {start, n}};
    exp -= d.point;
    if (d.n <= 15 && exp >= -22 && exp <= 22) {
        double m = (double)d.m;
        out->d = exp < 0 ? m / tens[-exp] : m * tens[exp];
    } else {
        char text[NUMBER_MAX];
        memcpy(text, start, n);
        text[n] = '\0';
        out->d = fabs(strtod(text, NULL));
        if (!isfinite(out->d))
            return NULL; /* too large for a number: not JSON to the parser either */
    }
    if (minus)
        out->d = -out->d;
    out->i = minus ? -(int64_t)d.m : (int64_t)d.m;
    return p;
}

/* JSON has no words for these; they come as texts or as Python writes them. */
static bool number_of_word(struct str s, double *out)
{
    static const struct {
        struct str word;
        double value;
    } words[] = {{{"nan", 3}, NAN},        {{"NaN", 3}, NAN},
                 {{"inf", 3}, INFINITY},   {{"Infinity", 8}, INFINITY},
                 {{"-inf", 4}, -INFINITY}, {{"-Infinity", 9}, -INFINITY}};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (str_eq(s, words[i].word)) {
            *out = words[i].value;
            return true;
        }
    return false;
}

/* ---- the common shape ---- */

/* A text without escapes; NULL leaves the line to the JSON parser. */
static const char *line_read_text(const char *p, const char *end, struct str *out)
{
    const char *start = ++p;

    while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
        p++;
    if (p == end || *p != '"')
        return NULL;
    *out = (struct str){start, (size_t)(p - start)};
    return str_is_utf8(*out) ? p + 1 : NULL;
}

/* A text, a number or one of the words; NULL: anything else. */
static const char *read_scalar(const char *p, const char *end, struct value *out)
{
    if (p < end && *p == '"') {
        *out = (struct value){.type = V_TEXT};
        return line_read_text(p, end, &out->s);
    }
    if (p < end && (isdigit((unsigned char)*p) || *p == '-')) {
        const char *after = line_read_number(p, end, out);
        if (after)
            return after;
    }
    /* Python writes these where JSON has no word. */
    static const struct str words[] = {{"NaN", 3}, {"Infinity", 8}, {"-Infinity", 9}};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if ((size_t)(end - p) >= words[i].n && !memcmp(p, words[i].p, words[i].n)) {
            *out = (struct value){.type = V_NUMBER};
            number_of_word(words[i], &out->d);
            return p + words[i].n;
        }
    return NULL;
}

/* One value or a list of them. */
static const char *read_values(struct reading *r, const char *p, const char *end,
                               struct values *out)
{
    if (p == end || *p != '[')
        return read_scalar(p, end, &out->one);
    size_t from = r->pool.n;
    *out = (struct values){.is_list = true};
    do {
        struct value v;
        p++;
        if (out->n == 0 && p < end && *p == ']')
            return p + 1;
        p = read_scalar(p, end, &v);
        if (!p || p == end)
            return NULL;
        vec_push(&r->pool, v);
        out->n++;
    } while (*p == ',');
    /* An index for now: the pool may move until the line is read. */
    out->list = (const struct value *)(uintptr_t)from;
    return *p == ']' ? p + 1 : NULL;
}

/* Turns the index of a list into a pointer, now that the pool does not move any more. */
static void values_settle(struct reading *r, struct values *v)
{
    if (v->is_list)
        v->list = v->n > 0 ? r->pool.p + (uintptr_t)v->list : NULL;
}

/* {"k":…} without spaces or surprises. */
static bool read_quick(struct reading *r, struct str text, struct line *l)
{
    const char *p = text.p, *end = text.p + text.n;
    uint32_t seen = 0;

    if (text.n < 2 || *p != '{')
        return false;
    do {
        struct values x = {0};
        char key;
        p++;
        if (end - p < 5 || p[0] != '"' || p[2] != '"' || p[3] != ':' || p[1] < 'a' || p[1] > 'z')
            return false;
        key = p[1];
        if (seen & 1u << (key - 'a'))
            return false;
        seen |= 1u << (key - 'a');
        p += 4;
        p = key == 'v' || key == 's' || key == 't' ? read_values(r, p, end, &x)
                                                   : read_scalar(p, end, &x.one);
        if (!p || p == end)
            return false;
        switch (key) {
        case 'k':
            l->kind = x.one.type == V_TEXT ? x.one.s : STR("");
            break;
        case 'n':
            l->name = x.one.type == V_TEXT ? x.one.s : STR("");
            break;
        case 'x':
            l->x = x.one;
            break;
        case 'v':
            l->v = x;
            break;
        case 's':
            l->s = x;
            break;
        case 't':
            l->t = x;
            break;
        default:
            break;
        }
    } while (*p == ',');
    if (*p != '}' || p + 1 != end)
        return false;
    values_settle(r, &l->v);
    values_settle(r, &l->s);
    values_settle(r, &l->t);
    return true;
}

/* ---- any other line ---- */

static struct value line_value(struct reading *r, const struct json *j)
{
    struct str s;
    char *json;

    if (json_type(j) == JSON_STR) {
        s = json_str(j);
        s = str_of(arena_strndup(&r->b->mem, s.p, s.n));
        return (struct value){.type = V_TEXT, .s = s};
    }
    json = json_text(j);
    s = str_of(arena_strdup(&r->b->mem, json));
    free(json);
    if (json_type(j) != JSON_INT && json_type(j) != JSON_REAL)
        return (struct value){.type = V_JSON, .s = s};
    return (struct value){.type = V_NUMBER,
                          .whole = json_type(j) == JSON_INT,
                          .i = json_type(j) == JSON_INT ? json_int(j) : 0,
                          .d = json_real(j),
                          .s = s};
}

static struct values values_of(struct reading *r, const struct json *j)
{
    struct values out = {0};
    size_t n = json_len(j);

    if (json_type(j) != JSON_ARRAY) {
        if (j)
            out.one = line_value(r, j);
        return out;
    }
    struct value *list = arena_alloc(&r->b->mem, (n + 1) * sizeof(*list));
    for (size_t i = 0; i < n; i++)
        list[i] = line_value(r, json_at(j, i));
    return (struct values){.list = list, .n = n, .is_list = true};
}

/* False: the line is not a JSON object and is skipped. */
static bool read_carefully(struct reading *r, struct str text, struct line *l)
{
    AUTO(json) struct json *o = NULL;

    if (json_parse(text, "report", &o, NULL) < 0)
        return false;
    bool ok = json_type(o) == JSON_OBJECT;
    if (ok) {
        struct value kind = line_value(r, json_get(o, "k")), name = line_value(r, json_get(o, "n"));
        *l = (struct line){.kind = kind.type == V_TEXT ? kind.s : STR(""),
                           .name = name.type == V_TEXT ? name.s : STR(""),
                           .v = values_of(r, json_get(o, "v")),
                           .s = values_of(r, json_get(o, "s")),
                           .t = values_of(r, json_get(o, "t"))};
        if (json_has(o, "x"))
            l->x = line_value(r, json_get(o, "x"));
    }
    return ok;
}

/* ---- what a line means ---- */

static struct report_item *add_item(struct reading *r, char kind, struct str name)
{
    vec_push(&r->b->items, ((struct report_item){.kind = kind, .name = name, .step = -1}));
    return &vec_last(&r->b->items);
}

/* The points gathered so far become one item. */
static void pack(struct reading *r, struct gather *g)
{
    AUTO(buf) struct buf block = {0};

    if (!g->points.n)
        return;
    buf_init(&block, 1 << 20);
    series_pack(&block, g->points.p, g->points.n);
    char *copy = arena_alloc(&r->b->mem, block.n);
    memcpy(copy, block.p, block.n);
    add_item(r, 'm', g->name)->text = (struct str){copy, block.n};
    vec_clear(&g->points);
}

/* The points of this metric, in the order in which metrics first appear. */
static struct gather *metric(struct reading *r, struct str name)
{
    struct gather *g = map_str_get(&r->metrics, name);

    if (g)
        return g;
    g = arena_alloc(&r->b->mem, sizeof(*g));
    g->name = name;
    map_str_put(&r->metrics, name, g);
    *r->end = g;
    r->end = &g->next;
    return g;
}

/* Steps and times are whole numbers; anything else counts as not stated. */
static int64_t whole_or(const struct value *v, int64_t otherwise)
{
    return v->type == V_NUMBER && v->whole ? v->i : otherwise;
}

static int64_t time_at(const struct reading *r, const struct values *t, size_t i)
{
    if (t->is_list)
        return i < t->n ? whole_or(&t->list[i], r->now_ms) : r->now_ms;
    return whole_or(&t->one, r->now_ms);
}

/* One step and many values: it is that of the first. */
static int64_t step_at(const struct values *s, size_t i)
{
    if (s->is_list)
        return i < s->n ? whole_or(&s->list[i], -1) : -1;
    int64_t first = whole_or(&s->one, -1);
    return first < 0 ? first : (int64_t)((uint64_t)first + i);
}

static void reading_add_point(struct reading *r, struct gather *g, const struct value *v,
                              int64_t step, int64_t at_ms)
{
    struct series_point p = {step, at_ms, v->d};

    if (v->type == V_TEXT && !number_of_word(v->s, &p.value)) {
        pack(r, g);
        struct report_item *it = add_item(r, 's', g->name);
        it->text = (struct str){v->s.p, MIN(v->s.n, (size_t)POINT_TEXT_MAX)};
        while (it->text.n < v->s.n && (it->text.p[it->text.n] & 0xc0) == 0x80)
            it->text.n--; /* whole characters */
        it->step = step;
        it->at_ms = at_ms;
        g->has_last = false;
    } else if (v->type == V_TEXT || v->type == V_NUMBER) {
        if (g->points.n == SERIES_BLOCK_MAX)
            pack(r, g);
        vec_push(&g->points, p);
        g->last = p.value;
        g->has_last = true;
    } else {
        return;
    }
    r->b->points++;
}

static void add_points(struct reading *r, const struct line *l)
{
    struct gather *g;

    if (!l->v.is_list && l->v.one.type == V_NONE)
        return;
    g = metric(r, l->name);
    if (!l->v.is_list)
        reading_add_point(r, g, &l->v.one, step_at(&l->s, 0), time_at(r, &l->t, 0));
    for (size_t i = 0; l->v.is_list && i < l->v.n; i++)
        reading_add_point(r, g, &l->v.list[i], step_at(&l->s, i), time_at(r, &l->t, i));
}

/* The value as JSON text again. */
static struct str json_of(struct reading *r, const struct value *x)
{
    AUTO(buf) struct buf b = {0};

    if (x->type != V_TEXT)
        return x->s;
    buf_init(&b, TRACK_PARAM_MAX);
    jw_str(&b, NULL, x->s);
    return str_of(arena_strndup(&r->b->mem, b.p, b.n));
}

static void reading_add_line(struct reading *r, const struct line *l)
{
    char kind = l->kind.n == 1 ? l->kind.p[0] : 0;
    bool named = l->name.n > 0 && l->name.n <= TRACK_NAME_MAX;
    struct report_item *it;

    if ((kind == 'm' || kind == 't' || kind == 'a' || kind == 'p') && !named)
        return;
    switch (kind) {
    case 'm':
        add_points(r, l);
        return;
    case 't':
    case 'a':
        it = add_item(r, kind, l->name);
        if (l->x.type == V_TEXT && l->x.s.n <= TRACK_TEXT_MAX)
            it->text = l->x.s;
        break;
    case 'p':
        it = add_item(r, kind, l->name);
        it->text = json_of(r, l->x.type == V_NONE ? &l->v.one : &l->x);
        if (!it->text.n || it->text.n > TRACK_PARAM_MAX)
            it->text = STR("null");
        r->b->params++;
        break;
    case 'e':
        it = add_item(r, kind, STR("epoch"));
        break;
    case 'x':
        it = add_item(r, kind, STR("end"));
        it->code = whole_or(&l->v.one, 0);
        if (l->x.type == V_TEXT && l->x.s.n <= TRACK_TEXT_MAX)
            it->text = l->x.s;
        break;
    default:
        return;
    }
    it->step = step_at(&l->s, 0);
    it->at_ms = time_at(r, &l->t, 0);
}

/* ---- all of them ---- */

/* The members of the event: how many points and parameters, and the last values of the first
 * metrics. */
static void summarize(struct reading *r)
{
    struct buf *b = &r->b->summary;
    size_t names = 0;

    buf_init(b, 64 << 10);
    if (r->b->points) {
        buf_addf(b, "\"points\":%llu,\"last\":{", (unsigned long long)r->b->points);
        for (struct gather *g = r->first; g && names < SUMMARY_NAMES; g = g->next) {
            if (!g->has_last)
                continue;
            buf_adds(b, names++ ? "," : "");
            jw_str(b, NULL, g->name);
            buf_addc(b, ':');
            jw_double(b, NULL, g->last);
        }
        buf_addc(b, '}');
    }
    if (r->b->params)
        buf_addf(b, "%s\"params\":%llu", b->n ? "," : "", (unsigned long long)r->b->params);
}

void report_read(struct report_batch *b, struct str lines, int64_t now_ms)
{
    struct reading r = {.b = b, .now_ms = now_ms};
    const char *nl;

    *b = (struct report_batch){0};
    r.end = &r.first;
    while (b->used < lines.n && (nl = memchr(lines.p + b->used, '\n', lines.n - b->used)) != NULL) {
        struct str text = {lines.p + b->used, (size_t)(nl - lines.p) - b->used};
        struct line l = {0};
        vec_clear(&r.pool);
        if (text.n &&
            (read_quick(&r, text, &l) || (l = (struct line){0}, read_carefully(&r, text, &l))))
            reading_add_line(&r, &l);
        b->used += text.n + 1;
    }
    for (struct gather *g = r.first; g; g = g->next) {
        pack(&r, g);
        vec_done(&g->points);
    }
    summarize(&r);
    map_str_done(&r.metrics);
    vec_done(&r.pool);
}

void report_batch_done(struct report_batch *b)
{
    arena_done(&b->mem);
    vec_done(&b->items);
    buf_done(&b->summary);
}
