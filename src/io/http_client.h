/* http_client.h - blocking HTTP calls for commands, streaming where asked
 *
 * For commands, and for threads that have nothing else to do; on the loop use fetch.h.  unix:PATH
 * is a few blocking calls of our own, because a command must start within 2 ms.  For http:// and
 * https:// the client runs fetch.h on a loop of its own.
 */
#pragma once
#include "io/http_exchange.h"
#include "io/http_response.h"

/* One client is for one thread and one call at a time. */
struct http_client;
/* target: "unix:/run/…/sock", "http://host:port", "https://…".  token may be NULL.  ca_file may be
 * NULL. */
struct http_client *http_client_new(const char *target, const char *token, const char *ca_file);
void http_client_free(struct http_client *c);
/* headers: NULL-terminated "name: value" lines or NULL.  Transport failures are ERR_UNAVAILABLE,
 * with sys ECONNREFUSED when a URL was not even connected to, so that nothing was sent; an HTTP
 * status is not an error here.  The connection is kept for the next call. */
int http_call(struct http_client *c, const char *method, const char *path,
              const char *const *headers, struct str body, struct http_response *out,
              struct err *e);
/* on_bytes is called with each piece of body as it arrives; returning false ends the call (result
 * 0). */
int http_call_stream(struct http_client *c, const char *method, const char *path,
                     const char *const *headers, struct str body, int *out_status,
                     bool (*on_bytes)(void *arg, struct str piece), void *arg, struct err *e);
/* The body is made while it is sent; its fill function may end the call (ERR_BUSY). */
int http_call_upload(struct http_client *c, const char *method, const char *path,
                     const char *const *headers, const struct http_source *body,
                     struct http_response *out, struct err *e);
/* From now on `asked` is called several times a second while a call to a URL is under way; true
 * ends the call with ERR_BUSY.  NULL: no longer. */
void http_client_interrupt(struct http_client *c, bool (*asked)(void *arg), void *arg);

/* The part that needs a loop, behind the functions above.  The small client (src/client.c) has no
 * loop and defines both in another way: it hands a URL over to the full program. */
struct http_ask;
int http_url_call(struct http_client *c, struct http_ask *a, struct err *e);
void http_url_close(struct http_client *c);
