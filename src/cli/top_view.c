/* top_view.c - the frames of berth top
 *
 * Owns: the layout.  Pure: model in, text out, so that a test can look at a frame.
 * Every line is cut at the width and cleared to its end; the frame has exactly `height` lines.
 */
#include "base/clock.h"
#include "base/util.h"
#include "cli/list.h"
#include "cli/top.h"
#include "cli/view.h"
#include <stdio.h>
#include <time.h>

enum { BAR_CELLS = 12 };
#define REVERSE "\033[7m"

struct frame {
    struct buf *b;
    size_t width, height, line; /* line: lines written so far */
    bool colour;
};

/* As much of s as fits, without control characters; escape sequences of ours (colours) are kept. */
static void add_cut(struct buf *b, struct str s, size_t width)
{
    size_t used = 0;

    for (size_t i = 0; i < s.n;) {
        if (s.p[i] == '\033') {
            size_t k = i;
            while (k < s.n && s.p[k] != 'm')
                k++;
            buf_add(b, s.p + i, MIN(k + 1, s.n) - i);
            i = k + 1;
            continue;
        }
        size_t n = 1;
        while (i + n < s.n && ((unsigned char)s.p[i + n] & 0xc0) == 0x80)
            n++;
        size_t w = text_width((struct str){s.p + i, n});
        if (used + w > width)
            break;
        buf_add(b, s.p + i, n);
        used += w;
        i += n;
    }
}

/* Lines below the last one are dropped.  The last line has no line end, which would scroll the
 * screen. */
static void put_line(struct frame *f, struct str s)
{
    if (f->line >= f->height)
        return;
    add_cut(f->b, s, f->width);
    buf_adds(f->b, "\033[0m\033[K");
    if (++f->line < f->height)
        buf_adds(f->b, "\r\n");
}

/* Yellow above 70 %, red above 90 %. */
static void bar(struct buf *b, const char *label, double used, double of, const char *text,
                bool colour)
{
    int full = of > 0 ? (int)(used / of * BAR_CELLS + 0.5) : 0;
    double share = of > 0 ? used / of : 0;

    buf_addf(b, "%s ", label);
    if (colour)
        buf_adds(b, colour_start(share > 0.9   ? COLOUR_RED
                                 : share > 0.7 ? COLOUR_YELLOW
                                               : COLOUR_GREEN));
    for (int i = 0; i < BAR_CELLS; i++)
        buf_adds(b, i < full ? "█" : "░");
    buf_addf(b, "%s %s   ", colour ? colour_end() : "", text);
}

static bool is_away(const struct json *node)
{
    return str_eq_c(text_of(node, "state"), "away");
}

/* Over the nodes that can be reached. */
static double sum_of(const struct json *nodes, const char *key)
{
    double sum = 0;

    for (size_t i = 0; i < json_len(nodes); i++) {
        const struct json *v = json_get(json_at(nodes, i), key);
        if (v && !is_away(json_at(nodes, i)))
            sum += json_real(v);
    }
    return sum;
}

static void usage_bar(struct buf *b, const char *label, double used, double of, bool colour)
{
    char text[80];

    snprintf(text, sizeof(text), "%g/%g", used, of);
    bar(b, label, used, of, text, colour);
}

static void top_usage_line(struct frame *f, const struct json *nodes)
{
    AUTO(buf) struct buf b = {0};
    char text[80], used[UNIT_TEXT_MAX], of[UNIT_TEXT_MAX];
    double mem = sum_of(nodes, "mem_bytes"), used_mem = sum_of(nodes, "used_mem_bytes");

    usage_bar(&b, "slots", sum_of(nodes, "used_slots"), sum_of(nodes, "slots"), f->colour);
    usage_bar(&b, "cpus", sum_of(nodes, "used_cpus"), sum_of(nodes, "cpus"), f->colour);
    size_format((int64_t)used_mem, used);
    size_format((int64_t)mem, of);
    snprintf(text, sizeof(text), "%s/%s", used, of);
    bar(&b, "mem", used_mem, mem, text, f->colour);
    if (sum_of(nodes, "gpus") > 0)
        usage_bar(&b, "gpus", sum_of(nodes, "used_gpus"), sum_of(nodes, "gpus"), f->colour);
    put_line(f, buf_str(&b));
}

/* "box", "box (drained)", "3 nodes", "3 nodes, 1 away" */
static void put_nodes(struct buf *b, const struct json *nodes)
{
    size_t n = json_len(nodes), away = 0;
    const struct json *only = n == 1 ? json_at(nodes, 0) : NULL;

    for (size_t i = 0; i < n; i++)
        away += is_away(json_at(nodes, i));
    if (only)
        buf_addf(b, STR_FMT "%s", STR_ARG(text_of(only, "name")),
                 json_bool(json_get(only, "drained")) ? " (drained)" : "");
    else if (n)
        buf_addf(b, "%zu nodes", n);
    if (away)
        buf_addf(b, ", %zu away", away);
}

