/* row.c - hyperctl, of Hypernets */
#include "dialect/dialect.h"
#include "dialect/hyperctl/hyperctl.h"

static const struct dialect_program programs[] = {{"hyperctl", hyperctl_main}, {0}};

extern const struct dialect dialect_hyperctl;
const struct dialect dialect_hyperctl = {
    .name = "hyperctl",
    .title = "Hypernets",
    .programs = programs,
};
