/* case.h - small traces and tables for the tests of this room */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "simulate/sim.h"

/* Two types that help each other, one that fits with none, counts 1 and 2. */
#define SMALL_TABLE                                                                                \
    "{\"conv\": {\"1\": {\"alone\": 10, \"conv\": 6, \"text\": 8, \"wide\": 0},"                   \
    "            \"2\": {\"alone\": 18, \"conv\": 10, \"text\": 12, \"wide\": 0}},"                \
    " \"text\": {\"1\": {\"alone\": 20, \"conv\": 15, \"text\": 11, \"wide\": 0}},"                \
    " \"wide\": {\"1\": {\"alone\": 5}, \"2\": {\"alone\": 9}}}"

static inline struct sim_conf plain_conf(int32_t gpus)
{
    return (struct sim_conf){.gpus = gpus, .epoch_s = 600, .restart_s = 60, .share = 2};
}

static inline struct sim_trace trace_of(const char *text, const struct sim_conf *conf)
{
    struct sim_trace t = {0};
    struct err e = {0};

    if (sim_trace_parse(str_of(text), "t.csv", &t, &e) < 0 ||
        sim_trace_bind(&t, conf->table, conf->gpus, 0, "t.csv", &e) < 0)
        fail_msg("%s", e.text);
    return t;
}

static inline struct sim_table table_of(const char *text)
{
    struct sim_table t = {0};
    struct err e = {0};

    if (sim_table_parse(str_of(text), "t.json", &t, &e) < 0)
        fail_msg("%s", e.text);
    return t;
}
