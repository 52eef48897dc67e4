/* log.h - one line per thing worth telling an operator: time level room message key=value
 *
 * Lines are text, or JSON objects when log_setup says so.  On a stream of the systemd journal each
 * line begins with its syslog priority.
 * Libraries and pure rooms never log.
 */
#pragma once
#include <stdbool.h>

enum log_level { LOG_DEBUG_, LOG_INFO_, LOG_WARN_, LOG_ERROR_ };
/* Not synchronised with log_write: call it before other threads log.  Messages below `min` are
 * dropped.  The descriptor is borrowed and must stay open as long as anybody logs. */
void log_setup(enum log_level min, bool json, int fd);
/* "debug", "info", "warn" or "error".  False: no such level, and *out is unchanged. */
bool log_level_parse(const char *name, enum log_level *out);
/* Any thread may call this.  A message is cut at 8191 bytes.  errno is preserved. */
void log_write(enum log_level level, const char *room, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define log_debug(room, ...) log_write(LOG_DEBUG_, room, __VA_ARGS__)
#define log_info(room, ...) log_write(LOG_INFO_, room, __VA_ARGS__)
#define log_warn(room, ...) log_write(LOG_WARN_, room, __VA_ARGS__)
#define log_error(room, ...) log_write(LOG_ERROR_, room, __VA_ARGS__)
