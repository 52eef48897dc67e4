/* multipart.c - boundaries, heads and contents of multipart/form-data
 *
 * A boundary is "CR LF - - text"; the first one of a body stands without the CR LF, which is made
 * up for by beginning as if they had been seen.  As CR occurs only at its start, a failed match
 * never hides the start of another, except at a CR itself.
 */
#include "dialect/atlas/multipart.h"
#include "base/util.h"
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

enum {
    BEFORE, /* whatever stands before the first boundary */
    AFTER,  /* right behind a boundary: CR LF, or "--" at the end of all */
    AFTER_CR,
    AFTER_DASH,
    HEAD,
    CONTENT,
    OVER,
};

/* The value of `key` in "a; key=value; other=\"quoted\"", unquoted into out. */
static bool parameter(struct str text, const char *key, char *out, size_t room)
{
    size_t n = strlen(key);

    for (size_t i = 0; i + n < text.n; i++) {
        bool start =
            i == 0 || text.p[i - 1] == ';' || text.p[i - 1] == ' ' || text.p[i - 1] == '\t';
        if (!start || strncasecmp(text.p + i, key, n) != 0 || text.p[i + n] != '=')
            continue;
        size_t at = i + n + 1, k = 0;
        bool quoted = at < text.n && text.p[at] == '"';
        for (at += quoted; at < text.n; at++) {
            if (quoted ? text.p[at] == '"' : strchr("; \t\r\n", text.p[at]) != NULL)
                break;
            if (quoted && text.p[at] == '\\' && at + 1 < text.n)
                at++;
            if (k + 1 >= room)
                return false;
            out[k++] = text.p[at];
        }
        out[k] = 0;
        return strlen(out) == k; /* no NUL inside */
    }
    return false;
}

int multipart_init(struct multipart *m, struct str content_type, struct err *e)
{
    char boundary[MULTIPART_BOUNDARY_MAX + 1];

    *m = (struct multipart){.state = BEFORE, .matched = 2};
    if (content_type.n < 19 || strncasecmp(content_type.p, "multipart/form-data", 19) != 0 ||
        !parameter(content_type, "boundary", boundary, sizeof(boundary)) || !boundary[0])
        return err_set(e, ERR_INVALID,
                       "the bundle must be sent as multipart/form-data with the field job_bundle");
    m->mark_n = (size_t)snprintf(m->mark, sizeof(m->mark), "\r\n--%s", boundary);
    return 0;
}

bool multipart_complete(const struct multipart *m)
{
    return m->state == OVER;
}

/* The line of the head that begins with this name; empty when there is none. */
static struct str head_line(const struct multipart *m, const char *name)
{
    struct str rest = {m->head, m->head_n};
    size_t n = strlen(name);

    while (rest.n > 0) {
        struct str line = str_cut(rest, '\n', &rest);
        if (line.n > n && !strncasecmp(line.p, name, n) && line.p[n] == ':')
            return (struct str){line.p + n + 1, line.n - n - 1};
    }
    return (struct str){NULL, 0};
}

/* The head is complete.  Only Content-Disposition counts: it has the name of the field and of the
 * file. */
static int part_begin(struct multipart *m, const struct multipart_events *ev, struct err *e)
{
    char name[MULTIPART_NAME_MAX + 1] = "", file[MULTIPART_NAME_MAX + 1] = "";
    struct str line = head_line(m, "content-disposition");

    if (!line.p || !parameter(line, "name", name, sizeof(name)))
        return err_set(e, ERR_INVALID, "a part of the body has no name");
    parameter(line, "filename", file, sizeof(file));
    m->state = CONTENT;
    m->matched = 0;
    return ev->begin(ev->arg, name, file, e);
}

