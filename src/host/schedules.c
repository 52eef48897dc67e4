/* schedules.c - what the core asks of its host about schedules: submissions and time zones
 *
 * Owns: the time zones that were read so far.  There are few, and each is kept until the host is
 * closed, because schedules point to it.
 */
#include "api/api.h"
#include "base/tz.h"
#include "core/schedule.h"
#include "core/study.h"
#include "host/host_priv.h"
#include "request/service.h"
#include <time.h>

/* A time zone that was read from the zone files of the machine.  Schedules hold a pointer to it in
 * their cron_zone, so its address never changes. */
struct zone {
    struct zone *next;
    struct tz *tz;
    char name[SCHEDULE_ZONE_MAX];
};

/* The offset of the daemon's own time zone at this moment, for schedules that name no zone. */
static int32_t local_offset(void *self, int64_t utc_s)
{
    time_t t = (time_t)utc_s;
    struct tm tm;

    (void)self;
    return localtime_r(&t, &tm) ? (int32_t)tm.tm_gmtoff : 0;
}

static int32_t zone_offset(void *self, int64_t utc_s)
{
    return tz_offset(((const struct zone *)self)->tz, utc_s);
}

/* A zone that is not known yet is read from the disk on the loop thread: that happens once for each
 * name, and a zone file has a few kilobytes. */
int host_zone(void *arg, const char *name, struct cron_zone *out, struct err *e)
{
    struct host *h = arg;
    struct zone *z = h->zones;

    if (!*name) {
        *out = (struct cron_zone){local_offset, NULL};
        return 0;
    }
    while (z && strcmp(z->name, name) != 0)
        z = z->next;
    if (!z) {
        struct tz *tz = NULL;
        if (tz_load(name, &tz, e) < 0)
            return -1;
        z = xcalloc(1, sizeof(*z));
        snprintf(z->name, sizeof(z->name), "%s", name);
        z->tz = tz;
        z->next = h->zones;
        h->zones = z;
    }
    *out = (struct cron_zone){zone_offset, z};
    return 0;
}

void host_zones_free(struct host *h)
{
    while (h->zones) {
        struct zone *next = h->zones->next;
        tz_free(h->zones->tz);
        free(h->zones);
        h->zones = next;
    }
}

void host_trial(void *arg, struct trial_launch *t)
{
    struct host *h = arg;
    struct err e = {0};

    if (!request_server_closing(h->requests)) {
        api_trial(h->api, t);
        return;
    }
    err_set(&e, ERR_UNAVAILABLE, "the daemon is shutting down");
    core_trial_take(t, NULL, &e);
}

/* A schedule of a dialect is the part's; all others are the API's. */
void host_fire(void *arg, struct firing *f)
{
    struct host *h = arg;
    struct str dialect = json_get_str(f->def, "dialect");
    struct err e = {0};

    /* ERR_UNAVAILABLE settles no moment: the next daemon decides about it by the rule catch_up. */
    if (request_server_closing(h->requests)) {
        err_set(&e, ERR_UNAVAILABLE, "the daemon is shutting down");
        core_fired_take(f, NULL, &e);
    } else if (!dialect.n) {
        api_fire(h->api, f);
    } else {
        parts_fire(h, dialect, f);
    }
}
