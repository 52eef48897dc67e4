/* py_json.h - JSON and numbers written the way Python's json module writes them
 *
 * Users' scripts compare these bytes: config.json, `job describe`, the answers of the batch's port.
 */
#pragma once
#include "base/json.h"

/* Appends j: indented by `indent` spaces a level, or on one line with ", " and ": " when 0.
 * Everything outside ASCII is escaped. */
bool py_json_write(struct buf *b, const struct json *j, int indent);
char *py_json_text(const struct json *j, int indent); /* yours */
/* repr() of a float: 0.1, 1e-05, 100.0. */
bool py_float_write(struct buf *b, double d);
/* str() of a scalar: text as it is, True, False, None, numbers. */
bool py_str_write(struct buf *b, const struct json *j);
