/* atlas_server.h - atlas-server: start, stop, version */
#pragma once
#include "cli/cli.h"
#include "host/host.h"

struct atlas_opts {
    struct host_atlas_conf conf;
    bool gpu, no_tensorboard, logs;
    int tensorboard_port, auth_port;
};
extern const char atlas_help[];
/* 0, or -1 with e: a mistake in the arguments.  *help: it was asked for. */
int atlas_args_parse(char **argv, struct atlas_opts *out, bool *help, struct err *e);

int atlas_server_main(struct cli *c, char **argv);
