/* repeat.c - a job that failed after nobody had served its port runs once more
 *
 * When hyperctl run is killed, its jobs go on, and what they ask of the port meanwhile is answered
 * by nobody.  So the failure of a run that had begun before this process served the port says
 * nothing about the job, however and whenever it ended.  It is repeated, once for each such gap:
 * the next run begins with the port served.
 *
 * Nothing is recorded.  A job that failed and is not back in the queue when this process dies has
 * no final marker, and the next owner submits it anew (adopt.c).
 */
#include "base/util.h"
#include "dialect/hyperctl/run.h"

/* One job that has failed and goes back into the queue. */
struct hyper_repeat {
    struct hyper_run *r;
    struct hyper_job *j;
    struct hyper_event ev; /* its failure, in case it cannot be repeated; `reason` is ours */
    char reason[200];
    bool asked; /* the scheduler has not answered yet */
};

static void repeat_drop(struct hyper_repeat *x)
{
    struct hyper_run *r = x->r;

    for (size_t i = 0; i < r->sched.repeats.n; i++)
        if (r->sched.repeats.p[i] == x) {
            vec_remove(&r->sched.repeats, i);
            break;
        }
    free(x);
}

/* Without a scheduler it is asked again when there is one (hyper_repeat_again).  On a full disk the
 * request has taken effect. */
static void repeat_answered(void *arg, const struct err *e, uint64_t number)
{
    struct hyper_repeat *x = arg;
    struct hyper_run *r = x->r;

    (void)number;
    x->asked = false;
    if (r->sched.closing)
        return;
    if (e && e->code == ERR_UNAVAILABLE)
        return;
    if (e && e->code != ERR_FULL) {
        hyper_log(r->h, HYPER_WARN, "scheduler", "repeating job %s: %s", x->j->name, e->text);
        map_u64_del(&r->sched.jobs, x->j->number);
        hyper_job_event(r, x->j, &x->ev);
    }
    repeat_drop(x);
}

static void repeat_ask(struct hyper_repeat *x)
{
    struct hyper_link *link = x->r->sched.link;

    x->asked = true;
    link->ops->retry(link, x->j->number, repeat_answered, x);
}

void hyper_repeat_again(struct hyper_run *r)
{
    for (size_t i = r->sched.repeats.n; i-- > 0;)
        if (!r->sched.repeats.p[i]->asked)
            repeat_ask(r->sched.repeats.p[i]);
}

/* The files say that it waits, as the scheduler does as soon as it has answered. */
void hyper_repeat(struct hyper_run *r, struct hyper_job *j, const struct hyper_event *ev)
{
    struct hyper_repeat *x = xcalloc(1, sizeof(*x));
    struct hyper_event back = *ev;

    *x = (struct hyper_repeat){.r = r, .j = j, .ev = *ev};
    snprintf(x->reason, sizeof(x->reason), STR_FMT, STR_ARG(ev->reason));
    x->ev.reason = str_of(x->reason);
    x->ev.node = STR("");
    j->gap = false;
    hyper_log(
        r->h, HYPER_WARN, "scheduler",
        "job %s failed (%s), perhaps because nobody served its port for a while; it runs again",
        j->name, x->reason);
    back.state = JOB_QUEUED;
    back.reason = STR("");
    hyper_job_event(r, j, &back);
    vec_push(&r->sched.repeats, x);
    repeat_ask(x);
}

void hyper_repeats_free(struct hyper_run *r)
{
    while (r->sched.repeats.n)
        free(vec_pop(&r->sched.repeats));
    vec_done(&r->sched.repeats);
}
