/* lines.h - a study driven by lines of JSON: create, ask, tell, record, close
 *
 *   {"op":"create","seed":1,"direction":"minimize","n_trials":200,"space":[…]}   {"ok":true}
 *   {"op":"ask"}                                     {"id":1,"params":{"lr":0.01}}
 *   {"op":"tell","id":1,"value":0.5}                 {"ok":true}
 *   {"op":"tell","id":1,"values":[0.5,80]}           {"ok":true}   (create had "directions":[…])
 *   {"op":"record","params":{"lr":0.1}}              {"id":2}
 *   {"op":"close"}                                   (no answer)
 *
 * The space is a list of parameters or, as in YAML, a map (space_short.c).
 * A line that cannot be served is answered by {"error":"…","code":"…"}; the study goes on.
 */
#pragma once
#include "tune/study.h"

/* A zeroed struct with the name of an engine, or NULL for the default. */
struct tune_lines {
    const char *engine;
    struct tune_study *study; /* NULL before create */
};
void tune_lines_done(struct tune_lines *t);
/* Appends the answer to one line, with its line end.  False: the line was close. */
bool tune_lines_answer(struct tune_lines *t, struct str line, struct buf *out);
