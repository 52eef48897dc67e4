/* run_lock.h - one byte of shepherd/runs.lock per run: whoever holds it supervises that run
 *
 * These are classic record locks (F_SETLK), on purpose: they belong to the process, are not
 * inherited by fork, vanish with the process whatever killed it, and F_GETLK names the holder's
 * pid, which is how a new shepherd finds the supervisors of a dead one.  Their known trap, that
 * closing any descriptor of the file drops them, is avoided by opening the file once per process.
 */
#pragma once
#include <stdint.h>
#include <sys/types.h>

int run_lock_take(int fd, uint64_t id); /* 0; -1 with errno, EAGAIN when somebody else has it */
/* Releases a lock of this process; harmless when this process does not hold it. */
void run_lock_drop(int fd, uint64_t id);
/* pid of the holder, 0 when free, -1 when held by someone who cannot be named. */
pid_t run_lock_holder(int fd, uint64_t id);
/* Whole-file variants for the locks of which there is one: is byte 0 held by another process? */
int lock_file_held(int fd); /* 1 yes, 0 no, -1 errno */
