/* tz.c - a time zone from a file of the tz database (RFC 8536), or from a rule of POSIX
 *
 * A file lists past changes one by one, and ends with a rule for all times after the last one.
 * Files come from the system but are checked as if they came from outside: every count is compared
 * with the length of the file before it is used.
 */
#include "base/tz.h"
#include "base/file.h"
#include "base/str.h"
#include "base/util.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ZONE_DIR "/usr/share/zoneinfo"
enum { FILE_BYTES_MAX = 1 << 20, HEADER_BYTES = 44, DAY_S = 86400 };

/* When summer time begins or ends in a year. */
struct rule_day {
    char kind;            /* 'M' month, week, weekday; 'J' day 1 to 365, never 29 February;
                             'D' day 0 to 365 */
    int month, week, day; /* of 'M'; the others have a day alone */
    int32_t time_s;       /* local time of that day, in seconds; may be negative */
};
struct rule {
    bool known, summer;         /* summer: there is summer time */
    int32_t winter_s, summer_s; /* offsets */
    struct rule_day begin, end;
};
struct change {
    int64_t at;
    int32_t offset;
};
struct tz {
    struct change *changes; /* ascending */
    size_t n;
    int32_t first; /* offset before the first change */
    struct rule rule;
};

/* ---- rules: std offset [dst [offset] [,begin[/time],end[/time]]] ---- */

/* The name of a zone: three letters or more, or anything between < and >. */
static bool rule_skip_name(const char **p)
{
    const char *s = *p;

    if (*s == '<') {
        s = strchr(s, '>');
        if (!s)
            return false;
        *p = s + 1;
        return true;
    }
    while (isalpha((unsigned char)*s))
        s++;
    if (s - *p < 3)
        return false;
    *p = s;
    return true;
}

static bool rule_number(const char **p, int max, int *out)
{
    char *end;

    if (!isdigit((unsigned char)**p))
        return false;
    long v = strtol(*p, &end, 10);
    *p = end;
    *out = (int)v;
    return v <= max;
}

/* [+-]h[:m[:s]] in seconds. */
static bool rule_time(const char **p, int32_t *out)
{
    int part[3] = {0}, sign = **p == '-' ? -1 : 1;

    if (**p == '-' || **p == '+')
        ++*p;
    for (int i = 0; i < 3; i++) {
        if (i && **p != ':')
            break;
        *p += i > 0;
        if (!rule_number(p, i ? 59 : 167, &part[i]))
            return false;
    }
    *out = sign * (part[0] * 3600 + part[1] * 60 + part[2]);
    return true;
}

static bool rule_read_day(const char **p, struct rule_day *d)
{
    *d = (struct rule_day){.kind = 'D', .time_s = 2 * 3600};
    if (**p != ',')
        return false;
    ++*p;
    if (**p == 'M') {
        ++*p;
        d->kind = 'M';
        if (!rule_number(p, 12, &d->month) || !d->month || *(*p)++ != '.' ||
            !rule_number(p, 5, &d->week) || !d->week || *(*p)++ != '.' ||
            !rule_number(p, 6, &d->day))
            return false;
    } else {
        if (**p == 'J') {
            ++*p;
            d->kind = 'J';
        }
        if (!rule_number(p, 365, &d->day) || (d->kind == 'J' && !d->day))
            return false;
    }
    if (**p != '/')
        return true;
    ++*p;
    return rule_time(p, &d->time_s);
}

static bool rule_parse(const char *p, struct rule *out)
{
    struct rule r = {.known = true};

    if (!rule_skip_name(&p) || !rule_time(&p, &r.winter_s))
        return false;
    r.winter_s = -r.winter_s; /* POSIX counts west of UTC */
    if (*p) {
        r.summer = true;
        r.summer_s = r.winter_s + 3600;
        if (!rule_skip_name(&p))
            return false;
        if (*p != ',') {
            if (!rule_time(&p, &r.summer_s))
                return false;
            r.summer_s = -r.summer_s;
        }
        if (!rule_read_day(&p, &r.begin) || !rule_read_day(&p, &r.end) || *p)
            return false;
    }
    *out = r;
    return true;
}

/* Local time of the change in this year, as if local time were UTC. */
static int64_t rule_moment(const struct rule_day *d, int year)
{
    struct tm tm = {.tm_year = year, .tm_mday = 1};
    int64_t first;

    if (d->kind != 'M') {
        bool leap =
            ((year + 1900) % 4 == 0 && (year + 1900) % 100 != 0) || (year + 1900) % 400 == 0;
        int day = d->kind == 'J' ? d->day - 1 + (leap && d->day > 59) : d->day;
        return (int64_t)timegm(&tm) + (int64_t)day * DAY_S + d->time_s;
    }
    tm.tm_mon = d->month - 1;
    first = (int64_t)timegm(&tm); /* fills in the weekday as well */
    int day = (d->day - tm.tm_wday + 7) % 7 + (d->week - 1) * 7;
    struct tm next = {.tm_year = year, .tm_mon = d->month, .tm_mday = 1};
    int length = (int)(((int64_t)timegm(&next) - first) / DAY_S);
    if (day >= length) /* week 5 is the last one, wherever it is */
        day -= 7;
    return first + (int64_t)day * DAY_S + d->time_s;
}

