/* yaml_priv.h - scalars, as yaml.c needs them; each result is NULL or says what is wrong */
#pragma once
#include "base/yaml.h"

/* Unquoted text by the core schema: null, true, a number or a string. */
const char *yaml_plain(struct str s, struct json **out);
/* The same by the types of YAML 1.1. */
const char *yaml_plain_11(struct str s, struct json **out);
/* "!!int" and friends: the value must turn out to be of that type. */
const char *yaml_tagged(struct str tag, struct str s, struct json **out);
/* Copies text to *out with the escapes of surrogate pairs masked, which libyaml would refuse.
 * False, and nothing is copied, when the text has none (or has private-use characters that could
 * not be told from masked pairs: libyaml then refuses the pairs). */
bool yaml_pairs_mask(struct str text, struct buf *out);
/* Appends a scalar of a masked text with its pairs as the characters they mean. */
const char *yaml_pairs_restore(struct str s, struct buf *out);
