/* cas_blob.c - names of contents, and bytes on their way into the store */
#include "archive/cas_priv.h"
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>

enum { COPY = 256 << 10 };

int fd_clone(int from, int to)
{
    return ioctl(to, FICLONE, from);
}

int copy_hashed(int from, int to, struct watch *w, char hash[CAS_HEX], int64_t *out_size,
                struct err *e)
{
    AUTO_FREE char *chunk = xmalloc(COPY);
    struct blake2b b;
    int64_t at = 0;

    blake2b_init(&b);
    for (ssize_t n; (n = pread(from, chunk, COPY, at)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "cannot read");
        blake2b_add(&b, chunk, (size_t)n);
        if (to >= 0 && fd_write_all(to, chunk, (size_t)n, e) < 0)
            return -1;
        at += n;
        if (w && watch_add(w, 0, 0, e) < 0)
            return -1;
    }
    hash_hex(&b, hash);
    *out_size = at;
    return 0;
}

void blob_name(const struct cas *c, const char *hash, mode_t mode, char out[BLOB_NAME])
{
    snprintf(out, BLOB_NAME, "%s-%03o", hash, blob_mode(c, mode));
}

mode_t blob_mode(const struct cas *c, mode_t mode)
{
    return c->clones ? 0400 : (mode & 0555) | 0400;
}

/* Blobs are spread over 256 directories by the first two digits of their hash. */
void blob_path(const char *name, char out[BLOB_NAME + 1])
{
    snprintf(out, BLOB_NAME + 1, "%.2s/%s", name, name + 2);
}

mode_t blob_mode_at(unsigned i)
{
    static const mode_t bits[5] = {0044, 0111, 0040, 0100, 0001}; // 0444 and 0555 come early
    mode_t mode = 0400;

    for (unsigned k = 0; k < 5; k++)
        mode ^= i >> k & 1 ? bits[k] : 0;
    return mode;
}

bool cas_is_hash(const char *text)
{
    return strlen(text) == CAS_HEX - 1 && strspn(text, "0123456789abcdef") == CAS_HEX - 1;
}

bool cas_has_content(struct cas *c, const char *hash)
{
    AUTO_FD fd = cas_is_hash(hash) ? blob_open(c, hash, NULL) : -1;

    return fd >= 0;
}

/* A content may be stored with any of 32 permissions; the common ones are tried first. */
int blob_open(struct cas *c, const char *hash, struct err *e)
{
    char name[BLOB_NAME], path[BLOB_NAME + 1];

    for (unsigned i = 0; i < BLOB_MODES; i++) {
        snprintf(name, sizeof(name), "%s-%03o", hash, blob_mode_at(i));
        blob_path(name, path);
        int fd = openat(c->blobs, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            return fd;
        if (errno != ENOENT)
            return err_sys(e, "cannot open %s/blobs/%s", c->dir, path);
    }
    return err_set(e, ERR_INTERNAL, "the store %s has lost the content %.12s", c->dir, hash);
}
