/* svg.c - parts of an SVG: text that cannot become markup, lines, dots, axes
 *
 * Plain SVG without scripts, links or variables of CSS, which some programs do not know.  Colours
 * are classes; a reader who prefers dark gets the dark ones.  They differ in lightness, so they
 * also differ for people who do not see all colours.
 */
#include "base/table.h"
#include "base/util.h"
#include "tune/draw_priv.h"

enum { MARGIN = 16, TOOLTIP_CELLS = 400 };
/* Of a digit in DejaVu Sans, the widest of the usual fonts, in parts of the size. */
static const double digit_width = 0.64;

static const unsigned ramps[2][3] = {{0xd5d9da, 0x8fb6bf, 0x0b6478},
                                     {0x343c3f, 0x3f7e8b, 0x8fdcec}};

/* The colour at 0 … 1 of a ramp of three. */
static unsigned svg_ramp(const unsigned ramp[3], double at)
{
    int part = at >= 0.5;
    double t = at * 2 - part;
    unsigned rgb = 0;

    for (int shift = 16; shift >= 0; shift -= 8) {
        double a = ramp[part] >> shift & 255, b = ramp[part + 1] >> shift & 255;
        rgb |= (unsigned)(a + (b - a) * t + 0.5) << shift;
    }
    return rgb;
}

/* Classes f0 … f9 fill, s0 … s9 draw lines. */
static void svg_ramp_style(struct buf *out, const unsigned ramp[3])
{
    for (int i = 0; i < DRAW_RAMP; i++) {
        unsigned rgb = svg_ramp(ramp, (double)i / (DRAW_RAMP - 1));
        buf_addf(out, ".f%d{fill:#%06x}.s%d{stroke:#%06x}", i, rgb, i, rgb);
    }
}

/* The tokens of Berth's page, written out. */
static void svg_style(struct buf *out)
{
    buf_adds(out,
             "<style>text{font:12px -apple-system,\"Segoe UI\",\"Adwaita Sans\",Inter,Roboto,"
             "\"Noto Sans\",\"Liberation Sans\",sans-serif;font-variant-numeric:tabular-nums}"
             ".b{font-size:13px;font-weight:600}.k{font-size:11px}path,line{fill:none}"
             ".dot{stroke-width:4.5;stroke-linecap:round}.big{stroke-width:8;stroke-linecap:round}"
             ".cross{stroke-width:1.4}.curve{stroke-width:2;stroke-linejoin:round}"
             ".thin{stroke-width:1}.strong{stroke-width:2.4}.point{stroke-width:2.6;stroke-linecap:"
             "round}"
             ".h{paint-order:stroke;stroke-width:3}\n"
             ".bg{fill:#ffffff}.t,.b{fill:#14191b}.q,.k{fill:#5f696e}.grid{stroke:#e7eaea}"
             ".axis{stroke:#7f888c}.grey{stroke:#a9b0b3}.mark{stroke:#0b6478}.bar{fill:#0b6478}"
             ".pale{fill:#8fb6bf}.trough{fill:#eceeee}.bad{stroke:#b3261e}.ink{stroke:#14191b}"
             ".h,.rim{stroke:#ffffff}.halo{stroke:#ffffff;stroke-width:11;stroke-linecap:round}");
    svg_ramp_style(out, ramps[0]);
    buf_adds(out, "\n@media(prefers-color-scheme:dark){.bg{fill:#15191b}.t,.b{fill:#e6eaeb}"
                  ".q,.k{fill:#909a9f}.grid{stroke:#22292b}.axis{stroke:#748085}"
                  ".grey{stroke:#5d676c}.mark{stroke:#72c4d6}.bar{fill:#72c4d6}.pale{fill:#3f7e8b}"
                  ".trough{fill:#1c2123}.bad{stroke:#ff8f80}.ink{stroke:#e6eaeb}"
                  ".h,.rim,.halo{stroke:#15191b}");
    svg_ramp_style(out, ramps[1]);
    buf_adds(out, "}</style>\n");
}

/* The text is clean UTF-8; what could end a text or an attribute becomes a number. */
static void svg_escape(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (memchr("&<>\"'", text.p[i], 5))
            buf_addf(out, "&#%d;", text.p[i]);
        else
            buf_addc(out, text.p[i]);
}

/* How wide a character is at most, in parts of the size. */
static double svg_char_width(struct str one)
{
    if (one.n > 1)
        return text_width(one) > 1 ? 1.05 : 0.8;
    if (memchr("ijlI.,:;'|! ", *one.p, 12))
        return 0.36;
    if (memchr("MW@%mw", *one.p, 6))
        return 1;
    return *one.p >= 'A' && *one.p <= 'Z' ? 0.79 : digit_width;
}

