/* row.c - Foundations Atlas: its client, its server, its part of the daemon */
#include "dialect/atlas/atlas.h"
#include "dialect/atlas/foundations.h"
#include "dialect/atlas/server.h"
#include "dialect/atlas/worker.h"
#include "dialect/dialect.h"

static const struct dialect_program programs[] = {
    {"foundations", foundations_main},
    {"atlas-server", atlas_server_main},
    {0},
};
static const struct command *const commands[] = {&cmd_atlas_worker, NULL};

extern const struct dialect dialect_atlas;
const struct dialect dialect_atlas = {
    .name = ATLAS_DIALECT,
    .title = "Atlas",
    .programs = programs,
    .commands = commands,
    .part = &atlas_part,
};
