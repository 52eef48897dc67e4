/* node_conf.h - what a user says about a node: which class it is for, and whether it is right
 *
 * The settings of a node are a JSON object.  Some keys are the same for every class (url, name,
 * slots, cpus, mem, gpus, reserved, recorded); the others are those of the class that the scheme of
 * the url names (backend_class.keys).
 */
#pragma once
#include "backend/backend.h"

/* The class that the scheme of the url names; NULL: no class that can be added by a url does. */
const struct backend_class *node_conf_class(struct str url);
/* Checks the settings as given and returns them as backends and the store get them: the url with
 * its scheme ("gpu7" becomes "ssh://gpu7"), `name` (by default the host of the url), CPUs as `mcpu`
 * and memory as `mem_bytes`.  *out is the caller's. */
int node_conf_read(const struct json *said, struct json **out, struct err *e);