/* The head ends with an empty line; a part without any head line is an error of part_begin. */
static int head_byte(struct multipart *m, char c, const struct multipart_events *ev, struct err *e)
{
    if (m->head_n == sizeof(m->head))
        return err_set(e, ERR_INVALID, "the head of a part of the body is too long");
    m->head[m->head_n++] = c;
    if (c != '\n')
        return 0;
    bool first = m->head_n == 2 && m->head[0] == '\r';
    if (first || (m->head_n >= 4 && !memcmp(m->head + m->head_n - 4, "\r\n\r\n", 4)))
        return part_begin(m, ev, e);
    return 0;
}

/* Blanks may follow a boundary (RFC 2046), then CR LF begins the next part, or "--" ends the body.
 */
static int after_byte(struct multipart *m, char c, struct err *e)
{
    if (m->state == AFTER && (c == ' ' || c == '\t'))
        return 0;
    if (m->state == AFTER && c == '\r')
        m->state = AFTER_CR;
    else if (m->state == AFTER && c == '-')
        m->state = AFTER_DASH;
    else if (m->state == AFTER_DASH && c == '-')
        m->state = OVER;
    else if (m->state == AFTER_CR && c == '\n') {
        m->state = HEAD;
        m->head_n = 0;
    } else
        return err_set(e, ERR_INVALID, "the boundary between two parts of the body is malformed");
    return 0;
}

/* Bytes before the first boundary are dropped. */
static int emit(struct multipart *m, struct str bytes, const struct multipart_events *ev,
                struct err *e)
{
    return m->state == CONTENT && bytes.n ? ev->data(ev->arg, bytes, e) : 0;
}

/* A whole boundary was seen; it ends the part before it, if there is one. */
static int boundary(struct multipart *m, const struct multipart_events *ev, struct err *e)
{
    bool part = m->state == CONTENT;

    m->state = AFTER;
    m->matched = 0;
    return part ? ev->end(ev->arg, e) : 0;
}

/* The last piece ended with the beginning of a boundary.  *used bytes of this piece continue the
 * boundary.  When the boundary breaks off, the bytes that were held back are content and are handed
 * on. */
static int go_on(struct multipart *m, struct str in, size_t *used,
                 const struct multipart_events *ev, struct err *e)
{
    size_t held, i = 0;

    while (i < in.n && m->matched < m->mark_n && in.p[i] == m->mark[m->matched]) {
        m->matched++;
        i++;
    }
    *used = i;
    if (m->matched == m->mark_n)
        return boundary(m, ev, e);
    if (i == in.n)
        return 0;
    held = m->matched;
    m->matched = 0;
    return emit(m, (struct str){m->mark, held}, ev, e);
}

/* Contents up to the next boundary, handed on in one piece however many CR are in them; *used bytes
 * are done with. */
static int content(struct multipart *m, struct str in, size_t *used,
                   const struct multipart_events *ev, struct err *e)
{
    const char *end = in.p + in.n, *cr = in.p - 1;
    size_t n = 0;

    do {
        cr = memchr(cr + 1, '\r', (size_t)(end - cr - 1));
        n = cr ? MIN(m->mark_n, (size_t)(end - cr)) : 0;
    } while (cr && memcmp(cr, m->mark, n) != 0);
    *used = (cr ? (size_t)(cr - in.p) : in.n) + n;
    if (emit(m, (struct str){in.p, *used - n}, ev, e) < 0)
        return -1;
    m->matched = n;
    return n == m->mark_n ? boundary(m, ev, e) : 0;
}

/* Bytes after the last boundary are ignored, as RFC 2046 says. */
int multipart_feed(struct multipart *m, struct str bytes, const struct multipart_events *ev,
                   struct err *e)
{
    while (bytes.n > 0 && m->state != OVER) {
        size_t used = 1;
        int rc;
        if (m->state == BEFORE || m->state == CONTENT)
            rc = (m->matched ? go_on : content)(m, bytes, &used, ev, e);
        else if (m->state == HEAD)
            rc = head_byte(m, bytes.p[0], ev, e);
        else
            rc = after_byte(m, bytes.p[0], e);
        if (rc < 0)
            return -1;
        bytes = (struct str){bytes.p + used, bytes.n - used};
    }
    return 0;
}
