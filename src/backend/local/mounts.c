/* mounts.c - directories under other names, where this host does not let us mount them
 *
 * Mounting takes root's rights, or a kernel that lets users have namespaces of their own; some
 * distributions and most containers do not.  A run then sees its directories under
 * the host's names: words of its command that name a place below a mount are rewritten, and what it
 * needs to find the rest is the business of whoever asked for the mount.
 */
#include "backend/local/local_priv.h"
#include "base/arena.h"
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

/* As the shepherd will do it, in a child that makes system calls only.  A namespace of users may be
 * granted and yet be good for nothing, so it is tried out. */
static __attribute__((noinline)) bool try_namespace(void)
{
    int status, flags = CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0);
    pid_t pid = vfork();

    if (pid == 0)
        _exit(unshare(flags) == 0 && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0 ? 0 : 1);
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Tried once per process; the answer does not change while the daemon runs. */
bool backend_can_mount(void)
{
    static enum { UNKNOWN, NO, YES } known;
    const char *off = getenv("BERTH_NO_MOUNTS");

    if (known == UNKNOWN)
        known = !(off && *off) && try_namespace() ? YES : NO;
    return known == YES;
}

/* "/custom/train.py" with a mount "/home/a/code:/custom" is "/home/a/code/train.py". */
static char *host_name(char *word, char *const *mounts, struct arena *a)
{
    for (; *mounts; mounts++) {
        const char *target = strchr(*mounts, ':') + 1;
        size_t n = strcspn(target, ":");
        if (!strncmp(word, target, n) && (word[n] == 0 || word[n] == '/'))
            return arena_printf(a, "%.*s%s", (int)(target - 1 - *mounts), *mounts, word + n);
    }
    return word;
}

char **mounts_unmounted(char *const *argv, char *const *mounts, struct arena *a)
{
    size_t n = 0;

    while (argv[n])
        n++;
    char **out = arena_alloc(a, (n + 1) * sizeof(*out));
    for (size_t i = 0; i < n; i++)
        out[i] = host_name(argv[i], mounts, a);
    return out;
}
