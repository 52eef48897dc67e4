/* log.c - one line per message, written with one write() so that lines of several processes and
 * threads never mix
 *
 * Text: "2026-11-15T20:46:22.123Z info core job 7 ended".  With JSON: {"time":…,"level":…,
 * "room":…,"message":…}.  When the descriptor is the one systemd connected to its journal
 * (JOURNAL_STREAM names its device and inode), "<6>" and the like in front carry the level.
 */
#include "base/log.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json_out.h"
#include "base/util.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LINE_MAX_BYTES = 8192 };

static struct {
    enum log_level min;
    bool json, journal;
    int fd;
} conf = {.min = LOG_INFO_, .fd = STDERR_FILENO};

static const struct {
    const char *name;
    char priority; /* of syslog */
} levels[] = {
    [LOG_DEBUG_] = {"debug", '7'},
    [LOG_INFO_] = {"info", '6'},
    [LOG_WARN_] = {"warn", '4'},
    [LOG_ERROR_] = {"error", '3'},
};

/* systemd gives the device and inode of the stream, because a child may have redirected stderr. */
static bool is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    char name[64];

    if (!stream || fstat(fd, &st) < 0)
        return false;
    snprintf(name, sizeof(name), "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    return strcmp(stream, name) == 0;
}

void log_setup(enum log_level min, bool json, int fd)
{
    conf.min = min;
    conf.json = json;
    conf.fd = fd;
    conf.journal = is_journal(fd);
}

bool log_level_parse(const char *name, enum log_level *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
        if (strcmp(levels[i].name, name) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

/* A message must stay one line and must not move the reader's cursor. */
static void flatten(char *text)
{
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = ' ';
    }
}

static void build_line(struct buf *b, enum log_level level, const char *room, char *message)
{
    char time[TIME_TEXT_MAX];

    time_format_utc(clock_wall(&clock_system), time);
    if (conf.journal)
        buf_addf(b, "<%c>", levels[level].priority);
    if (conf.json) {
        jw_object(b, NULL);
        jw_text(b, "time", time);
        jw_text(b, "level", levels[level].name);
        jw_text(b, "room", room);
        jw_text(b, "message", message);
        jw_end_object(b);
        buf_addc(b, '\n');
    } else {
        flatten(message);
        buf_addf(b, "%s %s %s %s\n", time, levels[level].name, room, message);
    }
}

void log_write(enum log_level level, const char *room, const char *fmt, ...)
{
    int saved = errno;
    if (level < conf.min)
        return;
    char message[LINE_MAX_BYTES];
    FORMAT_ARGS(message, fmt);
    AUTO(buf) struct buf line = {0};
    build_line(&line, level, room, message);
    /* A log that cannot be written has nobody to tell. */
    ssize_t n = write(conf.fd, line.p, line.n);
    (void)n;
    errno = saved;
}
