/* study_priv.h - what the files of studies share */
#pragma once
#include "core/core_priv.h"
#include "core/study.h"

/* A request, or the end of a job, that changes a study.  It waits while a proposal is made. */
struct study_call {
    enum { CALL_EXCHANGE, CALL_POINT, CALL_JOB_ENDED, CALL_VANISHED } kind;
    VEC(struct study_result) results; /* reasons are ours */
    size_t want;                      /* points that are still to be asked for */
    int32_t lease_s;                  /* of the points */
    VEC(struct study_point) points;   /* asked; params are ours */
    double *code;                     /* of CALL_POINT */
    uint64_t number;                  /* of CALL_JOB_ENDED and CALL_VANISHED: the trial */
    enum job_state ended;
    bool told;           /* the engine has the results: only points are lacking */
    uint64_t ops_before; /* operations of the study before the first of them */
    bool later;          /* there is no point now, but there will be */
    size_t leased;       /* when it is answered */
    core_study_fn done;
    void *arg;
    struct core *core;
};

/* Proposals on another thread, which has the engine meanwhile; then, of a study with a job, the
 * submission.  Or the study is woken there. */
struct study_asking {
    struct core *c;
    struct study *s;
    struct study_call *call; /* who asks; NULL = the study itself, for a job */
    size_t want;
    VEC(struct study_point) got; /* trials of the engine already */
    struct err err;              /* why there are fewer */
    struct trial_launch *launch; /* waits for its submission */
    struct study *twin;          /* gets the trials while the study is woken */
    int64_t again_ms;            /* monotonic: when the submission is tried again; 0 = under way */
};

/* The trial whose job this is. */
struct study_job {
    uint64_t study, number;
};

struct study *study_by_seq(const struct core *c, uint64_t seq);
/* NULL: *e says why this caller may not change it. */
struct study *study_of_caller(const struct core *c, uint64_t seq, const struct caller *who,
                              struct err *e);
void study_free(struct study *s);
void study_set_trouble(struct study *s, const char *text);
/* The row of a trial, for a change (study_result.c). */
struct trial_row study_trial_row(const struct study *s, uint64_t number);
/* Adds a trial to the engine and to the list; nothing is staged.  Returns its number. */
uint64_t study_trial_add(struct study *s, const double *code, enum trial_state state);
/* Adds a trial to the list that the engine has already. */
void study_trial_note(struct study *s, enum trial_state state);

/* Adds it to the list of studies. */
void study_list(struct core *c, struct study *s);
/* The codes of a point as they are recorded; yours. */
double *study_code_of(const struct study *s, struct str params, struct err *e);

/* study_wake.c */
/* Reads the trials of a study that is asleep on another thread; then it goes on. */
void study_wake(struct core *c, struct study *s);
/* The same at once.  -1: it is being read, or cannot be read. */
int study_wake_now(struct core *c, struct study *s, struct err *e);

/* study_result.c */
/* As they are recorded; nothing for one objective. */
void study_values_write(const struct study *s, uint64_t number, struct buf *out);
int study_values_read(const struct study *s, const struct trial_row *r, double *out, struct err *e);
/* The engine, the counts and the best learn the result; nothing is staged.  The values, one per
 * objective, are not looked at when the trial has failed. */
void study_trial_result(struct study *s, uint64_t number, enum trial_state state,
                        const double *values);
/* The result as it is in memory is recorded. */
void study_result_stage(struct core *c, const struct study *s, uint64_t number, uint64_t told,
                        struct str reason);

/* study.c */
/* Carries out what waits, then asks for the next trial. */
void study_go_on(struct core *c, struct study *s);

/* study_def.c */
/* Do two definitions say the same?  Limits, which people change, and environments do not count. */
bool study_def_same(const struct json *old, const struct json *def);
/* Can a study with this definition begin with the results of another? */
int study_check_goals(const struct study *from, const struct json *def, struct err *e);

/* study_run.c */
/* Begins to propose: what `call` wants, or one point for a job of the study. */
void study_propose(struct core *c, struct study *s, struct study_call *call);
/* The job of a trial that is recorded in memory is submitted; then `call` is answered, if any. */
void study_launch(struct core *c, struct study *s, uint64_t number, const char *params,
                  struct study_call *call);
/* Asks for the next trial that is a job, if there is room for one. */
void study_fill(struct core *c, struct study *s);
void study_asking_free(struct study_asking *a);
void study_asking_over(struct study_asking *a);
/* The study was removed meanwhile: who waits is told, and both are freed. */
void study_asking_gone(struct study_asking *a);
/* Is there room for one more job? */
bool study_may_fill(const struct core *c, const struct study *s);
/* A trial of a study after a restart: its job runs, or has ended meanwhile. */
void study_job_restored(struct core *c, struct study *s, uint64_t number);
/* The result of a trial whose job has ended. */
void study_job_result(struct core *c, struct study *s, const struct study_call *x);

/* study_said.c */
void study_say_created(struct core *c, struct study *s, const struct caller *who);
void study_say_removed(struct core *c, const struct study *s, const struct caller *who);
/* An event, if the result made the trial the best one or one of the front. */
void study_say_result(struct core *c, const struct study *s, uint64_t number);
/* An event, if the state is another than the last one that was said; who may be NULL. */
void study_say_state(struct core *c, struct study *s, const struct caller *who);

/* study_lease.c */
/* The trial is handed out.  Before its row is staged. */
void study_lease_begin(struct core *c, struct study *s, uint64_t number, int32_t lease_s);
/* After a restart leases begin anew: clients could not give a sign while nobody listened. */
void study_leases_restored(struct core *c, struct study *s);
void study_lease_end(struct study *s, uint64_t number);
/* Is it the client's own?  A trial that nobody has taken over since is, also when its lease has
 * ended. */
bool study_holds(const struct study *s, uint64_t number, uint32_t hold);
/* Takes trials back whose clients have vanished; returns when to look again, -1 = there are no
 * leases. */
int64_t study_leases_look(struct core *c, struct study *s, int64_t now);
/* The result of a trial whose clients vanished too often. */
void study_vanished_result(struct core *c, struct study *s, uint64_t number);
/* Studies are looked at again at this time, or before. */
void studies_look_at(struct core *c, int64_t at_ms);

/* study_stop.c */
/* A report of a trial: true = it should stop. */
bool study_report(struct core *c, struct study *s, uint64_t number, int64_t step, double value);
/* The layer is fed what was recorded of the trials. */
void study_stop_replay(struct core *c, struct study *s);

/* study_call.c */
/* Carries out the next step of a call: it is answered, or a proposal has begun for it. */
void study_call_step(struct core *c, struct study *s, struct study_call *x);
/* The results of the call, which the engine has, are recorded: with the points that were asked in
 * the same request, so that both are one commit. */
void study_call_stage_told(struct core *c, const struct study *s, const struct study_call *x);
/* A point was proposed for the call, or there is none (text NULL). */
void study_call_point(struct core *c, struct study *s, struct study_call *x, uint64_t number,
                      const char *params);
/* The result counts and is staged. */
void study_result_tell(struct core *c, struct study *s, const struct study_result *r);
/* Answers the call: its results and points are durable, or the error says why not. */
void study_call_durable(void *arg, const struct err *e);
/* The same, when all that is staged is durable. */
void study_call_durable_later(struct core *c, const struct study *s, struct study_call *x);
void study_call_fail(struct study_call *x, const struct err *e);
void study_call_free(struct study_call *x);
