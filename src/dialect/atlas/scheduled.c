/* scheduled.c - scheduled jobs come due: each firing submits one ordinary job
 *
 * Owns: the list of scheduled jobs, its timer, and the firing under way.
 *
 * A firing is named by its moment, <id>_<YYYYMMDD_HHMMSS>, and the store accepts an id only once.
 * A firing therefore has this order: copy the bundle, submit the job, write the definition with the
 * moment in it.  A server that was killed in between repeats all three and finds the job.
 *
 * Missed firings do not pile up.  Of all moments that passed while the server was down, only the
 * last one is made up for, and only if it is less than a minute ago; the others are skipped, and
 * the log says so.
 */
#include "api/submit_parse.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/scheduled_priv.h"
#include <dirent.h>
#include <stdio.h>
#include <strings.h>

enum { LATE_S = 60, LOOK_MS = 20000, AGAIN_MS = 2000 };

int64_t schedules_now(void)
{
    return clock_wall(&clock_system) / 1000;
}

/* Ids compare without case, because clients write UUIDs either way. */
struct scheduled *schedules_find(const struct schedules *s, const char *id)
{
    for (size_t i = 0; i < s->all.n; i++)
        if (!strcasecmp(s->all.p[i]->id, id))
            return s->all.p[i];
    return NULL;
}

/* Counts from the last settled moment and not from now, so that no moment is lost between two
 * looks. */
static void set_next(struct scheduled *x)
{
    x->next_s = x->paused ? 0 : scheduled_after(x, x->done_s);
}

void schedules_drop(struct schedules *s, const char *id)
{
    for (size_t i = 0; i < s->all.n; i++)
        if (!strcmp(s->all.p[i]->id, id)) {
            scheduled_free(s->all.p[i]);
            vec_remove(&s->all, i);
            return;
        }
}

/* Replaces the definition with the same id, or adds a new one. */
void schedules_put_take(struct schedules *s, struct scheduled *x)
{
    struct scheduled *old = schedules_find(s, x->id);

    set_next(x);
    for (size_t i = 0; i < s->all.n; i++)
        if (s->all.p[i] == old) {
            s->all.p[i] = x;
            scheduled_free(old);
            return;
        }
    vec_push(&s->all, x);
}

static void schedules_step(struct schedules *s);

static void schedules_on_timer(void *arg)
{
    schedules_step(arg);
}

/* ---- one firing ---- */

struct firing {
    struct schedules *s;
    struct scheduled *x; /* changed, to be written and to take its place in the list */
    int64_t at_s;        /* the moment that is fired; 0 = all were missed */
    int64_t missed_s;    /* the first moment that was missed; 0 = none */
    char id[ATLAS_ID_MAX];
    struct atlas_room room;
    struct submit *submit; /* NULL once the controller has it */
    bool there;            /* the job exists: an earlier server submitted it */
    struct err err;
};

/* Frees the firing and lets the next request or firing begin. */
static void firing_end(struct firing *f)
{
    struct schedules *s = f->s;

    scheduled_free(f->x);
    submit_free(f->submit);
    free(f);
    s->busy = false;
    schedules_step(s);
}

/* The server counts as busy while a worker thread has the firing. */
static void firing_work(struct firing *f, loop_fn run, loop_fn then)
{
    request_server_hold(f->s->a->conf.requests);
    work_submit(f->s->a->conf.loop, run, then, f);
}

/* Writes the moment into the definition, so that it is not fired again. */
static void firing_settle_work(void *arg)
{
    struct firing *f = arg;

    fault_sleep("BERTH_FAULT_FIRED_MS");
    f->err = (struct err){0};
    scheduled_write(f->s->dir, f->x, &f->err);
}

static void firing_settle_done(void *arg)
{
    struct firing *f = arg;

    request_server_release(f->s->a->conf.requests);
    if (f->err.code) /* the firing is not repeated all the same: its job exists in the store */
        log_warn("atlas", "%s", f->err.text);
    schedules_put_take(f->s, TAKE(f->x));
    firing_end(f);
}

static void firing_settle(struct firing *f)
{
    firing_work(f, firing_settle_work, firing_settle_done);
}

/* The store refused the job for good: its copy of the bundle is dropped, the moment is settled. */
static void firing_undo_work(void *arg)
{
    struct firing *f = arg;
    char tree[ATLAS_TREE_MAX];

    atlas_bundle_tree(f->id, tree);
    cas_drop_tree(f->s->a->cas, tree, NULL);
    firing_settle_work(f);
}