/* The clean text as far as it fits; the last character that leaves room makes way for "…". */
static void svg_fit(struct buf *out, struct str text, double room, double size)
{
    double used = 0, dots = size;
    size_t keep = 0;

    for (size_t i = 0; i < text.n;) {
        uint32_t cp;
        size_t n = utf8_decode((struct str){text.p + i, text.n - i}, &cp);
        used += svg_char_width((struct str){text.p + i, n}) * size;
        if (used + dots <= room)
            keep = i + n;
        if (used > room) {
            buf_add(out, text.p, keep);
            buf_adds(out, "…");
            return;
        }
        i += n;
    }
    buf_add(out, text.p, text.n);
}

void svg_text(struct svg *s, double x, double y, double room, enum svg_anchor a, const char *cls,
              struct str text)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    double size = *cls == 'b' ? 14.5 : *cls == 'k' ? 11 : 12; /* bold letters are wider */
    AUTO(buf) struct buf fits = {0}, whole = {0};

    draw_clean(&whole, text, TOOLTIP_CELLS);
    svg_fit(&fits, buf_str(&whole), room, size);
    buf_addf(s->out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\"%s>", cls, x, y, anchors[a]);
    if (!str_eq(buf_str(&fits), buf_str(&whole))) {
        buf_adds(s->out, "<title>");
        svg_escape(s->out, buf_str(&whole));
        buf_adds(s->out, "</title>");
    }
    svg_escape(s->out, buf_str(&fits));
    buf_adds(s->out, "</text>\n");
}

void svg_open(struct svg *s, const struct tune_view *v, const char *what, struct str caption)
{
    AUTO(buf) struct buf head = {0};

    draw_head(v, what, &head);
    buf_addf(s->out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
             "height=\"%.0f\" role=\"img\">\n<title>",
             s->w, s->h, s->w, s->h);
    svg_escape(s->out, buf_str(&head));
    buf_adds(s->out, "</title>\n");
    svg_style(s->out);
    buf_addf(s->out, "<rect class=\"bg\" width=\"%.0f\" height=\"%.0f\"/>\n", s->w, s->h);
    svg_text(s, MARGIN, 24, s->w - 2 * MARGIN, SVG_START, "b", buf_str(&head));
    svg_text(s, MARGIN, 43, s->w - 2 * MARGIN, SVG_START, "q", caption);
}

void svg_close(struct svg *s)
{
    buf_adds(s->out, "</svg>\n");
}

void svg_line(struct svg *s, const char *cls, double x1, double y1, double x2, double y2)
{
    buf_addf(s->out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", cls,
             x1, y1, x2, y2);
}

void svg_rect(struct svg *s, const char *cls, double x, double y, double w, double h)
{
    buf_addf(s->out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
             cls, x, y, w, h);
}

void svg_path_open(struct svg *s, const char *cls, const char *more)
{
    buf_addf(s->out, "<path class=\"%s\"%s d=\"", cls, more);
}

/* A line without length has round ends: 13 bytes for a dot, where a circle takes 40. */
void svg_dot(struct svg *s, double x, double y)
{
    buf_addf(s->out, "M%.1f %.1fh0", x, y);
}

/* A path must not be empty. */
void svg_path_close(struct svg *s)
{
    if (s->out->n && s->out->p[s->out->n - 1] == '"')
        buf_adds(s->out, "M0 0");
    buf_adds(s->out, "\"/>\n");
}

void svg_ticks_y(const struct svg_plot *p, const struct draw_tick *t, size_t n, bool labels)
{
    for (size_t i = 0; i < n; i++) {
        double y = svg_plot_y(p, t[i].at);
        svg_line(p->s, "grid", p->x, y, p->x + p->w, y);
        if (labels)
            svg_text(p->s, p->x - 6, y + 4, p->x - 8, SVG_END, "k", str_of(t[i].text));
    }
}

/* A label that would touch the one before it is left out. */
void svg_ticks_x(const struct svg_plot *p, const struct draw_tick *t, size_t n, bool lines)
{
    double free_from = -1e9, room = p->w;

    for (size_t i = 0; i < n; i++) {
        double x = svg_plot_x(p, t[i].at);
        double half = (double)text_width(str_of(t[i].text)) * 11 * digit_width / 2;
        double left = x - half, right = x + half;
        enum svg_anchor a = SVG_MIDDLE;
        if (lines)
            svg_line(p->s, "grid", x, p->y, x, p->y + p->h);
        if (right > p->x + p->w + 8) { /* stays within the plot */
            a = SVG_END;
            left = x - 2 * half;
            right = x;
        } else if (left < p->x - 8) {
            a = SVG_START;
            left = x;
            right = x + 2 * half;
        }
        if (left < free_from)
            continue;
        svg_text(p->s, x, p->y + p->h + 15, room, a, "k", str_of(t[i].text));
        free_from = right + 6;
    }
}
