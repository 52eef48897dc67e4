/* sql_filter.c - the filter language as SQL
 *
 * Owns: what each field of a filter is in terms of the tables.
 *
 * Every term is wrapped in ifnull(…, 0): a value that is not there (no exit code yet, no such
 * parameter, no such metric) makes the term false, and "not" in front of it true.  A tag or metric
 * is its last report.  Numbers compare with numbers only: depth>3 does not match "many".
 *
 * Where a value with a name is found is sql_value.c's business.
 */
#include "base/util.h"
#include "store/query_priv.h"
#include "store/sql_priv.h"
#include "store/track.h"
#include <ctype.h>

/* State while one filter is written; `named` is about the term at hand only. */
struct writer_ctx {
    struct sql *q;
    struct db *db;
    int64_t now_ms;
    struct err *e;
    struct param_names *names; /* NULL = unknown */
    struct job_column column;
    struct named_value named;
};

static const char *const op_text[] = {
    [FILTER_EQ] = " = ",  [FILTER_NE] = " <> ", [FILTER_LT] = " < ",
    [FILTER_LE] = " <= ", [FILTER_GT] = " > ",  [FILTER_GE] = " >= ",
};

void sql_duration(struct sql *q, int64_t now_ms)
{
    sql_add(q, "(CASE WHEN j.started_ms = 0 THEN NULL WHEN j.ended_ms > 0"
               " THEN j.ended_ms - j.started_ms ELSE ");
    sql_int(q, now_ms);
    sql_add(q, " - j.started_ms END)");
}

static struct str lowered(struct sql *q, const char *text)
{
    char *p = arena_strdup(&q->scratch, text);

