/* manifest.c - trees as text, and back */
#include "archive/manifest_priv.h"
#include "base/str.h"
#include "base/util.h"
#include <stdio.h>

#define HEAD "berth tree 1\n"

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

void manifest_format(const struct manifest *m, struct buf *out)
{
    buf_adds(out, HEAD);
    for (size_t i = 0; i < m->entries.n; i++) {
        const struct manifest_entry *n = &m->entries.p[i];
        long long mtime = n->mtime_ns;
        if (n->type == 'd')
            buf_addf(out, "d %03o %lld ", n->mode, mtime);
        else if (n->type == 'f')
            buf_addf(out, "f %03o %lld %lld %s ", n->mode, mtime, (long long)n->size, n->hash);
        else
            buf_addf(out, "l %lld ", mtime);
        if (n->type == 'l') {
            add_name(out, n->target);
            buf_addc(out, ' ');
        }
        add_name(out, *n->path ? n->path : ".");
        buf_addc(out, '\n');
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static char *name_of(struct str s)
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

static bool path_is_plain(const char *path)
{
    struct str rest = str_of(path);

    if (path[0] == '/' || (rest.n && path[rest.n - 1] == '/'))
        return false;
    while (rest.n > 0) {
        struct str part = str_cut(rest, '/', &rest);
        if (part.n == 0 || str_eq_c(part, ".") || str_eq_c(part, ".."))
            return false;
    }
    return true;
}

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

/* One line into *out; what was allocated is in *out either way. */
static bool read_line(struct str line, struct manifest_entry *out)
{
    struct str type = str_cut(line, ' ', &line);

    if (type.n != 1 || !strchr("dfl", type.p[0]))
        return false;
    out->type = type.p[0];
    out->mode = 0777;
    if (out->type != 'l' && !read_mode(&line, &out->mode))
        return false;
    if (!str_to_i64(str_cut(line, ' ', &line), &out->mtime_ns))
        return false;
    if (out->type == 'f' && (!str_to_i64(str_cut(line, ' ', &line), &out->size) || out->size < 0 ||
                             !read_hash(&line, out->hash)))
        return false;
    if (out->type == 'l' && !(out->target = name_of(str_cut(line, ' ', &line))))
        return false;
    if (str_eq_c(line, ".") && out->type == 'd')
        return (out->path = xstrdup("")) != NULL;
    out->path = line.n ? name_of(line) : NULL;
    return out->path && path_is_plain(out->path);
}

int manifest_parse(struct str text, struct manifest *out, struct err *e)
{
    struct manifest m = {0};
    struct str rest = text;

    if (!str_starts(text, STR(HEAD)))
        return err_set(e, ERR_INTERNAL, "this is not a manifest; the store is damaged");
    rest = (struct str){text.p + sizeof(HEAD) - 1, text.n - (sizeof(HEAD) - 1)};
    for (size_t n = 2; rest.n > 0; n++) {
        struct manifest_entry entry = {0};
        bool ok = read_line(str_cut(rest, '\n', &rest), &entry);
        ok = ok && (m.entries.n == 0 ? !*entry.path
                                     : path_cmp(vec_last(&m.entries).path, entry.path) < 0);
        manifest_push(&m, entry);
        if (!ok) {
            manifest_done(&m);
            return err_set(e, ERR_INTERNAL,
                           "line %zu of a manifest makes no sense; the store is "
                           "damaged",
                           n);
        }
    }
    if (!m.entries.n)
        return err_set(e, ERR_INTERNAL, "a manifest is empty; the store is damaged");
    *out = m;
    return 0;
}
