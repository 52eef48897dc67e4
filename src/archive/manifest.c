/* manifest.c - trees as text, and back */
#include "archive/manifest_priv.h"
#include "base/str.h"
#include "base/util.h"
#include <stdio.h>

#define HEAD "berth tree 1\n"
enum { DEPTH_MAX = 256 };

void manifest_push(struct manifest *m, struct manifest_entry entry_take)
{
    vec_push(&m->entries, entry_take);
}

/* The order of a walk: a `/` sorts before everything else. */
static int path_cmp(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    int x = *a == '/' ? 1 : *a ? (unsigned char)*a + 1 : 0;
    int y = *b == '/' ? 1 : *b ? (unsigned char)*b + 1 : 0;
    return x - y;
}

static int entry_cmp(const void *a, const void *b)
{
    const struct manifest_entry *x = a, *y = b;

    return path_cmp(x->path, y->path);
}

void manifest_sort(struct manifest *m)
{
    if (m->entries.n)
        qsort(m->entries.p, m->entries.n, sizeof(m->entries.p[0]), entry_cmp);
}

void manifest_done(struct manifest *m)
{
    for (size_t i = 0; i < m->entries.n; i++) {
        free(m->entries.p[i].path);
        free(m->entries.p[i].target);
    }
    vec_done(&m->entries);
}

int64_t manifest_bytes(const struct manifest *m)
{
    int64_t sum = 0;

    for (size_t i = 0; i < m->entries.n; i++)
        sum += m->entries.p[i].size;
    return sum;
}

/* Escapes blanks, control characters and '%', so that a name is one word of its line. */
static void add_name(struct buf *out, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c <= ' ' || c == '%' || c == 0x7f)
            buf_addf(out, "%%%02x", c);
        else
            buf_addc(out, (char)c);
    }
}

struct writer {
    const struct manifest *m;
    manifest_put_fn *put;
    void *ctx;
    size_t at; /* the next entry */
};

static void manifest_add_line(struct buf *out, const struct manifest_entry *n, const char *name)
{
    if (n->type == 'f') {
        buf_addf(out, "f %03o %lld %lld %s ", n->mode, (long long)n->mtime_ns, (long long)n->size,
                 n->hash);
    } else {
        buf_addf(out, "l %lld ", (long long)n->mtime_ns);
        add_name(out, n->target);
        buf_addc(out, ' ');
    }
    add_name(out, name);
    buf_addc(out, '\n');
}

