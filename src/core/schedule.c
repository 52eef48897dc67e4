/* schedule.c - schedules: kept, found due, fired
 *
 * Owns: the list of schedules and the one firing that each may have under way.
 *
 * A firing has three steps: the core chooses the moment, ops->fire makes the submission (perhaps on
 * another thread), and the core submits it together with the settled moment.  Until the third step
 * is durable the schedule has `firing` set, so no other moment of it is looked at.  A crash before
 * the commit leaves no trace, and the next daemon chooses again.
 *
 * There is no timer of its own: core_next_wake has the time of the next look.  The wall clock may
 * be set and the machine may sleep, so a look comes at least every LOOK_MS.
 */
#include "core/schedule.h"
#include "core/core_priv.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LOOK_MS = 20000, AGAIN_MS = 2000, NAME_BYTES_MAX = 200, PER_USER_MAX = 1000 };

/* ---- the list ---- */

static void schedule_free(struct schedule *s)
{
    if (!s)
        return;
    free(s->name);
    free(s->trouble);
    json_free(s->def);
    free(s);
}

void schedules_free(struct core *c)
{
    for (size_t i = 0; i < c->schedules.all.n; i++)
        schedule_free(c->schedules.all.p[i]);
    vec_done(&c->schedules.all);
}

size_t core_schedule_count(const struct core *c)
{
    return c->schedules.all.n;
}

const struct schedule *core_schedule_at(const struct core *c, size_t at)
{
    return c->schedules.all.p[at];
}

static struct schedule *schedule_by_seq(const struct core *c, uint64_t seq)
{
    for (size_t i = 0; i < c->schedules.all.n; i++)
        if (c->schedules.all.p[i]->seq == seq)
            return c->schedules.all.p[i];
    return NULL;
}

const struct schedule *core_schedule_find(const struct core *c, struct str name, uint32_t uid)
{
    for (size_t i = 0; i < c->schedules.all.n; i++)
        if (c->schedules.all.p[i]->owner.uid == uid && str_eq_c(name, c->schedules.all.p[i]->name))
            return c->schedules.all.p[i];
    return NULL;
}

bool core_schedules_wait(const struct core *c)
{
    for (size_t i = 0; i < c->schedules.all.n; i++)
        if (c->schedules.all.p[i]->next_s || c->schedules.all.p[i]->firing)
            return true;
    return false;
}

/* Without ops->zone every schedule counts in UTC. */
static int32_t utc_offset(void *self, int64_t utc_s)
{
    (void)self;
    (void)utc_s;
    return 0;
}

/* Reads the rules of a definition.  On failure nothing is changed. */
static int read_definition(const struct core *c, const struct json *def,
                           struct schedule_rules *rules, struct cron_zone *zone, struct err *e)
{
    struct schedule_rules r;
    struct cron_zone z = {utc_offset, NULL};

    if (schedule_rules_read(def, &r, e) < 0)
        return -1;
    if (c->conf.ops->zone && c->conf.ops->zone(c->conf.self, r.timezone, &z, e) < 0)
        return -1;
    *rules = r;
    *zone = z;
    return 0;
}

/* Counts from the last settled moment and not from now, so that no moment is lost between two
 * looks. */
static void schedule_set_next(struct core *c, struct schedule *s)
{
    s->next_s = s->paused ? 0 : schedule_after(&s->rules, &s->zone, s->settled_s);
    c->schedules.look_ms = 0;
}

static void schedule_set_trouble(struct schedule *s, struct str text)
{
    free(s->trouble);
    s->trouble = text.n ? xstrndup(text.p, text.n) : NULL;
}

/* A definition that cannot be read any more, for example because its time zone is not installed,
 * stays as it is, paused and with the reason. */
