/* apply_priv.h - changes become rows, events included; inside the writer's transaction */
#pragma once
#include "base/buf.h"
#include "base/vec.h"
#include "store/change.h"
#include "store/db_priv.h"
#include "store/event_priv.h"
#include "store/tally_priv.h"

/* A stored hook, as far as matching needs it; kept in memory. */
struct hook_rule {
    uint64_t seq;
    uint32_t uid;
    struct hook_on on;
    bool everyone;
    char *filter;
    uint64_t seen_job; /* see the table hook */
};
/* Jobs got a new state in this transaction. */
struct hook_move {
    enum job_state state;
    uint64_t first, last;
    int64_t at_ms;
};
/* What hooks must know between the changes of one transaction (hook_match.c). */
struct hook_watch {
    VEC(struct hook_rule) rules;
    VEC(struct hook_move) moves;
    bool notifies; /* there are entries of `notify` */
    bool changed;  /* this transaction changed what ledger.read_due says */
};
/* State of the writer thread between the changes of one transaction. */
struct applier {
    struct db *db;
    struct tally tally;
    uint64_t last_event; /* numbered, not necessarily committed */
    struct buf data;     /* scratch: an event's JSON */
    struct hook_watch hooks;
};
/* -1: nothing has to be freed. */
int applier_init(struct applier *a, struct db *d, struct err *e);
void applier_done(struct applier *a);
/* After a rollback: forgets what was not committed. */
int applier_reload(struct applier *a, struct err *e);

/* Between BEGIN and COMMIT.  A change about a job that is not there does nothing.  A failed
 * submission leaves nothing behind (a savepoint); any other failure needs a rollback. */
int apply_change(struct applier *a, const struct change *c, struct err *e);
int apply_submit(struct applier *a, const struct submission *s, int64_t at_ms, struct str user,
                 struct err *e);
int apply_node_new(struct applier *a, const struct change *c, struct err *e);
int apply_node_drain(struct applier *a, const struct change *c, struct err *e);
int apply_node_gone(struct applier *a, const struct change *c, struct err *e);
int apply_remove(struct applier *a, const struct change *c, struct err *e);
/* apply_study.c */
int apply_study(struct applier *a, const struct change *c, struct err *e);
int apply_study_gone(struct applier *a, const struct change *c, struct err *e);
int apply_study_said(struct applier *a, const struct change *c, struct err *e);
int apply_trial(struct applier *a, const struct trial_row *r, struct err *e);
int apply_trial_told(struct applier *a, const struct change *c, struct err *e);
/* study_log.c */
int apply_study_log(struct applier *a, const struct change *c, struct err *e);
int apply_study_log_gone(struct applier *a, const struct change *c, struct err *e);
/* The submission is the first job of its trial. */
int apply_trial_submitted(struct applier *a, const struct submission *s, struct err *e);

/* apply_schedule.c */
int apply_schedule(struct applier *a, const struct change *c, struct err *e);
int apply_schedule_settled(struct applier *a, const struct change *c, struct err *e);
int apply_schedule_gone(struct applier *a, const struct change *c, struct err *e);
/* The part of a submission that concerns the schedule it comes from, if any. */
int apply_schedule_fired(struct applier *a, const struct submission *s, struct err *e);
/* apply_track.c */
int apply_mark(struct applier *a, const struct change *c, struct err *e);
int apply_mark_gone(struct applier *a, const struct change *c, struct err *e);
int apply_points(struct applier *a, const struct change *c, struct err *e);
int apply_text_point(struct applier *a, const struct change *c, struct err *e);
int apply_spool(struct applier *a, const struct change *c, struct err *e);
int apply_note(struct applier *a, const struct change *c, struct err *e);
int apply_project(struct applier *a, const struct change *c, struct err *e);
/* The project exists from now on, and is theirs, unless it did before. */
int project_first(struct applier *a, struct str project, uint32_t uid, struct str user,
                  int64_t at_ms, struct err *e);
int apply_forget(struct applier *a, const struct change *c, struct err *e);
/* hook_match.c */
/* The jobs first … last have this state now, or those of them that were to get it. */
/* The study has ended: those hooks get a message that are about studies of this user. */
int hooks_of_study(struct applier *a, uint64_t study, uint32_t uid, enum hook_event ev,
                   int64_t at_ms, struct err *e);
void hook_note(struct applier *a, enum job_state state, int64_t at_ms, uint64_t first,
               uint64_t last);
int hooks_match(struct applier *a, struct err *e); /* after all changes of the transaction */
int apply_waited(struct applier *a, const struct change *c, struct err *e);
int hooks_reload(struct applier *a, struct err *e); /* reads the rules again */
void hooks_done(struct hook_watch *w);
/* apply_hook.c */
int apply_hook(struct applier *a, const struct change *c, struct err *e);
int apply_hook_gone(struct applier *a, const struct change *c, struct err *e);
int apply_delivered(struct applier *a, const struct change *c, struct err *e);
/* The entries of `notify` of a submission.  ERR_INVALID: one names a hook that is not there. */
int notify_insert(struct applier *a, const struct submission *s, int64_t at_ms, struct err *e);
/* The job is gone: so are the entries that were about no other job. */
int notify_forget_job(struct applier *a, uint64_t job, struct err *e);
/* Hooks that came with submissions go when nothing refers to them any more. */
int hooks_forget(struct applier *a, struct err *e);
/* The last thing before COMMIT. */
int apply_finish(struct applier *a, struct err *e);

/* Starts the data of an event: "{" and the user who asked, if any. */
void data_begin(struct applier *a, struct str user);
/* These two append a member to the data that data_begin started. */
void data_int(struct applier *a, const char *key, int64_t v);
void data_str(struct applier *a, const char *key, struct str v); /* nothing when empty */
/* Closes the data and appends the event. */
int event_append(struct applier *a, enum event_kind kind, int64_t at_ms, uint64_t first,
                 uint64_t last, struct err *e);
