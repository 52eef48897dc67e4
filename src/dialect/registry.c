/* registry.c - programs whose words this one speaks, besides its own */
#include "base/util.h"
#include "dialect/atlas/foundations.h"
#include "dialect/atlas/server.h"
#include "dialect/hyperctl/hyperctl.h"

static const struct {
    const char *program;
    int (*main)(struct cli *c, char **argv);
} dialects[] = {
    {"atlas-server", atlas_server_main},
    {"foundations", foundations_main},
    {"hyperctl", hyperctl_main},
};

int cli_dialect(struct cli *c, char **argv)
{
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];

    for (size_t i = 0; i < ARRAY_SIZE(dialects); i++)
        if (!strcmp(name, dialects[i].program))
            return dialects[i].main(c, argv);
    ASSERT(!"a dialect of cli.c is missing here");
    return 1;
}
