/* host.h - the controller put together: store, backend, core, api and sockets of one $BERTH_HOME
 *
 * `berth serve` runs one as a daemon, `berth run` one inside its own process.  A home has one host
 * at a time (a lock on $BERTH_HOME/daemon.lock, which supervisors also look at).
 */
#pragma once
#include "base/err.h"
#include "base/json.h"
#include "sched/gpu.h"
#include "sched/limit.h"

struct loop;
struct core;
struct store;
struct host;
struct host_part;
struct host_setting;
/* A second listener beside the unix socket.  tls_cert and tls_key are files; NULL = no TLS. */
struct host_tcp_conf {
    const char *addr; /* NULL = no TCP */
    int port;
    const char *tls_cert, *tls_key;
};
struct host_conf {
    const char *home;
    const char *socket; /* NULL = $BERTH_HOME/sock */
    struct host_tcp_conf tcp;
    const char *engine;       /* of containers; NULL = found where engines usually are */
    bool gpus_by_env;         /* containers learn of their GPUs by variables alone */
    const char *ports_addr;   /* where ports of jobs are opened; NULL = on every address */
    const char *public_names; /* of this server, see request/site.h; NULL = $BERTH_PUBLIC_NAME */
    int32_t slots;            /* 0 = number of CPUs */
    int64_t mcpu, mem_bytes;  /* 0 = what the host has */
    int32_t gpus;             /* -1 = what the host has */
    const char *gpus_exclude; /* "0,GPU-…": not these; NULL = none */
    struct gpu_conf gpu;      /* how they are given out */
    struct {
        int first, last;
    } master_ports;         /* MASTER_PORT of jobs on GPUs; 0 = core's choice */
    int32_t gpu_time_scale; /* a second counts as this many for that; 0 = 1 */
    bool multi_user;
    struct limit_conf limits; /* of running jobs, for everybody */
    const char *python_path;  /* NULL = found beside the program */
    int64_t retain_ms;        /* finished jobs older than this go; 0 = keep */
    bool new_database;        /* begin with an empty database though the home had one */
    bool transient;           /* the home goes away with us: leave no shepherd behind */
    /* Which variables are secrets, see vault_new; NULL = $BERTH_SECRET_NAMES. */
    const char *secret_names;
    const char *version;
    const struct host_part *const *parts; /* ends with NULL; NULL = none */
    const struct host_setting *settings;  /* of parts, see host/part.h; NULL = none */
};
/* ERR_CONFLICT when another host holds this home. */
int host_open(struct host **out, const struct host_conf *c, struct loop *l, struct err *e);
void host_close(struct host *h); /* graceful: replies and commits finish, runs go on */
/* Runs the loop until the messages of hooks that are due have been sent, ms at most.  For a program
 * whose host ends with its last job. */
void host_send_messages(struct host *h, int64_t ms);
/* The host owns what host_core and host_socket return. */
struct core *host_core(struct host *h);
const char *host_socket(const struct host *h);
/* The port that is open, also when host_conf.tcp.port was 0; 0 = no TCP. */
int host_tcp_port(const struct host *h);
size_t host_connections(const struct host *h); /* open right now */
/* $BERTH_HOME, else /var/lib/berth for a system daemon, else $XDG_DATA_HOME/berth, else
 * ~/.local/share/berth.  Yours. */
char *host_home(bool system_wide);
