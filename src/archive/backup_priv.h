/* backup_priv.h - the manifest of a backup, and one file on its way into or out of it */
#pragma once
#include "archive/backup.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include <sys/stat.h>

/* ---- backup_list.c: the manifest ---- */
enum backup_how { BACKUP_LINK, BACKUP_CLONE, BACKUP_COPY };
struct backup_entry {
    uint64_t inode; /* of the file in the home, when it was taken */
    int64_t size, mtime_ns;
    enum backup_how how;
    bool seen; /* for the reader's use */
};
/* Entries by path.  Paths are relative, without dots. */
struct backup_list {
    struct map_str by_path;
    struct json *beside; /* name of a place → path of the home below its root; NULL = none */
};
/* Reads the manifest of a copy.  A line that cannot be read is an error that names it. */
int backup_list_read(struct backup_list *l, const char *copy, struct err *e);
/* The same from memory; `name` stands in messages. */
int backup_list_parse(struct backup_list *l, struct str text, const char *name, struct err *e);
struct backup_entry *backup_list_get(const struct backup_list *l, const char *path);
void backup_list_done(struct backup_list *l);
/* The first line, and one line per file.  A path that is no UTF-8 gets none: the file is restored
 * without being compared. */
void backup_line_head(struct buf *b, const char *home, int64_t wall_ms, const struct json *beside);
void backup_line_file(struct buf *b, const char *path, const struct backup_entry *x);

/* ---- backup_file.c ---- */
/* "runs/0/42.1-1f3a.log" is of run 1 of job 42; *rest is what follows in the path, "" for a file
 * beside the run's directory.  False: no path of a run. */
bool backup_run_of(const char *path, uint64_t *job, uint32_t *run, const char **rest);
/* A new file to/path with the bytes, mode, owner and time of dir/name, of which `size` bytes are
 * taken.  *how says whether blocks are shared.  ERR_NOT_FOUND: it vanished or is no file now. */
int backup_copy_in(int dir, const char *name, int to, const char *path, enum backup_how *how,
                   int64_t *out_bytes, struct err *e);
/* The same for symbolic links. */
int backup_copy_link(int dir, const char *name, int to, const char *path, struct err *e);
/* A directory with the mode and owner of `st`, always open to its owner; one that exists is fine.
 */
int backup_make_dir(int to, const char *path, const struct stat *st, struct err *e);
