/* yaml_priv.h - scalars, as yaml.c needs them; each result is NULL or says what is wrong */
#pragma once
#include "base/yaml.h"

/* Unquoted text by the core schema: null, true, a number or a string. */
const char *yaml_plain(struct str s, struct json **out);
/* The same by the types of YAML 1.1. */
const char *yaml_plain_11(struct str s, struct json **out);
/* "!!int" and friends: the value must turn out to be of that type. */
const char *yaml_tagged(struct str tag, struct str s, struct json **out);
/* Appends what stands between single quotes: '' is a quote, lines are folded. */
void yaml_unquote_single(struct buf *out, struct str raw);
/* The same between double quotes, with escapes. */
const char *yaml_unquote_double(struct buf *out, struct str raw);
