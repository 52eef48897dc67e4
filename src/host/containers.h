/* containers.h - removes containers that outlived their runs */
#pragma once
#include "model/job.h"

struct loop;
/* All functions run on the loop thread; only the search itself runs on a worker thread. */
struct containers;
/* engine as in core_container_conf; home_id is what containers of this home are labelled with. */
struct containers *containers_new(struct loop *l, const char *engine, const char *home,
                                  const char *home_id);
/* Removes containers of earlier daemons of this home; on a worker thread. */
void containers_sweep(struct containers *c);
/* This run got SIGKILL: its container, if it has one, may still exist. */
void containers_killed(struct containers *c, struct run_key key);
/* A search is under way on a worker thread.  False for NULL. */
bool containers_busy(const struct containers *c);
void containers_free(struct containers *c); /* not while busy */
