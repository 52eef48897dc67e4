/* sql.c - building statements from parts, values only ever as parameters */
#include "base/util.h"
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

static void add_arg(struct sql *q, struct sql_arg a)
{
    vec_push(&q->args, a);
    buf_addf(&q->text, "?%zu", q->args.n);
}

void sql_int(struct sql *q, int64_t v)
{
    add_arg(q, (struct sql_arg){.type = ARG_INT, .i = v});
}

void sql_real(struct sql *q, double v)
{
    add_arg(q, (struct sql_arg){.type = ARG_REAL, .d = v});
}

void sql_text(struct sql *q, struct str v)
{
    add_arg(q, (struct sql_arg){.type = ARG_TEXT, .s = v});
}

void sql_add(struct sql *q, const char *literal)
{
    buf_adds(&q->text, literal);
}

sqlite3_stmt *sql_prepare(struct sql *q, struct db *d, struct err *e)
{
    if (q->text.overflow) {
        err_set(e, ERR_LIMIT, "the query is too long; use a shorter filter");
        return NULL;
    }
    sqlite3_stmt *st = db_prepare_text(d, buf_str(&q->text).p, e);
    if (!st)
        return NULL;
    for (size_t i = 0; i < q->args.n; i++) {
        const struct sql_arg *a = &q->args.p[i];
        if (a->type == ARG_INT)
            sqlite3_bind_int64(st, (int)i + 1, a->i);
        else if (a->type == ARG_REAL)
            sqlite3_bind_double(st, (int)i + 1, a->d);
        else
            bind_str(st, (int)i + 1, a->s);
    }
    return st;
}
