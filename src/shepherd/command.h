/* command.h - starting the command of a run */
#pragma once
#include "shepherd/cgroup.h"
#include "shepherd/journal.h"
#include "shepherd/mounts.h"
#include "shepherd/proto.h"
#include <sys/types.h>

/* One attempt to start a command.  The supervisor owns it and fills in the first members. */
struct command {
    const struct run_start *start;
    const struct cgroup *cgroup;
    const char *mark; /* of the run (mark.h) */
    struct mounts mounts;
    int out_fd, err_fd; /* err_fd equals out_fd for one interleaved log */
    /* STARTED, completed by the child with its pid and the time, and appended to journal_fd. */
    struct journal_record started;
    int journal_fd;
    /* START_OK, or the step that failed and its errno.  The child writes both between vfork and
     * exec, in memory that it shares with us; hence volatile. */
    volatile enum start_stage failed;
    volatile int sys;
};
/* Opens the log files, makes the run directory and prepares the mounts.  False: `failed` and `sys`
 * say why. */
bool command_prepare(struct command *c);
/* Starts it: own session and process group.  The STARTED record is appended by the new process just
 * before exec, so there is no moment at which a command runs without a trace.  -1: fork failed;
 * otherwise the pid, of a process that has executed the command unless `failed` is set. */
pid_t command_start(struct command *c);
void command_close(struct command *c); /* our copies of the log descriptors, the plan of mounts */
/* What the failure is about: a path, or the command's name. */
const char *command_failure_name(const struct command *c);
