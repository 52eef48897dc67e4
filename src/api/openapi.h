/* openapi.h - docs/api/openapi.yaml, built in */
#pragma once
#include "base/str.h"

/* Static memory that is never freed; the text has a NUL behind it. */
struct str openapi_text(void);
