/* gpu_env.h - the variables by which a job sees its GPUs and no others */
#pragma once
#include "model/node.h"

/* One call for each variable, with a value that is borrowed until it returns.  Devices are named by
 * their UUIDs, or by their drivers' numbers where one has none to be named by. */
void gpu_env(const struct node *n, const struct gpu_set *devices,
             void (*set)(void *arg, const char *key, const char *value), void *arg);
