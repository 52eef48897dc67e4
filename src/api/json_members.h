/* json_members.h - the members of an object as text, without building a tree
 *
 * Finds where each value begins and ends; that what stands there is JSON is checked by json_parse
 * of it.  Keys with escapes are left to the real parser.
 */
#pragma once
#include "base/str.h"

struct json_member {
    struct str key;   /* between the quotes */
    struct str value; /* JSON text, without spaces around */
};
struct json_members {
    const char *p, *end;
    bool started;
};
void json_members_init(struct json_members *m, struct str object);
/* 1 = a member, 0 = the closing brace and nothing behind it, -1 = not readable this way. */
int json_members_next(struct json_members *m, struct json_member *out);
