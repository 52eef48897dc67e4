/* tz.h - time zones by name
 *
 * The C library knows one zone per process (TZ), and changing it would change the times of every
 * thread.  So a zone of the tz database is read here, as a value of its own.
 */
#pragma once
#include "base/err.h"
#include <stdint.h>

struct tz;
/* `name` is a name of the tz database ("Europe/Paris"), or a rule as POSIX writes it in TZ
 * ("CET-1CEST,M3.5.0,M10.5.0/3").  ERR_INVALID: it is neither.  Reads a file. */
int tz_load(const char *name, struct tz **out, struct err *e);
void tz_free(struct tz *t);
/* Seconds east of UTC at the moment utc_s.  Any thread. */
int32_t tz_offset(const struct tz *t, int64_t utc_s);
