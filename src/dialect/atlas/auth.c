/* auth.c - who speaks
 *
 * A token opens everything; it is the home's own, that of a run, or one of tokens.c.
 * Without a token: whoever came over the home's socket is known by the kernel.  Over loopback it
 * must be the user the server runs as, or root.  From elsewhere nobody, unless the server was told
 * to listen there without -p: then everybody, as with the original.
 */
#include "base/util.h"
#include "dialect/atlas/atlas_priv.h"
#include <stdio.h>

/* Is anybody there, and where a token comes from. */
static bool is_public(struct str path)
{
    return str_eq_c(path, "/") || str_starts(path, STR("/auth/")) ||
           str_starts(path, STR("/api/v2beta/auth/"));
}

int atlas_identify(struct atlas *a, struct http_req *r, struct atlas_call *c)
{
    struct str header = http_header(r, "authorization"), bearer = STR("Bearer ");
    const struct http_peer *p = http_peer(r);
    struct who who = {0};

    c->who = (struct caller){.uid = a->conf.uid, .gid = (uint32_t)getgid(), .admin = true};
    snprintf(c->who.user, sizeof(c->who.user), "atlas");
    if (p->is_unix || str_starts(header, bearer)) {
        struct str token = {header.p + bearer.n, header.n - bearer.n};
        if (!p->is_unix && atlas_token_user(a, token, c->who.user, sizeof(c->who.user)))
            return 0;
        int rc = auth_identify(a->conf.auth, p, header, &who, &c->err);
        if (rc == 0 && who.token.job)
            return 0; /* a job of ours, which may submit others as its owner does */
        if (rc == 0 && auth_allows(AUTH_WRITE, &who, &c->err) == 0) {
            c->who = who.caller;
            return 0;
        }
        if (p->is_unix || a->conf.authenticate)
            return -1;
        c->err = (struct err){0}; /* a token of another server is as good as none */
    }
    if (a->conf.authenticate && !is_public(http_path(r)))
        return err_set(&c->err, ERR_UNAUTHENTICATED,
                       "this server wants a token: run `foundations login` first");
    c->check_peer = p->local;
    return 0;
}

int atlas_check_peer(const struct atlas *a, const struct http_peer *p, struct err *e)
{
    uint32_t uid;

    if (!auth_peer_owner(p, &uid))
        return err_set(e, ERR_DENIED, "it cannot be told who is asking; log in to show a token");
    if (uid != 0 && uid != a->conf.uid)
        return err_set(e, ERR_DENIED,
                       "this server belongs to another user; start one of your own, or ask for it "
                       "to be started with -p and log in");
    return 0;
}
