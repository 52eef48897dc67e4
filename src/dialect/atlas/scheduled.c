/* scheduled.c - a scheduled job comes due: its bundle is copied, then the controller takes the job
 *
 * A firing is named by its moment, <id>_<YYYYMMDD_HHMMSS>, and the store accepts an id only once.
 * The core settles the moment together with the job.  A server that was killed after the copy and
 * before the commit leaves a copy without a job: the next start removes it, as it removes the
 * bundles of scheduled jobs that are gone.
 */
#include "api/submit_parse.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/scheduled_priv.h"
#include "model/vault.h"
#include <stdio.h>
#include <strings.h>
#include <time.h>

bool scheduled_is_ours(const struct schedule *s)
{
    return str_eq_c(json_get_str(s->def, "dialect"), ATLAS_DIALECT);
}

const struct schedule *scheduled_find(const struct atlas *a, const char *id)
{
    for (size_t i = 0; i < core_schedule_count(a->conf.core); i++) {
        const struct schedule *s = core_schedule_at(a->conf.core, i);
        if (scheduled_is_ours(s) && !strcasecmp(s->name, id))
            return s;
    }
    return NULL;
}

/* Moments are those of the server's local time, as cron has it. */
void scheduled_run_id(const char *id, int64_t s, char out[ATLAS_ID_MAX])
{
    time_t t = (time_t)s;
    struct tm tm = {0};

    localtime_r(&t, &tm);
    snprintf(out, ATLAS_ID_MAX, "%s", id);
    strftime(out + ID_UUID_LEN, ATLAS_ID_MAX - ID_UUID_LEN, "_%Y%m%d_%H%M%S", &tm);
}

/* As the original did: runs may overlap, and a moment that was missed by a minute is skipped. */
struct json *scheduled_def_take(struct json *job, const char *tree)
{
    struct json *def = json_new_object();

    json_set_str(def, "dialect", ATLAS_DIALECT);
    json_set_str(def, "tree", tree);
    json_set_str(def, "overlap", schedule_overlap_names[OVERLAP_QUEUE]);
    json_set_str(def, "catch_up", schedule_catch_up_names[CATCH_UP_NONE]);
    json_set_take(def, "cron", json_copy(json_get(job, "schedule")));
    json_set_take(def, "job", job);
    return def;
}

/* ---- secrets ---- */

/* spec.environment as a map; clients send a map or texts "K=V".  Yours. */
static struct json *environment_map(const struct json *from)
{
    struct json *map = json_type(from) == JSON_OBJECT ? json_copy(from) : json_new_object();

    for (size_t i = 0; i < (json_type(from) == JSON_ARRAY ? json_len(from) : 0); i++) {
        struct str text = json_type(json_at(from, i)) == JSON_STR ? json_str(json_at(from, i))
                                                                  : STR(""),
                   value, name = str_cut(text, '=', &value);
        AUTO_FREE char *key = xstrndup(name.p, name.n);
        json_set_take(map, key, json_new_str(value));
    }
    return map;
}

/* Puts these variables into spec.environment of the job; `values` NULL = their names only. */
static void set_environment(struct json *job, const struct json *names, const struct json *values)
{
    struct json *spec = json_copy(json_get(job, "spec")),
                *env = environment_map(json_get(spec, "environment"));

    for (struct json_it it = {0}; json_next(names, &it);)
        json_set_take(env, it.key,
                      values ? json_copy(json_get(values, it.key)) : json_new_str(STR("***")));
    json_set_take(spec, "environment", env);
    json_set_take(job, "spec", spec);
}

void scheduled_hide(const struct vault *vault, struct json *def)
{
    const struct json *env = json_get(json_get(json_get(def, "job"), "spec"), "environment");
    AUTO(json) struct json *form = json_new_object();
    struct json *job = json_copy(json_get(def, "job")), *sealed;
    struct err e;

    json_set_take(form, "env", environment_map(env));
    if (vault && vault_seal_form(vault, form, &sealed, &e) == 0 && sealed) {
        set_environment(job, sealed, NULL);
        json_set_take(def, "job", TAKE(job));
        json_set_take(def, "sealed", sealed);
    }
    json_free(job);
}

/* The job of a definition as the client sent it.  Yours. */
static int scheduled_reveal(const struct vault *vault, const struct json *def, struct json **out,
                            struct err *e)
{
    const struct json *sealed = json_get(def, "sealed");
    AUTO(json) struct json *form = json_new_object(), *job = json_copy(json_get(def, "job"));

    if (vault && sealed) {
        json_set_take(form, "sealed", json_copy(sealed));
        if (vault_open_tree(vault, form, e) < 0)
            return -1;
        set_environment(job, sealed, json_get(form, "env"));
    }
    *out = TAKE(job);
    return 0;
}

/* ---- one firing ---- */

/* One firing.  The worker thread reads `f` and `room` and fills `submit` and `err`. */
struct atlas_firing {
    struct atlas *a;
    struct firing *f;
    struct atlas_room room;
    struct submit *submit; /* NULL once the controller has it */
    struct err err;
};

/* Any thread.  1 = the run exists, 0 = it does not, -1 = the store cannot say. */
static int scheduled_run_find(const struct atlas *a, const char *run, struct err *e)
{
    uint64_t job;

    if (atlas_resolve(a->conf.store, run, &job, e) == 0)
        return 1;
    return e->code == ERR_NOT_FOUND ? 0 : -1;
}

