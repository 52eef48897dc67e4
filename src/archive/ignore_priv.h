/* ignore_priv.h - one pattern against one text */
#pragma once
#include "base/str.h"

/* Does the whole text match?  With `path`, wildcards do not match a `/`, except `**` between
 * slashes or at an end. */
bool glob_match(struct str pattern, struct str text, bool path);
