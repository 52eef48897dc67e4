/* log_mark.c - the mark on a log file whose middle was cut out */
#include "base/log_mark.h"
#include "base/str.h"
#include "base/util.h"
#include <inttypes.h>
#include <stdio.h>
#include <sys/xattr.h>

int log_mark_format(struct log_mark m, char out[LOG_MARK_MAX])
{
    return snprintf(out, LOG_MARK_MAX, "%" PRId64 " %" PRId64 "%s", m.at, m.dropped,
                    m.moving ? " ~" : "");
}

/* The owner of a job owns its log and could write anything here. */
struct log_mark log_mark_read(int fd)
{
    char text[LOG_MARK_MAX];
    ssize_t n = fgetxattr(fd, LOG_MARK_ATTR, text, sizeof(text));
    struct log_mark m;
    struct str rest, at, sum, tilde;

    if (n <= 0)
        return (struct log_mark){0};
    at = str_cut((struct str){text, (size_t)n}, ' ', &rest);
    sum = str_cut(rest, ' ', &tilde);
    m.moving = str_eq_c(tilde, "~");
    if (!str_to_i64(at, &m.at) || !str_to_i64(sum, &m.dropped) || m.at < 0 || m.dropped < 0 ||
        /* The limit keeps the sums in log_mark_place and log_mark_number from overflowing. */
        m.at > INT64_MAX / 4 || m.dropped > INT64_MAX / 4)
        return (struct log_mark){0};
    return m;
}

int64_t log_mark_place(struct log_mark m, int64_t pos)
{
    return pos <= m.at || !m.dropped ? pos : MAX(pos - m.dropped, m.at);
}

int64_t log_mark_number(struct log_mark m, int64_t place)
{
    return place < m.at ? place : place + m.dropped;
}
