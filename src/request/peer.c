/* peer.c - which user owns a connection over loopback?
 *
 * A connection over TCP says nothing about its user, but on one host the kernel lists both ends of
 * it with their owners.  It shows 0, which is root, for ends that nobody holds any more, so only an
 * established one counts, and root's is looked at twice: what was closed in between is not
 * established the second time.
 */
#include "base/util.h"
#include "request/auth.h"
#include <netinet/in.h>
#include <stdio.h>

enum { TCP_ESTABLISHED_STATE = 1 };

/* "0100007F:1F90" or 32 digits for IPv6: words as this host has them in memory. */
static bool end_parse(struct str text, struct in6_addr *addr, uint16_t *port)
{
    struct str rest, words = str_cut(text, ':', &rest);
    size_t n = words.n / 8;
    char part[9] = "";

    *addr = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    if ((n != 1 && n != 4) || words.n % 8 || rest.n != 4)
        return false;
    for (size_t i = 0; i < n; i++) {
        memcpy(part, words.p + 8 * i, 8);
        addr->s6_addr32[n == 1 ? 3 : i] = (uint32_t)strtoul(part, NULL, 16);
    }
    memcpy(part, rest.p, 4);
    part[4] = 0;
    *port = (uint16_t)strtoul(part, NULL, 16);
    return true;
}

/* One line of /proc/net/tcp: is it the peer's end, established?  Then its user. */
static bool line_is(const char *line, const struct http_peer *p, uint32_t *out)
{
    char local[48], remote[48];
    unsigned state, uid;
    struct in6_addr a, b;
    uint16_t a_port, b_port;

    return sscanf(line, " %*[^:]: %47s %47s %x %*s %*s %*s %u", local, remote, &state, &uid) == 4 &&
           state == TCP_ESTABLISHED_STATE && end_parse(str_of(local), &a, &a_port) &&
           end_parse(str_of(remote), &b, &b_port) && a_port == p->from_port &&
           b_port == p->to_port && memcmp(&a, &p->from, sizeof(a)) == 0 &&
           memcmp(&b, &p->to, sizeof(b)) == 0 && ((*out = uid), true);
}

static bool table_find(const char *path, const struct http_peer *p, uint32_t *out)
{
    char line[512];
    bool found = false;
    FILE *f = fopen(path, "re");

    while (f && !found && fgets(line, sizeof(line), f))
        found = line_is(line, p, out);
    if (f)
        fclose(f);
    return found;
}

static bool owner_find(const struct http_peer *p, uint32_t *out)
{
    return table_find("/proc/net/tcp", p, out) || table_find("/proc/net/tcp6", p, out);
}

bool auth_peer_owner(const struct http_peer *p, uint32_t *out)
{
    uint32_t uid = 0, again = 0;

    if (!p->local || !owner_find(p, &uid))
        return false;
    if (uid == 0 && (!owner_find(p, &again) || again != 0))
        return false;
    *out = uid;
    return true;
}
