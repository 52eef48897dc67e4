/* limit.c - the words for a limit that refuses a job */
#include "sched/limit.h"
#include <stdio.h>

static const struct {
    const char *paused, *full; /* words of the API */
    const char *owner;         /* what is limited */
} kinds[LIMIT_KINDS] = {
    [LIMIT_QUEUE] = {"queue_paused", "queue_slots", "its queue"},
    [LIMIT_BATCH] = {"batch_paused", "batch_slots", "its batch"},
    [LIMIT_USER] = {"user_paused", "user_slots", "user"},
};

const char *limit_word(const struct limit *l)
{
    if (l->kept && !l->keepers && !l->paused)
        return "queue_kept";
    return l->paused ? kinds[l->kind].paused : kinds[l->kind].full;
}

void limit_text(const struct limit *l, const char *user, char *out, size_t n)
{
    const char *name = l->kind == LIMIT_USER ? user : "", *space = name[0] ? " " : "";

    if (l->paused)
        snprintf(out, n, "%s%s%s is paused: resume it to let the job start", kinds[l->kind].owner,
                 space, name);
    else if (l->kept && !l->keepers)
        snprintf(
            out, n,
            "its queue starts jobs only while the program that submitted them runs: start that "
            "program again, or resume the queue");
    else
        snprintf(out, n, "%s%s%s is limited to %d running job%s", kinds[l->kind].owner, space, name,
                 l->max, l->max == 1 ? "" : "s");
}
