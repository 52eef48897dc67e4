/* list_priv.h - a list of jobs being made: its order, its cursor, its statement */
#pragma once
#include "store/scans_priv.h"

enum { KEEP_SQL_BYTES = 8192 }; /* a statement of a longer text is not worth keeping */

struct sort {
    const char *name;
    const char *key; /* NULL = the number alone; "" = duration, or a column */
    bool text;
    char code; /* in cursors */
};
struct cursor {
    bool set;
    int64_t now_ms; /* of the first page: durations of running jobs must not move between pages */
    uint64_t seq;
    int64_t key;
    char *text;  /* of a text key */
    double real; /* of a column */
    char type;   /* of a column's value: 'i', 'r' number, 't' text, 'n' none */
};
/* One list being made: what was asked, where it continues, and the statement under construction. */
struct listing {
    struct db *db;
    const struct job_query *q;
    const struct sort *sort;
    struct cursor at;
    struct param_names *names;
    struct named_value named; /* when the list is sorted by a column */
    struct job_scans scans;
    struct sql sql;
};

/* ---- list_cursor.c ---- */
char *cursor_format(const struct listing *l, const struct cursor *c); /* the caller frees it */
/* Reads the cursor of the query into l->at. */
int cursor_parse(struct listing *l, struct err *e);

/* ---- list.c ---- */
/* One page on its way to the caller. */
struct list_page {
    struct listing *l;
    struct view_reader views;
    struct cursor last; /* of the last job that was given out */
    size_t n;
    char *next; /* the cursor, once there is another page */
    job_view_fn fn;
    void *arg;
};
/* Gives out the job whose number and key stand in the first two columns; 1 = go on, 0 = the page is
 * full or nobody wants more, -1 = error. */
int list_put(struct list_page *p, sqlite3_stmt *st, struct err *e);
/* Appends the conditions of the query on `job j`, " AND …" each; without those of the cursor. */
int list_add_filter(struct listing *l, struct err *e);
void list_add_scans(struct listing *l);

/* ---- list_metric.c: the order of a metric, read from its index ---- */
bool list_by_metric(const struct listing *l);
/* Jobs that have a value, behind the cursor; 1 = all of them were given out, 0 = the page is full,
 * -1 = error. */
int list_put_measured(struct list_page *p, struct err *e);
