/* list.h - the jobs a listing is about: options and filter into a query, pages into rows */
#pragma once
#include "cli/cli.h"

/* The words of a filter as one text: `state:failed name~cnn` means both. */
char *filter_text(const struct operands *ops); /* yours; NULL when there are no words */
/* Does any option or word restrict the list? */
bool list_restricted(const struct cli *c, const struct operands *ops);

/* NULL = no restriction, and the order of the daemon (newest first).  `state` is a list with
 * commas.  The options --project, --user, --queue and --batch of c->opt restrict every query, too.
 */
struct list_query {
    const char *filter, *state, *sort;
    int64_t limit;       /* < 0 = everything */
    const char *columns; /* values that each job gets in its member "columns" */
};
/* Page by page, up to the limit: `page` gets an array of jobs each time.  *out_more (may be NULL):
 * there is more.  The array is borrowed during the callback. */
int list_pages(struct cli *c, const struct list_query *q,
               void (*page)(void *arg, const struct json *items), void *arg, bool *out_more,
               struct err *e);
/* The same with each page as the text of a JSON array, read without building a tree of it: a list
 * of 100 000 costs a third of the time. */
int list_texts(struct cli *c, const struct list_query *q, void (*page)(void *arg, struct str array),
               void *arg, struct err *e);
/* The same, pushed to `rows` (an array). */
int list_jobs(struct cli *c, const struct list_query *q, struct json *rows, bool *out_more,
              struct err *e);
/* What runs, what waits, what ended, each part with its own limit: three short queries instead of
 * one long list.  filter NULL = none. */
int list_overview(struct cli *c, const char *filter, const int64_t limits[3], struct json *rows,
                  struct err *e);
/* Counts by state; an object. */
int list_counts(struct cli *c, const struct list_query *q, struct json **out, struct err *e);
/* "3 running, 12 queued, 1 failed" */
void counts_format(struct buf *b, const struct json *counts, bool colour);
/* The restricting options and the filter as the body of a bulk action.  The caller frees it.
 * Without any restriction the body is {"all": true}. */
struct json *list_body(const struct cli *c, const char *filter);
