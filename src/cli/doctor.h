/* doctor.h - checks of the machine and the home, each with a remedy */
#pragma once
#include "cli/cli.h"

enum health { HEALTH_OK, HEALTH_WARN, HEALTH_FAIL };
/* One sentence about what was found, and what the user can do about it ("" = nothing to do). */
struct finding {
    enum health health;
    char text[400], remedy[200];
};
/* `run` fills in a zeroed finding.  It may ask a daemon, but must not start one or change a file.
 */
struct check {
    const char *name;
    void (*run)(struct cli *c, struct finding *out);
};
extern const struct check doctor_checks[];
extern const size_t n_doctor_checks;
