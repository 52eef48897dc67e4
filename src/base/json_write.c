/* json_write.c - the value tree as text
 *
 * Broken UTF-8 is mended on the way out (buf_add_json_str), so what leaves is always JSON.  Reals
 * are written as they were read.
 */
#include "base/json_priv.h"

static void write_value(struct buf *b, const struct json *j, bool pretty, size_t level);

static void write_break(struct buf *b, bool pretty, size_t level)
{
    if (!pretty)
        return;
    buf_addc(b, '\n');
    for (size_t i = 0; i < level; i++)
        buf_add(b, "  ", 2);
}

static void write_array(struct buf *b, const struct json *j, bool pretty, size_t level)
{
    size_t n = json_len(j);

    buf_addc(b, '[');
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_addc(b, ',');
        write_break(b, pretty, level + 1);
        write_value(b, json_at(j, i), pretty, level + 1);
    }
    if (n)
        write_break(b, pretty, level);
    buf_addc(b, ']');
}

static void write_object(struct buf *b, const struct json *j, bool pretty, size_t level)
{
    buf_addc(b, '{');
    for (struct json_it it = {0}; json_next(j, &it);) {
        if (it.started > 1)
            buf_addc(b, ',');
        write_break(b, pretty, level + 1);
        buf_add_json_str(b, str_of(it.key));
        buf_adds(b, pretty ? ": " : ":");
        write_value(b, it.val, pretty, level + 1);
    }
    if (json_len(j))
        write_break(b, pretty, level);
    buf_addc(b, '}');
}

static void write_value(struct buf *b, const struct json *j, bool pretty, size_t level)
{
    switch (json_type(j)) {
    case JSON_NULL:
        buf_adds(b, "null");
        break;
    case JSON_BOOL:
        buf_adds(b, json_bool(j) ? "true" : "false");
        break;
    case JSON_INT:
        buf_addf(b, "%lld", (long long)json_int(j));
        break;
    case JSON_REAL:
        if (json_real_text(j))
            buf_adds(b, json_real_text(j));
        else
            buf_add_json_double(b, json_real(j));
        break;
    case JSON_STR:
        buf_add_json_str(b, json_str(j));
        break;
    case JSON_ARRAY:
        write_array(b, j, pretty, level);
        break;
    case JSON_OBJECT:
        write_object(b, j, pretty, level);
        break;
    }
}

bool json_write(struct buf *b, const struct json *j, bool pretty)
{
    write_value(b, j, pretty, 0);
    return !b->overflow;
}

char *json_text(const struct json *j)
{
    struct buf b = {0};

    json_write(&b, j, false);
    return buf_take(&b, NULL);
}
