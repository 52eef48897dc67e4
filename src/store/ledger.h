/* ledger.h - what the controller needs of a store: the SQLite one, or the one of the simulation */
#pragma once
#include "store/change.h"
#include "store/hook.h"

/* e NULL = durable.  Otherwise nothing of the batch that could be refused was kept. */
typedef void (*ledger_done_fn)(void *arg, const struct err *e);
struct metric_facts {
    uint64_t n; /* numbers; 0 = there are only texts, or points that are not finite */
    double last, min, max;
};
struct series_point;
typedef void (*ledger_point_fn)(void *arg, const struct series_point *p);
struct ledger {
    void *self;
    /* Adds to the batch of this turn. */
    void (*stage)(void *self, const struct change *c);
    /* fn is called on the loop thread, in order, once all that was staged before is durable, or was
     * refused. Refusal (disk full, I/O error) hits submissions and removals only: their barrier
     * (the first one after them in the same turn) gets the error and they leave no trace.  All
     * other changes are kept and tried again until they hold; their barriers just come later, so a
     * refusal may overtake them.  A change about a job whose submission was refused does nothing.
     */
    void (*barrier)(void *self, ledger_done_fn fn, void *arg);
    /* Tells sink all that is active, as last committed; once, at start. */
    int (*load)(void *self, const struct load_sink *sink, struct err *e);
    /* What is needed to start this job; *out is filled only on success and goes to launch_done. */
    int (*read_launch)(void *self, uint64_t job, struct launch *out, struct err *e);
    /* Any job, finished or not, as last committed; NOT_FOUND.  out->queue and
     * out->training live until the next call.  A point read on the loop thread: microseconds. */
    int (*read_job)(void *self, uint64_t job, struct job_record *out, struct err *e);
    /* The jobs it waits or waited for, as committed; *out is yours. */
    int (*read_deps)(void *self, uint64_t job, uint64_t **out, size_t *out_n, struct err *e);
    /* What is known of the numbers of a metric of a job, as committed; NOT_FOUND.  A point read on
     * the loop thread.  NULL: this ledger keeps no metrics. */
    int (*read_metric)(void *self, uint64_t job, struct str name, struct metric_facts *out,
                       struct err *e);
    /* Every number of the metric in the order logged.  At start only.  NULL with read_metric. */
    int (*read_points)(void *self, uint64_t job, struct str name, ledger_point_fn fn, void *arg,
                       struct err *e);
    /* Every trial of a study in the order of their numbers.  Any thread.  NULL: this ledger keeps
     * no studies. */
    int (*read_trials)(void *self, uint64_t study, void (*fn)(void *arg, const struct trial_row *r),
                       void *arg, struct err *e);
    /* Calls fn for messages that are due, at most one per hook and `max` in all, and says when to
     * look again.  A few reads on the loop thread.  NULL: this ledger has no hooks. */
    int (*read_due)(void *self, int64_t now_ms, size_t max, delivery_fn fn, void *arg,
                    struct hook_due *out, struct err *e);
    /* Changes whenever read_due may find something new.  NULL with read_due. */
    uint64_t (*hook_serial)(void *self);
    /* One hook as a message of HOOK_TEST, for fn as in read_due; NOT_FOUND.  NULL with read_due. */
    int (*read_hook)(void *self, uint64_t hook, delivery_fn fn, void *arg, struct err *e);
    /* False while the last commit failed: submissions are refused at once, nothing is started. */
    bool (*healthy)(void *self);
    /* Why it is not healthy; NULL: this ledger does not say. */
    struct err (*trouble)(void *self);
};
