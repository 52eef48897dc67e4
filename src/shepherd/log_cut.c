/* log_cut.c - keeping the log of a run under its limit
 *
 * A command writes its log itself, with O_APPEND and without us in between, so nothing can be held
 * back: what is too much is taken out of the file afterwards, from the middle.  How a training
 * began and how it is doing now is what people look for.
 *
 * On ext4 and XFS whole blocks are collapsed: the file becomes shorter while it is being written,
 * and no byte that arrives at that moment is lost.  Who reads along must know by how much
 * everything behind has moved: the attribute LOG_MARK_ATTR says where the cut is and how many bytes
 * went there in all.  Elsewhere a hole takes the place of the blocks: the space is free and the
 * size stays; readers step over it.
 *
 * The notice takes the place of a few lines around the cut, so that it stands on a line of its own
 * and the text goes on at the beginning of one.  A later cut makes it tell the sum.
 */
#include "shepherd/log_cut.h"
#include "base/log_mark.h"
#include "base/units.h"
#include "base/util.h"
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

enum {
    LINE_MAX_BYTES = 4096, /* so far the end of a line is looked for */
    NOTICE_MAX = 200,
};

void log_cut_open(struct log_cut *l, const char *path, int64_t limit_bytes)
{
    *l = (struct log_cut){.fd = -1};
    if (limit_bytes <= 0 || !path)
        return;
    l->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    l->limit_bytes = MAX(limit_bytes, LOG_LIMIT_MIN);
}

/* ---- lines ---- */

/* Behind the last newline before `at`, or `at` when that line is too long. */
static int64_t line_start(int fd, int64_t at)
{
    char text[LINE_MAX_BYTES];
    int64_t from = MAX(at - LINE_MAX_BYTES, 0);
    ssize_t n = pread(fd, text, (size_t)(at - from), from);
    const char *nl = n > 0 ? memrchr(text, '\n', (size_t)n) : NULL;

    return nl ? from + (nl - text) + 1 : from == 0 ? 0 : at;
}

/* Behind the first newline at or after `at`, or `at` when that line is too long. */
static int64_t log_line_end(int fd, int64_t at)
{
    char text[LINE_MAX_BYTES];
    ssize_t n = pread(fd, text, sizeof(text), at);
    const char *nl = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;

    return nl ? at + (nl - text) + 1 : at;
}

/* Spaces from `from` on, and a newline as the last byte before `to`. */
static void blank(int fd, int64_t from, int64_t to)
{
    char text[LINE_MAX_BYTES];

    memset(text, ' ', sizeof(text));
    while (from < to) {
        size_t n = (size_t)MIN(to - from, (int64_t)sizeof(text));
        if (from + (int64_t)n == to)
            text[n - 1] = '\n';
        if (pwrite(fd, text, n, from) != (ssize_t)n)
            return;
        from += (int64_t)n;
    }
}

/* ---- the notice ---- */

static size_t notice_text(const struct log_cut *l, char out[NOTICE_MAX])
{
    char dropped[UNIT_TEXT_MAX], limit[UNIT_TEXT_MAX];

    size_format(l->dropped_bytes, dropped);
    size_format(l->limit_bytes, limit);
    return (size_t)snprintf(out, NOTICE_MAX,
                            "[berth: %s of output were dropped here to keep the log under %s]",
                            dropped, limit);
}

/* Writes it at its place, over everything up to `to` or further, to the end of that line. */
static void notice_write(const struct log_cut *l, int64_t to)
{
    char text[NOTICE_MAX];
    size_t n = notice_text(l, text);
    int64_t end = l->notice_at + (int64_t)n;
    int64_t next = log_line_end(l->fd, MAX(end, to));

    if (pwrite(l->fd, text, n, l->notice_at) == (ssize_t)n)
        blank(l->fd, end, MAX(next, end + 1));
}

/* ---- cutting ---- */

static bool mark(const struct log_cut *l, bool moving)
{
    char text[LOG_MARK_MAX];
    int n = log_mark_format((struct log_mark){l->notice_at, l->dropped_bytes, moving}, text);

    return fsetxattr(l->fd, LOG_MARK_ATTR, text, (size_t)n, 0) == 0;
}

/* What is behind `to` moves to `from`, both at whole blocks. */
/* Fails once a hole was punched; later cuts then extend the hole.  `moving` in the mark tells
 * readers that offsets are not reliable at the moment. */
static bool collapse(struct log_cut *l, int64_t from, int64_t to)
{
    if (l->hole_to || !mark(l, true))
        return false;
    bool done = fallocate(l->fd, FALLOC_FL_COLLAPSE_RANGE, from, to - from) == 0;
    if (done) {
        l->dropped_bytes += to - from;
        notice_write(l, from);
    }
    mark(l, false);
    return done;
}

/* What is between them is given back; the notice stands before it. */
static bool punch(struct log_cut *l, int64_t from, int64_t to, int64_t block)
{
    if (!l->hole_to)
        l->hole_at = l->hole_to = from + block; /* room for the notice */
    if (to <= l->hole_to || fallocate(l->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, l->hole_to,
                                      to - l->hole_to) < 0)
        return false;
    l->hole_to = to;
    l->dropped_bytes = to - l->notice_at;
    int64_t next = log_line_end(l->fd, to);
    if (next > to)
        blank(l->fd, to, next);
    char text[NOTICE_MAX];
    size_t n = notice_text(l, text);
    if (pwrite(l->fd, text, n, l->notice_at) == (ssize_t)n)
        blank(l->fd, l->notice_at + (int64_t)n, l->hole_at);
    return true;
}

bool log_cut(struct log_cut *l)
{
    struct stat st;

    if (l->fd < 0 || fstat(l->fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        st.st_size - (l->hole_to - l->hole_at) <= l->limit_bytes)
        return false;
    int64_t block = MAX((int64_t)st.st_blksize, 4096);
    int64_t from = l->limit_bytes / 4 / block * block;
    int64_t to = (st.st_size - l->limit_bytes / 2) / block * block;
    if (from == 0 || to <= from)
        return false;
    if (!l->dropped_bytes)
        l->notice_at = line_start(l->fd, from);
    if (l->notice_at > 0) /* in the midst of a very long line: that one ends here */
        (void)!pwrite(l->fd, "\n", 1, l->notice_at - 1);
    return collapse(l, from, to) || punch(l, from, to, block);
}
