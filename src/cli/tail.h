/* tail.h - the end of a log without the rest of it */
#pragma once
#include "cli/follow.h"

/* The last `lines` lines of what there is now into `out`; *at: where the rest will begin.  Reads
 * f->ref, f->run and f->err_file only.  Asks for at most 64 MiB of the end of the log. */
int log_tail(struct cli *c, const struct follow_log *f, int64_t lines, struct buf *out, int64_t *at,
             struct err *e);
