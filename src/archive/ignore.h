/* ignore.h - which files stay out of a bundle: .foundationsignore, in the syntax of .gitignore
 *
 * Comments, `!` to take back, a `/` that anchors, a trailing `/` for directories only, `*`, `?`,
 * `**` over directories, `[a-z]`, and `\` before anything that is meant as itself.  The last
 * pattern that matches decides.  Nothing below a directory that is left out can be taken back.
 */
#pragma once
#include "base/err.h"
#include "base/str.h"

struct ignore;
/* Never fails: a pattern that makes no sense matches nothing, as with git. */
struct ignore *ignore_parse(struct str text);
/* Reads the file; *out is NULL when there is none, which is not an error. */
int ignore_load(const char *path, struct ignore **out, struct err *e);
void ignore_free(struct ignore *ig);
/* Is this one entry left out?  `path` is relative to the directory of the ignore file, without a
 * leading or trailing `/`.  Does not look at its parents.  `ig` may be NULL: nothing is left out.
 */
bool ignore_match(const struct ignore *ig, const char *path, bool is_dir);
/* The same for an entry or any directory above it: what `git check-ignore` answers. */
bool ignore_covers(const struct ignore *ig, const char *path, bool is_dir);
