/* filter_term.c - the meaning of one condition: which field, which type, which comparison
 *
 * Owns: the table of keys, the reading of values (numbers, times, ages, durations, states).
 * Everything relative or convenient (ages, days, lists of numbers) is turned into plain
 * comparisons here, so that an evaluator only compares.
 */
#include "base/clock.h"
#include "base/units.h"
#include "base/util.h"
#include "model/filter_priv.h"
#include "model/job.h"

/* How the value of a key is read.  TYPE_ANY: a number if it reads as one, else text. */
enum value_type {
    TYPE_TEXT,
    TYPE_STATE,
    TYPE_ID,
    TYPE_NUMBER,
    TYPE_TIME,
    TYPE_DURATION,
    TYPE_ANY,
    TYPE_TAG
};

static const struct field {
    const char *name;
    enum filter_field field;
    enum value_type type;
} fields[] = {
    {"id", FILTER_F_ID, TYPE_ID},
    {"number", FILTER_F_NUMBER, TYPE_NUMBER},
    {"name", FILTER_F_NAME, TYPE_TEXT},
    {"state", FILTER_F_STATE, TYPE_STATE},
    {"project", FILTER_F_PROJECT, TYPE_TEXT},
    {"cron", FILTER_F_CRON, TYPE_TEXT},
    {"user", FILTER_F_USER, TYPE_TEXT},
    {"batch", FILTER_F_BATCH, TYPE_TEXT},
    {"exit_code", FILTER_F_EXIT_CODE, TYPE_NUMBER},
    {"priority", FILTER_F_PRIORITY, TYPE_NUMBER},
    {"attempt", FILTER_F_ATTEMPT, TYPE_NUMBER},
    {"created", FILTER_F_CREATED, TYPE_TIME},
    {"started", FILTER_F_STARTED, TYPE_TIME},
    {"ended", FILTER_F_ENDED, TYPE_TIME},
    {"duration", FILTER_F_DURATION, TYPE_DURATION},
    {"reason", FILTER_F_REASON, TYPE_TEXT},
    {"tag", FILTER_F_TAG, TYPE_TAG},
};

/* One condition on its way from words to comparisons. */
struct maker {
    const struct filter_term *t;
    int64_t now_ms;
    struct arena *a;
    enum filter_field field;
    enum value_type type;
    const char *key; /* of TAG, METRIC, PARAM */
    enum filter_op op;
    struct err *e;
};

/* ---- key and operator ---- */

static const struct key_space {
    struct str prefix;
    enum filter_field field;
    enum value_type type;
} spaces[] = {
    {{"tag.", 4}, FILTER_F_TAG, TYPE_ANY},
    {{"metric.", 7}, FILTER_F_METRIC, TYPE_NUMBER},
    {{"params.", 7}, FILTER_F_PARAM, TYPE_ANY},
};

/* Quotes hold any name, also one that a field has. */
static int find_quoted(struct maker *m)
{
    struct str key = m->t->key.text, space = m->t->space;
    bool known = !space.n;

    m->field = FILTER_F_PARAM;
    m->type = TYPE_ANY;
    for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
        if (!str_eq(space, spaces[i].prefix))
            continue;
        m->field = spaces[i].field;
        m->type = spaces[i].type;
        known = true;
    }
    if (!known)
        return filter_error(m->e, m->t->key.column,
                            "only tag. metric. and params. stand before a quoted name, not %.*s",
                            (int)MIN(space.n, 40), space.p);
    if (!key.n)
        return filter_error(m->e, m->t->key.column, "a name is missing between the quotes");
    m->key = arena_strndup(m->a, key.p, key.n);
    return 0;
}

