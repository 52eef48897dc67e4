/* session.h - the cookie with which a page of this server acts for a person
 *
 * A page cannot keep a bearer token out of the reach of scripts; a browser can keep a cookie
 * (HttpOnly).  The cookie names the user and the time it ends, with a MAC of the home's secret, so
 * nothing is stored.  A browser sends it with every request, also with those that other pages
 * cause: it counts only where site_own_page says that the page is this server's.
 */
#pragma once
#include "request/auth.h"

#define SESSION_COOKIE "berth_session"
enum { SESSION_MAX = 128, SESSION_MS = 12 * 3600 * 1000 };
/* The value of a cookie for `who` that ends SESSION_MS after now. */
void session_make(const struct auth *a, const struct caller *who, int64_t now_ms,
                  char out[SESSION_MAX]);
/* `cookies` is the header of the request.  False: it holds no valid session of a user whom this
 * daemon serves. */
bool session_read(const struct auth *a, struct str cookies, int64_t now_ms, struct caller *out);
