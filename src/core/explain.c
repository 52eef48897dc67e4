/* explain.c - why a job is where it is, and what would move it: the planner's own reasons in
 * sentences */
#include "core/core_priv.h"
#include <stdio.h>

static const char *const wait_names[] = {
    [WAIT_NOTHING] = "next",
    [WAIT_DEPENDENCY] = "dependency",
    [WAIT_BACKOFF] = "backoff",
    [WAIT_HELD] = "held",
    [WAIT_SLOTS] = "slots",
    [WAIT_CPUS] = "cpus",
    [WAIT_MEMORY] = "memory",
    [WAIT_GPUS] = "gpus",
    [WAIT_RESERVED] = "reserved",
    [WAIT_NODE_DRAINED] = "node_drained",
    [WAIT_NODE_AWAY] = "node_away",
    [WAIT_NEVER_FITS] = "never_fits",
    [WAIT_NO_SUCH_NODE] = "no_such_node",
    [WAIT_NO_ACCOUNT] = "no_account",
    [WAIT_NOT_QUEUED] = "not_queued",
    [WAIT_TURN] = "turn",
};

/* The lowest number among the jobs it waits for; walks over all waiting jobs, for explain only. */
static uint64_t first_unmet(const struct core *c, const struct job *j)
{
    uint64_t key, found = 0;
    void *val;

    for (size_t it = 0; map_u64_next(&c->jobs.waiters, &it, &key, &val);) {
        const struct waiters *w = val;
        for (size_t i = 0; i < w->jobs.n; i++)
            if (w->jobs.p[i].job == j->wait.job && w->jobs.p[i].serial == j->wait_serial &&
                (!found || key < found))
                found = key;
    }
    return found;
}

/* What holds a job out of the queue is known here; the rest the planner answers. */
static struct wait_reason reason_of(struct core *c, struct job *j, const struct plan_input *s)
{
    if (j->hold == HOLD_DEPS)
        return (struct wait_reason){.kind = WAIT_DEPENDENCY, .other = first_unmet(c, j)};
    if (j->hold == HOLD_PERSON)
        return (struct wait_reason){.kind = WAIT_HELD};
    if (j->hold == HOLD_BACKOFF)
        return (struct wait_reason){.kind = WAIT_BACKOFF, .until_ms = j->due_ms};
    return plan_explain(s, &j->wait);
}

void job_owner_name(struct core *c, const struct job *j, char *out, size_t n)
{
    struct ledger *led = &c->conf.ledger;
    struct launch l = {0};
    struct err e;

    out[0] = 0;
    if (led->read_launch(led->self, j->wait.job, &l, &e) < 0)
        return;
    snprintf(out, n, "%s", l.user ? l.user : "");
    launch_done(&l);
}

/* The nodes that are left out for this job. */
static void add_unfit(const struct core *c, const struct job *j, char *text, size_t n)
{
    uint64_t unfit = queue_shape_at(c->queue, j->wait.shape)->unfit;
    size_t used = strlen(text);

    for (size_t k = 0; k < c->cluster.nodes.n && used < n; k++)
        if (unfit & unfit_bit(k))
            used += (size_t)snprintf(text + used, n - used,
                                     "; node %s is left out: it has no such working directory",
                                     c->cluster.nodes.p[k].name);
}

/* A trouble of the machine, such as a store that cannot write, is the reason before all others:
 * nothing starts then. */
static void explain_waiting(struct core *c, struct job *j, struct json *out)
{
    enum trouble_kind trouble = TROUBLE_KINDS;
    const struct trouble *t = trouble_turn(c) ? core_in_trouble(c, &trouble) : NULL;
    struct plan_input s = core_plan_input(c, 1);
    struct wait_reason w = reason_of(c, j, &s);
    char text[400], user[64];

    if ((w.kind == WAIT_LIMIT && w.limit.kind == LIMIT_USER) || w.kind == WAIT_NO_ACCOUNT) {
        job_owner_name(c, j, user, sizeof(user));
        w.user = user;
    }
    if (t)
        snprintf(text, sizeof(text), "nothing starts: %s", t->text);
    else
        wait_reason_text(&w, &s, text, sizeof(text));
    add_unfit(c, j, text, sizeof(text));
    json_set_str(out, "kind",
                 t                      ? trouble_name(trouble)
                 : w.kind == WAIT_LIMIT ? limit_word(&w.limit)
                                        : wait_names[w.kind]);
    json_set_str(out, "text", text);
    if (j->hold == HOLD_NONE && !t)
        train_explain(c, j, out);
    json_set_int(out, "ahead", (int64_t)w.ahead);
    if (w.other)
        json_set_int(out, "other", (int64_t)w.other);
    if (w.until_ms)
        json_set_int(out, "in_ms", MAX(w.until_ms - core_mono(c), (int64_t)0));
}

/* The phases of a run as sentences, with the trouble of its node. */
static void explain_run(struct core *c, struct job *j, struct json *out)
{
    static const char *const phases[] = {
        [RUN_RECORDING] = "its placement is being written to disk",
        [RUN_SENT] = "the node has been told to start it",
        [RUN_UNRESOLVED] = "it ran before the restart; the node is being asked how it ended",
        [RUN_ABSENT] = "it had not started before the restart and starts when there is a free slot",
        [RUN_LIVE] = "its command is running",
        [RUN_OVER] = "its command has ended and its files are being archived",
    };
    char text[400];

    if (j->run->outside) {
        snprintf(text, sizeof(text), "its process runs outside of berth%s",
                 j->cancel_requested ? ", and it was told to stop" : "");
        json_set_str(out, "kind", job_state_name(j->state));
        json_set_str(out, "text", text);
        json_set_int(out, "run", j->run->key.run);
        return;
    }
    const struct node *n = host_node(j->run->host);
    snprintf(text, sizeof(text), "%s%s on %s%s%s%s", phases[j->run->phase],
             j->cancel_requested ? ", and it was told to stop" : "", n->name,
             n->away ? ", which is away (" : "", n->away ? n->trouble : "", n->away ? ")" : "");
    json_set_str(out, "kind", job_state_name(j->state));
    json_set_str(out, "text", text);
    json_set_int(out, "run", j->run->key.run);
    train_explain(c, j, out);
}

/* Its run was sent ahead (look_ahead.c): to people, a job that waits for a slot. */
static void explain_ahead(const struct job *j, struct json *out)
{
    int64_t before = 0;
    char text[400];

    for (const struct run *r = j->run->chain.prev; r && r->chain.ahead; r = r->chain.prev)
        before++;
    snprintf(text, sizeof(text), "waits for a slot on %s and starts when the job before it ends",
             host_node(j->run->host)->name);
    json_set_str(out, "kind", wait_names[WAIT_SLOTS]);
    json_set_str(out, "text", text);
    json_set_int(out, "ahead", before);
}

int core_explain(struct core *c, uint64_t job, struct json **out, struct err *e)
{
    struct job *j = core_job(c, job);

    if (!j || job_state_final(j->state) || j->hold == HOLD_COMMIT)
        return err_set(e, ERR_NOT_FOUND, "job %llu is not waiting or running",
                       (unsigned long long)job);
    *out = json_new_object();
    json_set_str(*out, "state", job_state_name(j->state));
    json_set_take(*out, "waiting", json_new_bool(!j->run || j->hold == HOLD_AHEAD));
    if (j->hold == HOLD_AHEAD)
        explain_ahead(j, *out);
    else if (j->run)
        explain_run(c, j, *out);
    else
        explain_waiting(c, j, *out);
    return 0;
}