void schedule_restore(struct core *c, const struct schedule_row *r)
{
    struct schedule *s = xcalloc(1, sizeof(*s));
    struct err e = {0};

    s->seq = r->seq;
    s->name = xstrndup(r->name.p, r->name.n);
    s->owner = (struct caller){.uid = r->uid, .gid = r->gid};
    snprintf(s->owner.user, sizeof(s->owner.user), STR_FMT, STR_ARG(r->user));
    s->paused = r->paused;
    s->created_ms = r->created_ms;
    s->settled_s = r->settled_s;
    s->last_job = r->last_job;
    s->last_n = r->last_n;
    schedule_set_trouble(s, r->trouble);
    if (json_parse(r->def, "schedule", &s->def, &e) < 0 ||
        read_definition(c, s->def, &s->rules, &s->zone, &e) < 0) {
        s->paused = true;
        schedule_set_trouble(s, str_of(e.text));
    }
    schedule_set_next(c, s);
    vec_push(&c->schedules.all, s);
    c->schedules.next_seq = MAX(c->schedules.next_seq, s->seq + 1);
}

/* ---- settling ---- */

static void schedule_notice(struct core *c, const char *text)
{
    if (c->conf.ops->notice)
        c->conf.ops->notice(c->conf.self, str_of(text));
}

/* The moment as people of its time zone write it. */
static void moment_text(const struct schedule *s, int64_t at_s, char out[32])
{
    time_t t = (time_t)(at_s + s->zone.offset(s->zone.self, at_s));
    struct tm tm = {0};

    gmtime_r(&t, &tm);
    strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm);
}

/* Moments up to settle_s are settled without a job; `why` is for people, empty = no trouble. */
static void schedule_settle(struct core *c, struct schedule *s, int64_t settle_s, struct str why)
{
    s->settled_s = MAX(s->settled_s, settle_s);
    schedule_set_trouble(s, why);
    schedule_set_next(c, s);
    core_stage(c, &(struct change){.kind = CHANGE_SCHEDULE_SETTLED,
                                   .at_ms = core_wall(c),
                                   .schedule_settled = {
                                       .seq = s->seq, .settled_s = s->settled_s, .trouble = why}});
}

/* ---- one firing ---- */

static struct firing *firing_new(struct core *c, const struct schedule *s, int64_t at_s)
{
    struct firing *f = xcalloc(1, sizeof(*f));

    *f = (struct firing){.core = c,
                         .schedule = s->seq,
                         .name = xstrdup(s->name),
                         .owner = s->owner,
                         .def = json_copy(s->def),
                         .at_s = at_s};
    return f;
}

static void firing_free(struct firing *f)
{
    free(f->name);
    free((char *)f->key.p);
    json_free(f->def);
    free(f);
}

/* The schedule for which `f` still counts; NULL: it was removed, changed or paused meanwhile. */
static struct schedule *firing_schedule(const struct firing *f)
{
    struct schedule *s = schedule_by_seq(f->core, f->schedule);

    return s && (f->done || s->firing == f) ? s : NULL;
}

/* Nothing was submitted.  A passing obstacle is tried again; anything else settles the moment, so
 * that one bad moment does not keep the schedule from the next. */
static void firing_failed(struct firing *f, const struct err *e)
{
    struct core *c = f->core;
    struct schedule *s = firing_schedule(f);
    char when[32], text[400];

    if (f->done) {
        f->done(f->arg, e, NULL);
    } else if (s && err_retryable(e->code)) {
        s->firing = NULL;
        c->schedules.look_ms = core_mono(c) + AGAIN_MS;
    } else if (s) {
        s->firing = NULL;
        moment_text(s, f->at_s, when);
        snprintf(text, sizeof(text), "schedule %s: the run of %s cannot be submitted: %s", s->name,
                 when, e->text);
        schedule_notice(c, text);
        schedule_settle(c, s, f->settle_s, str_of(e->text));
    }
    firing_free(f);
}

