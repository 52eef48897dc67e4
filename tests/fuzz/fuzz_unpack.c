/* fuzz_unpack.c - tars from anybody: unpacked inside, or refused with a sentence and no traces
 *
 * The input is a tar (packed here, so that the fuzzer need not learn gzip) or, when the first byte
 * says so, a gzip file as it is.  Around the place it is unpacked to stand files that must stay.
 * Into a store, members may name a content that is there.
 */
#include "archive/cas.h"
#include "archive/gzip_priv.h"
#include "archive/unpack.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/util.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { AS_GZIP = 1, WITH_TOP = 2, OUTSIDE_LINKS = 4, INTO_STORE = 8 };
static char root[] = "/dev/shm/fuzz-unpack-XXXXXX";

static int to_buf(void *ctx, const void *p, size_t n, struct err *e)
{
    (void)e;
    buf_add(ctx, p, n);
    return 0;
}

static char victim_path[64], dest[64];
static struct cas *store;

static void remove_root(void)
{
    cas_close(store);
    dir_remove_tree(root, NULL);
}

static void once(void)
{
    static bool done;

    if (done)
        return;
    done = true;
    if (access("/dev/shm", W_OK) < 0)
        memcpy(root, "/tmp/fuzz-unp", 13);
    ASSERT(mkdtemp(root)); // and no chdir: the corpus may have been named by a relative path
    snprintf(victim_path, sizeof(victim_path), "%s/victim", root);
    snprintf(dest, sizeof(dest), "%s/dest", root);
    ASSERT(file_write_atomic(victim_path, "old", 3, 0644, NULL) == 0);
    AUTO_FREE char *contents = path_join(root, "store");
    ASSERT(cas_open(contents, &store, NULL) == 0);
    ASSERT(mkdir(dest, 0755) == 0); // its one content: "old"
    AUTO_FREE char *copy = path_join(dest, "victim");
    ASSERT(file_write_atomic(copy, "old", 3, 0644, NULL) == 0);
    ASSERT(cas_keep_tree(store, "there", dest, NULL, 0, NULL, NULL, NULL) == 0);
    ASSERT(dir_remove_tree(dest, NULL) == 0);
    atexit(remove_root);
}

static int names_here(void)
{
    DIR *d = opendir(root);
    int n = -2;

    ASSERT(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static int unpack_all(const struct buf *packed, uint8_t how, struct err *e)
{
    struct unpack_conf conf = {.top = how & WITH_TOP ? "job" : NULL,
                               .outside_links = how & OUTSIDE_LINKS,
                               .limits = {.total_bytes = 1 << 20, .members = 50, .depth = 10}};
    struct unpack *u;

    if (how & INTO_STORE) {
        conf.contents = true;
        ASSERT(unpack_open_store(store, "fuzz", &conf, &u, e) == 0);
    } else {
        ASSERT(unpack_open_dir(dest, &conf, &u, e) == 0);
    }
    int rc = unpack_feed(u, packed->p, packed->n, e);
    if (rc == 0)
        rc = unpack_finish(u, e);
    unpack_free(u);
    return rc;
}

/* Whatever was taken in can be had.  Checking out waits for a tick of the clock, so rarely. */
static void take_out(struct err *e)
{
    static unsigned kept;
    struct cas_tally size;

    ASSERT(cas_tree_size(store, "fuzz", &size, e) == 0);
    if (++kept % 64 == 0) {
        ASSERT(cas_check_out(store, "fuzz", dest, NULL, e) == 0);
        ASSERT(dir_remove_tree(dest, e) == 0);
    }
    ASSERT(cas_drop_tree(store, "fuzz", e) == 0);
    if (kept % 256 == 0)
        ASSERT(cas_collect(store, NULL, e) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    AUTO(buf) struct buf packed = {0};
    AUTO_FREE char *victim = NULL;
    uint8_t how = n ? data[0] : 0;
    struct err e = {0};
    struct stat st;

    once();
    if (!n)
        return 0;
    if (how & AS_GZIP) {
        buf_add(&packed, data + 1, n - 1);
    } else {
        struct gzip *g = gzip_new(to_buf, &packed);
        gzip_add(g, data + 1, n - 1, &e);
        gzip_end(g, &e);
        gzip_free(g);
    }
    if (unpack_all(&packed, how, &e) == 0) {
        if (how & INTO_STORE)
            take_out(&e);
        else
            ASSERT(lstat(dest, &st) == 0 && S_ISDIR(st.st_mode) && dir_remove_tree(dest, &e) == 0);
    } else {
        ASSERT(e.code && e.text[0]);
    }
    ASSERT(!cas_has_tree(store, "fuzz") && names_here() == 2);
    ASSERT(file_read_all(victim_path, 10, &victim, NULL, &e) == 0 && strcmp(victim, "old") == 0);
    return 0;
}
