/* fuzz_json.c - any bytes to the JSON reader
 *
 * What it accepts must be written and read back as the same value, and the elements of
 * a list read as text must be those parsing it gives.
 */
#include "base/json.h"
#include "base/json_in.h"
#include "base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_round_trip(const struct json *j, bool pretty)
{
    AUTO(buf) struct buf b = {0};
    struct json *back = NULL;
    struct err e;

    ASSERT(json_write(&b, j, pretty ? JSON_PRETTY : JSON_COMPACT));
    ASSERT(json_parse(buf_str(&b), "again", &back, &e) == 0);
    ASSERT(json_equal(j, back));
    json_free(back);
}

static void check_split(struct str text, const struct json *j)
{
    AUTO(json_in) struct json_in in = {.text = text};
    struct str item;
    struct err e;
    size_t i = 0;
    int rc = json_in_next(&in) == JSON_IN_ARRAY ? 1 : -1;

    while (rc > 0 && (rc = json_in_raw(&in, &item)) > 0) {
        struct json *one = NULL;
        bool ok = json_parse(item, "item", &one, &e) == 0;
        ASSERT(!j || ok);
        ASSERT(!j || json_equal(one, json_at(j, i)));
        json_free(one);
        i++;
    }
    ASSERT(!j || (rc == 0 && i == json_len(j)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str text = {(const char *)data, n};
    struct json *j = NULL;
    struct err e = {0};

    bool ok = json_parse(text, "fuzz", &j, &e) == 0;
    ASSERT(ok || (e.code != ERR_NONE && e.text[0]));
    if (ok) {
        struct json *copy = json_copy(j);
        ASSERT(json_equal(j, copy));
        json_free(copy);
        check_round_trip(j, false);
        check_round_trip(j, true);
    }
    check_split(text, ok && json_type(j) == JSON_ARRAY ? j : NULL);
    json_free(j);
    return 0;
}