static void header(struct frame *f, const struct top_model *m)
{
    AUTO(buf) struct buf b = {0};
    char now[STAMP_TEXT_MAX];

    stamp_format(clock_wall(&clock_system), now);
    colour_addf(&b, f->colour, COLOUR_BOLD, "berth %s", m->version);
    buf_adds(&b, "  ");
    put_nodes(&b, m->nodes);
    buf_addf(&b, "  %s", now + 11);
    put_line(f, buf_str(&b));
    top_usage_line(f, m->nodes);
    buf_reset(&b);
    if (m->counts)
        counts_format(&b, m->counts, f->colour);
    if (m->sort)
        buf_addf(&b, "   sorted by %s", m->sort);
    if (m->filter && *m->filter && m->mode != TOP_FILTER)
        buf_addf(&b, "   filter: %s", m->filter);
    put_line(f, buf_str(&b));
    put_line(f, STR(""));
}

/* The title and the rows that fit, from m->first on; the selected one in reverse, without colours
 * of its own, which would end the reversal.  Columns are fitted to the rows one sees. */
static void top_list(struct frame *f, struct top_model *m)
{
    AUTO(buf) struct buf coloured = {0}, plain = {0}, line = {0};
    int64_t n = (int64_t)json_len(m->rows), room = (int64_t)(f->height - f->line - 2);

    m->selected = MAX(0, MIN(m->selected, n - 1));
    if (m->selected < m->first)
        m->first = m->selected;
    if (m->selected >= m->first + room)
        m->first = m->selected - room + 1;
    if (!n) {
        put_line(f, STR("  no jobs here"));
        return;
    }
    AUTO(json) struct json *shown = json_new_array();
    for (int64_t i = m->first; i < MIN(n, m->first + room); i++)
        json_push_take(shown, json_copy(json_at(m->rows, (size_t)i)));
    view_table(&coloured, shown, job_columns, n_job_columns, f->width, f->colour);
    view_table(&plain, shown, job_columns, n_job_columns, f->width, false);
    struct str with = buf_str(&coloured), without = buf_str(&plain);
    for (int64_t i = -1; with.n; i++) { /* -1: the title */
        struct str a = str_cut(with, '\n', &with), b = str_cut(without, '\n', &without);
        if (i < 0 || m->first + i != m->selected) {
            put_line(f, a);
            continue;
        }
        buf_addf(&line, REVERSE STR_FMT "%*s", STR_ARG(b),
                 (int)(f->width > text_width(b) ? f->width - text_width(b) : 0), "");
        put_line(f, buf_str(&line));
    }
}

/* Output of a job may hold anything: only what a terminal shows harmlessly gets through. */
static void add_harmless(struct buf *b, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '\t')
            buf_adds(b, "    ");
        else if (c == 033) { /* a sequence goes as a whole */
            while (i + 1 < s.n &&
                   !((s.p[i] >= 'A' && s.p[i] <= 'Z') || (s.p[i] >= 'a' && s.p[i] <= 'z')))
                i++;
        } else if (c >= ' ' && c != 0x7f)
            buf_addc(b, (char)c);
    }
}

/* Searches backwards for the lines that fit, so that the cost does not depend on the log. */
static void log_view(struct frame *f, const struct top_model *m)
{
    AUTO(buf) struct buf b = {0};
    size_t room = f->height - f->line - 2, lines = 0, at = m->log.n;

    colour_addf(&b, f->colour, COLOUR_BOLD, "output of job %lld", (long long)m->log_job);
    put_line(f, buf_str(&b));
    if (at && m->log.p[at - 1] == '\n')
        at--;
    size_t end = at;
    for (; at > 0; at--)
        if (m->log.p[at - 1] == '\n' && ++lines == room)
            break;
    struct str rest = {m->log.p + at, end - at};
    while (rest.n) {
        struct str line = str_cut(rest, '\n', &rest);
        const char *cr = memrchr(line.p, '\r', line.n ? line.n - 1 : 0);
        if (cr) /* progress bars of the job: what was written last */
            line = (struct str){cr + 1, line.n - (size_t)(cr + 1 - line.p)};
        buf_reset(&b);
        add_harmless(&b, line);
        put_line(f, buf_str(&b));
    }
}

static void help_view(struct frame *f)
{
    static const char *const lines[] = {
        "↑ ↓ j k        choose a job          PgUp PgDn g G   further",
        "l or Enter     output of the job     c               cancel the job",
        "r              retry the job         s               next sort order",
        "/              filter, as in berth ls                ",
        "q              quit                  ? or h          this page",
    };

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
        put_line(f, str_of(lines[i]));
}

static void top_footer(struct frame *f, const struct top_model *m)
{
    AUTO(buf) struct buf b = {0};

    while (f->line + 1 < f->height)
        put_line(f, STR(""));
    if (m->mode == TOP_FILTER)
        buf_addf(&b, "filter: %s_", m->filter ? m->filter : "");
    else if (m->message && *m->message)
        buf_adds(&b, m->message);
    else if (m->mode == TOP_LOG)
        buf_adds(&b, "q back");
    else
        buf_adds(&b, "q quit  ↑↓ choose  l output  c cancel  r retry  / filter  s sort  ? help");
    put_line(f, buf_str(&b));
}

void top_draw(struct buf *b, struct top_model *m, size_t width, size_t height, bool colour)
{
    struct frame f = {b, MAX(width, (size_t)20), MAX(height, (size_t)8), 0, colour};

    buf_adds(b, "\033[H");
    header(&f, m);
    if (m->mode == TOP_LOG)
        log_view(&f, m);
    else if (m->mode == TOP_HELP)
        help_view(&f);
    else
        top_list(&f, m);
    top_footer(&f, m);
}
