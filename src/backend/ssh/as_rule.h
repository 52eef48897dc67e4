/* as_rule.h - which login on a node is whose: the setting `as`
 *
 * "alice=al@gpu7" is for user alice (or a uid), "%u@gpu7" for every user who has no such line; %u
 * is the name of the user.  Without @host the login is on the host of the node.
 */
#pragma once
#include "base/json.h"
#include "base/vec.h"
#include "model/node.h"

struct as_rule {
    uint32_t uid;
    char *to; /* "login" or "login@host[:port]" */
};
struct as_rules {
    VEC(struct as_rule) of;  /* one user each */
    char *others;            /* for all others; NULL = they have no account */
    struct node_users users; /* who may run jobs there: the owner and those above */
    VEC(uint32_t) uids;
};
/* `list`: a list of texts, or NULL.  Names are looked up in the user database.  On failure r is to
 * be freed as well. */
int as_rules_read(struct as_rules *r, const struct json *list, uint32_t owner_uid, struct err *e);
void as_rules_done(struct as_rules *r);
/* ssh://login@host[:port] for a user; `url` is the node's.  The caller frees it.  NULL with an
 * error: the user has no account. */
char *as_rules_url(const struct as_rules *r, uint32_t uid, struct str url, struct err *e);