static int find_field(struct maker *m)
{
    struct str key = m->t->key.text;

    if (m->t->key.quoted)
        return find_quoted(m);
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        if (str_eq_c(key, fields[i].name)) {
            m->field = fields[i].field;
            m->type = fields[i].type;
            return 0;
        }
    }
    /* A key without a prefix that is no field names a parameter. */
    m->field = FILTER_F_PARAM;
    m->type = TYPE_ANY;
    for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
        if (!str_starts(key, spaces[i].prefix))
            continue;
        key = (struct str){key.p + spaces[i].prefix.n, key.n - spaces[i].prefix.n};
        m->field = spaces[i].field;
        m->type = spaces[i].type;
        if (!key.n)
            return filter_error(m->e, m->t->key.column, "a name is missing after \"" STR_FMT "\"",
                                STR_ARG(m->t->key.text));
        break;
    }
    m->key = arena_strndup(m->a, key.p, key.n);
    return 0;
}

static enum filter_op op_of(struct str op)
{
    if (str_eq_c(op, "~"))
        return FILTER_CONTAINS;
    if (str_eq_c(op, "!="))
        return FILTER_NE;
    if (str_eq_c(op, "<="))
        return FILTER_LE;
    if (str_eq_c(op, ">="))
        return FILTER_GE;
    if (op.p[0] == '<')
        return FILTER_LT;
    return op.p[0] == '>' ? FILTER_GT : FILTER_EQ;
}

static bool op_orders(enum filter_op op)
{
    return op == FILTER_LT || op == FILTER_LE || op == FILTER_GT || op == FILTER_GE;
}

/* Refuses comparisons that can have no meaning, so that a typing error is not an empty list. */
static int check_op(const struct maker *m)
{
    struct str key = m->t->key.text;
    bool text = m->type == TYPE_TEXT || m->type == TYPE_STATE;

    if (m->type == TYPE_TAG && m->op != FILTER_EQ && m->op != FILTER_NE)
        return filter_error(m->e, m->t->op.column,
                            "tag asks for a tag by its name; use : = or !=, or tag.NAME for its "
                            "value");

    if (text && op_orders(m->op))
        return filter_error(m->e, m->t->op.column, STR_FMT " has no order; use : = != or ~",
                            STR_ARG(key));
    if (m->op == FILTER_CONTAINS &&
        (m->type == TYPE_NUMBER || m->type == TYPE_TIME || m->type == TYPE_DURATION))
        return filter_error(
            m->e, m->t->op.column,
            "%.*s is no text to search in; use : = != < <= > or >=", (int)MIN(key.n, 60), key.p);
    return 0;
}

/* ---- making comparisons ---- */

/* A comparison of the field with a text; room for two values, of which one is used. */
static struct filter *compare(const struct maker *m, enum filter_op op, const struct filter_word *w)
{
    struct filter *f = filter_node(m->a, op, NULL, NULL);

    f->field = m->field;
    f->key = m->key;
    f->values = arena_alloc(m->a, 2 * sizeof(char *));
    f->values[0] = arena_strndup(m->a, w->text.p, w->text.n);
    f->n_values = 1;
    return f;
}

/* The text is kept beside the number, as the user wrote it. */
static struct filter *compare_number(const struct maker *m, enum filter_op op,
                                     const struct filter_word *w, double number)
{
    struct filter *f = compare(m, op, w);

    f->numeric = true;
    f->number = number;
    return f;
}

static int bad_value(const struct maker *m, const struct filter_word *w, const char *wanted)
{
    return filter_error(m->e, w->column, "\"%.*s\" is not %s", (int)MIN(w->text.n, 40), w->text.p,
                        wanted);
}

static int make_number(const struct maker *m, const struct filter_word *w, struct filter **out)
{
    double d;
    int64_t bytes;

    /* Metrics may be sizes: metric.mem>4G. */
    if (!str_to_double(w->text, &d)) {
        if (m->field != FILTER_F_METRIC || size_parse(w->text, &bytes, NULL) < 0)
            return bad_value(m, w, "a number");
        d = (double)bytes;
    }
    *out = compare_number(m, m->op, w, d);
    return 0;
}

