/* study_priv.h - how rows of trials are read */
#pragma once
#include "store/change.h"
#include "store/db_priv.h"

#define TRIAL_COLUMNS                                                                              \
    "number, job, params, asked, told, state, value, reason, hold, lease_s, results"
enum { TRIAL_VALUE_AT = 6 };
struct trial_row trial_row_of(sqlite3_stmt *st);
