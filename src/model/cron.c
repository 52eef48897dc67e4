/* cron.c - reading schedules
 *
 * Owns: the fields, their ranges and names, and every way to write one.  When the moments come is
 * in cron_next.c.
 */
#include "model/cron.h"
#include "base/json.h"
#include "base/util.h"
#include "model/cron_priv.h"
#include <stdio.h>
#include <strings.h>

/* The longest text of a schedule, or of one of its fields, in bytes. */
enum { VALUE_MAX = 200 };

static const char *const months[] = {"january",   "february", "march",    "april",
                                     "may",       "june",     "july",     "august",
                                     "september", "october",  "november", "december"};
static const char *const weekdays[] = {"sunday",   "monday", "tuesday", "wednesday",
                                       "thursday", "friday", "saturday"};

struct field {
    const char *name;
    int lo, hi;
    const char *const *words; /* of the value lo and those behind it; NULL = none */
    int n_words;
    const char *example;
};
enum { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };
/* WEEKDAY has 0 to 7, because cron takes both 0 and 7 for Sunday. */
static const struct field fields[FIELDS] = {
    [SECOND] = {"second", 0, 59, NULL, 0, "0, 15-45 or */10"},
    [MINUTE] = {"minute", 0, 59, NULL, 0, "0, 15-45 or */10"},
    [HOUR] = {"hour", 0, 23, NULL, 0, "6, 8-18 or */2"},
    [DAY] = {"day", 1, 31, NULL, 0, "1, 10-20 or last"},
    [MONTH] = {"month", 1, 12, months, 12, "1, jan or 6-8"},
    [WEEKDAY] = {"day_of_week", 0, 7, weekdays, 7, "mon, mon-fri or 0"},
};

/* ---- one field ---- */

__attribute__((format(printf, 4, 5))) static int bad(const struct field *f, struct str text,
                                                     struct err *e, const char *fmt, ...)
{
    char why[140];

    FORMAT_ARGS(why, fmt);
    return err_set(e, ERR_INVALID, "schedule: %s '%.*s' %s", f->name, (int)MIN(text.n, (size_t)40),
                   text.p, why);
}

/* "mon" or "monday", in any case. */
static int word_of(const char *const *words, int n, struct str s)
{
    for (int i = 0; i < n; i++)
        if ((s.n == 3 || s.n == strlen(words[i])) && !strncasecmp(s.p, words[i], s.n))
            return i;
    return -1;
}

/* One number or name.  `all` is the whole item, which the message quotes. */
static int value_of(const struct field *f, struct str s, struct str all, int *out, struct err *e)
{
    int word = f->words ? word_of(f->words, f->n_words, s) : -1;
    int64_t n;

    if (word >= 0) {
        *out = f->lo + word;
        return 0;
    }
    if (!s.n || s.p[0] == '-' || s.p[0] == '+' || !str_to_i64(s, &n))
        return bad(f, all, e, "is not understood; write %s", f->example);
    if (n < f->lo || n > f->hi)
        return bad(f, all, e, "is outside of %d to %d; write %s", f->lo, f->hi, f->example);
    *out = (int)n;
    return 0;
}

/* "*", "5", "1-5", each with "/n" behind it. */
static int read_item(const struct field *f, struct str all, uint64_t *bits, struct err *e)
{
    struct str step_text, last_text, range = str_cut(all, '/', &step_text);
    struct str first_text = str_cut(range, '-', &last_text);
    bool stepped = range.n < all.n, open = str_eq_c(range, "*");
    int first = f->lo, last = f->hi;
    int64_t step = 1;

    if (!open && value_of(f, first_text, all, &first, e) < 0)
        return -1;
    if (!open && first_text.n < range.n && value_of(f, last_text, all, &last, e) < 0)
        return -1;
    /* A single value is a range of one; with a step, "5/10", the range ends at the highest
     * value. */
    if (!open && first_text.n == range.n && !stepped)
        last = first;
    if (f == &fields[WEEKDAY] && first && !last)
        last = 7; /* sat-sun */
    if (stepped && (!str_to_i64(step_text, &step) || step < 1 || step > f->hi))
        return bad(f, all, e, "has a step outside of 1 to %d; write %s", f->hi, f->example);
    if (last < first)
        return bad(f, all, e, "runs backwards; write it as two ranges with a comma between");
    for (int i = first; i <= last; i += (int)step)
        *bits |= (uint64_t)1 << i;
    return 0;
}

static int read_field(const struct field *f, struct str text, uint64_t *bits, struct err *e)
{
    struct str rest = text;

    if (text.n && text.p[text.n - 1] == ',')
        return bad(f, text, e, "ends with a comma; write %s", f->example);
    do {
        struct str item = str_trim(str_cut(rest, ',', &rest));
        if (read_item(f, item, bits, e) < 0)
            return -1;
    } while (rest.n);
    return 0;
}

