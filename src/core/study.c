/* study.c - studies: kept, changed by people
 *
 * Owns: the list of studies, their engines and their trials in memory.
 * Does not own: requests for points and results (study_call.c), what results mean (study_result.c),
 * proposals and jobs (study_run.c), studies after a restart (study_wake.c).
 */
#include "core/study_priv.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PER_USER_MAX = 10000 };

const char *const study_state_names[] = {"running", "paused", "finished"};
const char *const trial_state_names[] = {"running", "done", "failed", "pruned", "waiting"};

/* ---- the list ---- */

void study_free(struct study *s)
{
    if (!s)
        return;
    while (s->calls.n)
        study_call_free(vec_pop(&s->calls));
    study_asking_free(s->asking);
    tune_study_free(s->engine);
    tune_stop_free(s->stop);
    json_free(s->def);
    vec_done(&s->calls);
    vec_done(&s->leases);
    while (s->front.n)
        free(vec_pop(&s->front).params);
    vec_done(&s->front);
    vec_done(&s->values);
    vec_done(&s->trials);
    FREE_EACH(s->name, s->trouble, s->best.params, s);
}

void studies_free(struct core *c)
{
    uint64_t key;
    void *val;

    for (size_t i = 0; i < c->studies.all.n; i++)
        study_free(c->studies.all.p[i]);
    vec_done(&c->studies.all);
    for (size_t it = 0; map_u64_next(&c->studies.jobs, &it, &key, &val);)
        free(val);
    map_u64_done(&c->studies.jobs);
    map_u64_done(&c->studies.by_seq);
}

size_t core_study_count(const struct core *c)
{
    return c->studies.all.n;
}

const struct study *core_study_at(const struct core *c, size_t at)
{
    return c->studies.all.p[at];
}

struct study *study_by_seq(const struct core *c, uint64_t seq)
{
    return map_u64_get(&c->studies.by_seq, seq);
}

void study_list(struct core *c, struct study *s)
{
    vec_push(&c->studies.all, s);
    map_u64_put(&c->studies.by_seq, s->seq, s);
    c->studies.next_seq = MAX(c->studies.next_seq, s->seq + 1);
}

const struct study *core_study_find(const struct core *c, struct str name, uint32_t uid)
{
    for (size_t i = 0; i < c->studies.all.n; i++)
        if (c->studies.all.p[i]->owner.uid == uid && str_eq_c(name, c->studies.all.p[i]->name))
            return c->studies.all.p[i];
    return NULL;
}

void study_set_trouble(struct study *s, const char *text)
{
    free(s->trouble);
    s->trouble = text && *text ? xstrdup(text) : NULL;
}

enum study_state study_state_of(const struct study *s)
{
    int64_t own = (int64_t)s->asked - s->rules.warm;
    bool all = s->exhausted || (s->rules.trials >= 0 && own >= s->rules.trials);

    if (all && !s->counts[TRIAL_RUNNING] && !s->counts[TRIAL_WAITING] && !s->asking)
        return STUDY_FINISHED;
    return s->paused || !s->engine ? STUDY_PAUSED : STUDY_RUNNING;
}

bool core_studies_wait(const struct core *c)
{
    for (size_t i = 0; i < c->studies.all.n; i++)
        if (c->studies.all.p[i]->asking)
            return true;
    return false;
}

/* ---- trials ---- */

void study_trial_note(struct study *s, enum trial_state state)
{
    vec_push(&s->trials, ((struct study_trial){.value = NAN, .state = state, .pruned_at = -1}));
    for (size_t i = 0; s->rules.n_goals > 1 && i < s->rules.n_goals; i++)
        vec_push(&s->values, NAN);
    s->counts[state]++;
    s->asked++;
    s->ops++;
}

uint64_t study_trial_add(struct study *s, const double *code, enum trial_state state)
{
    study_trial_note(s, state);
    return (uint64_t)tune_study_record(s->engine, code);
}

/* ---- requests ---- */

/* The study `seq`, if the caller may change it; otherwise NULL and the reason. */
struct study *study_of_caller(const struct core *c, uint64_t seq, const struct caller *who,
                              struct err *e)
{
    struct study *s = study_by_seq(c, seq);