static int make_duration(const struct maker *m, const struct filter_word *w, struct filter **out)
{
    int64_t ms;

    if (duration_parse(w->text, &ms, NULL) < 0)
        return bad_value(m, w, "a duration; write 90s, 2h or 1h30m");
    *out = compare_number(m, m->op, w, (double)ms);
    return 0;
}

/* "2026-11-15": the whole day, in UTC. */
static bool parse_day(struct str s, int64_t *out_ms)
{
    char text[32];

    if (s.n != 10)
        return false;
    memcpy(text, s.p, 10);
    memcpy(text + 10, "T00:00:00Z", 11);
    return time_parse_utc(str_of(text), out_ms);
}

static struct filter *make_day(const struct maker *m, const struct filter_word *w, int64_t from)
{
    double start = (double)from, end = (double)(from + INT64_C(86400000));
    struct filter *in;

    if (m->op == FILTER_LT || m->op == FILTER_GE)
        return compare_number(m, m->op, w, start);
    if (m->op == FILTER_GT || m->op == FILTER_LE)
        return compare_number(m, m->op == FILTER_GT ? FILTER_GE : FILTER_LT, w, end);
    /* A day is the half-open range from its midnight to the next, in UTC. */
    in = filter_node(m->a, FILTER_AND, compare_number(m, FILTER_GE, w, start),
                     compare_number(m, FILTER_LT, w, end));
    return m->op == FILTER_NE ? filter_node(m->a, FILTER_NOT, in, NULL) : in;
}

/* created<2h: less than two hours ago; created:2h the same; created>2h: longer ago. */
static struct filter *make_age(const struct maker *m, const struct filter_word *w, int64_t age)
{
    /* An age grows when the time gets smaller, so every comparison is turned round. */
    static const enum filter_op turned[] = {
        [FILTER_EQ] = FILTER_GE, [FILTER_NE] = FILTER_LT, [FILTER_LT] = FILTER_GT,
        [FILTER_LE] = FILTER_GE, [FILTER_GT] = FILTER_LT, [FILTER_GE] = FILTER_LE,
    };

    return compare_number(m, turned[m->op], w, (double)(m->now_ms - age));
}

static int make_time(const struct maker *m, const struct filter_word *w, struct filter **out)
{
    int64_t ms;

    if (time_parse_utc(w->text, &ms))
        *out = compare_number(m, m->op, w, (double)ms);
    else if (parse_day(w->text, &ms))
        *out = make_day(m, w, ms);
    else if (duration_parse(w->text, &ms, NULL) == 0)
        *out = make_age(m, w, ms);
    else
        return bad_value(m, w, "a time; write 2026-11-15, 2026-11-15T20:00:00Z, or an age as 2h");
    return 0;
}

/* One comparison for one state, a list for a word that stands for several. */
static struct filter *compare_states(const struct maker *m, const struct filter_word *w,
                                     uint32_t mask)
{
    struct filter *f = compare(m, m->op, w);

    f->values = arena_alloc(m->a, JOB_STATE_MAX * sizeof(char *));
    f->n_values = 0;
    for (int i = 0; i < JOB_STATE_MAX; i++)
        if (mask & UINT32_C(1) << i)
            f->values[f->n_values++] = job_state_name((enum job_state)i);
    if (f->n_values == 1)
        return f;
    f->op = FILTER_IN;
    return m->op == FILTER_NE ? filter_node(m->a, FILTER_NOT, f, NULL) : f;
}

