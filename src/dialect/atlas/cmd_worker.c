/* cmd_worker.c - berth __atlas_worker HOME ID MODE -- WORD…: what a job of Atlas begins as */
#include "cli/cli.h"
#include "dialect/atlas/atlas.h"
#include "dialect/atlas/worker.h"

static int worker(struct cli *c, const void *opts, const struct operands *ops)
{
    (void)c;
    (void)opts;
    return atlas_worker((char **)ops->p);
}

static const struct opt_group *const groups[] = {NULL};
const struct command cmd_atlas_worker = {
    .name = ATLAS_WORKER_COMMAND,
    .summary = "lay out the files of an Atlas job and start it",
    .synopsis = "HOME ID MODE -- WORD…",
    .section = SECTION_RUN,
    .flags = COMMAND_HIDDEN | COMMAND_STARTS,
    .groups = groups,
    .operand = "word",
    .min_operands = 4,
    .max_operands = SIZE_MAX,
    .run = worker,
};
