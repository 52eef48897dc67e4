/* link_here.c - the link to a host in this process: direct calls of its core
 *
 * The host lives on the loop of the batch, as any program's does.  A part of the host (host/part.h)
 * hears of every commit; the events of the commit are then read on a worker thread and delivered
 * on the loop, in order.
 */
#include "api/submit_parse.h"
#include "base/util.h"
#include "dialect/hyperctl/link.h"
#include "host/host.h"
#include "host/part.h"
#include "io/loop.h"
#include "request/auth.h"
#include "store/query.h"

enum {
    EVENTS_PAGE = 1000, /* read at once */
    JOBS_PAGE = 10000,
    RETRY_MS = 100,     /* after a read of events that failed */
    READ_EVERY_MS = 10, /* a busy scheduler commits several hundred times a second */
};
#define PART_NAME "hyperctl"

struct here {
    struct hyper_link link;
    struct host *host;
    const struct host_env *env; /* the host's, while it is open */
    struct who owner;           /* in whose name requests are made */
    /* The events. */
    uint64_t seen; /* delivered up to here */
    bool listening;
    bool reading, again; /* a worker thread reads; it has to read once more afterwards */
    int64_t read_ms;     /* monotonic: when it read last */
    struct timer *timer; /* the next read */
    size_t works;        /* on worker threads */
    bool keeps;          /* the queue */
};

/* ---- a request under way ---- */

/* Made by the function of the link, freed when it is answered.  A worker thread has it in between,
 * for list and submit. */
struct here_call {
    struct here *h;
    hyper_done_fn done;
    void *arg;
    struct err err;
    struct arena mem; /* of what a worker thread found */
    /* Of list. */
    hyper_event_fn row;
    bool places;
    VEC(struct hyper_event) found;
    size_t at; /* in found: the job whose runs are read */
    /* Of submit; NULL once the core has it. */
    struct submit *x;
    struct str key, batch;
    uint64_t first; /* the jobs that the key made before; 0 = none */
    struct id first_id;
};

static struct here_call *here_call_new(struct hyper_link *l, hyper_done_fn done, void *arg)
{
    struct here_call *c = xcalloc(1, sizeof(*c));

    *c = (struct here_call){.h = (struct here *)l, .done = done, .arg = arg};
    return c;
}

static void here_call_free(struct here_call *c)
{
    submit_free(c->x);
    vec_done(&c->found);
    arena_done(&c->mem);
    free(c);
}

/* Loop thread.  The call is freed after `done`, because `e` may lie in the call. */
static void here_call_end(struct here_call *c, const struct err *e, uint64_t number)
{
    c->done(c->arg, e, number);
    here_call_free(c);
}

/* A core_act_fn. */
static void here_acted(void *arg, const struct err *e, const struct acted *r)
{
    (void)r;
    here_call_end(arg, e, 0);
}

/* Texts of a view are borrowed while it is read. */
static struct str text_keep(struct arena *mem, struct str s)
{
    return (struct str){arena_strndup(mem, s.p, s.n), s.n};
}

/* ---- events ---- */

/* Events that a worker thread reads.  The page belongs to that thread until page_done. */
struct here_page {
    struct here *h;
    uint64_t after; /* the read begins behind this event */
    uint64_t last;  /* the newest event that was read, also one that is not about jobs */
    struct arena mem;
    VEC(struct hyper_event) events;
    size_t rows; /* that many were read; EVENTS_PAGE = there may be more */
    struct err err;
};

/* Worker thread.  Events about queues, nodes and batches are left out. */
static bool page_on_row(void *arg, const struct event_view *v)
{
    struct here_page *p = arg;
    struct hyper_event ev = {.seq = v->seq, .first = v->first, .last = v->last, .at_ms = v->at_ms};
    AUTO(json) struct json *data = NULL;
    struct err e;

    p->rows++;
    p->last = v->seq;
    if (v->data.n && json_parse(v->data, "event", &data, &e) < 0)
        return true;
    if (v->first && hyper_event_read(v->kind, data, &ev)) {
        ev.node = text_keep(&p->mem, ev.node);
        ev.reason = text_keep(&p->mem, ev.reason);
        vec_push(&p->events, ev);
    }
    return true;
}

