/* client.c - the small client: what a user calls as `berth`
 *
 * Starting a program that is linked dynamically, or with a C library that asks the processor what
 * it can do, costs up to a millisecond: most of what a command takes.  So this one is static, small
 * and has only the commands of cli/quick.c; everything else is done by the full program, into which
 * this process turns, with the same words and the same environment.
 */
#include "base/util.h"
#include "cli/cli.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { EXIT_NOT_FOUND = 127 }; /* as shells have it */

static char **words;

static void hand_over(void)
{
    static const char *const places[] = {
        "berth-full", /* in the build directory */
        "../libexec/berth/berth-full",
    };
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    char *slash = n > 0 ? memrchr(exe, '/', (size_t)n) : NULL;

    if (!slash) {
        cli_say("cannot tell where this program is: %s", strerror(errno));
        _exit(EXIT_NOT_FOUND);
    }
    *slash = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        AUTO_FREE char *path = xasprintf("%s/%s", exe, places[i]);
        execv(path, words);
        if (errno != ENOENT)
            break;
    }
    cli_say("cannot run berth-full, beside %s/berth or in ../libexec/berth: %s; install it there",
            exe, strerror(errno));
    _exit(EXIT_NOT_FOUND);
}

int main(int argc, char **argv)
{
    static const struct cli_seams seams = {
        .version = BERTH_VERSION,
        .commands = quick_commands,
        .hand_over = hand_over,
    };

    words = argv;
    return cli_main(argc, argv, &seams);
}
