/* address.h - addresses to listen on, as options have them; URLs of this machine */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>

/* ADDR:PORT, [ADDR6]:PORT, :PORT or PORT; loopback where no address is said.  `option` stands in
 * messages.  The address is not resolved or checked here.  Port 0 is accepted: the system chooses a
 * port. */
int listen_addr_parse(const char *option, const char *text, char *addr, size_t addr_size, int *port,
                      struct err *e);
/* Does the URL name this machine by a loopback address or by "localhost"?  Guards the token of a
 * home: no other machine gets it unless the user says so. */
bool url_is_loopback(const char *url);
