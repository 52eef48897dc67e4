/* change.c - which members of a change borrow text
 *
 * Owns: one table.  A change is staged on the loop thread and applied later on another thread, so
 * every text in it is copied; a new kind with texts needs a row here.
 */
#include "store/change.h"
#include <stddef.h>

#define AT(member) offsetof(struct change, member)

/* Offset 0 is the kind, which is no text: the row ends there. */
static const size_t texts[CHANGE_KINDS][CHANGE_TEXTS_MAX - 1] = {
    [CHANGE_AHEAD] = {AT(ahead.node)},
    [CHANGE_RUN_NEW] = {AT(run_new.node), AT(run_new.devices)},
    [CHANGE_RUN_ENDED] = {AT(run_ended.detail)},
    [CHANGE_JOB_STATE] = {AT(job_state.reason)},
    [CHANGE_QUEUE] = {AT(queue.name)},
    [CHANGE_NODE_NEW] = {AT(node_new.name), AT(node_new.conf)},
    [CHANGE_NODE_DRAIN] = {AT(node_drain.name)},
    [CHANGE_NODE_GONE] = {AT(node_gone.name)},
    [CHANGE_MARK] = {AT(mark.name), AT(mark.text)},
    [CHANGE_MARK_GONE] = {AT(mark_gone.name)},
    [CHANGE_POINTS] = {AT(points.name), AT(points.block)},
    [CHANGE_TEXT_POINT] = {AT(text_point.name), AT(text_point.text)},
    [CHANGE_SPOOL] = {AT(spool.summary)},
    [CHANGE_NOTE] = {AT(note.project), AT(note.author), AT(note.text)},
    [CHANGE_PROJECT] = {AT(project.name), AT(project.description)},
    [CHANGE_FACT] = {AT(fact.name), AT(fact.value)},
    [CHANGE_TRAINING] = {AT(training.record)},
    [CHANGE_SCHEDULE] = {AT(schedule.row.name), AT(schedule.row.user), AT(schedule.row.def)},
    [CHANGE_SCHEDULE_SETTLED] = {AT(schedule_settled.trouble)},
    [CHANGE_HOOK] = {AT(hook.name), AT(hook.filter), AT(hook.action), AT(hook.secret)},
    [CHANGE_DELIVERED] = {AT(delivered.error)},
    [CHANGE_STUDY] = {AT(study.row.name), AT(study.row.user), AT(study.row.def)},
    [CHANGE_STUDY_SAID] = {AT(study_said.name), AT(study_said.owner), AT(study_said.data)},
    [CHANGE_TRIAL] = {AT(trial.row.params), AT(trial.row.values)},
    [CHANGE_TRIAL_TOLD] = {AT(trial_told.row.reason), AT(trial_told.row.values)},
    [CHANGE_STUDY_LOG] = {AT(study_log.name), AT(study_log.lines)},
    [CHANGE_STUDY_LOG_GONE] = {AT(study_log.name)},
};

size_t change_texts(struct change *c, struct str *out[CHANGE_TEXTS_MAX])
{
    size_t n = 0;

    out[n++] = &c->user;
    for (size_t i = 0; i < CHANGE_TEXTS_MAX - 1 && texts[c->kind][i]; i++)
        out[n++] = (struct str *)((char *)c + texts[c->kind][i]);
    return n;
}
