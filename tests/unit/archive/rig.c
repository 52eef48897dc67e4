/* rig.c - what the tests of archives need around them */
#include "rig.h"
#include "archive/cas.h"
#include "archive/gzip_priv.h"
#include "base/file.h"
#include "base/rand.h"
#include "base/util.h"
#include "unit.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

struct cas *rig_cas;
static char root[PATH_MAX];

int rig_open(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)state;
    snprintf(root, sizeof(root), "%s/test-archive-XXXXXX", tmp ? tmp : "/tmp");
    umask(022);
    return mkdtemp(root) && chdir(root) == 0 ? 0 : -1;
}

int rig_close(void **state)
{
    (void)state;
    return chdir("/") == 0 ? dir_remove_tree(root, NULL) : -1;
}

int rig_open_cas(void **state)
{
    struct err e = {0};

    if (rig_open(state) < 0)
        return -1;
    return cas_open("store", &rig_cas, &e);
}

int rig_close_cas(void **state)
{
    cas_close(TAKE(rig_cas));
    return rig_close(state);
}

static void make_parents(const char *path)
{
    const char *slash = strrchr(path, '/');
    AUTO_FREE char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : NULL;

    if (dir)
        assert_int_equal(dir_make_all(dir, 0755, NULL), 0);
}

void rig_file(const char *path, const char *text, mode_t mode)
{
    make_parents(path);
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text), NULL), 0);
    assert_int_equal(fchmod(fd, mode), 0);
}

void rig_fill(const char *path, size_t n, unsigned seed)
{
    struct rng r;

    make_parents(path);
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    rng_seed(&r, seed);
    while (n > 0) {
        uint64_t words[512];
        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
            words[i] = rng_next(&r);
        size_t take = MIN(n, sizeof(words));
        assert_int_equal(fd_write_all(fd, words, take, NULL), 0);
        n -= take;
    }
}

char *rig_text(const char *path)
{
    char *text = NULL;

    return file_read_all(path, 64 << 20, &text, NULL, NULL) < 0 ? NULL : text;
}

bool rig_there(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

int rig_entries(const char *path)
{
    DIR *d = opendir(path);
    int n = -2; // . and ..

    if (!d)
        return -1;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static bool differ(const char *a, const char *why)
{
    fprintf(stderr, "# %s: %s\n", a, why);
    return false;
}

static bool same_content(const char *a, const char *b)
{
    AUTO_FREE char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;

    return file_read_all(a, 1 << 30, &x, &n, NULL) == 0 &&
           file_read_all(b, 1 << 30, &y, &m, NULL) == 0 && n == m && memcmp(x, y, n) == 0;
}

static bool same_link(const char *a, const char *b)
{
    char x[PATH_MAX], y[PATH_MAX];
    ssize_t n = readlink(a, x, sizeof(x)), m = readlink(b, y, sizeof(y));

    return n > 0 && n == m && memcmp(x, y, (size_t)n) == 0;
}

static bool same_entries(const char *a, const char *b, bool exact)
{
    DIR *d = opendir(a);
    struct dirent *entry;
    bool ok = d != NULL;

    while (ok && (entry = readdir(d))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        AUTO_FREE char *x = path_join(a, entry->d_name), *y = path_join(b, entry->d_name);
        ok = rig_same(x, y, exact);
    }
    if (d)
        closedir(d);
    return ok && (rig_entries(a) == rig_entries(b) || differ(a, "more names on one side"));
}

bool rig_same(const char *a, const char *b, bool exact)
{
    struct stat x, y;

    if (lstat(a, &x) < 0 || lstat(b, &y) < 0)
        return differ(a, "missing on one side");
    if ((x.st_mode & S_IFMT) != (y.st_mode & S_IFMT))
        return differ(a, "another type");
    if (exact && x.st_mode != y.st_mode)
        return differ(a, "another mode");
    if (exact && (x.st_mtim.tv_sec != y.st_mtim.tv_sec || x.st_mtim.tv_nsec != y.st_mtim.tv_nsec))
        return differ(a, "another time");
    if (S_ISDIR(x.st_mode))
        return same_entries(a, b, exact);
    if (S_ISLNK(x.st_mode))
        return same_link(a, b) || differ(a, "another target");
    return same_content(a, b) || differ(a, "another content");
}

/* ---- tars ---- */

static void octal(char *to, int digits, unsigned long long v)
{
    for (int i = digits - 1; i >= 0; i--, v >>= 3)
        to[i] = (char)('0' + (v & 7));
}

void tar_add(struct buf *tar, struct tar_member m)
{
    char head[512] = {0};
    size_t n = m.data ? strlen(m.data) : 0;
    unsigned sum = 0;

    memcpy(head, m.name, MIN(strlen(m.name), (size_t)100));
    octal(head + 100, 7, m.mode ? m.mode : 0644);
    octal(head + 108, 7, 0);
    octal(head + 116, 7, 0);
    octal(head + 124, 11, m.size ? (unsigned long long)m.size : n);
    octal(head + 136, 11, 1500000000);
    memset(head + 148, ' ', 8);
    head[156] = m.type;
    if (m.link)
        memcpy(head + 157, m.link, MIN(strlen(m.link), (size_t)100));
    memcpy(head + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof(head); i++)
        sum += (unsigned char)head[i];
    octal(head + 148, 6, sum);
    head[154] = '\0';
    buf_add(tar, head, sizeof(head));
    buf_add(tar, m.data ? m.data : "", n);
    while (tar->n % 512)
        buf_addc(tar, '\0');
}

void tar_end(struct buf *tar)
{
    char zeros[1024] = {0};

    buf_add(tar, zeros, sizeof(zeros));
}

void tar_add_pax(struct buf *tar, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3, n = rest + 1;

    while ((size_t)snprintf(NULL, 0, "%zu", n) + rest != n)
        n++;
    AUTO_FREE char *record = xasprintf("%zu %s=%s\n", n, key, value);
    tar_add(tar, (struct tar_member){.name = "PaxHeader", .type = 'x', .data = record});
}

static int to_buf(void *ctx, const void *p, size_t n, struct err *e)
{
    (void)e;
    buf_add(ctx, p, n);
    return 0;
}

void tar_gzip(const struct buf *tar, struct buf *out)
{
    struct gzip *g = gzip_new(to_buf, out);

    assert_int_equal(gzip_add(g, tar->p ? tar->p : "", tar->n, NULL), 0);
    assert_int_equal(gzip_end(g, NULL), 0);
    gzip_free(g);
}