static int32_t rule_offset(const struct rule *r, int64_t utc_s)
{
    time_t local = (time_t)(utc_s + r->winter_s);
    struct tm tm = {0};

    if (!r->summer || !gmtime_r(&local, &tm))
        return r->winter_s;
    int64_t begin = rule_moment(&r->begin, tm.tm_year) - r->winter_s;
    int64_t end = rule_moment(&r->end, tm.tm_year) - r->summer_s;
    bool summer = begin < end ? utc_s >= begin && utc_s < end : utc_s >= begin || utc_s < end;
    return summer ? r->summer_s : r->winter_s;
}

/* ---- files ---- */

static int64_t big_endian(const unsigned char *p, int n)
{
    uint64_t v = p[0] & 0x80 ? UINT64_MAX : 0;

    for (int i = 0; i < n; i++)
        v = v << 8 | p[i];
    return (int64_t)v;
}

/* The counts of a header, and how long its data is with times of `width` bytes. */
struct block {
    uint64_t ut, std, leap, times, types, chars, bytes;
};

static bool block_read(struct str s, int width, struct block *out)
{
    const unsigned char *p = (const unsigned char *)s.p;
    uint64_t n[6];

    if (s.n < HEADER_BYTES || memcmp(p, "TZif", 4) != 0 || p[4] < '2')
        return false;
    for (int i = 0; i < 6; i++)
        n[i] = (uint64_t)big_endian(p + 20 + 4 * i, 4) & UINT32_MAX;
    *out = (struct block){n[0], n[1], n[2], n[3], n[4], n[5], 0};
    out->bytes = out->times * ((uint64_t)width + 1) + out->types * 6 + out->chars +
                 out->leap * ((uint64_t)width + 4) + out->std + out->ut;
    return out->types && out->bytes <= s.n - HEADER_BYTES;
}

/* The second block has times of eight bytes; the first one is for old programs. */
static bool file_parse(struct str s, struct tz *t)
{
    struct block old, b;

    if (!block_read(s, 4, &old))
        return false;
    struct str rest = {s.p + HEADER_BYTES + old.bytes, s.n - HEADER_BYTES - old.bytes};
    if (!block_read(rest, 8, &b))
        return false;
    const unsigned char *times = (const unsigned char *)rest.p + HEADER_BYTES;
    const unsigned char *kinds = times + b.times * 8, *types = kinds + b.times;
    t->first = (int32_t)big_endian(types, 4);
    t->changes = xcalloc(b.times + 1, sizeof(*t->changes));
    for (; t->n < b.times; t->n++) {
        if (kinds[t->n] >= b.types)
            return false;
        t->changes[t->n] = (struct change){big_endian(times + t->n * 8, 8),
                                           (int32_t)big_endian(types + kinds[t->n] * 6, 4)};
    }
    struct str footer = {rest.p + HEADER_BYTES + b.bytes, rest.n - HEADER_BYTES - b.bytes};
    footer = str_trim(footer);
    AUTO_FREE char *rule = xstrndup(footer.p, footer.n);
    return !*rule || rule_parse(rule, &t->rule);
}

/* A name that stays below the directory of zones. */
static bool name_ok(const char *name)
{
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_+-/", *p))
            return false;
    return *name && *name != '/';
}

static bool file_load(const char *name, struct tz *t)
{
    const char *dir = getenv("TZDIR");
    AUTO_FREE char *path = path_join(dir && *dir ? dir : ZONE_DIR, name);
    AUTO_FREE char *bytes = NULL;
    struct err e;
    size_t n;

    return name_ok(name) && file_read_all(path, FILE_BYTES_MAX, &bytes, &n, &e) == 0 &&
           file_parse((struct str){bytes, n}, t);
}

int tz_load(const char *name, struct tz **out, struct err *e)
{
    struct tz *t = xcalloc(1, sizeof(*t));

    if (file_load(name, t) || rule_parse(name, &t->rule)) {
        *out = t;
        return 0;
    }
    tz_free(t);
    return err_set(e, ERR_INVALID,
                   "timezone: there is no time zone '%.60s' in " ZONE_DIR
                   "; give a name such as Europe/Paris, or install tzdata",
                   name);
}

void tz_free(struct tz *t)
{
    if (!t)
        return;
    free(t->changes);
    free(t);
}

int32_t tz_offset(const struct tz *t, int64_t utc_s)
{
    size_t low = 0, high = t->n; /* changes before `low` are past, those from `high` on are not */

    if (t->rule.known && (!t->n || utc_s >= t->changes[t->n - 1].at))
        return rule_offset(&t->rule, utc_s);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (t->changes[mid].at <= utc_s)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? t->changes[low - 1].offset : t->first;
}
