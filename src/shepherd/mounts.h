/* mounts.h - directories of the host that a run sees under other names
 *
 * Each is "host:target" or "host:target:ro".  They are bind mounts in a mount namespace of the
 * command's own: nobody else sees them, and nothing of them is left when the last process of the
 * run is gone.
 */
#pragma once
#include "shepherd/run_start.h"

struct mount_entry { /* one name of the root directory */
    char *from, *to; /* "/usr", "<staging>/usr" */
    char *link;      /* what a symbolic link says; NULL = none */
    bool is_dir;
};
struct mount_target {
    const char *text; /* as asked for */
    char *host, *to;  /* both absolute; `to` as the command sees it */
    char **make;      /* directories to be made first, in our own root; NULL-terminated */
    bool read_only;
};
struct mounts {
    struct mount_entry *entries; /* of a root of our own; none when every target exists */
    struct mount_target *targets;
    size_t n_entries, n_targets;
    char *staging;                 /* an existing directory on which that root is put together */
    char uid_map[32], gid_map[32]; /* "1000 1000 1\n": who the user of a user namespace is */
    const char *failed;            /* the mount that could not be made */
};
/* Looks at the host and prepares every text that is needed.  `staging` may be "" when there are no
 * mounts.  0, or -1 with errno. */
int mounts_plan(struct mounts *m, char *const *list, uint32_t n, const char *staging);
/* Frees the plan in our memory; mounts of a running command are not affected. */
void mounts_done(struct mounts *m);
/* Puts the calling process into a mount namespace of its own.  Only system calls: used between
 * vfork and exec.  With `as`, both directories are looked up with the rights of that user, and no
 * program started afterwards gains rights: one that trusts /etc must not find another /etc.  0, or
 * -1 with errno and m->failed. */
int mounts_enter(struct mounts *m, const struct run_start *as);
