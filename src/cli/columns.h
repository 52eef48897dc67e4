/* columns.h - columns that a user names: fields of a job, parameters, tags and metrics */
#pragma once
#include "base/vec.h"
#include "cli/view.h"
#include "model/job_column.h"

/* Zeroed at first; columns_done frees it. */
struct chosen_columns {
    VEC(struct column) all; /* of the table, in order */
    struct buf query;       /* the names that the daemon looks up, with commas */
    struct arena mem;
};
/* `list` has names with commas.  Without a field in it the job's name and state come first. */
int columns_choose(struct chosen_columns *c, const char *list, struct err *e);
/* A copy of the rows in which values stand under the names of their columns; the caller frees it.
 */
struct json *columns_flatten(const struct chosen_columns *c, const struct json *rows);
void columns_done(struct chosen_columns *c);
