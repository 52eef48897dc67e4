/* auth.c - who is asking
 *
 * Owns: reading the proofs of a request and the rule which class of route they open.
 * Does not own: which jobs a person may see (api/job_ref.c): that is a question of rows, not of
 * routes.
 *
 * A proof that is given must be right: a wrong bearer token on the unix socket is refused, although
 * the socket alone would have been enough.  Tokens are compared in constant time.
 *
 * With one user (the default) every accepted caller counts as the daemon's owner: root connecting
 * to a user's daemon submits the user's jobs.  In multi-user mode a caller is the user that the
 * kernel reports.
 */
#include "request/auth.h"
#include "base/hash.h"
#include "base/util.h"
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

static const char no_token[] =
    "send the token of this daemon as 'Authorization: Bearer TOKEN' (it "
    "is in the file 'token' of the daemon's home), or use its unix socket";

bool auth_bearer(struct str header, struct str *out)
{
    static const char scheme[] = "bearer ";

    if (header.n < sizeof(scheme) || strncasecmp(header.p, scheme, sizeof(scheme) - 1) != 0)
        return false;
    *out = str_trim((struct str){header.p + sizeof(scheme) - 1, header.n - (sizeof(scheme) - 1)});
    return out->n > 0;
}

static bool token_equal(const char *want, struct str got)
{
    return want && want[0] && strlen(want) == got.n && equal_const_time(want, got.p, got.n);
}

static int identify_token(const struct auth *a, struct str header, struct who *out, struct err *e)
{
    struct str token;

    if (!auth_bearer(header, &token))
        return err_set(e, ERR_UNAUTHENTICATED, "the Authorization header is not a bearer token; %s",
                       no_token);
    out->caller.uid = a->uid;
    out->caller.gid = a->gid;
    if (token_equal(a->token, token)) {
        out->caller.admin = true;
    } else if (!a->core || !core_job_token_check(a->core, token, &out->token)) {
        return err_set(e, ERR_UNAUTHENTICATED, "this bearer token is not valid here; %s", no_token);
    } else if (a->multi_user && !core_job_owner(a->core, out->token.job, &out->caller.uid)) {
        out->caller.uid = AUTH_NOBODY; /* it has ended: its token opens its record and no more */
    }
    out->known = out->proved = true;
    return 0;
}

static int identify_peer(const struct auth *a, const struct http_peer *peer, struct who *out,
                         struct err *e)
{
    bool admin = peer->uid == a->uid || peer->uid == 0;

    if (!admin && !a->multi_user)
        return err_set(e, ERR_DENIED,
                       "this daemon serves uid %u only and you are uid %u; start your own with "
                       "'berth serve', or let its owner run it with --multi-user",
                       a->uid, (unsigned)peer->uid);
    out->caller.uid = a->multi_user ? peer->uid : a->uid;
    out->caller.gid = a->multi_user ? peer->gid : a->gid;
    out->caller.admin = admin;
    out->known = true;
    return 0;
}

int auth_identify(const struct auth *a, const struct http_peer *peer, struct str authorization,
                  struct who *out, struct err *e)
{
    struct who w = {0};
    int rc;

    if (authorization.p)
        rc = identify_token(a, authorization, &w, e);
    else if (peer->is_unix)
        rc = identify_peer(a, peer, &w, e);
    else
        rc = err_set(e, ERR_UNAUTHENTICATED, "this address needs a token; %s", no_token);
    if (rc == 0)
        *out = w;
    return rc;
}

int auth_allows(enum auth_class cls, const struct who *w, struct err *e)
{
    if (cls == AUTH_PUBLIC)
        return 0;
    if (cls == AUTH_HOST && w->local)
        return 0;
    if (!w->known)
        return err_set(e, ERR_UNAUTHENTICATED, "%s", no_token);
    if (w->token.job != 0 && cls != AUTH_JOB && cls != AUTH_HOST)
        return err_set(
            e, ERR_DENIED,
            "the token of job %llu gives access to that job only: its record, logs, control and "
            "reports",
            (unsigned long long)w->token.job);
    if (cls == AUTH_ADMIN && !w->caller.admin)
        return err_set(e, ERR_DENIED, "only the daemon's owner or root may do this");
    return 0;
}

int auth_owner_allows(const struct auth *a, const struct who *w, struct err *e)
{
    if (!w->owner_known)
        return err_set(
            e, ERR_DENIED,
            "the user of this connection is unknown; log in, so that the request has a token");
    if (w->owner != 0 && w->owner != a->uid)
        return err_set(e, ERR_DENIED,
                       "this server belongs to another user; start your own, or ask its owner "
                       "to start it with -p, and log in");
    return 0;
}

bool auth_name_find(const struct auth *a, struct who *w)
{
    const char *name = map_u64_get(&a->users, (uint64_t)w->caller.uid + 1);

    if (!name)
        return false;
    memcpy(w->caller.user, name, strlen(name) + 1);
    return true;
}

void auth_name_lookup(uint32_t uid, char out[64])
{
    char text[4096];
    struct passwd pw, *found = NULL;

    if (getpwuid_r(uid, &pw, text, sizeof(text), &found) == 0 && found && found->pw_name[0])
        snprintf(out, 64, "%s", found->pw_name);
    else
        snprintf(out, 64, "%u", uid);
}

void auth_name_add(struct auth *a, uint32_t uid, const char *name)
{
    const size_t max = sizeof(((struct caller *)0)->user) - 1;

    if (!map_u64_get(&a->users, (uint64_t)uid + 1))
        map_u64_put(&a->users, (uint64_t)uid + 1, xstrndup(name, max));
}

struct auth *auth_new(const struct core *core, const char *token, uint32_t uid, bool multi_user)
{
    struct auth *a = xcalloc(1, sizeof(*a));
    char name[64];

    a->core = core;
    a->token = xstrdup(token);
    a->uid = uid;
    a->gid = getegid();
    a->multi_user = multi_user;
    auth_name_lookup(uid, name);
    auth_name_add(a, uid, name);
    return a;
}

void auth_set_secret(struct auth *a, const uint8_t secret[32])
{
    memcpy(a->secret, secret, sizeof(a->secret));
    a->has_secret = true;
}

void auth_free(struct auth *a)
{
    size_t it = 0;
    uint64_t key;
    void *name;

    if (!a)
        return;
    while (map_u64_next(&a->users, &it, &key, &name))
        free(name);
    map_u64_done(&a->users);
    free(a->token);
    free(a);
}
