/* tgz.c - gzip tars for whoever takes them piece by piece
 *
 * The packer pushes, the reader pulls; between them is a buffer that holds what one step made.
 */
#include "archive/tgz.h"
#include "archive/cas_priv.h"
#include "archive/manifest_priv.h"
#include "archive/pack_priv.h"
#include "base/buf.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

struct tgz {
    struct packer *packer;
    struct buf made;
    size_t given; /* of `made` */
    bool ended;
};

/* A kept tree as a source of entries. */
struct tree_source {
    struct pack_source source;
    struct cas *cas;
    struct manifest m;
    size_t at;
    char *top;
    struct buf path;
};

static int tree_next(struct pack_source *source, struct pack_item *out, struct watch *w,
                     struct err *e)
{
    struct tree_source *s = (struct tree_source *)source;

    (void)w;
    if (s->at == s->m.entries.n)
        return 0;
    const struct manifest_entry *entry = &s->m.entries.p[s->at++];
    buf_reset(&s->path);
    buf_addf(&s->path, "%s%s%s", s->top, *entry->path ? "/" : "", entry->path);
    mode_t type = entry->type == 'd' ? S_IFDIR : entry->type == 'l' ? S_IFLNK : S_IFREG;
    *out = (struct pack_item){.path = s->path.p,
                              .mode = type | entry->mode,
                              .mtime_s = entry->mtime_ns / 1000000000,
                              .size = entry->size,
                              .link = entry->target,
                              .fd = -1};
    if (entry->type == 'f' && entry->size && (out->fd = blob_open(s->cas, entry->hash, e)) < 0)
        return err_wrap(e, "packing %s", entry->path);
    return 1;
}

static void tree_free(struct pack_source *source)
{
    struct tree_source *s = (struct tree_source *)source;

    manifest_done(&s->m);
    buf_done(&s->path);
    free(s->top);
    free(s);
}

static int tgz_on_bytes(void *ctx, const void *p, size_t n, struct err *e)
{
    struct tgz *t = ctx;

    return buf_add(&t->made, p, n) ? 0 : err_set(e, ERR_INTERNAL, "a step made too much");
}

static int tgz_new(struct pack_source *source_take, const struct archive_watch *w, struct tgz **out,
                   struct err *e)
{
    struct tgz *t = xcalloc(1, sizeof(*t));

    buf_init(&t->made, 64 << 20);
    return HAND_OUT(packer_new(source_take, w, tgz_on_bytes, t, &t->packer, e), out, t, tgz_close);
}

int tgz_open_dir(const char *dir, const char *top, const struct archive_watch *w, struct tgz **out,
                 struct err *e)
{
    struct bundle_part part = {.name = "", .tree = dir};
    struct bundle b = {.top = top, .parts = &part, .count = 1};
    struct stat st;

    if (stat(dir, &st) < 0 || (!S_ISDIR(st.st_mode) && (errno = ENOTDIR)))
        return err_sys(e, "cannot read directory %s", dir);
    struct pack_source *source = pack_parts_new(&b, e);
    return source ? tgz_new(source, w, out, e) : -1;
}

int tgz_open_tree(struct cas *c, const char *name, const char *top, const struct archive_watch *w,
                  struct tgz **out, struct err *e)
{
    struct tree_source *s = xcalloc(1, sizeof(*s));

    s->source = (struct pack_source){tree_next, tree_free};
    s->cas = c;
    s->top = xstrdup(top);
    buf_init(&s->path, 1 << 20);
    if (cas_read_manifest(c, name, &s->m, e) < 0) {
        tree_free(&s->source);
        return -1;
    }
    return tgz_new(&s->source, w, out, e);
}

/* Packs until `cap` bytes are ready; bytes beyond that stay in the buffer for the next call. */
int tgz_fill(struct tgz *t, void *p, size_t cap, size_t *out_n, struct err *e)
{
    buf_consume(&t->made, t->given);
    t->given = 0;
    while (!t->ended && t->made.n < cap) {
        int rc = packer_step(t->packer, e);
        if (rc < 0)
            return -1;
        t->ended = rc == 0;
    }
    size_t n = MIN(cap, t->made.n);
    if (n)
        memcpy(p, t->made.p, n);
    *out_n = t->given = n;
    return 0;
}

void tgz_close(struct tgz *t)
{
    if (!t)
        return;
    packer_free(t->packer);
    buf_done(&t->made);
    free(t);
}
