/* table.h - tables and colours on a terminal
 *
 * Column widths come from the content, then shrink (the columns marked shrinkable, widest first)
 * until the table fits; cut cells end in "…".  Widths do not depend on the locale.  Control
 * characters are shown as "?".
 */
#pragma once
#include "base/buf.h"

enum table_align { TABLE_LEFT, TABLE_RIGHT };
enum colour {
    COLOUR_NONE,
    COLOUR_RED,
    COLOUR_GREEN,
    COLOUR_YELLOW,
    COLOUR_BLUE,
    COLOUR_MAGENTA,
    COLOUR_CYAN,
    COLOUR_DIM,
    COLOUR_BOLD
};

struct table;
/* The caller frees the table with table_free; titles and cells are copied. */
struct table *table_new(void);
void table_free(struct table *t);
/* All columns are added before the first cell. */
void table_column(struct table *t, const char *title, enum table_align align, bool shrinkable);
void table_cell(struct table *t, struct str text, enum colour c); /* row by row, left to right */
/* Rows that have been started. */
size_t table_rows(const struct table *t);
/* width 0 = no limit (not a terminal).  `colour` false for pipes and NO_COLOR. */
void table_render(const struct table *t, size_t width, bool colour, struct buf *out);
void table_render_csv(const struct table *t, struct buf *out); /* RFC 4180 */
void csv_add_field(struct buf *out, struct str s);             /* one of these, quoted if it must */

struct term {
    bool is_tty, colour;
    size_t width, height; /* COLUMNS/LINES, then the terminal, then 80×24; 0 when not a tty */
};
struct term term_detect(int fd);
const char *colour_start(enum colour c); /* escape text; "" for COLOUR_NONE */
const char *colour_end(void);
/* A formatted text in colour c; without colour when `on` is false or c is COLOUR_NONE. */
bool colour_addf(struct buf *b, bool on, enum colour c, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
size_t text_width(struct str s); /* in terminal cells */
