/* download.h - a tree or a directory as the answer of a request, as a tgz
 *
 * Worker threads make the tgz piece by piece: the next piece when the client has taken the last.
 */
#pragma once
#include "request/call.h"

struct tgz;
struct cas;
/* Ends the call; the download owns the request and the tgz and outlives the call.  `cas` is closed
 * after the tgz; NULL = the store outlives the server.  Files are read with the rights of `uid`.
 * `name` is what a browser calls the file. */
void download_tgz(struct call *c, struct tgz *take, struct cas *cas, uint32_t uid,
                  const char *name);