    if (s && !caller_sees(who, s->owner.uid)) {
        err_set(e, ERR_DENIED, "study %.100s belongs to %s", s->name, s->owner.user);
        return NULL;
    }
    if (!s)
        err_set(e, ERR_NOT_FOUND, "there is no such study; `berth search ls` lists the studies");
    return s;
}

/* The study as it is in memory becomes the recorded one. */
static void study_stage(struct core *c, const struct study *s, const struct caller *who)
{
    AUTO_FREE char *text = json_text(s->def);

    core_stage(c, &(struct change){CHANGE_BY(c, who, CHANGE_STUDY),
                                   .study.row = {.seq = s->seq,
                                                 .name = str_of(s->name),
                                                 .user = str_of(s->owner.user),
                                                 .uid = s->owner.uid,
                                                 .gid = s->owner.gid,
                                                 .def = str_of(text),
                                                 .paused = s->paused,
                                                 .created_ms = s->created_ms}});
}

static int study_check_name(const struct core *c, struct str name, const struct caller *who,
                            struct err *e)
{
    size_t theirs = 0;

    for (size_t i = 0; i < c->studies.all.n; i++)
        theirs += c->studies.all.p[i]->owner.uid == who->uid;
    return definition_check_name("study", name, theirs, PER_USER_MAX, who, e);
}

double *study_code_of(const struct study *s, struct str params, struct err *e)
{
    const struct tune_space *space = tune_study_space(s->engine);
    double *code = xcalloc(space->n + 1, sizeof(*code));
    AUTO(json) struct json *tree = NULL;

    if (json_parse(params, "params", &tree, e) == 0 && tune_space_read(space, tree, code, e) == 0)
        return code;
    free(code);
    return NULL;
}

/* Results of another study that fit into the space of this one are its first trials. */
static void study_warm(struct core *c, struct study *s, const struct study *from)
{
    const struct tune_space *theirs = tune_study_space(from->engine);
    AUTO(buf) struct buf text = {0};

    for (uint64_t n = 1; n <= from->trials.n; n++) {
        const struct study_trial *t = &from->trials.p[n - 1];
        const double *code = NULL;
        if (t->state != TRIAL_DONE || !tune_study_get(from->engine, (int64_t)n, &code))
            continue;
        buf_reset(&text);
        tune_space_write(theirs, code, NULL, &text);
        double *mine = study_code_of(s, buf_str(&text), NULL);
        if (!mine)
            continue;
        struct trial_row row = {.study = s->seq, .params = buf_str(&text)};
        AUTO(buf) struct buf values = {0};
        row.number = study_trial_add(s, mine, TRIAL_RUNNING);
        row.asked = s->ops;
        study_trial_result(s, row.number, TRIAL_DONE, study_values(from, n));
        study_values_write(s, row.number, &values);
        row.told = s->ops;
        row.state = TRIAL_DONE;
        row.value = t->value;
        row.values = buf_str(&values);
        free(mine);
        core_stage(c,
                   &(struct change){.kind = CHANGE_TRIAL, .at_ms = core_wall(c), .trial.row = row});
    }
    s->rules.warm = (int64_t)s->trials.n;
    json_set_int(s->def, "warm", s->rules.warm);
}

static struct study *study_new(struct core *c, struct str name, const struct json *def,
                               const struct caller *who, struct err *e)
{
    struct study *s = xcalloc(1, sizeof(*s));

    s->def = json_copy(def);
    if (study_check_name(c, name, who, e) < 0 || study_rules_read(s->def, &s->rules, e) < 0 ||
        study_engine_new(s->def, &s->engine, e) < 0 ||
        study_stop_new(s->def, &s->rules, &s->stop, e) < 0) {
        study_free(s);
        return NULL;
    }
    s->name = xstrndup(name.p, name.n);
    s->owner = *who;
    s->created_ms = core_wall(c);
    s->seq = c->studies.next_seq;
    study_list(c, s);
    return s;
}

