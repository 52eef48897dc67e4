/* cas_put.c - writes one file from bytes; files with equal content share it through the store */
#include "archive/cas_priv.h"
#include "base/file.h"
#include <fcntl.h>
#include <stdio.h>

enum { MODE = 0644 };

/* Puts the bytes into the batch, unless the store has them. */
static int put_content(struct batch *b, struct str bytes, char hash[CAS_HEX], struct err *e)
{
    struct blake2b h;
    unsigned number;

    blake2b_init(&h);
    blake2b_add(&h, bytes.p, bytes.n);
    hash_hex(&h, hash);
    if (batch_has(b, hash, MODE))
        return 0;
    AUTO_FD fd = batch_new_file(b, &number, e);
    if (fd < 0 || fd_write_all(fd, bytes.p, bytes.n, e) < 0)
        return -1;
    return batch_put(b, number, fd, hash, MODE, NULL, (int64_t)bytes.n, e);
}

/* A clone, with the permissions of a file of its own. */
static int clone_to(struct batch *b, const char *hash, const char *name, struct err *e)
{
    AUTO_FD from = batch_open_any(b, hash, e);
    AUTO_FD to =
        from < 0 ? -1 : openat(b->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (from < 0)
        return -1;
    if (to < 0 || fd_clone(from, to) < 0 || fchmod(to, MODE) < 0)
        return err_sys(e, "cannot clone a file of the store %s", b->c->dir);
    return 0;
}

static int cas_put_bytes(struct batch *b, struct str bytes, const char *dest, struct err *e)
{
    char hash[CAS_HEX], name[16];

    if (put_content(b, bytes, hash, e) < 0 || batch_publish(b, e) < 0)
        return -1;
    snprintf(name, sizeof(name), "%u", b->next++); // batch_done removes it unless it was moved
    int rc = b->c->clones ? clone_to(b, hash, name, e) : batch_link(b, hash, MODE, b->dir, name, e);
    if (rc < 0)
        return -1;
    unlink(dest); // renaming one name of a file to another of it would do nothing
    return renameat(b->dir, name, AT_FDCWD, dest) < 0 ? err_sys(e, "cannot create %s", dest) : 0;
}

int cas_put_file(struct cas *c, struct str bytes, const char *dest, struct err *e)
{
    struct batch b;

    int rc = batch_open(&b, c, e);
    if (rc == 0)
        rc = cas_put_bytes(&b, bytes, dest, e);
    batch_done(&b);
    return rc;
}
