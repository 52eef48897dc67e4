/* spawn.c - posix_spawn with clean signals and a session of its own */
#include "base/spawn.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

pid_t spawn_alone(const char *program, char **argv, char **envp, const int fds[3])
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    pid_t pid = -1;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0)
            posix_spawn_file_actions_adddup2(&files, fds[i], i);
        else
            posix_spawn_file_actions_addopen(&files, i, "/dev/null", O_RDWR, 0);
    }
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    int rc = posix_spawnp(&pid, program, &files, &attr, argv, envp);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    errno = rc;
    return rc ? -1 : pid;
}