/* The jobs and the moment are durable, or were refused together. */
static void firing_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    struct firing *f = arg;
    struct core *c = f->core;
    struct schedule *s = schedule_by_seq(c, f->schedule);

    if (e) {
        firing_failed(f, e);
        return;
    }
    if (s) {
        s->last_job = r->first;
        s->last_n = r->n;
        schedule_set_trouble(s, STR(""));
        s->settled_s = MAX(s->settled_s, f->settle_s);
        if (s->firing == f)
            s->firing = NULL;
        schedule_set_next(c, s);
    }
    if (f->done)
        f->done(f->arg, NULL, r);
    firing_free(f);
}

/* The first active job of those that the schedule submitted last; 0 = all have ended. */
static uint64_t schedule_active_job(const struct core *c, const struct schedule *s)
{
    for (uint64_t n = s->last_job; n < s->last_job + s->last_n; n++)
        if (core_job_active(c, n, NULL))
            return n;
    return 0;
}

static void cancel_answered(void *arg, const struct err *e, const struct acted *r)
{
    (void)arg;
    (void)e;
    (void)r;
}

/* Cancels what the schedule submitted last, in the transaction of the new job. */
static void schedule_cancel_last(struct core *c, const struct schedule *s)
{
    VEC(uint64_t) jobs = {0};

    for (uint64_t n = s->last_job; n < s->last_job + s->last_n; n++)
        if (core_job_active(c, n, NULL))
            vec_push(&jobs, n);
    if (jobs.n)
        core_cancel(c, jobs.p, jobs.n, &s->owner, cancel_answered, NULL);
    vec_done(&jobs);
}

void core_fired_take(struct firing *f, struct submission *s, const struct err *e)
{
    const struct schedule *x = firing_schedule(f);
    struct err gone = {0};

    if (!s) {
        firing_failed(f, e);
        return;
    }
    if (!x) {
        err_set(&gone, ERR_NOT_FOUND, "schedule %.100s was changed or removed meanwhile", f->name);
        s->free_fn(s);
        firing_failed(f, &gone);
        return;
    }
    s->schedule.seq = f->schedule;
    s->schedule.name = str_of(f->name);
    s->schedule.settled_s = f->settle_s;
    if (!f->done && x->rules.overlap == OVERLAP_REPLACE)
        schedule_cancel_last(f->core, x);
    core_submit_take(f->core, s, &f->owner, firing_submitted, f);
}

static void firing_begin(struct core *c, struct firing *f)
{
    struct err e = {0};

    if (c->conf.ops->fire) {
        c->conf.ops->fire(c->conf.self, f);
        return;
    }
    err_set(&e, ERR_INVALID, "this program does not run schedules; start `berth serve`");
    core_fired_take(f, NULL, &e);
}

/* ---- what is due ---- */

static void notice_missed(struct core *c, const struct schedule *s,
                          const struct schedule_choice *choice)
{
    char first[32], last[32], text[400];

    moment_text(s, choice->missed_s, first);
    moment_text(s, choice->settle_s, last);
    snprintf(text, sizeof(text), "schedule %s: the run of %s was missed and is skipped%s%s",
             s->name, first, choice->fire_s ? ", as are all before the run of " : "",
             choice->fire_s ? last : "");
    schedule_notice(c, text);
}

static void schedule_due(struct core *c, struct schedule *s, int64_t now_s)
{
    struct schedule_choice choice = schedule_choose(&s->rules, &s->zone, s->settled_s, now_s);
    uint64_t active;
    char text[120];

    if (choice.missed_s && now_s - choice.missed_s >= SCHEDULE_LATE_S)
        notice_missed(c, s, &choice);
    if (!choice.fire_s) {
        schedule_settle(c, s, choice.settle_s, STR("the last run was missed and is skipped"));
    } else if (s->rules.overlap == OVERLAP_SKIP && (active = schedule_active_job(c, s)) != 0) {
        char when[32];
        moment_text(s, choice.fire_s, when);
        snprintf(text, sizeof(text), "the run of %s was skipped: job %llu has not ended", when,
                 (unsigned long long)active);
        schedule_settle(c, s, choice.settle_s, str_of(text));
    } else {
        s->firing = firing_new(c, s, choice.fire_s);
        s->firing->settle_s = choice.settle_s;
        firing_begin(c, s->firing);
    }
}

