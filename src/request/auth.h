/* auth.h - who is asking
 *
 * Four proofs: the credentials of the peer of a unix socket, the bearer token of the daemon's
 * owner, the token of one run, which opens only that job, and the cookie of a session (session.h).
 * A service may know others.
 */
#pragma once
#include "base/map.h"
#include "core/core.h"
#include "io/http_server.h"

enum auth_class {
    AUTH_PUBLIC, /* anybody */
    AUTH_READ,   /* a known person; sees their own jobs, an admin all */
    AUTH_WRITE,  /* the same, for what changes something; refused while shutting down */
    AUTH_JOB,    /* a known person, or the token of the job in question */
    AUTH_HOST,   /* the same as AUTH_JOB, or any process of this host where a service admits it */
    AUTH_ADMIN,  /* the daemon's owner and root */
};

struct who {
    struct caller caller;
    struct run_key token; /* job 0 = a person; else only this job may be touched */
    bool known;
    bool proved;  /* by a token, not by where the connection comes from */
    bool session; /* by a cookie, which a browser sends by itself */
    /* Set by services that admit processes of this host without a proof: */
    bool local;       /* one of those; not `known` */
    bool ask_owner;   /* the kernel is asked whose the connection is before the handler runs */
    bool owner_known; /* the kernel could say */
    uint32_t owner;
};
enum { AUTH_SHARE_KINDS = 8 };
#define AUTH_NOBODY UINT32_MAX /* the kernel gives this uid to nobody */
struct auth {
    const struct core *core; /* NULL = there are no job tokens */
    char *token;             /* of the daemon's owner */
    uint32_t uid, gid;       /* the daemon's */
    bool multi_user;
    bool has_secret;      /* else there are no sessions */
    uint8_t secret[32];   /* of the home */
    struct map_u64 users; /* uid + 1 → name; filled on first sight */
    /* Connections refused on all servers that use this, by enum share_kind (share.h). */
    uint64_t refused[AUTH_SHARE_KINDS];
};
/* Copies `token`; knows the name of `uid` already. */
struct auth *auth_new(const struct core *core, const char *token, uint32_t uid, bool multi_user);
void auth_free(struct auth *a);
void auth_set_secret(struct auth *a, const uint8_t secret[32]); /* copied */
/* Reads the proofs; does not look up names.  ERR_UNAUTHENTICATED: no proof, or a wrong one.
 * ERR_DENIED: a user this daemon does not serve. */
int auth_identify(const struct auth *a, const struct http_peer *peer, struct str authorization,
                  struct who *out, struct err *e);
/* "Bearer TOKEN", the scheme in any case; false: the header is something else. */
bool auth_bearer(struct str header, struct str *out);
int auth_allows(enum auth_class cls, const struct who *w, struct err *e);
/* After `ask_owner`: is the process the daemon's owner's, or root's? */
int auth_owner_allows(const struct auth *a, const struct who *w, struct err *e);
/* Which user owns the other end of a connection over loopback?  False when the kernel cannot say,
 * for example because the connection is closed.  Reads files of the kernel: worker thread. */
bool auth_peer_owner(const struct http_peer *p, uint32_t *out);

/* Names: false when auth_name_add must be called first with the answer of auth_name_lookup, which
 * may ask the network and so runs on a worker thread. */
bool auth_name_find(const struct auth *a, struct who *w);
void auth_name_lookup(uint32_t uid, char out[64]);
void auth_name_add(struct auth *a, uint32_t uid, const char *name);
