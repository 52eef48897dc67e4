/* bench.h - a controller on the disk and the hosts of the simulation, driven step by step */
#pragma once
#include "sim/sim.h"

struct bench {
    struct rng rng;
    struct disk disk;
    struct world world;
    struct core *core;
    struct backend *backends[SIM_HOSTS];
    struct core_conf conf; /* what the tests at hand want; the rest is filled in */
    /* Of the last request. */
    struct err err;
    struct submitted submitted;
    struct acted acted;
    int answers;
    int64_t offset;
    int64_t checkpoint_ms; /* wall clock; -1 = no file */
};
/* Not booted yet. */
struct bench *bench_new(const struct core_conf *conf, int hosts, int32_t slots);
void bench_boot(struct bench *b);
void bench_crash(struct bench *b); /* the controller is gone; what it did not commit as well */
void bench_free(struct bench *b);
int bench_teardown(void **state); /* of a test whose state is a bench */
void bench_turn(struct bench *b); /* a turn of the loop and its commit */
/* Twenty turns, after each of which all that is on its way between the controller and its one host
 * arrives and step_ms pass; 0 = time stands still. */
void bench_settle(struct bench *b, int64_t step_ms);
