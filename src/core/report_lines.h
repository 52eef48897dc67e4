/* report_lines.h - lines of a spool, read into what the store takes: pure, any thread
 *
 *   {"k":"m","n":"loss","v":0.3,"s":10,"t":1731700000000}    metric: value, step, time
 *   {"k":"m","n":"loss","v":[0.3,0.2],"s":[10,11],"t":[…]}   several at once; "s" may be one
 *                                                            number, the first step, and "t" one
 *                                                            number, the time of all
 *   {"k":"p","n":"lr","x":0.1,"t":…}                         parameter, any JSON value; "v" will do
 *   {"k":"t","n":"kind","x":"resnet","t":…}                  tag
 *   {"k":"a","n":"model","x":"artifacts/model.pt","t":…}     artifact
 *   {"k":"e","s":3,"t":…}                                    epoch 3 is done
 *   {"k":"x","v":1,"x":"why","t":…}                          the end of a run that is not ours,
 *                                                            with its exit code
 *
 * A value is a number, NaN, Infinity, -Infinity (also as the words nan, inf, -inf in quotes), or a
 * text.  Unknown kinds, unknown members and lines that are not JSON are skipped.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"

struct report_item {
    char kind; /* of the line; 's' = a point that is a text */
    struct str name;
    struct str text;     /* 'm': a block of series.h; 'p': JSON; else the text */
    int64_t step, at_ms; /* step -1 = none */
    int64_t code;        /* 'x' */
};
struct report_batch {
    struct arena mem; /* of the texts; names may point into the lines */
    VEC(struct report_item) items;
    size_t used; /* bytes of whole lines that were read */
    uint64_t points, params;
    struct buf summary; /* members of the event that tells of it; empty = nothing to tell */
};
/* Reads the whole lines in `lines`, which must stay as long as the batch; `now_ms` is for points
 * that do not say when. */
void report_read(struct report_batch *b, struct str lines, int64_t now_ms);
void report_batch_done(struct report_batch *b); /* accepts a zeroed struct */
