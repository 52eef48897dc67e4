/* study_log.h - logs that libraries of searches keep, such as the journal of Optuna (ADR 56)
 *
 * A log is a list of lines of JSON that only grows.  It belongs to the user who appends, begins
 * with the first line, and means nothing to Berth.
 */
#pragma once
#include "core/core.h"

/* `lines` has a line feed after each.  Answered when they are durable. */
void core_study_log_append(struct core *c, struct str name, struct str lines,
                           const struct caller *who, core_act_fn done, void *arg);
void core_study_log_remove(struct core *c, struct str name, const struct caller *who,
                           core_act_fn done, void *arg);
