/* site.h - is a request meant for this server, and may the page that makes it do so?
 *
 * A browser sends requests for any page it shows, with the rights of its user: over loopback the
 * kernel even vouches for that user.  So a request over TCP is refused when it names another host
 * (a name that a stranger's DNS server lets point here), when it comes from a page of another site,
 * and when it changes something and a browser sends it as a form.  What a page of another site
 * can still cause is a GET without any of these headers, whose answer it cannot see (io/reply.c),
 * and no GET changes anything.  Programs send no Origin,
 * Sec-Fetch-Site or Referer and may send what they like, as the original clients do; unix sockets
 * cannot be reached by pages.
 */
#pragma once
#include "base/err.h"
#include "io/http_server.h"

/* `names`: host names of this server beside loopback's and the machine's, with commas between them;
 * or NULL.  `proved`: the caller has shown a token, which no page of another site has; then any
 * Host will do.  ERR_MISDIRECTED or ERR_DENIED. */
int site_check(const struct http_req *r, const char *names, bool proved, struct err *e);
/* Does a page of this very server make the request?  Only what a browser says counts (Origin,
 * Sec-Fetch-Site, or Referer where a browser sends neither), so a request without these is none.
 * The address line of a browser may read.  ERR_DENIED. */
int site_own_page(const struct http_req *r, struct err *e);
/* The parts of it, for tests.  `host` as in the header, with or without a port. */
bool site_host_known(struct str host, const char *names);
bool site_origin_same(struct str origin, struct str host);
bool site_referer_same(struct str referer, struct str host);
