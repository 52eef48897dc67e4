/* study_view.h - what is read of studies; any thread, committed state only */
#pragma once
#include "store/store.h"

/* A study as messages tell it. */
struct study_view {
    struct study_sum sum;
    struct str name, user;
    struct str metric; /* of one objective; empty = there are several */
};
/* ERR_NOT_FOUND: it was removed.  Texts are borrowed for the call. */
int store_study(struct store *s, uint64_t seq, void (*fn)(void *arg, const struct study_view *v),
                void *arg, struct err *e);

/* False ends the call with success; the row is borrowed. */
typedef bool (*trial_fn)(void *arg, const struct trial_row *r);
/* The trials of a study with numbers above `after`, in order, at most `limit`. */
int store_trials(struct store *s, uint64_t study, uint64_t after, size_t limit, trial_fn fn,
                 void *arg, struct err *e);
