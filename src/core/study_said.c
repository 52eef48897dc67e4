/* study_said.c - events of studies: created, a new best, ended, paused, resumed, removed
 *
 * Each is staged in the turn of what it tells about, so it is recorded with it.  The state that was
 * told last is compared with the state now; that an end was told is recorded with the study, since
 * a study that has ended reaches its end again after every restart.
 */
#include "base/json_out.h"
#include "core/study_priv.h"

static void study_say(struct core *c, const struct study *s, enum study_said what,
                      const struct caller *who, const struct buf *data)
{
    bool good = s->best.number || s->front.n;

    core_stage(c, &(struct change){.kind = CHANGE_STUDY_SAID,
                                   .at_ms = core_wall(c),
                                   .user = who ? str_of(who->user) : STR(""),
                                   .study_said = {.seq = s->seq,
                                                  .uid = s->owner.uid,
                                                  .what = what,
                                                  .good = good,
                                                  .name = str_of(s->name),
                                                  .owner = str_of(s->owner.user),
                                                  .data = data ? buf_str(data) : STR("")}});
}

void study_say_created(struct core *c, struct study *s, const struct caller *who)
{
    s->said = STUDY_RUNNING;
    study_say(c, s, STUDY_SAID_CREATED, who, NULL);
}

void study_say_removed(struct core *c, const struct study *s, const struct caller *who)
{
    study_say(c, s, STUDY_SAID_REMOVED, who, NULL);
}

static bool front_has(const struct study *s, uint64_t number)
{
    for (size_t i = 0; i < s->front.n; i++)
        if (s->front.p[i].number == number)
            return true;
    return false;
}

/* A result is told once: the best trial is a new one if it is the one that was just told. */
void study_say_result(struct core *c, const struct study *s, uint64_t number)
{
    AUTO(buf) struct buf data = {0};
    const struct study_trial *t = &s->trials.p[number - 1];

    if (s->best.number != number && !front_has(s, number))
        return;
    jw_int(&data, "number", (int64_t)number);
    jw_int_or_null(&data, "job", (int64_t)t->job, t->job != 0);
    jw_double(&data, "value", t->value);
    if (s->rules.n_goals > 1) {
        AUTO(buf) struct buf values = {0};
        study_values_write(s, number, &values);
        jw_raw(&data, "values", buf_str(&values));
    }
    study_say(c, s, STUDY_SAID_BEST, NULL, &data);
}

void study_say_state(struct core *c, struct study *s, const struct caller *who)
{
    static const enum study_said words[] = {[STUDY_RUNNING] = STUDY_SAID_RESUMED,
                                            [STUDY_PAUSED] = STUDY_SAID_PAUSED,
                                            [STUDY_FINISHED] = STUDY_SAID_ENDED};
    enum study_state now = study_state_of(s);
    AUTO(buf) struct buf data = {0};

    if (!c->recovered || !s->engine || s->gone || now == s->said)
        return;
    if (s->said == STUDY_FINISHED && now == STUDY_PAUSED)
        study_say(c, s, STUDY_SAID_RESUMED, who, NULL); /* it has more to do, later */
    s->said = now;
    if (now == STUDY_FINISHED)
        for (int i = TRIAL_DONE; i <= TRIAL_PRUNED; i++)
            jw_int(&data, trial_state_names[i], (int64_t)s->counts[i]);
    if (now == STUDY_PAUSED && s->trouble)
        jw_text(&data, "reason", s->trouble);
    study_say(c, s, words[now], who, &data);
}
