/* main.c - the full program: Berth's own commands and the dialects it was built with */
#include "cli/cli.h"
#include "dialect/dialect.h"
#include <sys/prctl.h>

int main(int argc, char **argv)
{
    static struct program program; /* holds the lists until the process ends */

    program = (struct program){
        .version = BERTH_VERSION,
        .commands = dialects_commands(),
        .dialects = dialects,
        .parts = dialects_parts(),
        .settings = dialects_settings,
    };

    /* The kernel names a process after its file; people and `pgrep` know this one as berth. */
    prctl(PR_SET_NAME, "berth");
    return cli_main(argc, argv, &program);
}
