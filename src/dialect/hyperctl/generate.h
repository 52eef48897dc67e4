/* generate.h - a batch file out of a template: every combination of its parameters */
#pragma once
#include "base/json.h"

/* Bytes of a template; jobs that a template may make. */
enum { HYPER_TEMPLATE_MAX = 8 << 20, HYPER_GENERATE_MAX = 1000000 };
/* The batch of a template; `version` is written unless the template has one.  Yours. */
int hyper_generate(const struct json *template_, const char *version, struct json **out,
                   struct err *e);
/* The text of a template file; plain data only: tags of other languages are refused. */
int hyper_template_parse(struct str text, const char *name, struct json **out, struct err *e);
/* Reads, checks and writes; refuses to replace a file. */
int hyper_generate_file(const char *template_path, const char *output, const char *version,
                        struct err *e);
