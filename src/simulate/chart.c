/* chart.c - schedules as a picture
 *
 * One panel for each policy: a lane for each GPU, jobs as bars on a time axis that all panels
 * share, so that one can see who is done first.  Jobs that share devices split their lanes; a
 * dot at the end of a bar says the job had to make room and comes back later.  Below, a panel with
 * the share of jobs that were complete after so long, for every policy.
 *
 * Plain SVG without scripts.  The background stays clear and every colour is of middle lightness,
 * so that it reads on white and on black.
 */
#include "base/units.h"
#include "simulate/sim.h"
#include <math.h>

enum { WIDTH = 1200, LEFT = 64, RIGHT = 24, TOP = 56, PANEL_GAP = 54, CDF_HEIGHT = 260 };
enum { LANES_MIN = 72, LANES_MAX = 360, LANE = 16, N_COLOURS = 12 };
static const char *const job_colours[N_COLOURS] = {"#4c86c6", "#d9822b", "#4f9d5b", "#c4565e",
                                                   "#8d74c4", "#9c7350", "#cf72ae", "#6f8796",
                                                   "#a8a02f", "#2f9fab", "#b0653f", "#6aa84f"};
static const char *const policy_colours[] = {"#1f83c4", "#d5661a", "#1b9e77", "#c25fa3", "#b8860b"};
static const char *const policy_dashes[] = {"none", "7 3", "2 3", "9 3 2 3", "4 4"};

struct chart {
    const struct sim_trace *t;
    const struct sim_conf *conf;
    struct buf *out;
    double end_s;  /* right end of the time axis */
    double y;      /* top of what is drawn next */
    double height; /* of the lanes of a panel */
};

/* Seconds to pixels. */
static double time_x(const struct chart *c, double s)
{
    return LEFT + s / c->end_s * (WIDTH - LEFT - RIGHT);
}

/* Names of jobs come from a file: they must not become markup. */
static void add_escaped(struct buf *b, const char *s)
{
    for (; *s; s++) {
        if (*s == '&' || *s == '<' || *s == '>' || *s == '"')
            buf_addf(b, "&#%d;", *s);
        else
            buf_addc(b, (unsigned char)*s < ' ' ? ' ' : *s);
    }
}

static void add_duration(struct buf *b, double s)
{
    char text[UNIT_TEXT_MAX];

    duration_format((int64_t)llround(s) * 1000, text);
    buf_adds(b, text);
}

/* ---- axes ---- */
/* A distance between ticks that people count in, six to twelve of them. */
static double tick_step(double span)
{
    static const double steps[] = {1,      5,      15,      60,      300,     900,     1800,
                                   3600,   7200,   14400,   21600,   43200,   86400,   172800,
                                   345600, 604800, 1209600, 2592000, 7776000, 31536000};
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
        if (span / steps[i] <= 12)
            return steps[i];
    return span / 8;
}

static void add_time_axis(struct chart *c, double top, double height)
{
    double step = tick_step(c->end_s);

    for (double s = 0; s <= c->end_s; s += step) {
        double x = time_x(c, s);
        buf_addf(c->out,
                 "<path class=\"grid\" d=\"M%.1f %.1fv%.1f\"/><text class=\"tick\" x=\"%.1f\" "
                 "y=\"%.1f\" text-anchor=\"middle\">",
                 x, top, height + 4, x, top + height + 17);
        if (s > 0)
            add_duration(c->out, s);
        else
            buf_addc(c->out, '0');
        buf_adds(c->out, "</text>\n");
    }
}

/* ---- lanes ---- */
struct box {
    double x, y, w, h;
};

/* Where the bar lies on the lanes first to last. */
static struct box box_of(const struct chart *c, const struct sim_bar *bar, int32_t first,
                         int32_t last)
{
    double lane = c->height / c->conf->gpus, gap = lane >= 6 ? 1 : lane * 0.1;
    double part = (lane * (last - first + 1) - gap) / bar->places;
    double x = time_x(c, bar->from_s);

    return (struct box){x, c->y + lane * first + gap / 2 + part * bar->place,
                        time_x(c, bar->to_s) - x, part};
}

static void add_rect(struct chart *c, const struct sim_bar *bar, struct box b)
{
    buf_addf(c->out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>", b.x, b.y,
             MAX(b.w > 2 ? b.w - 0.4 : b.w, 0.2), b.h);
    add_escaped(c->out, c->t->jobs.p[bar->job].name);
    buf_addf(c->out, ", %d GPU%s, ", gpu_set_count(&bar->devices),
             bar->places > 1 ? " shared" : "");
    add_duration(c->out, bar->from_s);
    buf_adds(c->out, " to ");
    add_duration(c->out, bar->to_s);
    buf_adds(c->out, "</title></rect>");
}