/* The controller has answered: queued, queued before, busy, or refused for good. */
static void on_fired(void *arg, const struct err *e, const struct submitted *r)
{
    struct firing *f = arg;

    (void)r;
    request_server_release(f->s->a->conf.requests);
    if (!e) {
        log_info("atlas", "scheduled job %s: run %s is queued", f->x->id, f->id);
        firing_settle(f);
    } else if (e->code == ERR_CONFLICT) {
        firing_settle(f); /* an earlier server queued this run */
    } else if (err_retryable(e->code)) {
        log_warn("atlas", "scheduled job %s: %s; trying again", f->x->id, e->text);
        timer_start(f->s->timer, AGAIN_MS, 0);
        struct schedules *s = f->s;
        scheduled_free(f->x);
        free(f);
        s->busy = false; /* the timer calls schedules_step later */
    } else {
        log_warn("atlas", "scheduled job %s: run %s cannot be queued: %s", f->x->id, f->id,
                 e->text);
        firing_work(f, firing_undo_work, firing_settle_done);
    }
}

static bool firing_job_exists(const struct firing *f, const char *id)
{
    uint64_t job;
    struct err none;

    return atlas_resolve(f->s->a->conf.store, id, &job, &none) == 0;
}

/* Logs that runs were missed.  The first of them may have been under way when the server was
 * killed: then its job exists, or its copy of the bundle is dropped. */
static void skip_missed(const struct firing *f)
{
    char first[ATLAS_ID_MAX], tree[ATLAS_TREE_MAX];

    scheduled_run_id(f->x, f->missed_s, first);
    if (firing_job_exists(f, first))
        return;
    log_warn("atlas", "scheduled job %s: run %s was missed and is skipped%s%s", f->x->id, first,
             f->at_s ? ", as are all before " : "", f->at_s ? f->id : "");
    atlas_bundle_tree(first, tree);
    cas_drop_tree(f->s->a->cas, tree, NULL);
}

/* The bundle is copied first, because the job must not exist without it. */
static void firing_start_work(void *arg)
{
    struct firing *f = arg;
    struct atlas *a = f->s->a;
    struct atlas_submission s;
    char from[ATLAS_TREE_MAX], to[ATLAS_TREE_MAX];

    if (f->missed_s)
        skip_missed(f);
    if (!f->at_s || (f->there = firing_job_exists(f, f->id)))
        return;
    scheduled_tree(f->x->id, from);
    atlas_bundle_tree(f->id, to);
    if (atlas_submission_read(f->x->def, &s, &f->err) < 0 ||
        cas_copy_tree(a->cas, from, to, &f->err) < 0)
        return;
    s.id = f->id;
    if (atlas_prepare(a, &s, &f->room, &f->x->owner, &f->submit, &f->err) < 0)
        cas_drop_tree(a->cas, to, NULL);
}

/* The controller takes the job now; on_fired follows its commit. */
static void firing_start_done(void *arg)
{
    struct firing *f = arg;
    struct atlas *a = f->s->a;

    request_server_release(a->conf.requests);
    if (f->err.code)
        log_warn("atlas", "scheduled job %s: run %s cannot be made: %s", f->x->id, f->id,
                 f->err.text);
    if (!f->submit) {
        firing_settle(f);
        return;
    }
    if (a->closing) { /* the next server fires it */
        firing_end(f);
        return;
    }
    struct submit *x = TAKE(f->submit);
    x->who = f->x->owner;
    request_server_hold(a->conf.requests);
    core_submit_take(a->conf.core, &x->s, &x->who, on_fired, f);
}

/* Chooses which of the moments up to now is fired: the last one, if it is not too long ago. */
static void firing_choose(struct firing *f, int64_t now)
{
    int64_t t = f->x->next_s;

    if (now - t >= LATE_S) {
        f->missed_s = t;
        t = scheduled_after(f->x, now - LATE_S);
    }
    for (int64_t later; t && t <= now; t = later) {
        later = scheduled_after(f->x, t);
        if (f->at_s && !f->missed_s)
            f->missed_s = f->at_s;
        f->at_s = t;
    }
    f->x->done_s = f->at_s ? f->at_s : now;
    if (f->at_s)
        scheduled_run_id(f->x, f->at_s, f->id);
}

/* Works on a copy: the definition in the list stays as it is until the firing is settled. */
static void fire(struct schedules *s, const struct scheduled *x, int64_t now)
{
    struct firing *f = xcalloc(1, sizeof(*f));

    f->s = s;
    f->x = scheduled_copy(x);
    f->room = atlas_room_of(s->a);
    firing_choose(f, now);
    s->busy = true;
    firing_work(f, firing_start_work, firing_start_done);
}

/* ---- turns ---- */

static void schedules_turn_end(void *data)
{
    struct turn *t = data;

    scheduled_free(t->x);
    t->s->busy = false;
    schedules_step(t->s);
}

void schedules_turn(struct call *c, call_work_fn work, call_fn then)
{
    struct schedules *s = call_atlas(c)->schedules;

    vec_push(&s->waiting, ((struct schedules_wait){c, work, then}));
    schedules_step(s);
}

