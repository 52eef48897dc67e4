/* containers.h - sees to it that no container outlives its run */
#pragma once
#include "model/job.h"

struct loop;
struct containers;
/* engine as in core_container_conf; home_id is what containers of this home are labelled with. */
struct containers *containers_new(struct loop *l, const char *engine, const char *home,
                                  const char *home_id);
/* What was left behind before we started goes now; on a worker thread. */
void containers_sweep(struct containers *c);
/* This run was killed: if it stood for a container, that is still there. */
void containers_killed(struct containers *c, struct run_key key);
bool containers_busy(const struct containers *c);
void containers_free(struct containers *c); /* not while busy */
