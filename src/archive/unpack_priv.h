/* unpack_priv.h - between the stream, the tar reader and the place where things are put */
#pragma once
#include "archive/unpack.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/util.h"
#include "base/vec.h"
#include <sys/types.h>

/* Where a tree goes.  Paths were checked: relative, plain, parents made before, each once. */
struct unpack_target {
    int (*dir)(struct unpack_target *t, const char *path, struct err *e);
    int (*file_open)(struct unpack_target *t, const char *path, mode_t mode, int64_t mtime_ns,
                     struct err *e);
    /* In order of offset; what is left out between is zeros. */
    int (*file_write)(struct unpack_target *t, const void *p, size_t n, int64_t offset,
                      struct err *e);
    int (*file_close)(struct unpack_target *t, int64_t size, struct err *e);
    /* A file whose content is there already, by its hash; NULL where there are none. */
    int (*file_there)(struct unpack_target *t, const char *path, mode_t mode, int64_t mtime_ns,
                      const char *hash, int64_t *out_size, struct err *e);
    int (*hard_link)(struct unpack_target *t, const char *path, const char *to, struct err *e);
    int (*symlink)(struct unpack_target *t, const char *path, const char *to, int64_t mtime_ns,
                   struct err *e);
    /* Mode and time of a directory, after all its entries were made. */
    int (*dir_done)(struct unpack_target *t, const char *path, mode_t mode, int64_t mtime_ns,
                    struct err *e);
    int (*commit)(struct unpack_target *t, struct err *e);
    void (*free)(struct unpack_target *t); /* and removes what was not committed */
};
struct unpack_target *unpack_dir_new(const char *dest, struct err *e);
/* pwrite until all bytes are written: for both kinds of target. */
int unpack_write_at(int fd, const void *p, size_t n, int64_t offset, struct err *e);
struct unpack_target *unpack_store_new(struct cas *c, const char *name, struct err *e);
int unpack_start(struct unpack_target *target_take, const struct unpack_conf *conf,
                 struct unpack **out, struct err *e);

/* What is in the tree so far. */
struct member {
    char type; /* 'd', 'f', 'l' */
    bool told; /* a directory that has an entry of its own, not only things in it */
    mode_t mode;
    int64_t mtime_ns;
    char *path;
    char *link; /* target of a symbolic link */
};
struct members {
    struct unpack_limits limits; /* no zeros */
    bool outside_links, contents;
    const char *top;
    VEC(struct member *) list; /* in order of appearance */
    struct map_str by_path;
    int64_t entries, bytes;
};
void members_init(struct members *m, const struct unpack_conf *conf);
void members_done(struct members *m);
/* "./top/a//b/" → "a/b"; "" for the top itself.  Refuses what leads elsewhere. */
int members_path(struct members *m, const char *name, char **out, struct err *e);
/* Enters one; the directories above it too, made in `t` when they are new.  NULL = refused.  For a
 * directory that is there already the old one is returned. */
struct member *members_add(struct members *m, struct unpack_target *t, const char *path, char type,
                           struct err *e);
/* May a symbolic link at `path` lead to `to`? */
int members_check_link(const struct members *m, const char *path, const char *to, struct err *e);
int members_count_bytes(struct members *m, const char *path, int64_t size, struct err *e);

/* Reads the whole tar; `read` gives its bytes: the number, 0 at the end, -1 to stop at once. */
typedef ssize_t tar_read_fn(void *ctx, const void **out);
int unpack_tar(tar_read_fn *read, void *ctx, struct members *m, struct unpack_target *t,
               struct err *e);
