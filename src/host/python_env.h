/* python_env.h - the Python modules of this program, and environments that know them */
#pragma once
#include "base/buf.h"
#include "base/err.h"

/* The directory of the modules; yours.  ERR_NOT_FOUND: they are nowhere near the program. */
char *python_modules_dir(struct err *e);
/* Writes berth.pth into every site-packages of the environment `where` (NULL: the active one), or
 * into `where` itself if it is such a directory; a line about each goes to `report`. */
int python_env_install(const char *where, struct buf *report, struct err *e);
