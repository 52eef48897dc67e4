/* csv_priv.h - rows of a CSV text (RFC 4180), each cell with its place for messages */
#pragma once
#include "base/arena.h"
#include "base/err.h"

enum { CSV_CELLS_MAX = 64 };
/* One text being read row by row.  The struct owns nothing: cells point into the text, or into
 * the arena when quotes had to be undone. */
struct csv {
    /* What has not been read yet. */
    struct str rest;
    uint32_t line; /* of the row read last, from 1 */
    size_t n;
    struct str cells[CSV_CELLS_MAX]; /* trimmed, quotes undone; valid while text and arena are */
    uint32_t cols[CSV_CELLS_MAX];    /* byte columns, from 1 */
    /* The line at which the next row starts; a quoted cell may span several lines. */
    uint32_t next_line;
};
/* The text must live as long as the cells are used. */
void csv_init(struct csv *c, struct str text);
/* 1 = the next row that is not empty, 0 = end, -1 = malformed. */
int csv_next(struct csv *c, struct arena *a, const char *name, struct err *e);