/* Worker thread.  The bundle is copied first, because the job must not exist without it.  A failure
 * after the copy removes the copy again. */
static int firing_prepare(struct atlas_firing *w)
{
    struct firing *f = w->f;
    AUTO(json) struct json *job = NULL; /* the submission borrows from it */
    struct atlas_submission s;
    char run[ATLAS_ID_MAX], to[ATLAS_TREE_MAX];

    scheduled_run_id(f->name, f->at_s, run);
    atlas_bundle_tree(run, to);
    if (scheduled_reveal(core_vault(w->a->conf.core), f->def, &job, &w->err) < 0 ||
        atlas_submission_read(job, &s, &w->err) < 0)
        return -1;
    int found = scheduled_run_find(w->a, run, &w->err);
    if (found)
        return found < 0 ? -1 : err_set(&w->err, ERR_CONFLICT, "run %s exists already", run);
    w->err = (struct err){0};
    if (cas_copy_tree(w->a->cas, json_get_str(f->def, "tree").p, to, &w->err) < 0)
        return -1;
    s.id = run;
    if (atlas_prepare(w->a, &s, &w->room, &f->owner, &w->submit, &w->err) < 0) {
        cas_drop_tree(w->a->cas, to, NULL);
        return -1;
    }
    if (f->key.n)
        w->submit->s.idempotency_key = (struct str){xstrndup(f->key.p, f->key.n), f->key.n};
    w->submit->s.idempotency_print = f->print;
    return 0;
}

static void firing_work(void *arg)
{
    struct atlas_firing *w = arg;

    if (firing_prepare(w) == 0)
        fault_sleep("BERTH_FAULT_FIRED_MS");
}

/* Nothing is submitted, so nothing needs the copy of the bundle. */
static void firing_withdraw(struct atlas_firing *w)
{
    char run[ATLAS_ID_MAX], to[ATLAS_TREE_MAX];

    submit_free(TAKE(w->submit));
    scheduled_run_id(w->f->name, w->f->at_s, run);
    atlas_bundle_tree(run, to);
    cas_drop_tree(w->a->cas, to, NULL);
}

/* Loop thread.  A server that closes answers with an error that is retried, so the moment is not
 * settled.  Of a schedule that was removed meanwhile no later start would look for copies. */
static void firing_done(void *arg)
{
    struct atlas_firing *w = arg;

    request_server_release(w->a->conf.requests);
    if (w->submit && !core_schedule_find(w->a->conf.core, str_of(w->f->name), w->f->owner.uid)) {
        err_set(&w->err, ERR_NOT_FOUND, "schedule %.100s was removed meanwhile", w->f->name);
        firing_withdraw(w);
    } else if (w->submit && w->a->closing) {
        err_set(&w->err, ERR_UNAVAILABLE, "the server is shutting down");
        firing_withdraw(w);
    }
    core_fired_take(w->f, w->submit ? &w->submit->s : NULL, &w->err);
    free(w);
}

void atlas_fire(void *self, struct firing *f)
{
    struct atlas_firing *w = xcalloc(1, sizeof(*w));

    *w = (struct atlas_firing){.a = self, .f = f, .room = atlas_room_of(self)};
    request_server_hold(w->a->conf.requests);
    work_submit(w->a->conf.loop, firing_work, firing_done, w);
}

/* ---- what a crash left behind ---- */

/* What the callbacks of cas_each_tree get.  `s` and `oldest` belong to sweep_run alone. */
struct sweep {
    const struct atlas *a;
    const struct schedule *s; /* of sweep_runs */
    char oldest[ATLAS_ID_MAX];
};

/* A bundle that belongs to no scheduled job. */
static void sweep_kept(void *ctx, const char *tree)
{
    const struct sweep *w = ctx;

    for (size_t i = 0; i < core_schedule_count(w->a->conf.core); i++)
        if (str_eq_c(json_get_str(core_schedule_at(w->a->conf.core, i)->def, "tree"), tree))
            return;
    log_info("atlas", "bundle %s belongs to no scheduled job and is removed", tree);
    cas_drop_tree(w->a->cas, tree, NULL);
}

/* A copy of a bundle whose run was not submitted.  Only runs near the last settled moment are
 * looked up: older ones were submitted, or were removed by an earlier start. */
static void sweep_run(void *ctx, const char *tree)
{
    const struct sweep *w = ctx;
    const char *run = tree + strlen("bundle-");
    struct err e = {0};

    if (strcmp(run, w->oldest) >= 0 && scheduled_run_find(w->a, run, &e) == 0)
        cas_drop_tree(w->a->cas, tree, NULL);
}

/* Before the first request and the first firing, so nothing is under way. */
void atlas_schedules_recover(struct atlas *a)
{
    enum { DAY_S = 86400 };
    struct sweep w = {.a = a};

    scheduled_import(a);
    cas_each_tree(a->cas, "schedule-", sweep_kept, &w);
    for (size_t i = 0; i < core_schedule_count(a->conf.core); i++) {
        char prefix[ATLAS_TREE_MAX];
        w.s = core_schedule_at(a->conf.core, i);
        if (!scheduled_is_ours(w.s))
            continue;
        scheduled_run_id(w.s->name, w.s->settled_s - DAY_S, w.oldest);
        snprintf(prefix, sizeof(prefix), "bundle-%s_", w.s->name);
        cas_each_tree(a->cas, prefix, sweep_run, &w);
    }
}
