/* json_split.c - the elements of a top-level list, one text after the other
 *
 * Only strings and brackets are looked at, to find where an element ends; what stands inside is
 * checked when the element is parsed.
 */
#include "base/json_priv.h"
#include "base/util.h"

/* From i to the comma or bracket that ends the element; s.n when there is none. */
static size_t scan_element(struct str s, size_t i)
{
    size_t depth = 0;
    bool quoted = false;

    for (; i < s.n; i++) {
        char c = s.p[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (depth == 0 && (c == ',' || c == ']' || c == '}')) {
            break;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return MIN(i, s.n);
}

static int split_end(struct json_split *s, size_t i, struct err *e)
{
    if (json_skip_space(s->rest, i) < s->rest.n)
        return err_set(e, ERR_INVALID, "text follows the closing ] of the list");
    s->rest = (struct str){NULL, 0};
    return 0;
}

int json_split_next(struct json_split *s, struct str *out, struct err *e)
{
    size_t i = json_skip_space(s->rest, 0);

    if (s->started && !s->rest.p)
        return 0;
    if (!s->started) {
        if (i >= s->rest.n || s->rest.p[i] != '[')
            return err_set(e, ERR_INVALID, "a list in [ ] is expected");
        s->started = true;
        i = json_skip_space(s->rest, i + 1);
        if (i < s->rest.n && s->rest.p[i] == ']')
            return split_end(s, i + 1, e);
    } else if (i < s->rest.n && s->rest.p[i] == ']') {
        return split_end(s, i + 1, e);
    } else {
        i = json_skip_space(s->rest, i + 1); /* the comma at which the last element ended */
    }
    size_t end = scan_element(s->rest, i);
    if (end >= s->rest.n)
        return err_set(e, ERR_INVALID, "element %zu: the list has no closing ]", s->index);
    if (s->rest.p[end] == '}')
        return err_set(e, ERR_INVALID, "element %zu: found '}' without its '{'", s->index);
    struct str element = json_trim((struct str){s->rest.p + i, end - i});
    if (element.n == 0)
        return err_set(e, ERR_INVALID, "element %zu: nothing stands between the commas", s->index);
    *out = element;
    s->index++;
    s->rest = (struct str){s->rest.p + end, s->rest.n - end};
    return 1;
}