void core_study_add(struct core *c, struct str name, const struct json *def, uint64_t from,
                    const struct caller *who, core_act_fn done, void *arg)
{
    const struct study *old = core_study_find(c, name, who->uid), *other = study_by_seq(c, from);
    struct err e = {0};

    if (old && study_def_same(old->def, def)) {
        track_answer(c, done, arg);
        return;
    }
    if (old)
        err_set(&e, ERR_CONFLICT,
                "study " STR_FMT " exists with another definition; remove it first, or give "
                "another name",
                STR_ARG(name));
    else if (other && study_check_goals(other, def, &e) == 0 && other->engine)
        study_wake_now(c, study_by_seq(c, from), &e);
    if (!e.code && other && other->asking)
        err_set(&e, ERR_UNAVAILABLE, "study %.100s is making a proposal; try again", other->name);
    struct study *s = e.code ? NULL : study_new(c, name, def, who, &e);
    if (!s) {
        done(arg, &e, NULL);
        return;
    }
    study_stage(c, s, who);
    if (other && other->engine && caller_sees(who, other->owner.uid)) {
        study_warm(c, s, other);
        study_stage(c, s, who);
    }
    study_say_created(c, s, who);
    track_answer(c, done, arg);
    study_go_on(c, s);
}

static void study_set_number(struct study *s, const char *key, int64_t value)
{
    if (value < 0)
        json_del(s->def, key);
    else
        json_set_int(s->def, key, value);
}

void core_study_set(struct core *c, uint64_t seq, const struct study_change *x,
                    const struct caller *who, core_act_fn done, void *arg)
{
    struct err e = {0};
    struct study *s = study_of_caller(c, seq, who, &e);
    AUTO(json) struct json *def = s ? json_copy(s->def) : NULL;
    struct study_rules rules;

    if (!s) {
        done(arg, &e, NULL);
        return;
    }
    bool limited = s->rules.trials >= 0 && (int64_t)s->asked - s->rules.warm >= s->rules.trials;
    if (x->set_trials)
        study_set_number(s, "trials", x->trials);
    if (x->set_parallel)
        study_set_number(s, "parallel", x->parallel);
    if (study_rules_read(s->def, &rules, &e) < 0) {
        json_free(s->def);
        s->def = TAKE(def);
        study_rules_read(s->def, &s->rules, NULL); /* its texts are borrowed from the definition */
        done(arg, &e, NULL);
        return;
    }
    s->rules = rules;
    if (x->set_paused)
        s->paused = x->paused;
    if (s->engine && !s->paused)
        study_set_trouble(s, NULL);
    if (x->set_trials && limited)
        s->exhausted = false; /* the limit had ended it: the engine is asked again */
    study_stage(c, s, who);
    study_say_state(c, s, who);
    track_answer(c, done, arg);
    c->studies.look_ms = 0;
    study_go_on(c, s);
}

static void study_cancelled(void *arg, const struct err *e, const struct acted *r)
{
    (void)arg;
    (void)e;
    (void)r;
}

void core_study_remove(struct core *c, uint64_t seq, bool force, const struct caller *who,
                       core_act_fn done, void *arg)
{
    struct err e = {0};
    struct study *s = study_of_caller(c, seq, who, &e);
    VEC(uint64_t) jobs = {0};

    for (size_t i = 0; s && i < s->trials.n; i++)
        if (s->trials.p[i].job && s->trials.p[i].state == TRIAL_RUNNING)
            vec_push(&jobs, s->trials.p[i].job);
    if (s && s->rules.has_job && s->counts[TRIAL_RUNNING] && !force) {
        err_set(&e, ERR_CONFLICT,
                "%zu jobs of study %.100s have not ended; pause it first, or use "
                "--force to cancel them",
                (size_t)s->counts[TRIAL_RUNNING], s->name);
        s = NULL;
    }
    if (!s) {
        vec_done(&jobs);
        done(arg, &e, NULL);
        return;
    }
    for (size_t i = 0; i < jobs.n; i++)
        free(map_u64_del(&c->studies.jobs, jobs.p[i]));
    if (jobs.n)
        core_cancel(c, jobs.p, jobs.n, who, study_cancelled, NULL);
    vec_done(&jobs);
    for (size_t i = 0; i < c->studies.all.n; i++)
        if (c->studies.all.p[i] == s) {
            vec_remove(&c->studies.all, i);
            break;
        }
    map_u64_del(&c->studies.by_seq, seq);
    study_say_removed(c, s, who);
    s->gone = true;
    if (!s->asking)
        study_free(s);
    set_and_answer(
        c, &(struct change){CHANGE_BY(c, who, CHANGE_STUDY_GONE), .study_gone = {.seq = seq}}, done,
        arg);
}

void core_study_recorded(struct core *c, core_act_fn done, void *arg)
{
    track_answer(c, done, arg);
}
