/* http_client.h - blocking HTTP calls for commands, streaming where asked
 *
 * unix:PATH is spoken by a few lines of our own over llhttp (a command line call must start within
 * 2 ms); http:// and https:// go through libcurl, opened on first use: a missing library is a clear
 * error of this feature alone.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <sys/types.h>

/* One client is for one thread and one call at a time. */
struct http_client;
/* A reply.  Made by http_call and http_call_upload on success; the caller frees the body with
 * http_response_done.  A header value that the server did not send is "". */
struct http_response {
    int status;
    struct buf body;
    char etag[80];
    char content_type[80];
    char content_range[80]; /* "bytes 0-99/1234"; "" when absent */
    char retry_after[24];
};
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
void http_response_done(struct http_response *r);
/* on_bytes is called with each piece of body as it arrives; returning false ends the call (result
 * 0). */
int http_call_stream(struct http_client *c, const char *method, const char *path,
                     const char *const *headers, struct str body, int *out_status,
                     bool (*on_bytes)(void *arg, struct str piece), void *arg, struct err *e);
/* A body that is made while it is sent: fill puts up to n bytes at p and returns how many; 0 ends
 * the body, -1 the call (result -1, ERR_BUSY).  It travels in chunks; URLs only, not unix:PATH. */
struct http_source {
    ssize_t (*fill)(void *arg, char *p, size_t n);
    void *arg;
};
int http_call_upload(struct http_client *c, const char *method, const char *path,
                     const char *const *headers, const struct http_source *body,
                     struct http_response *out, struct err *e);
/* From now on `asked` is called about once a second, and after signals, while a call to a URL is
 * under way; true ends the call with ERR_BUSY.  NULL: no longer. */
void http_client_interrupt(struct http_client *c, bool (*asked)(void *arg), void *arg);
/* For waiting on the connection together with other descriptors; the client keeps the
 * descriptor. */
int http_client_fd(struct http_client *c); /* -1 unless connected over a unix socket */
/* Turns a reply of status ≥ 400 into an err from its {"error":…} body. */
int http_response_err(const struct http_response *r, struct err *e);
/* Appends s; every byte but letters, digits and "-._~" becomes %XX. */
void url_encode(struct buf *b, struct str s);
