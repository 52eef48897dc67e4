/* search.h - what the files of `berth search` share: options, the body of a study, its pictures */
#pragma once
#include "base/vec.h"
#include "cli/jobspec.h"
#include "cli/run.h"

/* job must be the first member: the options of jobspec.h are stored there.  Its `params` are the
 * ranges of the search. */
struct search_opts {
    struct job_opts job;
    struct opt_num parallel, trials, seed;
    const char *take, *engine, *stop, *from, *svg;
    struct opt_list minimize, maximize, constraints;
    bool quiet, detach, run, force;
};

/* ---- search_spec.c ---- */
/* Adds one --param to the space: lr=log:1e-5..1e-1, layers=int:1..8, x=uniform:0..1:0.1,
 * opt=adam,sgd, depth=ordinal:1,2,4, c=3, any JSON value, and "… when opt=sgd" behind each. */
int search_range_add(struct json *space, const char *word, struct err *e);
/* Does the word name a file of a search? */
bool search_is_file(const char *word);
/* The body of POST /v1/studies from options and operands; options win over the file.  *out is the
 * caller's. */
int search_body(const struct search_opts *o, const struct operands *ops, struct json **out,
                struct err *e);
/* Does the study of the daemon search the same as the body?  The environment and the limits may
 * differ: those of the terminal at hand.  The error names the member. */
int search_same(const struct json *body, const struct json *study, struct err *e);

/* ---- search_view.c ---- */
struct search_curve {
    VEC(double) best; /* the best value after each trial that has one */
};
void search_curve_done(struct search_curve *c);
/* One more result; NaN is none. */
void search_curve_add(struct search_curve *c, double value, bool minimize);
/* The curve in `width` cells, the best at the bottom when smaller is better; nothing without two
 * values. */
void search_curve_draw(struct buf *b, const struct search_curve *c, size_t width);

/* An objective; a study with several has no best trial but a front. */
struct search_goal {
    struct str metric; /* "loss" */
    bool minimize;
};
size_t search_goals(const struct json *study);
struct search_goal search_goal(const struct json *study, size_t at);
/* "minimize loss, maximize acc" with the two words for the directions. */
void search_aim_text(struct buf *b, const struct json *study, const char *low, const char *high);
/* Has a trial a result? */
bool search_has_best(const struct json *study);
/* Changes when the best trial, or the front, does; 0 = there is none. */
int64_t search_best_mark(const struct json *study);
bool search_over(const struct json *study);
int64_t search_done_count(const struct json *study); /* trials with an outcome, also failed ones */
/* "loss 0.031 in trial 7: lr=0.01 opt=adam", "a front of 3 trials"; "" before the first result. */
void search_best_text(struct buf *b, const struct json *study);
/* "trial 7: loss 0.031, acc 0.9: lr=0.01" of a member of the front. */
void search_front_text(struct buf *b, const struct json *study, const struct json *member);
/* The counts of a study as progress.h wants them; yours. */
struct json *search_counts(const struct json *study);
/* The lines of the live view: the bar, the best, the curve. */
void search_frame(struct buf *b, const struct json *study, const struct search_curve *c,
                  size_t width, int64_t eta_ms, bool colour);
void search_page(struct cli *c, const struct json *study, const struct search_curve *curve);

/* ---- search_stay.c ---- */
/* PATCH of a study; takes body.  out may be NULL. */
int search_change_take(struct cli *c, const char *name, struct json *body, struct json **out,
                       struct err *e);
/* A body {"paused": …}. */
struct json *search_paused(bool paused);
/* Every trial from number `after` + 1 on, page by page; the array is borrowed. */
int search_trials(struct cli *c, const char *name, int64_t after,
                  void (*page)(void *arg, const struct json *items), void *arg, struct err *e);
/* The curve of a study so far. */
int search_curve_load(struct cli *c, const struct json *study, struct search_curve *out,
                      struct err *e);
/* Until the study is over, with the live view; Ctrl-C pauses it.  The exit status. */
int search_stay(struct run_session *s, const char *name, bool quiet);

/* ---- search_plot.c ---- */
/* berth search importance NAME [METRIC], berth search plot NAME [PICTURE [X Y]]; ops->n is 2 or
 * more. */
int search_plot(struct cli *c, const struct search_opts *o, const struct operands *ops,
                struct err *e);

/* ---- search_verbs.c ---- */
/* berth search VERB …; ops->p[0] is the verb. */
int search_verb(struct cli *c, const struct search_opts *o, const struct operands *ops);
#define SEARCH_VERBS "ls|show|best|trials|export|importance|plot|extend|resume|stop|enqueue|rm"
bool search_is_verb(const char *word);
