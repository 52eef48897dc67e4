/* grid.h - the boxed tables of `batch list` and `job list`
 *
 *   +-------+--------+      every cell centred in the widest text of its column plus a space on
 *   |  name | status |      either side; an odd spare space stands left of a text of even length
 *   +-------+--------+      and right of one of odd length
 */
#pragma once
#include "base/buf.h"

struct grid;
/* Titles and cells are copied.  The caller frees the grid. */
struct grid *grid_new(const char *const *titles, size_t n);
void grid_free(struct grid *g);
void grid_cell(struct grid *g, struct str text);         /* row by row, left to right */
void grid_render(const struct grid *g, struct buf *out); /* with a final newline */
