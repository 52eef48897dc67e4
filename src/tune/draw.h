/* draw.h - pictures of a study: as SVG, and as characters on a terminal
 *
 * Names and choices come from outside: control characters become "?", long texts are cut and end in
 * "…", and nothing of them becomes markup or an escape sequence.  Any number of trials is drawn,
 * also none; what a picture leaves out, it says.  Pictures depend on nothing but their arguments.
 */
#pragma once
#include "tune/view.h"

enum tune_picture_kind {
    TUNE_HISTORY,    /* values in the order of trials, and the best so far */
    TUNE_PARALLEL,   /* a line per trial through an axis per parameter; SVG only */
    TUNE_IMPORTANCE, /* shares of variance: single parameters and pairs */
    TUNE_SLICE,      /* values over each parameter */
    TUNE_CONTOUR,    /* values over two parameters */
    TUNE_PARETO,     /* two objectives */
    TUNE_PICTURES
};

struct tune_picture {
    enum tune_picture_kind kind;
    size_t goal;  /* the objective */
    size_t other; /* pareto: the second one */
    long x, y;    /* contour: numbers of parameters; -1 = those that matter most */
    size_t width; /* SVG: pixels; terminal: cells; 0 = 900 or 80 */
    bool colour;  /* terminal: with colours */
    uint64_t seed;
};

/* "history|parallel|…", for the help of commands. */
extern const char tune_picture_names[];
/* false: there is no picture of this name. */
bool tune_picture_find(struct str name, enum tune_picture_kind *out);
/* A picture with nothing special asked for; pareto has the first two objectives. */
struct tune_picture tune_picture_of(enum tune_picture_kind kind);

/* Append to `out`.  The error says why such a picture cannot be: no such objective or parameter, no
 * two of them, no form for a terminal.  Nothing is appended then. */
int tune_draw_svg(const struct tune_view *v, const struct tune_picture *p, struct buf *out,
                  struct err *e);
int tune_draw_text(const struct tune_view *v, const struct tune_picture *p, struct buf *out,
                   struct err *e);
