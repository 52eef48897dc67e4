/* http_client_priv.h - what the two transports of the client share */
#pragma once
#include "io/http_client.h"
#include "io/http_exchange.h"

struct http_client {
    char *target;      /* as given, for messages */
    char *path;        /* of the unix socket; NULL: the target is a URL */
    char *token;       /* or NULL */
    char *ca_file;     /* or NULL */
    int fd;            /* kept connection of the unix transport, or -1 */
    struct loop *loop; /* of calls to a URL, made by the first one */
    struct fetcher *fetcher;
    bool (*asked)(void *arg); /* should the call under way end?  NULL = never */
    void *asked_arg;
};

/* One call, whichever way it goes. */
struct http_ask {
    struct http_request request;
    bool (*on_bytes)(void *arg, struct str piece);
    void *arg;
    struct http_response *out; /* status and header values go here; its body is on_bytes' affair */
    int *live_status;          /* or NULL: told before the first byte of body */
    bool stopped;              /* on_bytes returned false */
};

/* Makes one call over c->path and returns 0, or -1 with an error.  The close function gives back a
 * kept connection and may be called at any time between calls. */
int http_unix_call(struct http_client *c, struct http_ask *a, struct err *e);
void http_unix_close(struct http_client *c);
