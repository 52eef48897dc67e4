/* json_members.c - the members of an object as text, without building a tree
 *
 * A bulk submit looks at each of 100 000 elements only to see that it says the same as the one
 * before; a tree for each would be most of its time.
 */
#include "api/json_members.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(struct json_members *m)
{
    while (m->p < m->end && is_space(*m->p))
        m->p++;
}

static bool eat(struct json_members *m, char c)
{
    skip_space(m);
    if (m->p == m->end || *m->p != c)
        return false;
    m->p++;
    return true;
}

/* At the opening quote; ends behind the closing one. */
static bool skip_string(struct json_members *m, bool *escaped)
{
    for (m->p++; m->p < m->end; m->p++) {
        if (*m->p == '\\') {
            *escaped = true;
            m->p++;
        } else if (*m->p == '"') {
            m->p++;
            return true;
        }
    }
    return false;
}

static bool skip_nested(struct json_members *m)
{
    size_t depth = 0;
    bool escaped;

    while (m->p < m->end) {
        switch (*m->p) {
        case '"':
            if (!skip_string(m, &escaped))
                return false;
            continue;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            if (--depth == 0) {
                m->p++;
                return true;
            }
            break;
        default:
            break;
        }
        m->p++;
    }
    return false;
}

static bool skip_value(struct json_members *m)
{
    const char *from = m->p;
    bool escaped;

    if (m->p == m->end)
        return false;
    if (*m->p == '"')
        return skip_string(m, &escaped);
    if (*m->p == '{' || *m->p == '[')
        return skip_nested(m);
    while (m->p < m->end && *m->p != ',' && *m->p != '}' && !is_space(*m->p))
        m->p++;
    return m->p > from;
}

void json_members_init(struct json_members *m, struct str object)
{
    *m = (struct json_members){.p = object.p, .end = object.p + object.n};
}

static int at_end(struct json_members *m)
{
    skip_space(m);
    return m->p == m->end ? 0 : -1;
}

int json_members_next(struct json_members *m, struct json_member *out)
{
    const char *from;
    bool escaped = false;

    if (!m->started) {
        if (!eat(m, '{'))
            return -1;
        m->started = true;
        if (eat(m, '}'))
            return at_end(m);
    } else if (eat(m, '}')) {
        return at_end(m);
    } else if (!eat(m, ',')) {
        return -1;
    }
    skip_space(m);
    if (m->p == m->end || *m->p != '"')
        return -1;
    from = m->p + 1;
    if (!skip_string(m, &escaped) || escaped)
        return -1;
    out->key = (struct str){from, (size_t)(m->p - from) - 1};
    if (!eat(m, ':'))
        return -1;
    skip_space(m);
    from = m->p;
    if (!skip_value(m))
        return -1;
    out->value = (struct str){from, (size_t)(m->p - from)};
    return 1;
}
