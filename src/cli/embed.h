/* embed.h - a host inside this process, on a thread of its own
 *
 * The loop thread owns all state of the host, as in a daemon; the command's thread is an ordinary
 * client of its socket.  So `berth run` is written once, for both.
 */
#pragma once
#include "base/err.h"
#include "host/host.h"

struct embed;
/* Returns once the host answers on its socket.  ERR_CONFLICT when another host has the home.
 * Called by the thread of the command, as embed_close is.  The texts of conf must outlive the
 * embed. */
int embed_open(struct embed **out, const struct host_conf *conf, struct err *e);
/* Before a host is opened: its messages go to the log of the home, which is made if need be, and
 * not between the lines of the job. */
int embed_log(const char *home, struct err *e);
void embed_close(struct embed *x); /* graceful; runs go on.  NULL is fine. */
