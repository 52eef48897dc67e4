/* py_str.h - values as Python's str() writes them */
#pragma once
#include "base/json.h"

/* Text as it is, True, False, None; numbers, lists and objects as json.dumps writes them. */
bool py_str_write(struct buf *b, const struct json *j);
