/* retain_clock.c - a jump of the clock removes no jobs */
#include "model/retain_clock.h"
#include <stdio.h>
#include <string.h>

static const int64_t day_ms = 86400000;

/* The least time that passed: all of the machine's up time when it was started in between. */
static int64_t surely_passed(const struct clock_reading *from, const struct clock_reading *now)
{
    if (!from->boot[0])
        return 0;
    return strcmp(from->boot, now->boot) == 0 ? now->up_ms - from->up_ms : now->up_ms;
}

int64_t clock_reading_jump(const struct clock_reading *from, const struct clock_reading *now)
{
    return now->wall_ms - from->wall_ms - surely_passed(from, now);
}

bool retain_clock_look(struct retain_clock *k, const struct clock_reading *now)
{
    /* A clock that was set back removes less, so it is believed at once. */
    if (!k->known || clock_reading_jump(&k->believed, now) <= day_ms) {
        *k = (struct retain_clock){.known = true, .believed = *now};
        return true;
    }
    int64_t again = k->doubted ? clock_reading_jump(&k->last, now) : 0;
    k->steady_ms = k->doubted && again <= day_ms && again >= -day_ms
                       ? k->steady_ms + surely_passed(&k->last, now)
                       : 0;
    k->doubted = true;
    k->last = *now;
    if (k->steady_ms < day_ms)
        return false;
    *k = (struct retain_clock){.known = true, .believed = *now};
    return true;
}

static void format_reading(const struct clock_reading *r, struct buf *out)
{
    buf_addf(out, " %lld %lld %s", (long long)r->wall_ms, (long long)r->up_ms,
             r->boot[0] ? r->boot : "-");
}

void retain_clock_format(const struct retain_clock *k, struct buf *out)
{
    buf_addf(out, "%d %lld", k->doubted, (long long)k->steady_ms);
    format_reading(&k->believed, out);
    format_reading(&k->last, out);
}

static bool parse_reading(struct str *text, struct clock_reading *r)
{
    struct str wall = str_cut(*text, ' ', text), up = str_cut(*text, ' ', text),
               boot = str_cut(*text, ' ', text);

    if (!str_to_i64(wall, &r->wall_ms) || !str_to_i64(up, &r->up_ms) || !boot.n ||
        boot.n >= BOOT_ID_MAX)
        return false;
    snprintf(r->boot, sizeof(r->boot), "%.*s", boot.p[0] == '-' ? 0 : (int)boot.n, boot.p);
    return true;
}

void retain_clock_parse(struct str text, struct retain_clock *out)
{
    struct retain_clock k = {.known = true};
    struct str doubted = str_cut(text, ' ', &text), steady = str_cut(text, ' ', &text);

    k.doubted = str_eq_c(doubted, "1");
    if (!doubted.n || !str_to_i64(steady, &k.steady_ms) || !parse_reading(&text, &k.believed) ||
        !parse_reading(&text, &k.last))
        k = (struct retain_clock){0};
    *out = k;
}
