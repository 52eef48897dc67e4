/* user_rights.h - the file rights of another user, for one thread
 *
 * A daemon of root touches files for users.  Between user_rights_enter and user_rights_leave the
 * kernel checks every file that the calling thread opens, makes or asks about as it would check
 * that user: with the uid, the gid and the groups of the user, and without root's right to pass
 * every check.  Files that are made belong to the user.  Other threads keep their rights; a thread
 * that is started meanwhile inherits those of the user.
 */
#pragma once
#include "base/err.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define USER_NO_GROUP ((uint32_t)-1) /* as gid: no group's rights, for files that the user owns */
struct user_rights {
    uint32_t uid, gid;
    const uint32_t *groups; /* supplementary groups; may be NULL when n_groups is 0 */
    size_t n_groups;
};

/* Does nothing for the user whom this process runs as.  Otherwise all of it holds when 0 is
 * returned, which was read back from the kernel; on failure the thread has its own rights. */
int user_rights_enter(const struct user_rights *u, struct err *e);
/* The same for the user to whom the directory `dir` belongs; does nothing in a process that is not
 * root's.  For the directory of a run, which the daemon made and gave to the run's user. */
int user_rights_enter_owner(int dir, struct err *e);
/* Gives the thread the rights of the process.  A failure aborts: no other work may follow with the
 * wrong rights.  Does nothing without user_rights_enter. */
void user_rights_leave(void);

/* Opens a path that a user named, for reading, with the rights that this thread has.  Refuses the
 * links of /proc to open files and every file of /proc: there the kernel judges the process, which
 * is the daemon, not the user.  Never waits for the other end of a pipe. */
int user_open(const char *path, int flags, struct err *e);
/* The same for a path below `dir`, through no link and not out of `dir`; "" is `dir` itself.  A
 * tree that is changed meanwhile leads nowhere else. */
int user_open_beneath(int dir, const char *path, int flags, struct err *e);
/* The same for writing: O_CREAT is added, and missing directories are made with mode 0700. */
int user_make_beneath(int dir, const char *path, int flags, mode_t mode, struct err *e);

/* The supplementary groups of a user, gid included; the caller frees *out.  Asks the name service
 * and may wait for it: not for the loop thread.  A user without an entry has the group gid alone.
 */
size_t user_groups(uint32_t uid, uint32_t gid, uint32_t **out);
