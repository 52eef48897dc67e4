/* openapi.h - docs/api/openapi.yaml, built in */
#pragma once
#include "base/str.h"

struct str openapi_text(void);
