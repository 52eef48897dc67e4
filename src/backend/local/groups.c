/* groups.c - supplementary groups of submitters
 *
 * Looked up here and sent along: the shepherd is a static program and cannot ask the name service.
 * Kept for the life of the daemon; a changed membership counts from the next start of it.
 */
#include "backend/local/local_priv.h"
#include "base/user_rights.h"

const struct group_list *groups_of(struct backend *b, uint32_t uid, uint32_t gid)
{
    uint64_t key = (uint64_t)uid << 32 | gid;
    struct group_list *g = map_u64_get(&b->groups, key);

    if (!g) {
        g = xcalloc(1, sizeof(*g));
        g->n = user_groups(uid, gid, &g->gids);
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
