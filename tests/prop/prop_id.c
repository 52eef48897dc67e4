/* prop_id.c - identifiers: text, bytes and numbers sort alike; prefixes contain what they prefix */
#include "base/id.h"
#include "base/util.h"
#include "prop.h"

static struct id any_id(struct prop *p)
{
    struct id id = {prop_u64(p), prop_u64(p)};

    return id;
}

static int sign(int x)
{
    return (x > 0) - (x < 0);
}

static bool round_trip(struct prop *p, void *ctx UNUSED)
{
    struct id id = any_id(p), back;
    char text[ID_TEXT_MAX];
    uint8_t bytes[16];

    id_format(id, text);
    id_to_bytes(id, bytes);
    return prop_check(p, id_parse(str_of(text), &back) && id_cmp(id, back) == 0, "text %s", text) &&
           prop_check(p, id_cmp(id_from_bytes(bytes), id) == 0, "bytes of %s", text);
}

static bool order(struct prop *p, void *ctx UNUSED)
{
    struct id a = any_id(p), b = prop_bool(p) ? any_id(p) : id_add(a, prop_choice(p, 3));
    char ta[ID_TEXT_MAX], tb[ID_TEXT_MAX];
    uint8_t ba[16], bb[16];

    id_format(a, ta);
    id_format(b, tb);
    id_to_bytes(a, ba);
    id_to_bytes(b, bb);
    int want = id_cmp(a, b);
    return prop_check(p, sign(strcmp(ta, tb)) == want, "text order of %s %s", ta, tb) &&
           prop_check(p, sign(memcmp(ba, bb, 16)) == want, "byte order of %s %s", ta, tb) &&
           prop_check(p, id_cmp(b, a) == -want, "not antisymmetric: %s %s", ta, tb);
}

static bool prefixes(struct prop *p, void *ctx UNUSED)
{
    struct id id = any_id(p), other = any_id(p), lo, hi;
    char text[ID_TEXT_MAX], other_text[ID_TEXT_MAX];
    size_t n = 1 + (size_t)prop_choice(p, ID_TEXT_LEN - 1);

    id_format(id, text);
    id_format(other, other_text);
    if (!prop_check(p, id_parse_prefix((struct str){text, n}, &lo, &hi), "%.*s", (int)n, text))
        return false;
    bool inside = id_cmp(lo, other) <= 0 && id_cmp(other, hi) <= 0;
    bool same = strncmp(text, other_text, n) == 0;
    return prop_check(p, id_cmp(lo, id) <= 0 && id_cmp(id, hi) <= 0, "%.*s lacks %s", (int)n, text,
                      text) &&
           prop_check(p, inside == same, "%.*s and %s", (int)n, text, other_text);
}

static bool never_crashes(struct prop *p, void *ctx UNUSED)
{
    struct str s = prop_bytes(p, 40);
    struct id lo, hi, id;
    bool prefix = id_parse_prefix(s, &lo, &hi), whole = id_parse(s, &id);

    return prop_check(p, !whole || (prefix && s.n == ID_TEXT_LEN), "%zu bytes", s.n) &&
           prop_check(p, !prefix || id_cmp(lo, hi) <= 0, "empty range");
}

int main(void)
{
    prop_run("ids round trip", 5000, round_trip, NULL);
    prop_run("text, bytes and numbers sort alike", 5000, order, NULL);
    prop_run("a prefix contains exactly what it prefixes", 5000, prefixes, NULL);
    prop_run("any bytes may be asked", 5000, never_crashes, NULL);
    return prop_end();
}
