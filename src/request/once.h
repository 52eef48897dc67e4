/* once.h - a request with an Idempotency-Key is carried out once, for every service
 *
 * A key of a user names one answer for ever: the jobs it made.  Requests with the same key at the
 * same time are served one after the other, so the second finds what the first did.  A client that
 * leaves before its jobs were taken has submitted nothing; one that leaves after has submitted them
 * all, and learns that by asking again with the same key.
 *
 * A key that comes with another request is refused.  The requests are the same when path, query and
 * body are.  A client that knows better what makes its request sends a text of its own instead, as
 * Idempotency-Fingerprint: for example without the variables of the terminal.
 */
#pragma once
#include "request/call.h"

enum { ONCE_KEY_MAX = 200 };

struct submission;
struct once_made { /* what a key made */
    uint64_t first, n, batch;
    bool compared; /* it was this very request; false: a key from before fingerprints */
};
/* Loop thread.  Calls `go` at once, or when the requests with the same key that came before have
 * ended.  A key that is too long fails the call. */
void call_run_once(struct call *c, call_fn go);
struct str call_once_key(const struct call *c); /* empty = none */
/* Any thread, before call_once_find: the bytes that the client sent.  Takes 1 ns per byte. */
void call_once_body(struct call *c, struct str body);
uint64_t call_once_print(const struct call *c); /* for the submission; 0 = there is no key */
/* Worker thread.  1: the key was used before, *out is what it made.  0: it was not, or there is no
 * key.  -1: c->err, also when the key was used for another request. */
int call_once_find(struct call *c, struct once_made *out);
/* Worker thread, when call_once_find could not compare.  Does `s` ask for what the key made: as
 * many jobs, with the same names, params and specs?  `without` lists the members of a spec that are
 * not compared, NULL at its end: those that differ when the same request is sent again, such as the
 * environment of another terminal.  `after` is not compared: a job that was waited for may be gone
 * by now.  -1: c->err is ERR_CONFLICT and names the key, ERR_NOT_FOUND when the first job was
 * removed. */
int call_once_check(struct call *c, const struct once_made *made, const struct submission *s,
                    const char *const *without);