static int make_state(const struct maker *m, const struct filter_word *w, struct filter **out)
{
    char lower[16] = "";
    uint32_t mask;
    const char *near;

    for (size_t i = 0; i < w->text.n && i < sizeof(lower) - 1; i++) {
        char c = w->text.p[i];
        lower[i] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    if (m->op == FILTER_CONTAINS) {
        *out = compare(m, m->op, w);
        (*out)->values[0] = arena_strdup(m->a, lower);
        return 0;
    }
    if (w->text.n < sizeof(lower) && job_state_set_parse(str_of(lower), &mask)) {
        *out = compare_states(m, w, mask);
        return 0;
    }
    near = str_nearest(lower, job_state_words, ARRAY_SIZE(job_state_words));
    if (near)
        return filter_error(m->e, w->column, "\"%.*s\" is not a state; did you mean \"%s\"?",
                            (int)MIN(w->text.n, 40), w->text.p, near);
    return bad_value(m, w, "a state; the states are " JOB_STATE_WORDS_TEXT);
}

/* Up to 18 digits: always within 64 bits, and shorter than an id that consists of digits. */
static bool is_job_number(struct str s)
{
    int64_t n;

    return s.n < 19 && str_to_i64(s, &n) && n >= 0;
}

/* A value of digits is a job number; everything else is compared as the text of an id. */
static int make_id(const struct maker *m, const struct filter_word *w, struct filter **out)
{
    struct maker number = *m;

    if (m->op == FILTER_CONTAINS || (!op_orders(m->op) && !is_job_number(w->text))) {
        *out = compare(m, m->op, w);
        return 0;
    }
    number.field = FILTER_F_NUMBER;
    return make_number(&number, w, out);
}

/* A parameter compares as a number when the value reads as one; quotes force text. */
static int make_any(const struct maker *m, const struct filter_word *w, struct filter **out)
{
    double d;

    if (m->op != FILTER_CONTAINS && !w->quoted && str_to_double(w->text, &d))
        *out = compare_number(m, m->op, w, d);
    else
        *out = compare(m, m->op, w);
    return 0;
}

/* tag:best asks for the presence of the tag, so the value becomes the key. */
static int make_tag(const struct maker *m, const struct filter_word *w, struct filter **out)
{
    struct filter *has = compare(m, FILTER_HAS, w);

    has->key = has->values[0];
    *out = m->op == FILTER_NE ? filter_node(m->a, FILTER_NOT, has, NULL) : has;
    return 0;
}

static int make_one(const struct maker *m, const struct filter_word *w, struct filter **out)
{
    switch (m->type) {
    case TYPE_NUMBER:
        return make_number(m, w, out);
    case TYPE_DURATION:
        return make_duration(m, w, out);
    case TYPE_TIME:
        return make_time(m, w, out);
    case TYPE_STATE:
        return make_state(m, w, out);
    case TYPE_ID:
        return make_id(m, w, out);
    case TYPE_ANY:
        return make_any(m, w, out);
    case TYPE_TAG:
        return make_tag(m, w, out);
    case TYPE_TEXT:
        break;
    }
    *out = compare(m, m->op, w);
    return 0;
}

/* A list of texts is one IN; a list of anything numeric is an OR of comparisons. */
static int make_list(const struct maker *m, struct filter **out)
{
    struct filter *all = NULL, *in = NULL, *one;

    for (size_t i = 0; i < m->t->n_values; i++) {
        if (make_one(m, &m->t->values[i], &one) < 0)
            return -1;
        /* Numbers, ages and words for several states stay comparisons of their own. */
        if (one->numeric || one->op != FILTER_EQ || one->field != m->field) {
            all = all ? filter_node(m->a, FILTER_OR, all, one) : one;
            continue;
        }
        const char *text = one->values[0];
        if (!in) {
            in = one;
            in->op = FILTER_IN;
            in->values = arena_alloc(m->a, (m->t->n_values + 1) * sizeof(char *));
            in->n_values = 0;
        }
        in->values[in->n_values++] = text;
    }
    *out = !in ? all : !all ? in : filter_node(m->a, FILTER_OR, all, in);
    return 0;
}

int filter_term_make(const struct filter_term *t, int64_t now_ms, struct arena *a,
                     struct filter **out, struct err *e)
{
    struct maker m = {.t = t, .now_ms = now_ms, .a = a, .e = e, .op = op_of(t->op.text)};

    if (find_field(&m) < 0 || check_op(&m) < 0)
        return -1;
    return t->n_values == 1 ? make_one(&m, &t->values[0], out) : make_list(&m, out);
}
