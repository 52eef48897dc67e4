/* sql.c - building statements from parts, values only ever as parameters */
#include "store/sql_priv.h"

enum { SQL_TEXT_MAX = 1 << 20 };

void sql_init(struct sql *q)
{
    *q = (struct sql){0};
    buf_init(&q->text, SQL_TEXT_MAX);
}

void sql_done(struct sql *q)
{
    buf_done(&q->text);
    vec_done(&q->args);
    arena_done(&q->scratch);
}

/* The place of a value is its number in the list, so values may be added while the text grows. */
static void add_arg(struct sql *q, struct db_arg a)
{
    vec_push(&q->args, a);
    buf_addf(&q->text, "?%zu", q->args.n);
}

void sql_int(struct sql *q, int64_t v)
{
    add_arg(q, INT(v));
}

void sql_real(struct sql *q, double v)
{
    add_arg(q, REAL(v));
}

void sql_text(struct sql *q, struct str v)
{
    add_arg(q, TEXT(v));
}

void sql_add(struct sql *q, const char *literal)
{
    buf_adds(&q->text, literal);
}

sqlite3_stmt *sql_query(struct sql *q, struct db *d, struct err *e)
{
    if (q->text.overflow) {
        err_set(e, ERR_LIMIT, "the query is too long; use a shorter filter");
        return NULL;
    }
    return db_query_text(d, e, buf_str(&q->text).p, q->args.p, q->args.n);
}