/* Worker thread. */
static void page_read(void *arg)
{
    struct here_page *p = arg;

    store_events(p->h->env->store, p->after, EVENTS_PAGE, 0, page_on_row, p, &p->err);
}

static void here_read(void *arg);

/* Commits that follow each other closely are read together. */
static void here_read_soon(struct here *h)
{
    int64_t since = loop_mono_ms(h->link.conf.loop) - h->read_ms;

    if (h->reading || since >= READ_EVERY_MS)
        here_read(h);
    else
        timer_start(h->timer, READ_EVERY_MS - since, 0);
}

/* Loop thread.  The receiver of an event may mute the link.  A page that was read before the link
 * began to listen elsewhere is of no use. */
static void page_done(void *arg)
{
    struct here_page *p = arg;
    struct here *h = p->h;
    bool wanted = p->after == h->seen;

    h->works--;
    h->reading = false;
    h->read_ms = loop_mono_ms(h->link.conf.loop);
    for (size_t i = 0; wanted && h->listening && i < p->events.n; i++) {
        h->seen = p->events.p[i].seq;
        h->link.conf.event(h->link.conf.arg, &p->events.p[i]);
    }
    if (wanted && h->listening)
        h->seen = p->last;
    /* A read that failed is repeated: no further commit may come that would ask for it. */
    if (p->err.code != ERR_NONE && h->listening)
        timer_start(h->timer, RETRY_MS, 0);
    else if (!wanted || p->rows == EVENTS_PAGE)
        here_read(h);
    else if (h->again)
        here_read_soon(h);
    vec_done(&p->events);
    arena_done(&p->mem);
    free(p);
}

/* Loop thread.  At most one page is read at a time, so that events stay in order; `again` notes
 * that a commit came meanwhile. */
static void here_read(void *arg)
{
    struct here *h = arg;
    struct here_page *p;

    h->again = h->reading;
    if (h->reading || !h->listening)
        return;
    p = xcalloc(1, sizeof(*p));
    *p = (struct here_page){.h = h, .after = h->seen, .last = h->seen};
    h->reading = true;
    h->works++;
    work_submit(h->link.conf.loop, page_read, page_done, p);
}

/* Answers before it returns: the store of this process is always there. */
static void here_hello(struct hyper_link *l, hyper_done_fn done, void *arg)
{
    done(arg, NULL, store_last_event(((struct here *)l)->env->store));
}

static void here_listen(struct hyper_link *l, uint64_t after)
{
    struct here *h = (struct here *)l;

    h->listening = true;
    h->seen = after;
    here_read(h);
}

/* page_done delivers nothing while the link is muted. */
static void here_mute(struct hyper_link *l)
{
    ((struct here *)l)->listening = false;
}

/* ---- the jobs of the queue ---- */

static bool here_on_job(void *arg, const struct job_view *v)
{
    struct here_call *c = arg;

    vec_push(&c->found,
             ((struct hyper_event){.first = v->seq,
                                   .last = v->seq,
                                   .id = v->id,
                                   .state = v->state,
                                   .at_ms = job_state_final(v->state) ? v->ended_ms : v->started_ms,
                                   .exit_code = v->exit_code,
                                   .name = text_keep(&c->mem, v->name),
                                   .started_ms = v->started_ms}));
    return true;
}

/* The runs of one job come oldest first: the last one stays. */
static bool here_on_run(void *arg, const struct run_view *v)
{
    struct here_call *c = arg;

    c->found.p[c->at].run = v->key.run;
    c->found.p[c->at].node = text_keep(&c->mem, v->node);
    return true;
}

/* Worker thread. */
static void here_list_work(void *arg)
{
    struct here_call *c = arg;
    struct store *st = c->h->env->store;
    struct job_query q = {.queue = c->h->link.conf.queue, .sort = "id", .limit = JOBS_PAGE};
    char *cursor = NULL;
    int rc;

    do {
        AUTO_FREE char *from = TAKE(cursor);
        q.cursor = from;
        rc = store_jobs(st, &q, here_on_job, c, &cursor, &c->err);
    } while (rc == 0 && cursor);
    for (c->at = 0; rc == 0 && c->places && c->at < c->found.n; c->at++)
        rc = store_runs(st, c->found.p[c->at].first, here_on_run, c, &c->err);
}

