/* session.c - POST and DELETE /v1/session: a cookie for a page of this server
 *
 * The caller has shown a token, or comes over the unix socket.  A session cannot be made from a
 * session: it ends, and then the token must be shown again.
 */
#include "request/session.h"
#include "api/api_priv.h"
#include "api/job_json.h"
#include "base/clock.h"

/* No script can read the cookie, and no page of another site can make the browser send it. */
static void session_set_cookie(struct call *c, const char *value, int64_t seconds)
{
    char text[SESSION_MAX + 128];

    snprintf(text, sizeof(text),
             SESSION_COOKIE "=%s; Max-Age=%lld; Path=/; HttpOnly; SameSite=Strict%s", value,
             (long long)seconds, http_peer(c->req)->tls ? "; Secure" : "");
    http_reply_header(c->req, "Set-Cookie", text);
    http_reply_header(c->req, "Cache-Control", "no-store");
}

void session_begin(struct call *c)
{
    int64_t now = clock_wall(&clock_system);
    char value[SESSION_MAX];

    if (c->who.session) {
        err_set(&c->err, ERR_DENIED, "a session cannot make another; show the token");
        call_fail(c, &c->err);
        return;
    }
    session_make(request_server_auth(c->server), &c->who.caller, now, value);
    session_set_cookie(c, value, SESSION_MS / 1000);
    jw_object(&c->out, NULL);
    jw_int(&c->out, "uid", c->who.caller.uid);
    jw_bool(&c->out, "admin", c->who.caller.admin);
    jw_time(&c->out, "expires", now + SESSION_MS);
    jw_end_object(&c->out);
    c->status = 201;
    call_reply(c);
}

/* Nothing is stored, so this only makes the browser forget the cookie. */
void session_end(struct call *c)
{
    session_set_cookie(c, "", 0);
    c->status = 204;
    call_reply(c);
}
