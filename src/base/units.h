/* units.h - durations, sizes and CPU counts as people write them */
#pragma once
#include "base/err.h"
#include "base/str.h"

/* "90s" "2h" "1h30m" "500ms" "1d" "90" (seconds) → milliseconds; negative and overflow refused. */
int duration_parse(struct str s, int64_t *out_ms, struct err *e);
/* "4G" "512M" "1Gi" "1.5G" "4096" (bytes).  K M G T and Ki Mi Gi Ti are both powers of 1024. */
int size_parse(struct str s, int64_t *out_bytes, struct err *e);
/* "2" "0.5" "500m" → thousandths of a CPU */
int cpus_parse(struct str s, int64_t *out_mcpu, struct err *e);
/* Results of the formatters fit in this, with the NUL.  They are for people and lose precision. */
enum { UNIT_TEXT_MAX = 24 };
void duration_format(int64_t ms,
                     char out[UNIT_TEXT_MAX]); /* "1h30m" "2.5s" "350ms", two units at most */
void size_format(int64_t bytes, char out[UNIT_TEXT_MAX]); /* "4.0G" "512M" "17K" */
