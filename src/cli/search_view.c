/* search_view.c - a search as people see it: the best so far, a small curve, pages
 *
 * Pure: records in, text out, so that a test can look at a frame.
 */
#include "base/util.h"
#include "cli/progress.h"
#include "cli/search.h"
#include "cli/view.h"
#include <math.h>

enum { CURVE_CELLS = 40, CURVE_LEVELS = 8, INDENT = 2 };

/* ---- the curve ---- */

void search_curve_done(struct search_curve *c)
{
    vec_done(&c->best);
}

void search_curve_add(struct search_curve *c, double value, bool minimize)
{
    if (!isfinite(value))
        return;
    if (c->best.n) {
        double last = vec_last(&c->best);
        value = minimize ? fmin(last, value) : fmax(last, value);
    }
    vec_push(&c->best, value);
}

/* The first results of a search are often far off and would flatten everything after them, so the
 * scale ends at the median.  Values above it are drawn at its level. */
void search_curve_draw(struct buf *b, const struct search_curve *c, size_t width)
{
    static const char *const levels[CURVE_LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    size_t n = c->best.n, cells = MIN(width, n);

    if (n < 2 || !cells)
        return;
    double last = c->best.p[n - 1], first = c->best.p[0], middle = c->best.p[n / 2];
    double far = middle == last ? first : last + 2 * (middle - last);
    double low = fmin(last, far), high = fmax(last, far);
    for (size_t i = 0; i < cells; i++) { /* the last cell is the last value */
        double v = c->best.p[(i + 1) * n / cells - 1];
        double share = high > low ? (fmin(fmax(v, low), high) - low) / (high - low) : 0;
        buf_adds(b, levels[(size_t)(share * (CURVE_LEVELS - 1) + 0.5)]);
    }
}

/* ---- a study ---- */

size_t search_goals(const struct json *study)
{
    const struct json *o = json_get(study, "objective");

    return json_type(o) == JSON_ARRAY ? json_len(o) : 1;
}

struct search_goal search_goal(const struct json *study, size_t at)
{
    const struct json *o = json_get(study, "objective");
    const struct json *goal = json_type(o) == JSON_ARRAY ? json_at(o, at) : o;
    bool minimize = json_has(goal, "minimize");

    return (struct search_goal){text_of(goal, minimize ? "minimize" : "maximize"), minimize};
}

void search_aim_text(struct buf *b, const struct json *study, const char *low, const char *high)
{
    for (size_t i = 0; i < search_goals(study); i++) {
        struct search_goal g = search_goal(study, i);
        buf_addf(b, "%s%s " STR_FMT, i ? ", " : "", g.minimize ? low : high, STR_ARG(g.metric));
    }
}

bool search_has_best(const struct json *study)
{
    return json_get(study, "best") || json_len(json_get(study, "front"));
}

int64_t search_best_mark(const struct json *study)
{
    const struct json *front = json_get(study, "front");
    uint64_t mark = (uint64_t)int_of(json_get(study, "best"), "number");

    for (size_t i = 0; i < json_len(front); i++)
        mark = mark * 31 + (uint64_t)int_of(json_at(front, i), "number");
    return (int64_t)mark;
}

bool search_over(const struct json *study)
{
    return str_eq_c(text_of(study, "state"), "finished");
}

int64_t search_done_count(const struct json *study)
{
    const struct json *n = json_get(study, "counts");

    return int_of(n, "done") + int_of(n, "failed") + int_of(n, "pruned");
}

void search_best_text(struct buf *b, const struct json *study)
{
    const struct json *best = json_get(study, "best");
    size_t front = json_len(json_get(study, "front"));

    if (front)
        buf_addf(b, "a front of %zu trial%s", front, plural_end((int64_t)front));
    if (!best)
        return;
    buf_addf(b, STR_FMT " %.6g in trial %lld: ", STR_ARG(search_goal(study, 0).metric),
             json_real(json_get(best, "value")), (long long)int_of(best, "number"));
    params_format(b, json_get(best, "params"));
}

void search_front_text(struct buf *b, const struct json *study, const struct json *member)
{
    const struct json *values = json_get(member, "values");

    buf_addf(b, "trial %lld: ", (long long)int_of(member, "number"));
    for (size_t i = 0; i < json_len(values); i++)
        buf_addf(b, "%s" STR_FMT " %.6g", i ? ", " : "", STR_ARG(search_goal(study, i).metric),
                 json_real(json_at(values, i)));
    buf_adds(b, ": ");
    params_format(b, json_get(member, "params"));
}

struct json *search_counts(const struct json *study)
{
    const struct json *n = json_get(study, "counts");
    struct json *counts = json_new_object();
    int64_t limit = int_of(study, "trials");

    json_set_int(counts, "total", limit ? limit : int_of(n, "asked"));
    json_set_int(counts, "running", int_of(n, "running"));
    json_set_int(counts, "succeeded", int_of(n, "done") + int_of(n, "pruned"));
    json_set_int(counts, "failed", int_of(n, "failed"));
    return counts;
}

/* As much of the text as fits into the width, which counts cells. */
static void put_fitting(struct buf *b, struct str text, size_t width)
{
    size_t n = text.n;

    while (n && (text_width((struct str){text.p, n}) > width ||
                 (n < text.n && ((unsigned char)text.p[n] & 0xc0) == 0x80)))
        n--;
    buf_add(b, text.p, n);
}

void search_frame(struct buf *b, const struct json *study, const struct search_curve *c,
                  size_t width, int64_t eta_ms, bool colour)
{
    AUTO(json) struct json *counts = search_counts(study);
    AUTO(buf) struct buf best = {0};
    size_t room = width > INDENT ? width - INDENT : 0;

    progress_line(b, counts, text_of(study, "name").p, width, eta_ms, colour);
    search_best_text(&best, study);
    if (best.n) {
        buf_adds(b, "\n  best ");
        put_fitting(b, buf_str(&best), room > 5 ? room - 5 : 0);
    }
    if (c->best.n > 1) {
        buf_adds(b, "\n  ");
        search_curve_draw(b, c, MIN(room, (size_t)CURVE_CELLS));
    }
}

static void page_counts(struct buf *b, const struct json *study)
{
    static const char *const states[] = {"running", "waiting", "done", "pruned", "failed"};
    const struct json *counts = json_get(study, "counts");
    int64_t limit = int_of(study, "trials");
    bool first = true;

    for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
        if (!int_of(counts, states[i]))
            continue;
        buf_addf(b, "%s%lld %s", first ? "" : ", ", (long long)int_of(counts, states[i]),
                 states[i]);
        first = false;
    }
    if (first)
        buf_adds(b, "none yet");
    if (limit)
        buf_addf(b, "; at most %lld", (long long)limit);
    if (int_of(study, "parallel"))
        buf_addf(b, ", %lld at once", (long long)int_of(study, "parallel"));
}

