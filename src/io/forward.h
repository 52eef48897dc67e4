/* forward.h - a port of this host that leads to a port of one of its processes
 *
 * A forward has two states.  Held: Berth owns the port, so no other process can take it, but
 * connections are refused.  Open: the bytes of every connection are copied to 127.0.0.1:`to` and
 * back until both sides have closed.
 */
#pragma once
#include "base/err.h"

struct loop;
struct forward;

/* Holds the port of `addr` (numeric; "::" is both families).  ERR_CONFLICT when somebody has it. */
int forward_hold(struct forward **out, struct loop *l, const char *addr, int port, struct err *e);
/* Before it is opened: connections go to this numeric address instead of loopback, and only those
 * `admit` lets in (NULL: all). */
int forward_lead(struct forward *f, const char *addr, bool (*admit)(void *arg, int fd), void *arg,
                 struct err *e);
/* Opens it towards this port of loopback, or of the address it leads to. */
int forward_open(struct forward *f, int to, struct err *e);
/* Back to held: connections under way are cut.  -1 when the port was lost to somebody in the
 * moment between; f is then neither held nor open, and forward_open tries to take it again. */
int forward_shut(struct forward *f, struct err *e);
void forward_free(struct forward *f); /* cuts everything */
/* Is this port of `addr` free for us to listen on, right now? */
bool port_is_free(const char *addr, int port);
