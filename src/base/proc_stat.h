/* proc_stat.h - one line of /proc/PID/stat */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Parses one /proc/PID/stat.  False when it is none. */
struct proc_stat {
    pid_t pid, ppid, session;
    char state;
    /* In clock ticks since boot.  A PID with another start time is another process. */
    uint64_t start;
};
bool proc_stat_parse(const char *text, struct proc_stat *out);