    for (char *c = p; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return str_of(p);
}

/* The value a term looks at. */
static void add_value(struct writer_ctx *w, const struct filter *f)
{
    struct sql *q = w->q;

    switch (f->field) {
    case FILTER_F_ID:
        sql_add(q, "(SELECT job_id(i.id, j.seq - i.first) FROM intake i WHERE i.first <= j.seq"
                   " ORDER BY i.first DESC LIMIT 1)");
        break;
    case FILTER_F_NUMBER:
        sql_add(q, "j.seq");
        break;
    case FILTER_F_NAME:
        sql_add(q, SQL_NAME);
        break;
    case FILTER_F_STATE:
        sql_add(q, "state_name(j.state)");
        break;
    case FILTER_F_PROJECT:
        sql_add(q, "(SELECT p.project FROM party p WHERE p.seq = j.party)");
        break;
    case FILTER_F_USER:
        sql_add(q, "(SELECT p.user FROM party p WHERE p.seq = j.party)");
        break;
    case FILTER_F_BATCH:
        sql_add(q, "(SELECT b.name FROM batch b WHERE b.seq = j.batch)");
        break;
    case FILTER_F_EXIT_CODE:
        sql_add(q, "j.exit_code");
        break;
    case FILTER_F_PRIORITY:
        sql_add(q, "j.priority");
        break;
    case FILTER_F_ATTEMPT:
        sql_add(q, "j.attempt");
        break;
    case FILTER_F_CREATED:
        sql_add(q, "j.created_ms");
        break;
    case FILTER_F_STARTED:
        sql_add(q, "nullif(j.started_ms, 0)");
        break;
    case FILTER_F_ENDED:
        sql_add(q, "nullif(j.ended_ms, 0)");
        break;
    case FILTER_F_DURATION:
        sql_duration(q, w->now_ms);
        break;
    case FILTER_F_CRON:
        sql_add(q, "(SELECT s.schedule FROM spec s WHERE s.seq = j.spec)");
        break;
    case FILTER_F_REASON:
        sql_add(q, "j.reason");
        break;
    case FILTER_F_TAG:
        sql_mark(q, MARK_TAG, "m.text", f->key);
        break;
    case FILTER_F_METRIC:
    case FILTER_F_PARAM:
        sql_named(q, &w->named);
        break;
    }
}

/* The operator and what the value is compared with. */
static void add_comparison(struct writer_ctx *w, const struct filter *f)
{
    sql_add(w->q, op_text[f->op]);
    if (f->numeric)
        sql_real(w->q, f->number);
    else
        sql_text(w->q, str_of(f->values[0]));
}

static void add_contains(struct writer_ctx *w, const struct filter *f)
{
    sql_add(w->q, "instr(lower(");
    add_value(w, f);
    sql_add(w->q, "), ");
    sql_text(w->q, lowered(w->q, f->values[0]));
    sql_add(w->q, ") > 0");
}

static void add_equal_any(struct writer_ctx *w, const struct filter *f)
{
    add_value(w, f);
    sql_add(w->q, " IN (");
    for (size_t i = 0; i < f->n_values; i++) {
        sql_add(w->q, i ? ", " : "");
        sql_text(w->q, str_of(f->values[i]));
    }
    if (f->numeric) {
        sql_add(w->q, ", ");
        sql_real(w->q, f->number);
    }
    sql_add(w->q, ")");
    if (f->field != FILTER_F_PARAM)
        return;
    /* true and false are 1 and 0 to json_extract; people write the words. */
    for (size_t i = 0; i < f->n_values; i++) {
        if (strcmp(f->values[i], "true") && strcmp(f->values[i], "false"))
            continue;
        sql_add(w->q, " OR ");
        sql_add(w->q, w->named.logged ? "coalesce(" : "");
        if (w->named.logged) {
            sql_mark(w->q, MARK_PARAM, "json_type(m.text)", f->key);
            sql_add(w->q, ", ");
        }
        sql_param(w->q, "json_type", f->key);
        sql_add(w->q, w->named.logged ? ") = " : " = ");
        sql_text(w->q, str_of(f->values[i]));
    }
}

/* Parameters and tags: of whatever type they are. */
static void add_any_type(struct writer_ctx *w, const struct filter *f)
{
    if (f->op == FILTER_EQ || f->op == FILTER_IN) {
        add_equal_any(w, f);
        return;
    }
    if (f->op == FILTER_NE) {
        struct filter equal = *f;
        equal.op = FILTER_EQ;
        sql_add(w->q, "NOT (");
        add_equal_any(w, &equal);
        sql_add(w->q, ")");
        return;
    }
    if (f->numeric && f->field == FILTER_F_PARAM && !strchr(f->key, '.') && !w->named.logged &&
        !w->named.measured) {
        sql_add(w->q, "param_number(j.params, ");
        sql_text(w->q, str_of(f->key));
        sql_add(w->q, ")");
    } else if (f->numeric && f->field == FILTER_F_TAG) {
        add_value(w, f);
        sql_add(w->q, " GLOB '[-+.0-9]*' AND CAST(");
        add_value(w, f);
        sql_add(w->q, " AS REAL)");
    } else {
        sql_add(w->q, "typeof(");
        add_value(w, f);
        sql_add(w->q, f->numeric ? ") IN ('integer', 'real') AND " : ") = 'text' AND ");
        add_value(w, f);
    }
    add_comparison(w, f);
}

/* A whole id is one job; a prefix is compared with the text of the id. */
static int add_ids(struct writer_ctx *w, const struct filter *f)
{
    if (f->op == FILTER_NE)
        sql_add(w->q, "NOT (");
    for (size_t i = 0; i < f->n_values; i++) {
        struct str prefix = lowered(w->q, f->values[i]);
        struct id id;
        uint64_t seq = 0;
        sql_add(w->q, i ? " OR " : "");
        if (id_parse(prefix, &id)) {
            if (query_seq_of_id(w->db, id, &seq, w->e) < 0)
                return -1;
            sql_add(w->q, "j.seq = ");
            sql_int(w->q, (int64_t)seq);
            continue;
        }
        sql_add(w->q, "substr(");
        add_value(w, f);
        sql_add(w->q, ", 1, ");
        sql_int(w->q, (int64_t)prefix.n);
        sql_add(w->q, ") = ");
        sql_text(w->q, prefix);
    }
    if (f->op == FILTER_NE)
        sql_add(w->q, ")");
    return 0;
}

static int look_at_key(struct writer_ctx *w, const struct filter *f)
{
    if (f->field != FILTER_F_METRIC && f->field != FILTER_F_PARAM)
        return 0;
    w->column = (struct job_column){0};
    job_column_of_name(f->key, f->field == FILTER_F_METRIC ? JOB_COLUMN_METRIC : JOB_COLUMN_EITHER,
                       &w->q->scratch, &w->column);
    if (sql_look_at(w->db, &w->column, &w->named, w->e) < 0)
        return -1;
    /* Only a name that is a metric as well is worth the look at all names. */
    return w->names && w->named.measured && f->field == FILTER_F_PARAM
               ? param_names_has(w->names, w->db, f->key, &w->named.submitted, w->e)
               : 0;
}

/* One comparison, without parentheses: the caller wraps it in ifnull. */
static int add_term(struct writer_ctx *w, const struct filter *f)
{
    if (look_at_key(w, f) < 0)
        return -1;
    if (f->op == FILTER_HAS) {
        sql_mark(w->q, MARK_TAG, "1", f->key);
    } else if (f->op == FILTER_CONTAINS) {
        add_contains(w, f);
    } else if (f->field == FILTER_F_ID) {
        return add_ids(w, f);
    } else if (f->field == FILTER_F_PARAM || f->field == FILTER_F_TAG) {
        add_any_type(w, f);
    } else if (f->op == FILTER_IN) {
        add_equal_any(w, f);
    } else {
        if (f->field == FILTER_F_METRIC) {
            sql_add(w->q, "typeof(");
            add_value(w, f);
            sql_add(w->q, ") IN ('integer', 'real') AND ");
        }
        add_value(w, f);
        add_comparison(w, f);
    }
    return 0;
}

static int add_node(struct writer_ctx *w, const struct filter *f);

/* A chain of the same operator needs no parentheses inside: SQLite's parser nests them to 100 only,
 * and a filter may have 200 terms. */
static int add_chain(struct writer_ctx *w, const struct filter *f, enum filter_op op)
{
    if (f->op != op)
        return add_node(w, f);
    if (add_chain(w, f->left, op) < 0)
        return -1;
    sql_add(w->q, op == FILTER_AND ? " AND " : " OR ");
    return add_chain(w, f->right, op);
}

static int add_node(struct writer_ctx *w, const struct filter *f)
{
    if (f->op == FILTER_AND || f->op == FILTER_OR) {
        sql_add(w->q, "(");
        if (add_chain(w, f, f->op) < 0)
            return -1;
        sql_add(w->q, ")");
        return 0;
    }
    if (f->op == FILTER_NOT) {
        sql_add(w->q, "NOT (");
        if (add_node(w, f->left) < 0)
            return -1;
        sql_add(w->q, ")");
        return 0;
    }
    sql_add(w->q, "ifnull(");
    if (add_term(w, f) < 0)
        return -1;
    sql_add(w->q, ", 0)");
    return 0;
}

int sql_filter(struct sql *q, struct db *d, const struct filter *f, int64_t now_ms,
               struct param_names *names, struct err *e)
{
    struct writer_ctx w = {.q = q, .db = d, .now_ms = now_ms, .names = names, .e = e};

    return add_node(&w, f);
}
