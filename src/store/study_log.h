/* study_log.h - logs that libraries of searches keep: read on any thread, committed state only */
#pragma once
#include "store/store.h"

/* False ends the call with success; the text is borrowed. */
typedef bool (*study_log_fn)(void *arg, uint64_t number, struct str text);
/* The lines of a log with numbers above `after`, in order, at most `limit`; one that is not there
 * has none. */
int store_study_log(struct store *s, uint32_t uid, struct str name, uint64_t after, size_t limit,
                    study_log_fn fn, void *arg, struct err *e);
/* The names of a user's logs, each with the number of its lines. */
int store_study_logs(struct store *s, uint32_t uid, study_log_fn fn, void *arg, struct err *e);