/* Each parameter on a line of its own, as it was written. */
static void page_space(struct buf *b, const struct cli *c, const struct json *space)
{
    const char *label = "space";

    for (struct json_it it = {0}; json_next(space, &it); label = "") {
        AUTO_FREE char *range = json_text(it.val);
        AUTO_FREE char *line = xasprintf("%s: %s", it.key, range);
        view_line(b, c, label, str_of(line));
    }
}

/* The members of the front, one on each line. */
static void page_front(struct buf *b, const struct cli *c, const struct json *study)
{
    const struct json *front = json_get(study, "front");

    for (size_t i = 0; i < json_len(front); i++) {
        AUTO(buf) struct buf line = {0};
        search_front_text(&line, study, json_at(front, i));
        view_line(b, c, i ? "" : "front", buf_str(&line));
    }
}

void search_page(struct cli *c, const struct json *study, const struct search_curve *curve)
{
    AUTO(buf) struct buf b = {0}, counts = {0}, best = {0}, drawn = {0}, aim = {0};
    const struct json *stop = json_get(study, "stop");
    AUTO_FREE char *stopping = stop ? json_text(stop) : NULL;
    char created[STAMP_TEXT_MAX] = "";

    buf_addf(&b, "search " STR_FMT "  " STR_FMT "\n", STR_ARG(text_of(study, "name")),
             STR_ARG(text_of(study, "state")));
    view_line(&b, c, "reason", text_of(study, "reason"));
    search_aim_text(&aim, study, "minimize", "maximize");
    view_line(&b, c, "objective", buf_str(&aim));
    if (json_get(study, "best"))
        search_best_text(&best, study);
    view_line(&b, c, "best", buf_str(&best));
    page_front(&b, c, study);
    search_curve_draw(&drawn, curve, CURVE_CELLS);
    view_line(&b, c, "curve", buf_str(&drawn));
    page_counts(&counts, study);
    view_line(&b, c, "trials", buf_str(&counts));
    view_line(&b, c, "engine", text_of(study, "engine"));
    view_line(&b, c, "stop", str_of(stopping));
    page_space(&b, c, json_get(study, "space"));
    if (time_of(study, "created"))
        stamp_format(time_of(study, "created"), created);
    view_line(&b, c, "created", str_of(created));
    view_line(&b, c, "user", text_of(study, "user"));
    cli_print(&b);
}
