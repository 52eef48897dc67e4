/* prop.h - property tests: random cases, and the smallest one that fails
 *
 *   static bool reverse_twice(struct prop *p, void *ctx)
 *   {
 *       size_t n = prop_size(p, 20);
 *       …
 *       return prop_check(p, same, "list of %zu changed", n);
 *   }
 *   ok &= prop_run("reverse twice", 1000, reverse_twice, NULL);
 *
 * A case is made from a sequence of choices (numbers).  When a case fails, the sequence is made
 * shorter and its numbers smaller as long as the property still fails, so generators shrink
 * without knowing about it: a smaller choice should mean a simpler value, and 0 the simplest.
 *
 * Every run has the same cases, those of PROP_SEED=1; PROP_SEED=0 makes others.  The seed is
 * printed with each failure, and PROP_SEED=n replays it.  PROP_CASES=n runs another number of cases
 * than the test asks for.
 */
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prop;
/* true = the property holds for this case.  Everything random must come from p. */
typedef bool prop_fn(struct prop *p, void *ctx);

/* Runs `cases` cases, prints one TAP line ("ok 1 - name"), and on failure the smallest case. */
bool prop_run(const char *name, unsigned cases, prop_fn *fn, void *ctx);
/* Prints the TAP plan; call it last and return its value from main. */
int prop_end(void);

uint64_t prop_choice(struct prop *p, uint64_t max); /* 0 … max, the raw choice */
bool prop_bool(struct prop *p);
int64_t prop_int(struct prop *p, int64_t lo,
                 int64_t hi);                 /* shrinks towards 0, else to the nearer end */
size_t prop_size(struct prop *p, size_t max); /* small ones are likelier */
uint64_t prop_u64(struct prop *p);            /* all magnitudes alike, edges often */
double prop_unit(struct prop *p);             /* 0 ≤ x < 1 */
double prop_double(struct prop *p);           /* finite, all magnitudes */
/* Text with what breaks parsers in it: quotes, escapes, controls, multi-byte characters.  Valid
 * UTF-8 without NUL. */
struct str prop_text(struct prop *p, size_t max);
struct str prop_bytes(struct prop *p, size_t max); /* anything, NUL too */
#define PROP_PICK(p, array) ((array)[prop_choice(p, sizeof(array) / sizeof((array)[0]) - 1)])

/* Memory of this case. */
struct arena *prop_arena(struct prop *p);
/* Tells why a case failed (kept for the smallest one); returns `ok`. */
bool prop_check(struct prop *p, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A line about the case, printed when it is the smallest failing one. */
void prop_note(struct prop *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
