/* yaml.h - YAML 1.2 files read into the json tree, with positions in messages */
#pragma once
#include "base/json.h"

/* One document, core schema, merge keys and anchors resolved (expansion bounded), duplicate keys
 * refused; 8 MiB at most.  JSON text is YAML too.
 * Messages: "sweep.yaml:3:7: mapping values are not allowed in this context". */
int yaml_parse(struct str text, const char *name, struct json **out, struct err *e);
/* The same with the scalars of YAML 1.1, which older programs read: yes, no, on and off are
 * booleans, 017 is 15, 1_000 a number, 1:30 is 90, and 1e3 without a dot is text. */
int yaml_parse_11(struct str text, const char *name, struct json **out, struct err *e);