/* The time of the next look, from the first moment that comes. */
static void schedules_plan_look(struct core *c)
{
    int64_t first = INT64_MAX, now_ms = core_wall(c);

    for (size_t i = 0; i < c->schedules.all.n; i++) {
        const struct schedule *s = c->schedules.all.p[i];
        if (s->next_s && !s->firing)
            first = MIN(first, s->next_s);
    }
    c->schedules.look_ms = -1;
    if (first != INT64_MAX)
        c->schedules.look_ms =
            core_mono(c) + MAX(MIN(first * 1000 - now_ms, (int64_t)LOOK_MS), (int64_t)1);
}

void schedules_fire_due(struct core *c)
{
    struct ledger *led = &c->conf.ledger;
    int64_t now_s = core_wall(c) / 1000, mono = core_mono(c);

    if (!c->recovered || c->schedules.look_ms < 0 || c->schedules.look_ms > mono)
        return;
    if (!led->healthy(led->self)) {
        c->schedules.look_ms = mono + AGAIN_MS;
        return;
    }
    for (size_t i = 0; i < c->schedules.all.n; i++) {
        struct schedule *s = c->schedules.all.p[i];
        if (s->next_s && !s->firing && s->next_s <= now_s)
            schedule_due(c, s, now_s);
    }
    schedules_plan_look(c);
}

int64_t schedules_next_wake(const struct core *c)
{
    return c->schedules.all.n ? c->schedules.look_ms : -1;
}

/* ---- requests ---- */

/* The schedule `seq`, if the caller may change it; otherwise NULL and the reason. */
static struct schedule *schedule_of_caller(const struct core *c, uint64_t seq,
                                           const struct caller *who, struct err *e)
{
    struct schedule *s = schedule_by_seq(c, seq);

    if (!s)
        err_set(e, ERR_NOT_FOUND, "there is no such schedule; `berth cron ls` lists the schedules");
    else if (!caller_sees(who, s->owner.uid)) {
        err_set(e, ERR_DENIED, "schedule %.100s belongs to %s", s->name, s->owner.user);
        return NULL;
    }
    return s;
}

/* The schedule as it is in memory becomes the recorded one.  A firing under way does not count any
 * more, unless its jobs are staged already. */
static void schedule_record(struct core *c, struct schedule *s, const struct caller *who,
                            core_act_fn done, void *arg)
{
    AUTO_FREE char *text = json_text(s->def);

    s->firing = NULL;
    schedule_set_trouble(s, STR(""));
    schedule_set_next(c, s);
    set_and_answer(c,
                   &(struct change){CHANGE_BY(c, who, CHANGE_SCHEDULE),
                                    .schedule.row = {.seq = s->seq,
                                                     .name = str_of(s->name),
                                                     .user = str_of(s->owner.user),
                                                     .uid = s->owner.uid,
                                                     .gid = s->owner.gid,
                                                     .def = str_of(text),
                                                     .paused = s->paused,
                                                     .created_ms = s->created_ms,
                                                     .settled_s = s->settled_s}},
                   done, arg);
}

int definition_check_name(const char *what, struct str name, size_t theirs, size_t max,
                          const struct caller *who, struct err *e)
{
    bool plain = name.n && name.n <= NAME_BYTES_MAX && !memchr(name.p, '/', name.n);

    for (size_t i = 0; plain && i < name.n; i++)
        plain = (unsigned char)name.p[i] >= ' ' && name.p[i] != 0x7f;
    if (!plain)
        return err_set(e, ERR_INVALID,
                       "name: the name of a %s has 1 to %d bytes on one line, without /", what,
                       NAME_BYTES_MAX);
    if (theirs >= max)
        return err_set(e, ERR_LIMIT, "%s has %zu of these, which is the maximum; remove a %s first",
                       who->user, max, what);
    return 0;
}

