/* fuzz_yaml.c - any bytes to the YAML reader
 *
 * What it accepts must be a tree the JSON reader accepts as well, with the same value.
 */
#include "base/util.h"
#include "base/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str text = {(const char *)data, n};
    struct json *j = NULL, *back = NULL;
    struct err e = {0};

    if (yaml_parse(text, "fuzz", &j, &e) < 0) {
        ASSERT(e.code != ERR_NONE && e.text[0]);
        return 0;
    }
    AUTO_FREE char *written = json_text(j);
    ASSERT(json_parse(str_of(written), "again", &back, &e) == 0);
    ASSERT(json_equal(j, back));
    json_free(back);
    json_free(j);
    return 0;
}
