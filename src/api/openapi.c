/* openapi.c - docs/api/openapi.yaml, built in: the bytes come from the build (embed.c) */
#include "api/openapi.h"

extern const unsigned char openapi_bytes[];
extern const size_t openapi_bytes_n;

struct str openapi_text(void)
{
    return (struct str){(const char *)openapi_bytes, openapi_bytes_n};
}
