/* backup.h - complete copies of a home in one directory, and the way back
 *
 * A backup directory holds one directory per copy, named by its time (2026-11-17T22-58-00Z).  Each
 * copy is an ordinary tree: berth.db, runs/, snapshots/, the secrets, the journals, what belongs to
 * the home and lies beside it (beside/), and manifest.jsonl, which says of every file what it was
 * when it was taken.  Any copy may be removed with rm -r; the others do not need it.
 *
 * How a file is taken follows from who may still change it:
 *   previous   unchanged since the copy before (inode, size, time): a hard link to that copy
 *   link       nobody writes to it any more: a hard link to the file of the home.  These are
 *              contents of snapshots, and of runs that have ended the logs and artifacts
 *   clone      blocks are shared until one of the two is written (btrfs, xfs)
 *   copy       everything else, and whatever is on another file system
 * A link shares the file with the home, so a person who writes into the log or an artifact of an
 * ended run changes the backup too; the manifest shows it.  `copy` avoids links to the home.
 */
#pragma once
#include "archive/watch.h"
#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

#define BACKUP_MANIFEST "manifest.jsonl"
#define BACKUP_DATABASE "berth.db"
/* Where a restore puts what it replaces, followed by a time. */
#define RESTORE_ASIDE "before-restore-"

/* Directories that belong to a home and lie beside it, below a directory that holds both.  A copy
 * has them under beside/NAME/; a restore puts them where they were in relation to the home. */
#define BACKUP_BESIDE "beside"
enum { BACKUP_PLACES_MAX = 8 };
struct backup_dir {
    const char *path;     /* below root */
    const char *left_out; /* in the syntax of .gitignore; NULL = nothing */
};
struct backup_place {
    const char *name;
    char *root;                        /* absolute, owned; the home is inside of it */
    const struct backup_dir *dirs;     /* ends with an empty one; one that is missing is fine */
    bool (*settled)(const char *path); /* below root: does nobody write to this file any more? */
};
struct backup_places {
    struct backup_place p[BACKUP_PLACES_MAX];
    size_t n;
};
void backup_places_done(struct backup_places *b);

struct backup_conf {
    const char *home, *dir;             /* absolute */
    const struct backup_places *beside; /* NULL = there are none */
    bool copy;                          /* make no hard links to files of the home */
    /* Makes a consistent copy of the database at `path`, which does not exist yet. */
    int (*database)(void *arg, const char *path, struct err *e);
    /* Had this run an outcome when the database was copied, and does nobody write its log? */
    bool (*ended)(void *arg, uint64_t job, uint32_t run);
    void *arg;
    const struct archive_watch *watch; /* NULL = nobody */
};
struct backup_tally {
    int64_t files, bytes;                     /* of the copy, without its database */
    int64_t previous, linked, cloned, copied; /* files, by the way they were taken */
    int64_t copied_bytes, left_out, database_bytes;
};
/* Complete or not there.  *out_path (yours) is the new directory in conf->dir.  ERR_CONFLICT while
 * another backup into the same directory is under way. */
int backup_take(const struct backup_conf *conf, struct backup_tally *out, char **out_path,
                struct err *e);
/* The copy that `path` names: itself, or the newest in it; yours.  ERR_NOT_FOUND without any. */
int backup_find(const char *path, char **out, struct err *e);

/* ---- restore ---- */
/* What to do with the files of a run. */
enum restore_run {
    RESTORE_RUN,         /* as the backup has them */
    RESTORE_RUN_KEEP,    /* it has gone on since, so those in the home are the newer ones */
    RESTORE_RUN_UNKNOWN, /* the restored database has no such job: set aside what the home has */
};
struct restore_conf {
    const char *backup, *home;
    const char *aside; /* what is replaced is renamed to here; made when needed */
    bool dry_run;      /* look and count, change nothing */
    enum restore_run (*run)(void *arg, uint64_t job, uint32_t run);
    void *arg;
    const struct archive_watch *watch;
};
struct restore_tally {
    int64_t restored, restored_bytes; /* files put back */
    int64_t unchanged;                /* files that the home has as they were */
    int64_t kept;                     /* files of runs that have gone on since; newer ones beside */
    int64_t set_aside;                /* files and directories renamed */
    int64_t missing;                  /* in the manifest, and not in the backup any more */
    int64_t altered;                  /* not as the manifest says: written to after the backup */
    bool secret_changed;              /* the home had another secret: tokens of jobs are void */
};
/* Everything but the database and the journals of a home that has some. */
int restore_files(const struct restore_conf *conf, struct restore_tally *out, struct err *e);
/* Renames `name` in the directory `dir` to ASIDE/path, whose directories are made; nothing there is
 * fine. */
int restore_set_aside(int dir, const char *name, const char *aside, const char *path,
                      int64_t *count, struct err *e);
/* Copies the one file, for the database. */
int backup_copy_file(const char *from, const char *to, struct err *e);