/* The list of scheduled jobs belongs to this call until schedules_turn_end. */
static void take_turn(struct schedules *s)
{
    struct schedules_wait w = s->waiting.p[0];
    struct turn *t = arena_alloc(&w.c->mem, sizeof(*t));

    *t = (struct turn){.s = s, .room = atlas_room_of(s->a)};
    vec_remove(&s->waiting, 0);
    w.c->data = t;
    w.c->free_data = schedules_turn_end;
    s->busy = true;
    atlas_work(w.c, w.work, w.then);
}

/* Requests come before firings; with neither, the timer waits for the next moment. */
static void schedules_step(struct schedules *s)
{
    int64_t now = schedules_now(), first = INT64_MAX;

    if (s->busy || s->a->closing)
        return;
    if (s->waiting.n) {
        take_turn(s);
        return;
    }
    for (size_t i = 0; i < s->all.n; i++) {
        struct scheduled *x = s->all.p[i];
        if (x->done_s > now) { /* the clock was set back; a moment with a job is not fired again */
            x->done_s = now;
            set_next(x);
        }
        if (x->next_s && x->next_s <= now) {
            fire(s, x, now);
            return;
        }
        if (x->next_s && x->next_s < first)
            first = x->next_s;
    }
    if (first == INT64_MAX) {
        timer_stop(s->timer);
        return;
    }
    /* At most LOOK_MS: the clock may be set, or the machine may sleep. */
    int64_t ms = first * 1000 - clock_wall(&clock_system);
    timer_start(s->timer, ms < 1 ? 1 : MIN(ms, (int64_t)LOOK_MS), 0);
}

/* ---- life ---- */

/* A definition that cannot be read is reported and left on disk for the operator. */
static void load_one(struct schedules *s, const char *id)
{
    AUTO_FREE char *path = xasprintf("%s/%s.json", s->dir, id);
    struct scheduled *x = NULL;
    struct err e = {0};

    if (scheduled_read(path, &x, &e) < 0)
        log_warn("atlas", "a scheduled job is ignored: %s", e.text);
    else if (strcmp(x->id, id) != 0)
        log_warn("atlas", "a scheduled job is ignored: %s is the definition of job %s", path,
                 x->id);
    else {
        int64_t now = schedules_now();
        x->done_s = x->done_s < 0 ? 0 : MIN(x->done_s, now); /* a user may have edited the file */
        schedules_put_take(s, TAKE(x));
    }
    scheduled_free(x);
}

/* A mark without a definition is the rest of a crash: everything under this id is removed. */
static void tidy_one(struct schedules *s, const char *id)
{
    AUTO_FREE char *path = xasprintf("%s/%s.json", s->dir, id);
    struct err e = {0};
    int rc = access(path, F_OK) == 0 ? scheduled_unmark(s->dir, id, &e)
                                     : scheduled_erase(s->a->cas, s->dir, id, &e);

    if (rc < 0)
        log_warn("atlas", "%s", e.text);
}

/* Is the name "<id><end>", such as "<id>.json"?  Then `id` is filled in. */
static bool is_entry(const char *name, const char *end, char id[ID_UUID_MAX])
{
    snprintf(id, ID_UUID_MAX, "%.36s", name);
    return strlen(name) > ID_UUID_LEN && !strcmp(name + ID_UUID_LEN, end) && atlas_id_ok(id);
}

int atlas_schedules_open(struct atlas *a, struct err *e)
{
    struct schedules *s = xcalloc(1, sizeof(*s));

    s->a = a;
    s->dir = path_join(a->conf.home, ATLAS_DIR_SCHEDULED);
    s->timer = timer_new(a->conf.loop, schedules_on_timer, s);
    a->schedules = s;
    return dir_make_all(s->dir, 0755, e);
}

/* Marks first: a definition that was being removed must not be loaded. */
void atlas_schedules_recover(struct atlas *a)
{
    struct schedules *s = a->schedules;
    DIR *d = opendir(s->dir);
    char id[ID_UUID_MAX];

    for (struct dirent *n; d && (n = readdir(d));)
        if (is_entry(n->d_name, ".mark", id))
            tidy_one(s, id);
    if (d)
        rewinddir(d);
    for (struct dirent *n; d && (n = readdir(d));)
        if (is_entry(n->d_name, ".json", id))
            load_one(s, id);
    if (d)
        closedir(d);
    schedules_step(s);
}

void atlas_schedules_shut(struct atlas *a)
{
    struct schedules *s = a->schedules;
    struct err e = {0};

    timer_stop(s->timer);
    err_set(&e, ERR_UNAVAILABLE, "the server is shutting down; try again in a moment");
    while (s->waiting.n) {
        struct schedules_wait w = s->waiting.p[0];
        vec_remove(&s->waiting, 0);
        call_fail(w.c, &e);
    }
}

void atlas_schedules_free(struct schedules *s)
{
    if (!s)
        return;
    timer_free(s->timer);
    for (size_t i = 0; i < s->all.n; i++)
        scheduled_free(s->all.p[i]);
    vec_done(&s->all);
    vec_done(&s->waiting);
    free(s->dir);
    free(s);
}
