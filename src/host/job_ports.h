/* job_ports.h - ports of the host that lead to jobs
 *
 * A job keeps its ports from its submission to its end.  They are open while an attempt runs.
 */
#pragma once
#include "base/err.h"
#include "base/str.h"
#include "model/job.h"

struct core;
struct loop;
struct store;
struct job_ports;
struct port_pair { /* a port of the host, and the port it leads to */
    int node, container;
};

/* addr is the address to listen on and is copied.  All functions but port_pair_parse run on the
 * loop thread. */
struct job_ports *job_ports_new(struct loop *l, struct core *c, struct store *st, const char *addr);
/* After a restart: opens the ports of jobs that ran before.  Reads the store on a worker thread. */
void job_ports_recover(struct job_ports *d);
/* The two steps of closing; in between run the loop while job_ports_busy. */
void job_ports_shut(struct job_ports *d);
bool job_ports_busy(const struct job_ports *d);
void job_ports_free(struct job_ports *d);
/* Takes all of these ports, or none: ERR_CONFLICT names the port that is taken.  *out_claim stands
 * for the job until the job has a number. */
int job_ports_claim(struct job_ports *d, const struct port_pair *p, size_t n, uint64_t *out_claim,
                    struct err *e);
/* The job has a number now: the ports of the claim now belong to this job. */
void job_ports_assign(struct job_ports *d, uint64_t claim, uint64_t job);
/* Closes the ports and forgets them, as for a submission that was refused. */
void job_ports_drop(struct job_ports *d, uint64_t job_or_claim);
/* An attempt of this job starts, or was found running: claims the ports it does not have yet.  A
 * port that another program took meanwhile is tried again while the attempt runs. */
void job_ports_start(struct job_ports *d, struct run_key key, const struct port_pair *p, size_t n);
/* The same, with the texts of the job form ("31346:6006"), NULL-terminated. */
void job_ports_start_texts(struct job_ports *d, struct run_key key, char *const *ports);
/* Jobs changed: opens, shuts and gives back ports as the jobs stand now. */
void job_ports_look(struct job_ports *d);
/* Ports that belong to a job or a claim, open or not. */
size_t job_ports_count(const struct job_ports *d);
/* "31346:6006", as the job form has it. */
bool port_pair_parse(struct str text, struct port_pair *out);
