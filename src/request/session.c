/* session.c - the cookie with which a page of this server acts for a person
 *
 * "<uid>.<gid>.<end in ms>.<mac>".  The MAC is over "session " and the text before it: a token of a
 * run, which is a MAC of other text with the same secret, is never a session.
 */
#include "request/session.h"
#include "base/hash.h"
#include "base/util.h"
#include <stdio.h>

enum { MAC_BYTES = 32 };

static void session_seal(const struct auth *a, char *text, size_t n)
{
    char whole[SESSION_MAX + 16];
    uint8_t mac[MAC_BYTES];
    int len = snprintf(whole, sizeof(whole), "session %s", text);

    hmac_sha256(a->secret, sizeof(a->secret), whole, (size_t)len, mac);
    size_t at = strlen(text);
    ASSERT(at + 2 + (size_t)(2 * MAC_BYTES) <= n);
    text[at++] = '.';
    for (size_t i = 0; i < MAC_BYTES; i++) {
        text[at++] = "0123456789abcdef"[mac[i] >> 4];
        text[at++] = "0123456789abcdef"[mac[i] & 15];
    }
    text[at] = 0;
}

void session_make(const struct auth *a, const struct caller *who, int64_t now_ms,
                  char out[SESSION_MAX])
{
    snprintf(out, SESSION_MAX, "%u.%u.%lld", who->uid, who->gid, (long long)(now_ms + SESSION_MS));
    session_seal(a, out, SESSION_MAX);
}

/* The value of our cookie among "a=b; c=d". */
static struct str session_find(struct str cookies)
{
    while (cookies.n) {
        struct str value, one = str_trim(str_cut(cookies, ';', &cookies));
        struct str name = str_cut(one, '=', &value);
        if (str_eq_c(name, SESSION_COOKIE))
            return value;
    }
    return (struct str){0};
}

static bool session_parse(const struct auth *a, struct str value, int64_t now_ms,
                          struct caller *out)
{
    struct str rest, uid = str_cut(value, '.', &rest), gid = str_cut(rest, '.', &rest);
    struct str end = str_cut(rest, '.', &rest);
    int64_t u, g, end_ms;
    char want[SESSION_MAX];

    if (!a->has_secret || !rest.n || !str_to_i64(uid, &u) || !str_to_i64(gid, &g) ||
        !str_to_i64(end, &end_ms) || u < 0 || u >= AUTH_NOBODY || g < 0 || g > UINT32_MAX)
        return false;
    snprintf(want, sizeof(want), "%lld.%lld.%lld", (long long)u, (long long)g, (long long)end_ms);
    session_seal(a, want, sizeof(want));
    if (strlen(want) != value.n || !equal_const_time(want, value.p, value.n) || end_ms <= now_ms)
        return false;
    *out = (struct caller){.uid = (uint32_t)u, .gid = (uint32_t)g};
    return true;
}

/* Who may do what is decided now, not when the cookie was made: the daemon may have been started
 * with other options since. */
bool session_read(const struct auth *a, struct str cookies, int64_t now_ms, struct caller *out)
{
    struct caller who;

    if (!session_parse(a, session_find(cookies), now_ms, &who) ||
        (!a->multi_user && who.uid != a->uid))
        return false;
    who.admin = who.uid == a->uid || who.uid == 0;
    *out = who;
    return true;
}
