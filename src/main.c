/* main.c - the full program: hands the rooms to the command line */
#include "backend/container.h"
#include "backend/gpu_survey.h"
#include "base/yaml.h"
#include "cli/cli.h"
#include "store/store.h"
#include <sys/prctl.h>

int main(int argc, char **argv)
{
    static const struct cli_seams seams = {
        .version = BERTH_VERSION,
        .commands = cli_commands,
        .dialect = cli_dialect,
        .yaml_parse = yaml_parse,
        .store_check = store_check,
        .gpu_survey = gpu_survey,
        .engine_survey = engine_survey,
        .container = container_run,
    };

    /* The kernel calls a process after its file; people and `pgrep` know this one as berth. */
    prctl(PR_SET_NAME, "berth");
    return cli_main(argc, argv, &seams);
}
