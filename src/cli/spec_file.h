/* spec_file.h - a file that describes jobs, in YAML or JSON */
#pragma once
#include "base/json.h"

/* "-" is standard input.  A list of jobs becomes a map with the key `jobs`.  *out is yours. */
int spec_file_read(const char *path, struct json **out, struct err *e);
