/* http_response.h - the answer to a request: its status, a few header values, its body */
#pragma once
#include "base/buf.h"
#include "base/err.h"

/* A header value that the server did not send is "". */
struct http_response {
    int status;
    struct buf body;
    char etag[80];
    char content_type[80];
    char content_range[80]; /* "bytes 0-99/1234" */
    char retry_after[24];
};
void http_response_done(struct http_response *r); /* frees the body */
/* Keeps the value if it is one of those above; `name` in any case. */
void http_response_header(struct http_response *r, struct str name, struct str value);
/* Turns a reply of status ≥ 400 into an err from its {"error":…} body. */
int http_response_err(const struct http_response *r, struct err *e);
/* Appends s; every byte but letters, digits and "-._~" becomes %XX. */
void url_encode(struct buf *b, struct str s);
