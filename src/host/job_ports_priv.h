/* job_ports_priv.h - what the two files of job_ports share */
#pragma once
#include "base/vec.h"
#include "host/job_ports.h"

struct forward;
struct timer;

struct job_port {
    uint64_t job; /* number of the job, or of a claim */
    struct port_pair port;
    struct forward *way; /* NULL: the job listens there itself, or the port is lost */
    /* open: connections are forwarded.  lost: another program has the port, and the log says so
     * already. */
    bool open, lost;
};
struct job_ports {
    struct loop *loop;
    struct core *core;
    struct store *store;
    char addr[64];
    VEC(struct job_port) all;
    /* How many claims were made; makes the number of the next one unique. */
    uint64_t claims;
    /* Runs job_ports_look after a port could not be opened. */
    struct timer *again;
    size_t recovering; /* searches for ports of earlier jobs that are under way */
    bool closing;
};