/* Loop thread: the rows first, then the answer. */
static void here_list_done(void *arg)
{
    struct here_call *c = arg;
    bool good = c->err.code == ERR_NONE;

    c->h->works--;
    for (size_t i = 0; good && i < c->found.n; i++)
        c->row(c->arg, &c->found.p[i]);
    here_call_end(c, good ? NULL : &c->err, 0);
}

static void here_list(struct hyper_link *l, bool places, hyper_event_fn row, hyper_done_fn done,
                      void *arg)
{
    struct here_call *c = here_call_new(l, done, arg);

    c->row = row;
    c->places = places;
    c->h->works++;
    work_submit(l->conf.loop, here_list_work, here_list_done, c);
}

/* ---- submitting ---- */

static bool here_on_first(void *arg, const struct job_view *v)
{
    ((struct here_call *)arg)->first_id = v->id;
    return false;
}

/* Worker thread: the body becomes rows, unless the same key has made jobs before. */
static void here_submit_work(void *arg)
{
    struct here_call *c = arg;
    struct idempotent made;
    int known = store_idempotent(c->h->env->store, c->x->who.uid, c->key, &made, &c->err);

    if (known == 1)
        c->first = made.first;
    if (known == 0 && submit_prepare(c->x, false, &c->err) == 0 &&
        submit_parse(c->x, NULL, NULL, &c->err) == 0)
        submit_name(c->x, c->key, c->batch);
    if (known == 1)
        store_job(c->h->env->store, c->first, here_on_first, c, &c->err);
}

/* A core_submit_fn, after the commit and before the events of that commit: the caller knows the
 * numbers of its jobs when it hears of them. */
static void here_on_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    struct here_call *c = arg;

    if (r)
        c->h->link.submitted = r->id;
    here_call_end(c, e, r ? r->first : 0);
}

/* Loop thread: hands the rows to the core, which owns them from here on. */
static void here_submit_done(void *arg)
{
    struct here_call *c = arg;

    c->h->works--;
    if (c->err.code != ERR_NONE || c->first) {
        c->h->link.submitted = c->first_id;
        here_call_end(c, c->err.code != ERR_NONE ? &c->err : NULL, c->first);
        return;
    }
    struct submit *x = TAKE(c->x);
    core_submit_take(c->h->env->core, &x->s, &x->who, here_on_submitted, c);
}

static void here_submit(struct hyper_link *l, struct json *body_take, const char *batch,
                        const char *key, hyper_done_fn done, void *arg)
{
    struct here_call *c = here_call_new(l, done, arg);
    char *text = json_text(body_take);

    json_free(body_take);
    c->x = submit_new_take(text, strlen(text), &c->h->owner.caller, core_vault(c->h->env->core));
    c->key = text_keep(&c->mem, str_of(key));
    c->batch = text_keep(&c->mem, str_of(batch));
    c->h->works++;
    work_submit(l->conf.loop, here_submit_work, here_submit_done, c);
}

/* ---- jobs, the queue and nodes: the core answers at once, or after its commit ---- */

static void here_cancel(struct hyper_link *l, const uint64_t *jobs, size_t n, hyper_done_fn done,
                        void *arg)
{
    struct here_call *c = here_call_new(l, done, arg);

    core_cancel(c->h->env->core, jobs, n, &c->h->owner.caller, here_acted, c);
}

static void here_pause(struct hyper_link *l, bool paused, hyper_done_fn done, void *arg)
{
    struct here_call *c = here_call_new(l, done, arg);

    core_pause(c->h->env->core, str_of(l->conf.queue), paused, &c->h->owner.caller, here_acted, c);
}

/* The host goes with this process, so one keeper is enough and need not be taken back. */
static void here_keep(struct hyper_link *l, hyper_done_fn done, void *arg)
{
    struct here_call *c = here_call_new(l, done, arg);

    if (c->h->keeps) {
        here_call_end(c, NULL, 0);
        return;
    }
    c->h->keeps = true;
    core_queue_keep(c->h->env->core, str_of(l->conf.queue), &c->h->owner.caller, here_acted, c);
}

static void here_retry(struct hyper_link *l, uint64_t job, hyper_done_fn done, void *arg)
{
    struct here_call *c = here_call_new(l, done, arg);

    core_retry(c->h->env->core, &job, 1, &c->h->owner.caller, here_acted, c);
}

