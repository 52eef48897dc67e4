/* study_log.c - lines of logs on their way to the store */
#include "core/study_log.h"
#include "core/core_priv.h"

static void study_log_stage(struct core *c, enum change_kind kind, struct str name,
                            struct str lines, const struct caller *who, core_act_fn done, void *arg)
{
    struct err e = {0};

    if (definition_check_name("log", name, 0, 1, who, &e) < 0) {
        done(arg, &e, NULL);
        return;
    }
    set_and_answer(c,
                   &(struct change){CHANGE_BY(c, who, kind),
                                    .study_log = {.uid = who->uid, .name = name, .lines = lines}},
                   done, arg);
}

void core_study_log_append(struct core *c, struct str name, struct str lines,
                           const struct caller *who, core_act_fn done, void *arg)
{
    study_log_stage(c, CHANGE_STUDY_LOG, name, lines, who, done, arg);
}

void core_study_log_remove(struct core *c, struct str name, const struct caller *who,
                           core_act_fn done, void *arg)
{
    study_log_stage(c, CHANGE_STUDY_LOG_GONE, name, (struct str){0}, who, done, arg);
}
