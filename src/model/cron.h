/* cron.h - moments that come again: what cron's five fields and APScheduler's named ones say
 *
 * Two ways to write a schedule, each with the meaning its users know:
 *
 *   "30 6 * * mon-fri"                 five fields; Sunday is 0 or 7; when both the day and the day
 *                                      of the week are given, either will do
 *   {"hour": 6, "minute": "30", …}     the keyword arguments of APScheduler's cron trigger; Monday
 *                                      is 0, all fields must fit, those after the last one given
 *                                      are at their lowest
 *
 * Times are local.  One that a change of the clock leaves out happens at the end of the gap, once;
 * one that comes twice happens the first time.
 */
#pragma once
#include "base/err.h"
#include "base/str.h"
#include <stdint.h>

struct json;

/* The set of allowed values of each field.  A schedule is a plain value: it can be copied and
 * owns nothing. */
struct cron {
    uint64_t second, minute; /* bit n = the value n */
    uint32_t hour, day, month;
    uint8_t weekday; /* bit 0 = Sunday */
    uint8_t nth[6]; /* weekdays that fit when they are the first … fifth, the last of the month */
    bool last_day;  /* of the month */
    bool either;    /* day or weekday, not both */
};
/* ERR_INVALID names the field, its value, what it may be; also for dates that never come. */
int cron_parse(struct str text, struct cron *out, struct err *e);
/* The same from a JSON text of five fields or an object of named fields.  On failure *out is
 * unchanged. */
int cron_from_json(const struct json *j, struct cron *out, struct err *e);

/* Seconds east of UTC at the moment utc_s.  Results beyond a day either way count as a day. */
struct cron_zone {
    int32_t (*offset)(void *self, int64_t utc_s);
    void *self;
};
/* The first moment after `after_s`, in seconds since 1970; after_s itself is never the answer.
 * False: there is none within 60 years. */
bool cron_next(const struct cron *c, const struct cron_zone *z, int64_t after_s, int64_t *out_s);
