/* main.c - the program: hands the rooms to the command line */
#include "cli/cli.h"
#include "store/store.h"

int main(int argc, char **argv)
{
    static const struct cli_seams seams = {
        .version = BERTH_VERSION,
        .store_check = store_check,
    };

    return cli_main(argc, argv, &seams);
}