static void add_dot(struct chart *c, struct box b)
{
    buf_addf(c->out, "<circle class=\"halt\" cx=\"%.2f\" cy=\"%.2f\" r=\"%.1f\"/>", b.x + b.w,
             b.y + b.h / 2, MIN(2.4, MAX(0.6, b.h / 2)));
}

/* A bar is as many rectangles as its devices have gaps; `dots`: not these but their ends. */
static void add_bar(struct chart *c, const struct sim_bar *bar, bool dots)
{
    int32_t first = gpu_set_next(&bar->devices, 0);

    while (first >= 0 && first < c->conf->gpus) {
        int32_t last = first;
        while (last + 1 < c->conf->gpus && gpu_set_has(&bar->devices, (uint32_t)last + 1))
            last++;
        struct box b = box_of(c, bar, first, last);
        if (!dots)
            add_rect(c, bar, b);
        else if (bar->halted)
            add_dot(c, b);
        first = last + 1 < GPU_SET_MAX ? gpu_set_next(&bar->devices, (uint32_t)last + 1) : -1;
    }
}

static void add_lane_names(struct chart *c)
{
    double lane = c->height / c->conf->gpus;
    int32_t every = (int32_t)ceil(11 / lane);

    for (int32_t d = 0; d < c->conf->gpus; d += every)
        buf_addf(c->out,
                 "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">GPU %d</text>\n",
                 LEFT - 6, c->y + lane * d + MIN(lane, 12) / 2 + 3.5, d);
}

static void add_panel(struct chart *c, const struct sim_result *r)
{
    const struct sim_summary *s = &r->summary;

    buf_addf(c->out, "<text class=\"name\" x=\"%d\" y=\"%.1f\">%s</text><text x=\"%d\" y=\"%.1f\">",
             LEFT, c->y - 8, r->policy, LEFT + 60, c->y - 8);
    buf_adds(c->out, "average completion ");
    add_duration(c->out, s->avg_jct_s);
    buf_adds(c->out, ", median ");
    add_duration(c->out, s->median_jct_s);
    buf_adds(c->out, ", 99 % within ");
    add_duration(c->out, s->p99_jct_s);
    buf_adds(c->out, ", all done after ");
    add_duration(c->out, s->makespan_s);
    buf_addf(c->out, ", %lld restarts, %.0f %% of GPU time in use</text>\n", (long long)s->restarts,
             100 * s->utilisation);
    add_time_axis(c, c->y, c->height);
    add_lane_names(c);
    for (int k = 0; k < N_COLOURS; k++) {
        buf_addf(c->out, "<g fill=\"%s\">\n", job_colours[k]);
        for (size_t i = 0; i < r->bars.n; i++)
            if (r->bars.p[i].job % N_COLOURS == (uint32_t)k)
                add_bar(c, &r->bars.p[i], false);
        buf_adds(c->out, "\n</g>\n");
    }
    for (size_t i = 0; i < r->bars.n; i++) /* on top of all bars */
        add_bar(c, &r->bars.p[i], true);
    c->y += c->height + PANEL_GAP;
}

/* ---- completion times ---- */
static int chart_by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Logarithmic: half of the jobs are short, some are a thousand times as long. */
static double log_x(double s, double lo, double hi)
{
    double at = log(MAX(s, lo) / lo) / log(hi / lo);

    return LEFT + MIN(at, 1) * (WIDTH - LEFT - RIGHT);
}

/* At most about 2000 points: more could not be seen. */
static void add_curve(struct chart *c, const struct sim_result *r, size_t k, double lo, double hi)
{
    size_t n = c->t->jobs.n, step = n / 2000 + 1;
    AUTO_FREE double *jct = xcalloc(n, sizeof(*jct));
    double x0 = LEFT + 12, y0 = c->y + 16 + 18 * (double)k;

    for (size_t i = 0; i < n; i++)
        jct[i] = r->jobs[i].end_s - c->t->jobs.p[i].arrival_s;
    qsort(jct, n, sizeof(*jct), chart_by_size);
    k %= ARRAY_SIZE(policy_colours);
    buf_addf(c->out, "<path class=\"curve\" stroke=\"%s\" stroke-dasharray=\"%s\" d=\"M%.1f %.1f",
             policy_colours[k], policy_dashes[k], log_x(jct[0], lo, hi), c->y + (double)CDF_HEIGHT);
    for (size_t i = 0; i < n; i += step)
        buf_addf(c->out, "L%.1f %.1f", log_x(jct[i], lo, hi),
                 c->y + CDF_HEIGHT * (1 - (double)(i + 1) / (double)n));
    buf_addf(c->out, "L%.1f %.1fH%d\"/>\n", log_x(jct[n - 1], lo, hi), c->y, WIDTH - RIGHT);
    buf_addf(c->out,
             "<path class=\"curve\" stroke=\"%s\" stroke-dasharray=\"%s\" d=\"M%.1f %.1fh34\"/>"
             "<text class=\"name\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
             policy_colours[k], policy_dashes[k], x0, y0, x0 + 42, y0 + 4, r->policy);
}

