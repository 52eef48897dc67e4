/* yaml.h - YAML 1.2 files read into the json tree, with positions in messages */
#pragma once
#include "base/json.h"

/* One document, core schema, merge keys and anchors resolved (expansion bounded), duplicate keys
 * refused. Messages: "sweep.yaml:3:7: mapping value not allowed here".  JSON text is YAML too. */
int yaml_parse(struct str text, const char *name, struct json **out, struct err *e);
