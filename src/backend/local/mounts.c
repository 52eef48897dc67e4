/* mounts.c - directories under other names, where this host does not let us mount them
 *
 * Mounting needs rights that a user's daemon does not have.  A run then sees its directories under
 * the host's names: words of its command that name a place below a mount are rewritten, and what it
 * needs to find the rest is the business of whoever asked for the mount.
 */
#include "backend/local/local_priv.h"
#include "base/arena.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>

/* In a thread that ends right afterwards: what it leaves is its own namespace. */
static void *try_namespace(void *arg)
{
    bool *ok = arg;

    *ok = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0;
    return NULL;
}

bool backend_can_mount(void)
{
    static enum { UNKNOWN, NO, YES } known;
    const char *off = getenv("BERTH_NO_MOUNTS");
    pthread_t thread;
    bool ok = false;

    if (known == UNKNOWN) {
        if (geteuid() == 0 && !(off && *off) &&
            pthread_create(&thread, NULL, try_namespace, &ok) == 0)
            pthread_join(thread, NULL);
        known = ok ? YES : NO;
    }
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
