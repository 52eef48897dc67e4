/* policy.h - ways to decide who starts next
 *
 * A policy sees a snapshot and appends decisions; it takes what it starts out of the queue, keeps
 * to paused queues, batch limits and drained nodes, and never hands out more than a node has.
 */
#pragma once
#include "sched/plan.h"

struct policy {
    const char *name;
    const char *about; /* one sentence for listings */
    void (*plan)(const struct snapshot *s, decisions *out);
};
/* The most important first, then the oldest; smaller ones fill gaps until somebody has waited too
 * long for room (plan.c). */
extern const struct policy policy_priority_backfill;

/* All of them, NULL-terminated; the first is the default. */
extern const struct policy *const policies[];
const struct policy *policy_find(const char *name); /* NULL when unknown */
