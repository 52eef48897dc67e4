/* foundations_say.c - lines of the foundations command and the log of the client
 *
 * On the terminal a line is "Foundations INFO: text"; once a level other than INFO was asked for it
 * is "date time - logger - LEVEL - text" and only lines of that level and above are shown.  The
 * file logs/system.log in the home gets every line, and the steps in between, in the long form.
 */
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/foundations.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

enum { LINE_MAX_BYTES = 1 << 20, LOG_MAX_BYTES = 10 << 20 };

static const char *const level_names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};

bool found_level_parse(struct str name, enum found_level *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(level_names); i++)
        if (str_eq_c(name, level_names[i])) {
            *out = (enum found_level)i;
            return true;
        }
    if (str_eq_c(name, "WARN") || str_eq_c(name, "CRITICAL")) {
        *out = name.n == 4 ? FOUND_WARNING : FOUND_ERROR;
        return true;
    }
    return false;
}

/* A file that grew too long makes room for a new one; the one before stays as system.log.1. */
int found_open_log(struct foundations *f, struct err *e)
{
    AUTO_FREE char *path = path_join(f->home, "logs/system.log");
    struct stat st;

    if (stat(path, &st) == 0 && st.st_size > LOG_MAX_BYTES) {
        AUTO_FREE char *old = xasprintf("%s.1", path);
        (void)!rename(path, old);
    }
    f->log_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    return f->log_fd < 0 ? err_sys(e, "cannot open %s", path) : 0;
}

/* The form of Python's logging module: local time, with the milliseconds after a comma. */
static void long_line(struct buf *b, const struct foundations *f, enum found_level level,
                      const char *text)
{
    struct timespec now;
    struct tm tm;
    char stamp[24];

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &tm);
    buf_addf(b, "%s,%03ld - %s - %s - %s\n", stamp, now.tv_nsec / 1000000,
             f->logger ? f->logger : "foundations", level_names[level], text);
}

/* A log that cannot be written does not stop the command. */
static void found_write_log(struct foundations *f, enum found_level level, const char *text)
{
    AUTO(buf) struct buf line = {0};

    if (f->log_fd < 0)
        return;
    buf_init(&line, LINE_MAX_BYTES);
    long_line(&line, f, level, text);
    (void)!write(f->log_fd, line.p, line.n);
}

static void found_print(struct foundations *f, enum found_level level, const char *text)
{
    AUTO(buf) struct buf line = {0};

    found_write_log(f, level, text);
    if (level < f->level)
        return;
    buf_init(&line, LINE_MAX_BYTES);
    if (f->long_form)
        long_line(&line, f, level, text);
    else
        buf_addf(&line, "Foundations %s: %s\n", level_names[level], text);
    cli_print(&line);
}

void found_log(struct foundations *f, enum found_level level, const char *fmt, ...)
{
    AUTO(buf) struct buf text = {0};
    va_list ap;

    buf_init(&text, LINE_MAX_BYTES);
    va_start(ap, fmt);
    buf_vaddf(&text, fmt, ap);
    va_end(ap);
    if (level == FOUND_DEBUG)
        buf_addf(&f->trail, "  %s\n", buf_str(&text).p);
    found_print(f, level, buf_str(&text).p);
}

void found_warning(void *f, const char *text)
{
    found_log(f, FOUND_WARNING, "%s", text);
}

void found_note_warning(void *f, const char *text)
{
    found_step(f, "%s", text);
}

int found_say(struct foundations *f, const char *fmt, ...)
{
    AUTO(buf) struct buf line = {0};
    va_list ap;

    buf_init(&line, LINE_MAX_BYTES);
    va_start(ap, fmt);
    buf_vaddf(&line, fmt, ap);
    va_end(ap);
    found_write_log(f, FOUND_INFO, buf_str(&line).p);
    buf_addc(&line, '\n');
    cli_print(&line);
    return 0;
}

int found_fail(struct foundations *f, const struct err *e)
{
    AUTO(buf) struct buf b = {0};
    const char *text = e->text[0] ? e->text : "the command failed without a reason";

    found_write_log(f, FOUND_ERROR, text);
    buf_init(&b, LINE_MAX_BYTES);
    if (f->debug)
        buf_addf(&b, "Trace of %s (most recent step last):\n%s%s: %s%s%s\n",
                 f->logger ? f->logger : "foundations", f->trail.n ? f->trail.p : "",
                 err_code_name(e->code), text, e->sys ? ", errno " : "",
                 e->sys ? strerrorname_np(e->sys) : "");
    else
        buf_addf(&b, "Error running command: %s\n", text);
    cli_print(&b);
    return 1;
}