/* The part of `path` below the directory, or NULL when it is elsewhere. */
static const char *below(const char *dir, const char *path)
{
    size_t n = strlen(dir);

    if (n == 0)
        return *path ? path : NULL;
    return strncmp(path, dir, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

/* The directory at w->at and all in it. */
static int write_dir(struct writer *w, char hash[CAS_HEX], struct err *e)
{
    const struct manifest_entry *dir = &w->m->entries.p[w->at++];
    AUTO(buf) struct buf text = {0};
    const char *name;

    buf_addf(&text, HEAD "d %03o %lld .\n", dir->mode, (long long)dir->mtime_ns);
    while (w->at < w->m->entries.n && (name = below(dir->path, w->m->entries.p[w->at].path))) {
        if (w->m->entries.p[w->at].type != 'd') {
            manifest_add_line(&text, &w->m->entries.p[w->at++], name);
            continue;
        }
        char sub[CAS_HEX];
        if (write_dir(w, sub, e) < 0)
            return -1;
        buf_addf(&text, "t %s ", sub);
        add_name(&text, name);
        buf_addc(&text, '\n');
    }
    return w->put(w->ctx, &text, hash, e);
}

int manifest_write(const struct manifest *m, manifest_put_fn *put, void *ctx, char root[CAS_HEX],
                   struct err *e)
{
    struct writer w = {m, put, ctx, 0};

    ASSERT(m->entries.n && !*m->entries.p[0].path);
    int rc = write_dir(&w, root, e);
    ASSERT(rc < 0 || w.at == m->entries.n);
    return rc;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The reverse of add_name; NULL for a broken escape or a NUL byte. */
static char *manifest_name(struct str s)
{
    struct buf out = {0};

    buf_init(&out, s.n + 1);
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '%') {
            buf_addc(&out, s.p[i]);
            continue;
        }
        int hi = s.n - i > 2 ? hex_digit(s.p[i + 1]) : -1;
        int lo = s.n - i > 2 ? hex_digit(s.p[i + 2]) : -1;
        if (hi < 0 || lo < 0 || hi * 16 + lo == 0) {
            buf_done(&out);
            return NULL;
        }
        buf_addc(&out, (char)(hi * 16 + lo));
        i += 2;
    }
    return buf_take(&out, NULL);
}

static bool manifest_name_ok(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Exactly three octal digits. */
static bool read_mode(struct str *line, mode_t *out)
{
    struct str word = str_cut(*line, ' ', line);
    mode_t mode = 0;

    for (size_t i = 0; i < word.n; i++) {
        if (word.p[i] < '0' || word.p[i] > '7')
            return false;
        mode = mode * 8 + (mode_t)(word.p[i] - '0');
    }
    *out = mode;
    return word.n == 3;
}

/* Exactly 64 hexadecimal digits in lower case. */
static bool read_hash(struct str *line, char out[CAS_HEX])
{
    struct str word = str_cut(*line, ' ', line);

    for (size_t i = 0; i < word.n; i++)
        if (hex_digit(word.p[i]) < 0)
            return false;
    if (word.n != CAS_HEX - 1)
        return false;
    memcpy(out, word.p, CAS_HEX - 1);
    out[CAS_HEX - 1] = '\0';
    return true;
}

/* A line of a file or a link into *out, its name into out->path; what was allocated is in *out
 * either way. */
static bool manifest_read_entry(struct str line, struct manifest_entry *out)
{
    out->mode = 0777;
    if (out->type == 'f' && !read_mode(&line, &out->mode))
        return false;
    if (!str_to_i64(str_cut(line, ' ', &line), &out->mtime_ns))
        return false;
    if (out->type == 'f' && (!str_to_i64(str_cut(line, ' ', &line), &out->size) || out->size < 0 ||
                             !read_hash(&line, out->hash)))
        return false;
    if (out->type == 'l' && !(out->target = manifest_name(str_cut(line, ' ', &line))))
        return false;
    out->path = manifest_name(line);
    return out->path && manifest_name_ok(out->path);
}

struct reader {
    manifest_get_fn *get;
    void *ctx;
    struct manifest m;
    unsigned depth;
};

static int damaged(struct err *e, size_t line)
{
    return err_set(e, ERR_INTERNAL, "line %zu of a manifest cannot be read; the store is damaged",
                   line);
}

static char *manifest_join(const char *dir, const char *name)
{
    return xasprintf("%s%s%s", dir, *dir ? "/" : "", name);
}

static int manifest_read_dir(struct reader *r, struct str text, const char *path, struct err *e);

static int read_below(struct reader *r, const char *hash, const char *path, struct err *e)
{
    AUTO_FREE char *text = NULL;
    size_t n = 0;
    int rc = r->get(r->ctx, hash, &text, &n, e);

    return rc ? MIN(rc, 0) : manifest_read_dir(r, (struct str){text, n}, path, e);
}

/* The first line: the directory itself. */
static bool read_self(struct reader *r, struct str line, const char *path)
{
    struct manifest_entry self = {.type = 'd'};

    if (!str_eq_c(str_cut(line, ' ', &line), "d") || !read_mode(&line, &self.mode) ||
        !str_to_i64(str_cut(line, ' ', &line), &self.mtime_ns) || !str_eq_c(line, "."))
        return false;
    self.path = xstrdup(path);
    manifest_push(&r->m, self);
    return true;
}

/* Any other line.  *last is the name before, to see that they are in order. */
static int read_line(struct reader *r, struct str line, const char *path, char **last, size_t at,
                     struct err *e)
{
    struct str type = str_cut(line, ' ', &line);
    struct manifest_entry n = {.type = type.n == 1 ? type.p[0] : 0};
    AUTO_FREE char *name = NULL;
    bool ok = false;

    if (n.type == 't')
        ok = read_hash(&line, n.hash) && (name = manifest_name(line)) && manifest_name_ok(name);
    else if (n.type == 'f' || n.type == 'l')
        ok = manifest_read_entry(line, &n) && (name = xstrdup(n.path));
    ok = ok && (!*last || strcmp(*last, name) < 0);
    char *full = ok ? manifest_join(path, name) : NULL;
    free(n.path);
    n.path = full;
    if (ok) {
        free(*last);
        *last = TAKE(name);
    }
    if (ok && n.type != 't') {
        manifest_push(&r->m, n);
        return 0;
    }
    free(n.target);
    AUTO_FREE char *below_path = n.path;
    return ok ? read_below(r, n.hash, below_path, e) : damaged(e, at);
}

/* The depth is limited, because a damaged store could name a directory inside itself. */
static int manifest_read_dir(struct reader *r, struct str text, const char *path, struct err *e)
{
    AUTO_FREE char *last = NULL;
    struct str rest = text;
    int rc = 0;

    if (!str_starts(text, STR(HEAD)) || r->depth > DEPTH_MAX)
        return err_set(e, ERR_INTERNAL, "this is not a manifest; the store is damaged");
    rest = (struct str){text.p + sizeof(HEAD) - 1, text.n - (sizeof(HEAD) - 1)};
    if (!read_self(r, str_cut(rest, '\n', &rest), path))
        return damaged(e, 2);
    r->depth++;
    for (size_t at = 3; rest.n > 0 && rc == 0; at++)
        rc = read_line(r, str_cut(rest, '\n', &rest), path, &last, at, e);
    r->depth--;
    return rc;
}

int manifest_read(struct str root, manifest_get_fn *get, void *ctx, struct manifest *out,
                  struct err *e)
{
    struct reader r = {.get = get, .ctx = ctx};

    if (manifest_read_dir(&r, root, "", e) < 0) {
        manifest_done(&r.m);
        return -1;
    }
    *out = r.m;
    return 0;
}
