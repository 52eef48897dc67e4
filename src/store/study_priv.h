/* study_priv.h - how rows of trials are read */
#pragma once
#include "store/change.h"
#include "store/db_priv.h"

#define TRIAL_COLUMNS                                                                              \
    "number, job, params, asked, told, state, value, reason, hold, lease_s, results, parent"
enum { TRIAL_VALUE_AT = 6 };
struct trial_row trial_row_of(sqlite3_stmt *st);
/* Fills in the sum of study x->seq.  *out_metric and *out_params are yours. */
int study_sum_read(struct db *d, struct study_sum *x, char **out_metric, char **out_params,
                   struct err *e);
