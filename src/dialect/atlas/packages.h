/* packages.h - requirements.txt of the working directory becomes a virtual environment */
#pragma once

/* The interpreter that has the packages of `python` and those of requirements.txt; yours.  `id` is
 * the job.  Prints what it does.  If pip fails this is `python`, and a line says so.  The
 * environment stays in use by this process and by the program it becomes. */
char *packages_install(const char *home, const char *id, const char *python);
