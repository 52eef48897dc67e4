/* listen_addr.h - addresses to listen on, as options have them */
#pragma once
#include "base/err.h"
#include <stddef.h>

/* ADDR:PORT, [ADDR6]:PORT, :PORT or PORT; loopback where no address is said.  `option` stands in
 * messages.  The address is not resolved or checked here.  Port 0 is accepted: the system chooses a
 * port. */
int listen_addr_parse(const char *option, const char *text, char *addr, size_t addr_size, int *port,
                      struct err *e);
