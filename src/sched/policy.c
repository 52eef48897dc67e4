/* policy.c - the table of policies, and plan() which asks the chosen one */
#include "sched/policy.h"

const struct policy *const policies[] = {&policy_priority_backfill, NULL};

const struct policy *policy_find(const char *name)
{
    for (size_t i = 0; policies[i]; i++)
        if (!strcmp(policies[i]->name, name))
            return policies[i];
    return NULL;
}

void plan(const struct snapshot *s, decisions *out)
{
    const struct policy *p = s->policy ? s->policy : policies[0];

    p->plan(s, out);
}
