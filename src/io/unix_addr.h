/* unix_addr.h - addresses of unix sockets, also for paths beyond the 107 bytes the kernel takes */
#pragma once
#include "base/err.h"
#include <sys/socket.h>
#include <sys/un.h>

/* Fills *out.  A long path is named through its directory: *out_dir_fd is then open and has to stay
 * so until bind or connect returned; else it is -1. */
int unix_addr_make(const char *path, struct sockaddr_un *out, socklen_t *out_n, int *out_dir_fd,
                   struct err *e);
/* A socket connected to path, or -1 with errno.  flags: 0, or SOCK_NONBLOCK, with which a full
 * backlog is EAGAIN instead of a wait. */
int unix_connect(const char *path, int flags);