/* A field that begins with "*", also with a step behind it, does not restrict the day: that is
 * cron's own rule. */
static bool is_open(struct str s)
{
    return s.n && s.p[0] == '*';
}

static int finish(struct cron *c, const uint64_t bits[FIELDS], struct err *e)
{
    c->second = bits[SECOND];
    c->minute = bits[MINUTE];
    c->hour = (uint32_t)bits[HOUR];
    c->day = (uint32_t)bits[DAY];
    c->month = (uint32_t)bits[MONTH];
    /* Bit 7 is Sunday written as 7; it joins bit 0. */
    c->weekday = (uint8_t)((bits[WEEKDAY] | bits[WEEKDAY] >> 7) & 0x7f);
    if (!cron_possible(c))
        return err_set(e, ERR_INVALID,
                       "schedule: there is no such date in any year; choose another day or month");
    return 0;
}

/* ---- five fields ---- */

static struct str macro_of(struct str text)
{
    static const struct {
        const char *name, *fields;
    } macros[] = {
        {"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
        {"@weekly", "0 0 * * 0"},   {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
        {"@annually", "0 0 1 1 *"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(macros); i++)
        if (text.n == strlen(macros[i].name) && !strncasecmp(text.p, macros[i].name, text.n))
            return str_of(macros[i].fields);
    return text;
}

/* Messages quote the text, so control characters and bytes outside of ASCII are refused first. */
static bool is_plain(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((s.p[i] < ' ' && s.p[i] != '\t') || s.p[i] > '~')
            return false;
    return true;
}

static struct str next_word(struct str *rest)
{
    size_t n = 0;

    *rest = str_trim(*rest);
    while (n < rest->n && rest->p[n] != ' ' && rest->p[n] != '\t')
        n++;
    struct str word = {rest->p, n};
    *rest = (struct str){rest->p + n, rest->n - n};
    return word;
}

int cron_parse(struct str text, struct cron *out, struct err *e)
{
    struct cron c = {0};
    uint64_t bits[FIELDS] = {[SECOND] = 1};
    struct str words[WEEKDAY - MINUTE + 1], rest = macro_of(str_trim(text));

    if (!is_plain(text) || text.n > VALUE_MAX)
        return err_set(e, ERR_INVALID,
                       "schedule: a text of five fields is wanted, such as '30 6 * * mon-fri'");
    if (rest.n && rest.p[0] == '@')
        return err_set(e, ERR_INVALID,
                       "schedule: '%.*s' is unknown; use @hourly, @daily, @weekly, @monthly, "
                       "@yearly or five fields",
                       (int)MIN(rest.n, (size_t)40), rest.p);
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        words[i] = next_word(&rest);
    if (!words[ARRAY_SIZE(words) - 1].n || str_trim(rest).n)
        return err_set(e, ERR_INVALID,
                       "schedule: '%.*s' must have five fields: minute hour day month day_of_week; "
                       "for seconds use an object",
                       (int)MIN(text.n, (size_t)60), text.p);
    for (int f = MINUTE; f <= WEEKDAY; f++) {
        struct str word = words[f - MINUTE];
        if (f == DAY && word.n == 4 && !strncasecmp(word.p, "last", 4))
            c.last_day = true;
        else if (read_field(&fields[f], word, &bits[f], e) < 0)
            return -1;
    }
    /* cron's rule: when both fields are restricted, a day that fits one of them is enough. */
    c.either = !is_open(words[DAY - MINUTE]) && !is_open(words[WEEKDAY - MINUTE]);
    if (finish(&c, bits, e) < 0)
        return -1;
    *out = c;
    return 0;
}

/* ---- named fields ---- */

/* "last", "last fri", "2nd fri": 1 = read, 0 = none of these. */
static int read_day_words(struct cron *c, struct str item)
{
    static const char *const counts[] = {"1st", "2nd", "3rd", "4th", "5th", "last"};
    struct str rest = item, count = next_word(&rest), day = str_trim(rest);
    int wd = word_of(weekdays, 7, day);

    if (!day.n && count.n == 4 && !strncasecmp(count.p, "last", 4)) {
        c->last_day = true;
        return 1;
    }
    for (size_t i = 0; wd >= 0 && i < ARRAY_SIZE(counts); i++)
        if (count.n == strlen(counts[i]) && !strncasecmp(count.p, counts[i], count.n)) {
            c->nth[i] |= (uint8_t)(1 << wd);
            return 1;
        }
    return 0;
}

static int read_day(struct cron *c, struct str text, uint64_t *bits, struct err *e)
{
    struct str rest = text;

    if (text.n && text.p[text.n - 1] == ',')
        return read_field(&fields[DAY], text, bits, e); /* says why not */
    do {
        struct str item = str_trim(str_cut(rest, ',', &rest));
        if (!read_day_words(c, item) && read_field(&fields[DAY], item, bits, e) < 0)
            return -1;
    } while (rest.n);
    return 0;
}

/* Monday is 0 here. */
static int read_weekday(struct str text, uint64_t *bits, struct err *e)
{
    static const char *const from_monday[] = {"monday", "tuesday",  "wednesday", "thursday",
                                              "friday", "saturday", "sunday"};
    static const struct field f = {"day_of_week", 0, 6, from_monday, 7, "mon, mon-fri or 0"};
    uint64_t days = 0;

    if (read_field(&f, text, &days, e) < 0)
        return -1;
    /* Monday moves from bit 0 to bit 1, and Sunday from bit 6 to bit 0. */
    *bits = (days << 1 | days >> 6) & 0x7f;
    return 0;
}

/* Most significant first: what follows the last one given is at its lowest. */
static const struct {
    const char *key;
    int field; /* -1 = only "*" */
    const char *lowest;
} keys[] = {{"year", -1, "*"},       {"month", MONTH, "1"},         {"day", DAY, "1"},
            {"week", -1, "*"},       {"day_of_week", WEEKDAY, "*"}, {"hour", HOUR, "0"},
            {"minute", MINUTE, "0"}, {"second", SECOND, "0"}};

static int known_keys(const struct json *j, struct err *e)
{
    static const char *const names[] = {"year",        "month", "day",    "week",
                                        "day_of_week", "hour",  "minute", "second"};

    for (struct json_it it = {0}; json_next(j, &it);) {
        bool known = !it.val; /* start_date: null and the like say nothing */
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
            known |= !strcmp(names[i], it.key);
        if (known)
            continue;
        bool plain = is_plain(str_of(it.key));
        const char *near = plain ? str_nearest(it.key, names, ARRAY_SIZE(names)) : NULL;
        return err_set(e, ERR_INVALID,
                       "schedule: '%.40s' is no field; use second, minute, hour, day, month and "
                       "day_of_week%s%s%s",
                       plain ? it.key : "?", near ? " (did you mean " : "", near ? near : "",
                       near ? "?)" : "");
    }
    return 0;
}

/* The text of a field, or NULL with e set. */
static const char *text_of(const struct json *v, const char *key, char number[24], struct err *e)
{
    if (json_type(v) == JSON_INT) {
        snprintf(number, 24, "%lld", (long long)json_int(v));
        return number;
    }
    if (json_type(v) == JSON_STR && json_str(v).n <= VALUE_MAX && is_plain(json_str(v)))
        return json_str(v).p;
    err_set(e, ERR_INVALID, "schedule: %s must be a whole number or a short text such as '*/10'",
            key);
    return NULL;
}

static int read_key(struct cron *c, size_t k, const char *value, uint64_t bits[FIELDS],
                    struct err *e)
{
    struct str text = str_trim(str_of(value));
    int f = keys[k].field;

    if (f == DAY)
        return read_day(c, text, &bits[f], e);
    if (f == WEEKDAY)
        return read_weekday(text, &bits[f], e);
    if (f >= 0)
        return read_field(&fields[f], text, &bits[f], e);
    if (str_eq_c(text, "*"))
        return 0;
    return err_set(e, ERR_INVALID, "schedule: %s can only be '*'; use month, day and day_of_week",
                   keys[k].key);
}

/* The named fields.  Fields before the last given one are "*", those after it are at their
 * lowest. */
static int from_object(const struct json *j, struct cron *out, struct err *e)
{
    struct cron c = {0};
    uint64_t bits[FIELDS] = {0};
    /* Index + 1 of the least significant field that is given. */
    size_t given = 0;

    if (known_keys(j, e) < 0)
        return -1;
    for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
        if (json_get(j, keys[k].key))
            given = k + 1;
    if (!given)
        return err_set(e, ERR_INVALID,
                       "schedule: no field is given; write for example {\"hour\": 6}");
    for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
        const struct json *v = json_get(j, keys[k].key);
        char number[24];
        const char *text = v           ? text_of(v, keys[k].key, number, e)
                           : k < given ? "*"
                                       : keys[k].lowest;
        if (!text || read_key(&c, k, text, bits, e) < 0)
            return -1;
    }
    if (finish(&c, bits, e) < 0)
        return -1;
    *out = c;
    return 0;
}

int cron_from_json(const struct json *j, struct cron *out, struct err *e)
{
    if (json_type(j) == JSON_STR)
        return cron_parse(json_str(j), out, e);
    if (json_type(j) == JSON_OBJECT)
        return from_object(j, out, e);
    return err_set(e, ERR_INVALID,
                   "schedule must be a text of five fields or an object of cron fields, not %s",
                   json_type_name(json_type(j)));
}
