/* doctor.h - checks of the machine and the home, each with a remedy
 *
 * They work with and without a daemon.  Checks that ask a daemon are in cli/cmd_doctor.c.
 */
#pragma once
#include <stddef.h>

enum health { HEALTH_OK, HEALTH_WARN, HEALTH_FAIL };
/* One sentence about what was found, and what the user can do about it ("" = nothing to do). */
struct finding {
    enum health health;
    char text[400], remedy[200];
};
void finding_say(struct finding *f, enum health h, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void finding_remedy(struct finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct doctor_ask {
    const char *home;
    void (*slow)(const char *path); /* a check of this file begins that may take long; or NULL */
};
/* `run` fills in a zeroed finding.  It starts nothing and changes no file. */
struct doctor_check {
    const char *name;
    void (*run)(const struct doctor_ask *a, struct finding *out);
};
extern const struct doctor_check doctor_checks[];
extern const size_t n_doctor_checks;
/* 1 = somebody holds the lock (*out_pid, which may be NULL, tells who), 0 = nobody, -1 = no such
 * file. */
int file_lock_held(const char *path, pid_t *out_pid);
