/* log.h - one line per thing worth telling an operator: time level room message key=value
 *
 * Text on a terminal, JSON lines with log_format_json, native journal when stderr is one.
 * Libraries and pure rooms never log.
 */
#pragma once
#include <stdbool.h>

enum log_level { LOG_DEBUG_, LOG_INFO_, LOG_WARN_, LOG_ERROR_ };
void log_setup(enum log_level min, bool json, int fd);
bool log_level_parse(const char *name, enum log_level *out);
void log_write(enum log_level level, const char *room, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define log_debug(room, ...) log_write(LOG_DEBUG_, room, __VA_ARGS__)
#define log_info(room, ...) log_write(LOG_INFO_, room, __VA_ARGS__)
#define log_warn(room, ...) log_write(LOG_WARN_, room, __VA_ARGS__)
#define log_error(room, ...) log_write(LOG_ERROR_, room, __VA_ARGS__)
