/* auth.c - who is calling
 *
 * A token opens everything; it is the home's own, that of a run, or one of tokens.c.
 * Without a token: whoever came over the home's socket is known by the kernel.  Over loopback it
 * must be the user the server runs as, or root.  From elsewhere nobody, unless the server was told
 * to listen there without -p: then everybody, as with the original.
 */
#include "base/util.h"
#include "dialect/atlas/atlas_priv.h"
#include <stdio.h>

/* A caller on loopback is admitted as the server's user; request/ then asks the kernel who owns the
 * connection.  With a token of tokens.c the caller acts as the server's user under the name in the
 * token. */
int atlas_identify(void *self, struct http_req *r, struct who *out, struct err *e)
{
    const struct atlas *a = self;
    struct str header = http_header(r, "authorization"), token = {0};
    const struct http_peer *p = http_peer(r);
    struct who who = {0}, anybody = {.known = true};

    anybody.caller = (struct caller){.uid = a->conf.uid, .gid = (uint32_t)getgid(), .admin = true};
    snprintf(anybody.caller.user, sizeof(anybody.caller.user), "atlas");
    *out = anybody;
    bool shown = auth_bearer(header, &token);
    if (p->is_unix || shown) {
        out->proved = !p->is_unix && shown &&
                      atlas_token_user(a, token, out->caller.user, sizeof(out->caller.user));
        if (out->proved)
            return 0;
        *out = anybody;
        int rc = auth_identify(request_server_auth(a->conf.requests), p, header, &who, e);
        out->proved = who.proved;
        /* A job of ours may submit others as its owner does. */
        if (rc == 0 && who.token.job && who.caller.uid == a->conf.uid)
            return 0;
        /* The jobs of Atlas are those of one user: nobody else sees or adds any. */
        if (rc == 0 && !who.caller.admin)
            return err_set(e, ERR_DENIED,
                           "the Atlas jobs of this daemon belong to another user; start your own "
                           "atlas-server");
        if (rc == 0) {
            *out = who;
            return 0;
        }
        if (p->is_unix || a->conf.authenticate)
            return -1;
        *e = (struct err){0}; /* a token of another server is as good as none */
    }
    if (a->conf.authenticate)
        return err_set(e, ERR_UNAUTHENTICATED,
                       "this server requires a token; run `foundations login` first");
    out->ask_owner = p->local;
    return 0;
}
