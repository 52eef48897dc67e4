/* ssh_link.h - one login on another machine, as a backend of its own
 *
 * accounts.c makes a node of one or several of these.  Its struct backend is not that of ssh.c, so
 * it may not include ssh_priv.h.
 */
#pragma once
#include "backend/backend.h"

extern const struct backend_class ssh_link;
enum { SSH_CONF_KEYS = 13 };
extern const struct conf_key ssh_conf_keys[SSH_CONF_KEYS]; /* conf.c: for backend_class.keys */