static void chart_find_range(const struct chart *c, const struct sim_result *runs, size_t n,
                             double *lo, double *hi)
{
    *lo = INFINITY;
    *hi = 0;
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < c->t->jobs.n; i++) {
            double jct = runs[r].jobs[i].end_s - c->t->jobs.p[i].arrival_s;
            *lo = MIN(*lo, MAX(jct, 1));
            *hi = MAX(*hi, jct);
        }
    *hi = MAX(*hi, *lo * 10);
}

static void add_cdf(struct chart *c, const struct sim_result *runs, size_t n)
{
    static const double ticks[] = {1,     10,    60,    300,    600,    1800,    3600,    10800,
                                   21600, 43200, 86400, 259200, 604800, 2592000, 7776000, 31536000};
    double lo, hi;

    chart_find_range(c, runs, n, &lo, &hi);
    buf_addf(c->out,
             "<text x=\"%d\" y=\"%.1f\">share of jobs complete, by time since submission"
             "</text>\n",
             LEFT, c->y - 8);
    for (int k = 0; k <= 4; k++)
        buf_addf(c->out,
                 "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"tick\" x=\"%d\" "
                 "y=\"%.1f\" text-anchor=\"end\">%d %%</text>\n",
                 LEFT, c->y + CDF_HEIGHT * (1 - k / 4.0), WIDTH - RIGHT, LEFT - 6,
                 c->y + CDF_HEIGHT * (1 - k / 4.0) + 4, 25 * k);
    for (size_t i = 0; i < ARRAY_SIZE(ticks); i++) {
        if (ticks[i] < lo || ticks[i] > hi)
            continue;
        double x = log_x(ticks[i], lo, hi);
        buf_addf(c->out,
                 "<path class=\"grid\" d=\"M%.1f %.1fv%d\"/><text class=\"tick\" x=\"%.1f\" "
                 "y=\"%.1f\" text-anchor=\"middle\">",
                 x, c->y, CDF_HEIGHT, x, c->y + CDF_HEIGHT + 17);
        add_duration(c->out, ticks[i]);
        buf_adds(c->out, "</text>\n");
    }
    for (size_t r = 0; r < n; r++)
        add_curve(c, &runs[r], r, lo, hi);
    c->y += CDF_HEIGHT + 30;
}

void sim_chart(const struct sim_report *r, struct buf *out)
{
    const struct sim_conf *conf = r->conf;
    struct chart c = {.t = r->trace, .conf = conf, .out = out, .y = TOP};
    size_t n = r->n, jobs = r->trace->jobs.n;
    double lanes = MAX(LANES_MIN, MIN(LANES_MAX, LANE * (double)conf->gpus));

    c.height = lanes;
    for (size_t i = 0; i < n; i++)
        c.end_s = MAX(c.end_s, r->runs[i].summary.makespan_s);
    /* The size must stand in the first tag, so it is computed before anything is drawn. */
    double height = TOP + (double)n * (lanes + PANEL_GAP) + CDF_HEIGHT + 40;
    buf_addf(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" "
             "height=\"%.0f\" role=\"img\">\n<title>Schedules of %zu jobs on %d GPUs</title>\n"
             "<style>text{font:12px system-ui,sans-serif;fill:#767676}.name{font-weight:bold;"
             "font-size:13px}.tick{font-size:11px}.grid{stroke:#888;stroke-opacity:.25;fill:none}"
             ".halt{fill:#fff;stroke:#000;stroke-width:.8}.curve{fill:none;"
             "stroke-width:2}</style>\n",
             WIDTH, height, WIDTH, height, jobs, conf->gpus);
    buf_addf(out,
             "<text class=\"name\" x=\"%d\" y=\"22\">%zu jobs on %d GPUs</text>"
             "<text x=\"%d\" y=\"22\" text-anchor=\"end\">a bar is a job on its GPUs; where "
             "jobs share, the lane is split; a dot: preempted</text>\n",
             LEFT, jobs, conf->gpus, WIDTH - RIGHT);
    for (size_t i = 0; i < n; i++)
        add_panel(&c, &r->runs[i]);
    add_cdf(&c, r->runs, n);
    buf_adds(out, "</svg>\n");
}
