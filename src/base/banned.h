/* banned.h - functions whose use is a mistake here; forced into every file by the build
 *
 * The headers that declare the names come first: a poisoned name may not be declared any more.
 */
#pragma once
#ifndef ALLOW_BANNED
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#undef alloca /* macros in glibc, some only with FORTIFY */
#undef sprintf
#undef vsprintf
#undef strcpy
#undef strcat
#undef gets
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atof gmtime localtime system gets
/* Not poisoned: a library header names it inside a macro of its own. */
#define alloca(n) _Pragma("GCC error \"alloca is banned\"")
#endif
