/* run_start_equal.h - are two starts the same, member by member?  From the table of the struct. */
#pragma once
#include "shepherd/run_start.h"
#include <string.h>

static inline bool equal_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}
static inline bool equal_words(char *const *a, char *const *b)
{
    if (!a || !b)
        return a == b;
    for (; *a && *b; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return !*a && !*b;
}
static inline bool equal_key(struct run_key a, struct run_key b)
{
    return run_key_eq(a, b);
}
static inline bool equal_bytes(struct str a, struct str b)
{
    return str_eq(a, b);
}
static inline bool equal_u32(uint32_t a, uint32_t b)
{
    return a == b;
}
static inline bool equal_flag(bool a, bool b)
{
    return a == b;
}
static inline bool equal_ids(struct id_list a, struct id_list b)
{
    return a.n == b.n && (!a.n || !memcmp(a.ids, b.ids, a.n * sizeof(*a.ids)));
}
static inline bool equal_need(struct resources a, struct resources b)
{
    return !memcmp(&a, &b, sizeof(a));
}
static inline bool equal_limits(struct spec_limits a, struct spec_limits b)
{
    return !memcmp(&a, &b, sizeof(a));
}
static inline bool run_start_equal(const struct run_start *a, const struct run_start *b)
{
#define EQUAL_MEMBER(kind, type, name)                                                             \
    if (!equal_##kind(a->name, b->name))                                                           \
        return false;
    RUN_START_FIELDS(EQUAL_MEMBER)
#undef EQUAL_MEMBER
    return true;
}
