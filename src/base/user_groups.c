/* user_groups.c - supplementary groups of a user, from the name service
 *
 * A file of its own: the shepherd is a static program, which must not draw in the name service.
 */
#include "base/user_rights.h"
#include "base/util.h"
#include <errno.h>
#include <grp.h>
#include <pwd.h>

enum { GROUPS_MAX = 65536, ENTRY_BYTES_MAX = 1 << 20 };

_Static_assert(sizeof(gid_t) == sizeof(uint32_t), "group ids travel as 32 bits");

/* The second call has the size that the first one reported. */
static size_t groups_by_name(const char *name, uint32_t gid, uint32_t **out)
{
    int n = 64;
    gid_t *ids = xcalloc((size_t)n, sizeof(*ids));

    if (getgrouplist(name, gid, ids, &n) < 0 && n > 0 && n <= GROUPS_MAX) {
        ids = xrealloc(ids, (size_t)n, sizeof(*ids));
        if (getgrouplist(name, gid, ids, &n) < 0)
            n = 0;
    }
    if (n <= 0 || n > GROUPS_MAX) {
        free(ids);
        return 0;
    }
    *out = ids;
    return (size_t)n;
}

size_t user_groups(uint32_t uid, uint32_t gid, uint32_t **out)
{
    struct passwd entry, *pw = NULL;
    AUTO_FREE char *text = NULL;
    size_t n = 0;

    for (size_t room = 4096; room <= ENTRY_BYTES_MAX; room *= 4) {
        free(text);
        text = xmalloc(room);
        if (getpwuid_r(uid, &entry, text, room, &pw) != ERANGE)
            break;
    }
    if (pw)
        n = groups_by_name(pw->pw_name, gid, out);
    if (n > 0)
        return n;
    *out = xcalloc(1, sizeof(**out));
    (*out)[0] = gid;
    return 1;
}
