/* disk_study.c - studies and their trials on the disk of the simulation, as the store keeps them */
#include "sim/sim.h"
#include <math.h>
#include <string.h>

static struct str text_kept(struct str s)
{
    return (struct str){xstrndup(s.p ? s.p : "", s.n), s.n};
}

static struct study_row *study_at(struct disk *d, uint64_t seq)
{
    for (size_t i = 0; i < d->studies.n; i++)
        if (d->studies.p[i].seq == seq)
            return &d->studies.p[i];
    return NULL;
}

static struct trial_row *trial_at(struct disk *d, const struct trial_row *like)
{
    for (size_t i = 0; i < d->trials.n; i++)
        if (d->trials.p[i].study == like->study && d->trials.p[i].number == like->number)
            return &d->trials.p[i];
    return NULL;
}

static void study_put(struct disk *d, const struct study_row *new)
{
    struct study_row *r = study_at(d, new->seq);

    if (r) {
        free((char *)r->def.p);
        r->def = text_kept(new->def);
        r->paused = new->paused;
        return;
    }
    vec_push(&d->studies, *new);
    r = &vec_last(&d->studies);
    r->name = text_kept(new->name);
    r->user = text_kept(new->user);
    r->def = text_kept(new->def);
}

static void trial_put(struct disk *d, const struct trial_row *new)
{
    struct trial_row *r = trial_at(d, new);

    if (r) {
        r->state = new->state;
        r->hold = new->hold;
        r->lease_s = new->lease_s;
        return;
    }
    vec_push(&d->trials, *new);
    r = &vec_last(&d->trials);
    r->params = text_kept(new->params);
    r->values = text_kept(new->values);
    r->reason = (struct str){0};
}

static void trial_told(struct disk *d, const struct trial_row *new)
{
    struct trial_row *r = trial_at(d, new);

    if (!r || r->told)
        return;
    free((char *)r->values.p);
    r->told = new->told;
    r->state = new->state;
    r->value = new->value;
    r->values = text_kept(new->values);
}

static void trial_drop(struct disk *d, size_t i)
{
    free((char *)d->trials.p[i].params.p);
    free((char *)d->trials.p[i].values.p);
    vec_remove(&d->trials, i);
}

static void study_drop(struct disk *d, uint64_t seq)
{
    for (size_t i = d->trials.n; i-- > 0;)
        if (d->trials.p[i].study == seq)
            trial_drop(d, i);
    for (size_t i = d->studies.n; i-- > 0;)
        if (d->studies.p[i].seq == seq) {
            free((char *)d->studies.p[i].name.p);
            free((char *)d->studies.p[i].user.p);
            free((char *)d->studies.p[i].def.p);
            vec_remove(&d->studies, i);
        }
}

void disk_study_apply(struct disk *d, const struct change *c)
{
    struct study_row *said = c->kind == CHANGE_STUDY_SAID ? study_at(d, c->study_said.seq) : NULL;

    if (c->kind == CHANGE_STUDY)
        study_put(d, &c->study.row);
    else if (c->kind == CHANGE_STUDY_GONE)
        study_drop(d, c->study_gone.seq);
    else if (c->kind == CHANGE_TRIAL)
        trial_put(d, &c->trial.row);
    else if (c->kind == CHANGE_TRIAL_TOLD)
        trial_told(d, &c->trial_told.row);
    else if (said && c->study_said.what == STUDY_SAID_ENDED)
        said->ended = true;
    else if (said && c->study_said.what == STUDY_SAID_RESUMED)
        said->ended = false;
}

void disk_study_submitted(struct disk *d, const struct submission *s)
{
    struct trial_row r = s->trial;

    r.job = s->n_jobs ? s->jobs[0].seq : 0;
    if (r.study)
        trial_put(d, &r);
}

static struct study_sum sum_of(const struct disk *d, const struct study_row *s)
{
    struct study_sum x = {.seq = s->seq, .value = NAN};
    bool maximize = strstr(s->def.p, "\"maximize\"") != NULL;

    for (size_t i = 0; i < d->trials.n; i++) {
        const struct trial_row *r = &d->trials.p[i];
        if (r->study != s->seq)
            continue;
        x.counts[r->state == TRIAL_PRUNED && !r->told ? TRIAL_RUNNING : r->state]++;
        x.ops = MAX(x.ops, MAX(r->asked, r->told));
        x.leased += r->state == TRIAL_RUNNING && r->lease_s;
        if (r->state != TRIAL_DONE || (maximize ? r->value <= x.value : r->value >= x.value))
            continue;
        x.best = r->number;
        x.best_job = r->job;
        x.value = r->value;
        x.params = r->params;
    }
    return x;
}

int disk_read_trials(void *self, uint64_t study, void (*fn)(void *arg, const struct trial_row *r),
                     void *arg, struct err *e)
{
    struct disk *d = self;

    (void)e;
    for (size_t i = 0; i < d->trials.n; i++)
        if (d->trials.p[i].study == study)
            fn(arg, &d->trials.p[i]);
    return 0;
}

void disk_study_load(struct disk *d, const struct load_sink *sink)
{
    for (size_t i = 0; i < d->studies.n; i++)
        sink->study(sink->arg, &d->studies.p[i]);
    for (size_t i = 0; i < d->studies.n; i++) {
        struct study_sum x = sum_of(d, &d->studies.p[i]);
        if (sink->study_sum(sink->arg, &x))
            disk_read_trials(d, x.seq, sink->trial, sink->arg, NULL);
    }
}

void disk_study_done(struct disk *d)
{
    while (d->studies.n)
        study_drop(d, d->studies.p[0].seq);
    vec_done(&d->studies);
    vec_done(&d->trials);
}
