/* spawn.h - starting a program that shares nothing but three descriptors with its parent */
#pragma once
#include <sys/types.h>

/* The pid, or -1 with errno.  A program without a slash is looked for on PATH.  fds are its
 * standard input, output and error; -1 = /dev/null.  Its signals are unblocked and have their
 * defaults.  The program gets a session of its own: it has no terminal to ask on, and gets no
 * signal of the terminal of its parent. */
pid_t spawn_alone(const char *program, char **argv, char **envp, const int fds[3]);
