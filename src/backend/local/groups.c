/* groups.c - supplementary groups of submitters
 *
 * Looked up here and sent along: the shepherd is a static program and cannot ask the name service.
 * Kept for the life of the daemon; a changed membership counts from the next start of it.
 */
#include "backend/local/local_priv.h"
#include <grp.h>
#include <pwd.h>

enum { GROUPS_MAX = 65536 };

/* A user without an entry in the name service has the primary group alone.  The second call has
 * the size that the first one reported. */
static void group_list_read(struct group_list *g, uint32_t uid, uint32_t gid)
{
    struct passwd *pw = getpwuid(uid);
    int n = 64;

    g->gids = xcalloc(1, sizeof(*g->gids));
    g->gids[0] = gid;
    g->n = 1;
    if (!pw)
        return;
    gid_t *ids = xcalloc((size_t)n, sizeof(*ids));
    if (getgrouplist(pw->pw_name, gid, ids, &n) < 0 && n > 0 && n <= GROUPS_MAX) {
        ids = xrealloc(ids, (size_t)n, sizeof(*ids));
        if (getgrouplist(pw->pw_name, gid, ids, &n) < 0)
            n = 0;
    }
    if (n > 0 && n <= GROUPS_MAX) {
        free(g->gids);
        g->gids = ids; /* gid_t is 32 bits wide */
        g->n = (size_t)n;
    } else {
        free(ids);
    }
}
_Static_assert(sizeof(gid_t) == sizeof(uint32_t), "group ids travel as 32 bits");

const struct group_list *groups_of(struct backend *b, uint32_t uid, uint32_t gid)
{
    uint64_t key = (uint64_t)uid << 32 | gid;
    struct group_list *g = map_u64_get(&b->groups, key);

    if (!g) {
        g = xcalloc(1, sizeof(*g));
        group_list_read(g, uid, gid);
        map_u64_put(&b->groups, key, g);
    }
    return g;
}

static void group_list_free(void *val)
{
    free(((struct group_list *)val)->gids);
    free(val);
}

void groups_done(struct backend *b)
{
    map_u64_clear(&b->groups, group_list_free);
}
