/* banned.h - functions whose use is a mistake here; forced into every file by the build */
#pragma once
#ifndef ALLOW_BANNED
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atof gmtime localtime system    \
    alloca gets
#endif