static int check_name(const struct core *c, const struct schedule_request *r,
                      const struct caller *who, struct err *e)
{
    size_t theirs = 0;

    for (size_t i = 0; i < c->schedules.all.n; i++)
        theirs += c->schedules.all.p[i]->owner.uid == who->uid;
    return definition_check_name("schedule", r->name, theirs, PER_USER_MAX, who, e);
}

void core_schedule_add(struct core *c, const struct schedule_request *r, const struct caller *who,
                       core_act_fn done, void *arg)
{
    const struct schedule *old = core_schedule_find(c, r->name, who->uid);
    struct schedule_rules rules;
    struct cron_zone zone;
    struct err e = {0};

    if (read_definition(c, r->def, &rules, &zone, &e) < 0 ||
        (!old && check_name(c, r, who, &e) < 0)) {
        done(arg, &e, NULL);
        return;
    }
    if (old && !json_equal(old->def, r->def)) {
        err_set(&e, ERR_CONFLICT,
                "schedule " STR_FMT " exists with another definition; remove it first, or give "
                "another name",
                STR_ARG(r->name));
        done(arg, &e, NULL);
        return;
    }
    if (old) {
        track_answer(c, done, arg);
        return;
    }
    struct schedule *s = xcalloc(1, sizeof(*s));
    s->seq = c->schedules.next_seq++;
    s->name = xstrndup(r->name.p, r->name.n);
    s->owner = *who;
    s->def = json_copy(r->def);
    s->rules = rules;
    s->zone = zone;
    s->paused = r->paused;
    s->created_ms = core_wall(c);
    s->settled_s = r->settled_s ? r->settled_s : core_wall(c) / 1000;
    vec_push(&c->schedules.all, s);
    schedule_record(c, s, who, done, arg);
}

void core_schedule_set(struct core *c, uint64_t seq, const struct json *def, bool paused,
                       const struct caller *who, core_act_fn done, void *arg)
{
    struct err e = {0};
    struct schedule *s = schedule_of_caller(c, seq, who, &e);

    if (!s || read_definition(c, def, &s->rules, &s->zone, &e) < 0) {
        done(arg, &e, NULL);
        return;
    }
    struct json *copy = json_copy(def); /* `def` may be the present one */
    json_free(s->def);
    s->def = copy;
    s->paused = paused;
    s->settled_s = core_wall(c) / 1000;
    schedule_record(c, s, who, done, arg);
}

void core_schedule_pause(struct core *c, uint64_t seq, bool paused, const struct caller *who,
                         core_act_fn done, void *arg)
{
    const struct schedule *s = schedule_by_seq(c, seq);

    core_schedule_set(c, seq, s ? s->def : NULL, paused, who, done, arg);
}

void core_schedule_remove(struct core *c, uint64_t seq, const struct caller *who, core_act_fn done,
                          void *arg)
{
    struct err e = {0};
    struct schedule *s = schedule_of_caller(c, seq, who, &e);

    if (!s) {
        done(arg, &e, NULL);
        return;
    }
    for (size_t i = 0; i < c->schedules.all.n; i++)
        if (c->schedules.all.p[i] == s) {
            vec_remove(&c->schedules.all, i);
            break;
        }
    schedule_free(s);
    set_and_answer(
        c, &(struct change){CHANGE_BY(c, who, CHANGE_SCHEDULE_GONE), .schedule_gone = {.seq = seq}},
        done, arg);
}

void core_schedule_run(struct core *c, uint64_t seq, struct str key, uint64_t print,
                       const struct caller *who, core_submit_fn done, void *arg)
{
    struct err e = {0};
    const struct schedule *s = schedule_of_caller(c, seq, who, &e);

    if (!s) {
        done(arg, &e, NULL);
        return;
    }
    struct firing *f = firing_new(c, s, core_wall(c) / 1000);
    f->key = (struct str){key.n ? xstrndup(key.p, key.n) : NULL, key.n};
    f->print = print;
    f->done = done;
    f->arg = arg;
    firing_begin(c, f);
}