/* The names are borrowed from the core, which does not run during the call. */
static void here_nodes(struct hyper_link *l, hyper_node_fn row, hyper_done_fn done, void *arg)
{
    const struct core *core = ((struct here *)l)->env->core;

    for (size_t i = 0; i < core_node_count(core); i++) {
        const struct node *n = core_node(core, i);
        if (n)
            row(arg, &(struct hyper_node){.name = str_of(n->name),
                                          .trouble = str_of(n->trouble),
                                          .away = n->away,
                                          .failed = n->away && n->again_ms});
    }
    done(arg, NULL, 0);
}

static void here_lend(struct hyper_link *l, const struct json *conf, hyper_done_fn done, void *arg)
{
    struct here_call *c = here_call_new(l, done, arg);

    core_node_add(c->h->env->core, json_str(json_get(conf, "name")), conf, &c->h->owner.caller,
                  here_acted, c);
}

static void here_forget(struct hyper_link *l, struct str node, bool force, hyper_done_fn done,
                        void *arg)
{
    struct here_call *c = here_call_new(l, done, arg);

    core_node_remove(c->h->env->core, node, force, &c->h->owner.caller, here_acted, c);
}

/* ---- the host ---- */

/* Called inside of host_open: from here on the core and the store can be used. */
static int here_part_open(const struct host_env *env, const void *conf, void **self, struct err *e)
{
    struct here *h = (struct here *)conf; /* the host borrows what is not its own as const */

    (void)e;
    h->env = env;
    h->owner = (struct who){.caller = {.uid = env->uid, .gid = (uint32_t)getgid(), .admin = true},
                            .known = true};
    auth_name_find(env->auth, &h->owner);
    *self = h;
    return 0;
}

static void here_part_committed(void *self)
{
    here_read_soon(self);
}

static void here_part_troubled(void *self, struct str text)
{
    const struct hyper_link_conf *c = &((struct here *)self)->link.conf;

    c->troubled(c->arg, text);
}

/* The host closes: reads that are under way end, and none begins. */
static void here_part_shut(void *self)
{
    here_mute(self);
}

static bool here_part_busy(const void *self)
{
    return ((const struct here *)self)->works > 0;
}

static const struct host_part here_part = {.name = PART_NAME,
                                           .open = here_part_open,
                                           .troubled = here_part_troubled,
                                           .committed = here_part_committed,
                                           .shut = here_part_shut,
                                           .busy = here_part_busy};

static void here_close(struct hyper_link *l)
{
    struct here *h = (struct here *)l;

    host_close(h->host);
    timer_free(h->timer);
    free(h);
}

static const struct hyper_link_ops here_ops = {.hello = here_hello,
                                               .listen = here_listen,
                                               .mute = here_mute,
                                               .list = here_list,
                                               .submit = here_submit,
                                               .cancel = here_cancel,
                                               .pause = here_pause,
                                               .keep = here_keep,
                                               .retry = here_retry,
                                               .nodes = here_nodes,
                                               .lend = here_lend,
                                               .forget = here_forget,
                                               .close = here_close};

int hyper_link_here(struct hyper_link **out, const struct hyper_link_conf *c, struct err *e)
{
    struct here *h = xcalloc(1, sizeof(*h));
    const struct host_setting settings[] = {{PART_NAME, h}, {0}};
    VEC(const struct host_part *) parts = {0};

    h->link = (struct hyper_link){&here_ops, *c};
    h->timer = timer_new(c->loop, here_read, h);
    for (size_t i = 0; c->parts && c->parts[i]; i++)
        vec_push(&parts, c->parts[i]);
    vec_push(&parts, &here_part);
    vec_push(&parts, NULL);
    int rc = host_open(&h->host,
                       &(struct host_conf){.home = c->home,
                                           .slots = c->slots,
                                           .gpus = -1,
                                           .transient = c->transient,
                                           .parts = parts.p,
                                           .settings = settings,
                                           .version = c->version},
                       c->loop, e);
    vec_done(&parts);
    if (rc == 0) {
        *out = &h->link;
        return 0;
    }
    timer_free(h->timer);
    free(h);
    return -1;
}
