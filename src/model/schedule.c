/* schedule.c - the rules of a schedule, and the choice among the moments that have passed */
#include "model/schedule.h"
#include "base/json.h"
#include "base/util.h"
#include <stdio.h>
#include <string.h>

const char *const schedule_overlap_names[OVERLAP_KINDS] = {"skip", "queue", "replace"};
const char *const schedule_catch_up_names[CATCH_UP_KINDS] = {"latest", "all", "none"};

/* The place of the word under `key` in `names`, or `dflt` when the key is absent. */
static int read_word(const struct json *def, const char *key, const char *const *names, int n,
                     int dflt, struct err *e)
{
    const struct json *v = json_get(def, key);

    if (!v)
        return dflt;
    for (int i = 0; i < n; i++)
        if (json_type(v) == JSON_STR && str_eq_c(json_str(v), names[i]))
            return i;
    return err_set(e, ERR_INVALID, "%s: must be %s, %s or %s", key, names[0], names[1], names[2]);
}

static int read_timezone(const struct json *def, struct schedule_rules *r, struct err *e)
{
    const struct json *v = json_get(def, "timezone");

    if (!v)
        return 0;
    if (json_type(v) != JSON_STR || json_str(v).n >= sizeof(r->timezone))
        return err_set(e, ERR_INVALID,
                       "timezone: must be the name of a time zone, such as Europe/Paris");
    snprintf(r->timezone, sizeof(r->timezone), STR_FMT, STR_ARG(json_str(v)));
    return 0;
}

/* A null or an empty object is a schedule that gets its times later. */
static int read_cron(const struct json *def, struct schedule_rules *r, struct err *e)
{
    const struct json *v = json_get(def, "cron");

    r->timed = v && !(json_type(v) == JSON_OBJECT && !json_len(v));
    return r->timed ? cron_from_json(v, &r->cron, e) : 0;
}

int schedule_rules_read(const struct json *def, struct schedule_rules *out, struct err *e)
{
    struct schedule_rules r = {0};
    int catch_up =
        read_word(def, "catch_up", schedule_catch_up_names, CATCH_UP_KINDS, CATCH_UP_LATEST, e);
    /* The runs that are made up for come at once: with any other rule they would skip or cancel
     * each other. */
    int overlap = catch_up < 0
                      ? -1
                      : read_word(def, "overlap", schedule_overlap_names, OVERLAP_KINDS,
                                  catch_up == CATCH_UP_ALL ? OVERLAP_QUEUE : OVERLAP_SKIP, e);

    if (overlap < 0 || read_timezone(def, &r, e) < 0 || read_cron(def, &r, e) < 0)
        return -1;
    r.overlap = (enum schedule_overlap)overlap;
    r.catch_up = (enum schedule_catch_up)catch_up;
    if (r.catch_up == CATCH_UP_ALL && r.overlap != OVERLAP_QUEUE)
        return err_set(e, ERR_INVALID,
                       "catch_up: all needs the overlap rule queue, because the runs that are made "
                       "up for come together; use queue, or catch_up latest");
    *out = r;
    return 0;
}

int64_t schedule_after(const struct schedule_rules *r, const struct cron_zone *z, int64_t s)
{
    int64_t t;

    return r->timed && cron_next(&r->cron, z, s, &t) ? t : 0;
}

/* The last moment in [first_s, now_s]; first_s is a moment.  schedule_after grows with its
 * argument, so a search by halves finds the moment in some thirty steps, also when a schedule of
 * every second was missed for a year. */
static int64_t last_moment(const struct schedule_rules *r, const struct cron_zone *z,
                           int64_t first_s, int64_t now_s)
{
    int64_t low = first_s - 1, high = now_s; /* a moment follows `low`, none follows `high` */

    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2, t = schedule_after(r, z, mid);
        if (t && t <= now_s)
            low = mid;
        else
            high = mid;
    }
    return schedule_after(r, z, low);
}

struct schedule_choice schedule_choose(const struct schedule_rules *r, const struct cron_zone *z,
                                       int64_t settled_s, int64_t now_s)
{
    int64_t first = schedule_after(r, z, settled_s);

    if (!first || first > now_s)
        return (struct schedule_choice){0};
    if (r->catch_up == CATCH_UP_ALL)
        return (struct schedule_choice){.fire_s = first, .settle_s = first};
    int64_t last = last_moment(r, z, first, now_s);
    bool late = r->catch_up == CATCH_UP_NONE && now_s - last >= SCHEDULE_LATE_S;
    return (struct schedule_choice){
        .fire_s = late ? 0 : last, .settle_s = last, .missed_s = late || first < last ? first : 0};
}
