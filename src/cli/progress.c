/* progress.c - how far many jobs are
 *
 * Owns: the line.  Nothing is shown for work that is over within FIRST_MS.
 */
#include "cli/progress.h"
#include "base/clock.h"
#include "base/units.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/view.h"
#include <stdio.h>

/* PLAIN_MS: between two lines where stderr is no terminal.  The bar is measured in cells. */
enum { FIRST_MS = 1000, PLAIN_MS = 5000, BAR_MIN = 10, BAR_MAX = 40 };

int64_t counts_done(const struct json *counts)
{
    return int_of(counts, "succeeded") + int_of(counts, "failed") + int_of(counts, "cancelled") +
           int_of(counts, "lost");
}

/* What follows the bar: " 3/8, 2 running, 1 failed, 5m left".  eta_ms 0 = not known. */
static void tail_text(struct buf *b, const struct json *counts, int64_t eta_ms)
{
    int64_t bad = int_of(counts, "failed") + int_of(counts, "lost");
    /* A start that was sent ahead to the host is `starting` and holds no slot yet. */
    int64_t active = int_of(counts, "running") + int_of(counts, "stopping");
    char eta[UNIT_TEXT_MAX];

    buf_addf(b, " %lld/%lld", (long long)counts_done(counts), (long long)int_of(counts, "total"));
    if (active)
        buf_addf(b, ", %lld running", (long long)active);
    if (bad)
        buf_addf(b, ", %lld failed", (long long)bad);
    if (eta_ms > 0) {
        duration_format(eta_ms / 1000 * 1000, eta);
        buf_addf(b, ", %s left", eta);
    }
}

void progress_line(struct buf *b, const struct json *counts, const char *name, size_t width,
                   int64_t eta_ms, bool colour)
{
    AUTO(buf) struct buf tail = {0};
    int64_t total = MAX(int_of(counts, "total"), 1), done = counts_done(counts);

    tail_text(&tail, counts, eta_ms);
    size_t used = text_width(str_of(name)) + 1 + text_width(buf_str(&tail));
    size_t bar = width > used + BAR_MIN ? MIN(width - used, (size_t)BAR_MAX) : 0;
    size_t full = (size_t)((int64_t)bar * done / total);
    bool bad = int_of(counts, "failed") + int_of(counts, "lost") > 0;

    buf_addf(b, "%s ", name);
    if (colour && bar)
        buf_adds(b, colour_start(bad ? COLOUR_YELLOW : COLOUR_GREEN));
    for (size_t i = 0; i < bar; i++)
        buf_adds(b, i < full ? "█" : "░");
    if (colour && bar)
        buf_adds(b, colour_end());
    struct str rest = buf_str(&tail);
    if (!bar) /* after the blank behind the name */
        rest = (struct str){rest.p + 1, rest.n - 1};
    buf_add(b, rest.p, rest.n);
}

void progress_init(struct progress *p, struct term term, const char *name, bool silent)
{
    *p = (struct progress){.term = term, .name = name, .silent = silent, .first = true};
    p->start_ms = p->last_ms = clock_mono(&clock_system);
}

/* The pace counts from progress_init, with the jobs that have ended since then. */
void progress_show(struct progress *p, const struct json *counts)
{
    int64_t now = clock_mono(&clock_system), done = counts_done(counts), eta = 0;
    AUTO(buf) struct buf b = {0};

    if (p->first)
        p->done_at_start = done;
    p->first = false;
    if (p->silent || now - p->start_ms < FIRST_MS ||
        (!p->term.is_tty && now - p->last_ms < PLAIN_MS))
        return;
    int64_t fresh = done - p->done_at_start;
    if (fresh > 0)
        eta = (int64_t)((double)(now - p->start_ms) / (double)fresh *
                        (double)(int_of(counts, "total") - done));
    if (p->term.is_tty) {
        buf_adds(&b, "\r\033[K");
        progress_line(&b, counts, p->name, p->term.width ? p->term.width - 1 : 79, eta,
                      p->term.colour);
        p->drawn = true;
    } else {
        progress_line(&b, counts, p->name, 0, eta, false);
        buf_addc(&b, '\n');
    }
    fputs(b.p, stderr);
    fflush(stderr);
    p->last_ms = now;
}

void progress_clear(struct progress *p)
{
    if (p->drawn)
        fputs("\r\033[K", stderr);
    p->drawn = false;
}
