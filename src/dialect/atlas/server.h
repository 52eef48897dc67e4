/* server.h - atlas-server: start, stop, version */
#pragma once
#include "cli/cli.h"
#include "host/host.h"
#include "model/node.h"

/* What atlas-server tells its part of the daemon.  A port 0 is not opened. */
struct atlas_server_conf {
    const char *home; /* $FOUNDATIONS_HOME */
    const char *addr;
    int scheduler_port, dashboard_port, tracker_port, archive_port, api_port;
    int32_t workers;
    bool backfill, authenticate;
    const char *python;          /* of the built-in worker */
    const char *tensorboard_url; /* NULL = none */
};
struct atlas_opts {
    struct atlas_server_conf conf;
    bool gpu, no_tensorboard, logs;
    int tensorboard_port, auth_port;
};
void atlas_help_print(void); /* to stdout */
/* 0, or -1 with e: a mistake in the arguments.  *help: it was asked for. */
int atlas_args_parse(char **argv, struct atlas_opts *out, bool *help, struct err *e);

/* ---- atlas_parts.c ---- */
struct atlas_gpus { /* as nvidia-smi counts them */
    int n;
    char uuids[NODE_MAX_GPUS][64];
};
int atlas_gpus(struct atlas_gpus *g); /* -1: nvidia-smi does not work */
/* Those CUDA_VISIBLE_DEVICES leaves out; yours, NULL = none.  *visible: how many are left. */
char *atlas_hidden_gpus(const struct atlas_gpus *g, int *visible);
bool atlas_find_program(const char *name, char *out, size_t n); /* on PATH */
/* Before any thread; 0 = it is switched off or not installed. */
pid_t atlas_board_start(const struct atlas_opts *o, const char *home);
void atlas_board_stop(pid_t pid); /* 0 is fine */

/* A name becomes an address: servers listen on numbers only.  `what` stands in messages. */
int atlas_address(const char *what, const char *host, char *out, size_t n, struct err *e);

/* ---- atlas_join.c: a server that hands everything on to another ---- */
struct loop;
struct joined;
struct atlas_join {
    int port; /* 0 = a server of its own */
    char addr[64], name[120];
};
int atlas_join_read(struct atlas_join *out, struct err *e); /* REDIS_HOST, REDIS_PORT */
int atlas_join_open(struct joined **out, struct loop *l, const struct atlas_opts *o,
                    const struct atlas_join *j, const char *database, struct err *e);
void atlas_join_close(struct joined *x);

int atlas_server_main(struct cli *c, char **argv);
