/* atlas.h - a home that is the database of an Atlas home as well
 *
 * `atlas-server` says so once; from then on every daemon of this home knows its jobs, also one that
 * `berth` started.  Only atlas-server opens the ports.
 */
#pragma once
#include "dialect/atlas/atlas.h"
#include "host/host.h"

/* *out NULL: the home is an ordinary one.  `base` has loop, core, store, api. */
int host_atlas_open(const struct host_conf *c, const char *home, const struct atlas_conf *base,
                    struct atlas **out, struct err *e);
int host_atlas_listen(const struct host_conf *c, struct http_server *s, struct err *e);
