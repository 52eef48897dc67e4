/* gpu_survey.h - one look at the GPUs of this machine, in words; no backend is needed */
#pragma once
#include "base/buf.h"
#include "base/err.h"

/* Says in `text` which devices there are and what showed them, or why there are none.  0, or -1
 * when something is wrong with them, which e tells.  Takes up to five seconds with a driver that
 * hangs; may be called once in a process. */
int gpu_survey(struct buf *text, struct err *e);
