/* py_str.c - values as Python's str() writes them */
#include "dialect/hyperctl/py_str.h"

/* False: the buf overflowed. */
bool py_str_write(struct buf *b, const struct json *j)
{
    switch (json_type(j)) {
    case JSON_STR:
        return buf_add(b, json_str(j).p, json_str(j).n);
    case JSON_BOOL:
        return buf_adds(b, json_bool(j) ? "True" : "False");
    case JSON_NULL:
        return buf_adds(b, "None");
    default:
        return json_write(b, j, JSON_PYTHON);
    }
}
