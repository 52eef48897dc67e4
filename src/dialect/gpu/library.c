/* library.c - messages of training libraries: may I go on, this epoch is done, this is how it went
 *
 * Owns: who may speak for a job, and the answers.
 *
 * The library of old waits for every answer and knows no time-out, so everything here is answered
 * from memory, before any planning; only `end_epoch` waits for its commit, because what was
 * acknowledged must not be forgotten.  Who may speak for a job: its attempt's token; a process of
 * its owner over the socket; and, without a token, a process of this host on the library port,
 * which is how the library of old speaks.  A daemon of several users wants that process to be the
 * owner's, or root's.  What is said about a job that does not run is refused
 * with 404, which libraries take for "go on".
 */
#include "base/log.h"
#include "base/util.h"
#include "dialect/gpu/dialect_priv.h"
#include "dialect/gpu/wire.h"
#include <stdio.h>

/* A bound on memory: when it is reached the map is emptied and fills again from the store. */
enum { KNOWN_MAX = 65536 };

/* Value of the map `known`; the whole id tells two ids with the same key apart. */
struct known {
    struct id id;
    uint64_t job;
};
/* One message while it is answered; lives as long as its call. */
struct library_call {
    enum gpu_message message;
    struct gpu_report report;
    struct id id;
    uint64_t job;
};

/* ---- jobs by id ---- */

/* Two ids may share a key: known_job compares the whole id. */
static uint64_t known_key(struct id id)
{
    return id.hi ^ id.lo;
}

static bool known_job(const struct gpu_dialect *d, struct id id, uint64_t *out)
{
    const struct known *k = map_u64_get(&d->known, known_key(id));

    if (!k || id_cmp(k->id, id) != 0)
        return false;
    *out = k->job;
    return true;
}

/* Remembers the number of a job, so that its next message needs no look at the store. */
static void know(struct gpu_dialect *d, struct id id, uint64_t job)
{
    struct known *k = map_u64_get(&d->known, known_key(id));

    if (!k) {
        if (d->known.n >= KNOWN_MAX)
            map_u64_clear(&d->known, free); /* the store knows them all */
        k = xmalloc(sizeof(*k));
        map_u64_put(&d->known, known_key(id), k);
    }
    *k = (struct known){id, job};
}

void gpu_library_done(struct gpu_dialect *d)
{
    map_u64_clear(&d->known, free);
}

/* ---- answers ---- */

void gpu_library_fail(struct http_req *r, int status, const struct err *e)
{
    char text[sizeof(e->text) + 1];
    int n = snprintf(text, sizeof(text), "%s\n", e->text);

    http_reply(r, status, "text/plain; charset=utf-8",
               (struct str){text, MIN((size_t)n, sizeof(text) - 1)});
}

static void library_answer(struct call *c, const char *text)
{
    c->type = "text/plain; charset=utf-8";
    buf_adds(&c->out, text);
    call_reply(c);
}

/* Malformed messages are logged, so that the job that sends them can be found. */
static void library_refuse(struct call *c, const struct err *e)
{
    if (e->code == ERR_INVALID)
        log_info("library", "job " STR_FMT ": %s", (int)MIN(c->arg[0].n, 40), c->arg[0].p, e->text);
    call_fail(c, e);
}

/* Called after the commit, so that an acknowledged epoch survives a crash. */
static void library_on_epoch(void *arg, const struct err *e, const struct acted *r)
{
    (void)r;
    if (e)
        library_refuse(arg, e);
    else
        library_answer(arg, "ok");
}

/* ---- who may ---- */

int gpu_library_identify(void *self, struct http_req *r, struct who *out, struct err *e)
{
    const struct gpu_dialect *d = self;

    if (http_header(r, "authorization").p)
        return auth_identify(d->env.auth, http_peer(r), http_header(r, "authorization"), out, e);
    if (!http_peer(r)->local)
        return err_set(e, ERR_DENIED,
                       "a request from another host needs the token of the attempt (SCHED_TOKEN)");
    /* A process of this host needs no token.  With several users the owner of the process is
     * looked up. */
    *out = (struct who){.local = true, .ask_owner = d->env.multi_user};
    return 0;
}

/* Loop thread.  False: e says why.  The answer for a job of somebody else is the same as for one
 * that does not exist, so that nobody learns which jobs there are. */
static bool may_speak(const struct call *c, struct err *e)
{
    const struct gpu_dialect *d = call_gpu(c);
    const struct library_call *k = c->data;
    const struct who *w = &c->who;
    /* The attempt that runs now; run.run stays 0 when none does. */
    struct run_key run = {0};
    struct job_record rec;

    if (!core_job_active(d->env.core, k->job, &run) || !run.run) {
        err_set(e, ERR_NOT_FOUND, "no such job runs here");
        return false;
    }
    if (w->local && (!w->ask_owner || (w->owner_known && w->owner == 0)))
        return true;
    /* A token is valid for one attempt: a process that survived its attempt must not speak for
     * the next. */
    if (w->token.job) {
        if (run_key_eq(w->token, run))
            return true;
        err_set(e, w->token.job == k->job ? ERR_NOT_FOUND : ERR_DENIED,
                "this token belongs to another attempt or job");
        return false;
    }
    struct ledger led = store_ledger(d->env.store);
    struct caller who = w->caller;
    if (w->local)
        who = (struct caller){.uid = w->owner};
    if ((!w->local || w->owner_known) && led.read_job(led.self, k->job, &rec, e) == 0 &&
        caller_sees(&who, rec.uid))
        return true;
    err_set(e, ERR_NOT_FOUND, "no such job runs here"); /* nor that somebody else's does */
    return false;
}

/* ---- messages ---- */

/* Our library says in its question how many epochs are behind it and which rank it is; the library
 * of old says neither.  A question with other values is answered all the same and confirms nothing.
 */
static void library_epoch_begins(struct call *c)
{
    const struct library_call *k = c->data;
    int64_t epochs, rank;
    struct err e;

    if (call_param_int(c, "epoch", -1, 0, INT32_MAX, &epochs, &e) == 0 &&
        call_param_int(c, "rank", 0, 0, INT32_MAX, &rank, &e) == 0 && rank == 0)
        core_epoch_begins(call_gpu(c)->env.core, k->job, epochs);
}

/* Loop thread, with the job known.  Answers at once, but for an epoch. */
static void library_act(struct call *c)
{
    const struct library_call *k = c->data;
    struct core *core = call_gpu(c)->env.core;
    bool known = false, stop;
    int rc = 0;

    if (!may_speak(c, &c->err)) {
        library_refuse(c, &c->err);
        return;
    }
    switch (k->message) {
    case GPU_MESSAGE_STOP:
        library_epoch_begins(c);
        stop = core_has_to_stop(core, k->job, &known);
        if (known)
            library_answer(c, stop ? "1" : "0");
        else
            call_fail(c, (err_set(&c->err, ERR_NOT_FOUND, "no such job runs here"), &c->err));
        return;
    case GPU_MESSAGE_EPOCH:
        core_epoch_done(core, k->job, k->report.done, library_on_epoch, c);
        return;
    case GPU_MESSAGE_PROFILE:
        rc = core_profiled(core, k->job, &k->report.profile, &c->err);
        break;
    case GPU_MESSAGE_END:
        rc = core_signal_end(core, k->job, &c->err);
        break;
    case GPU_MESSAGE_PROFILING_END:
        break;
    }
    if (rc < 0)
        library_refuse(c, &c->err);
    else
        library_answer(c, "ok");
}

/* Worker thread, for the first message of a job: the store knows the number of its id. */
static int library_look_up(struct call *c)
{
    struct library_call *k = c->data;

    return store_resolve(call_gpu(c)->env.store, c->arg[0], &k->job, &c->err);
}

/* Loop thread again. */
static void library_looked_up(struct call *c)
{
    const struct library_call *k = c->data;

    know(call_gpu(c), k->id, k->job);
    library_act(c);
}

/* The handler of all rows; route.arg says which message it is. */
static void library_message(struct call *c)
{
    enum gpu_message m = *(const enum gpu_message *)c->route->arg;
    struct library_call *k = call_alloc(c, sizeof(*k));

    c->data = k;
    k->message = m;
    if (gpu_report_read(m, http_body(c->req), &k->report, &c->err) < 0) {
        library_refuse(c, &c->err);
    } else if (!id_parse(c->arg[0], &k->id)) {
        err_set(&c->err, ERR_NOT_FOUND, "no such job runs here");
        call_fail(c, &c->err);
    } else if (known_job(call_gpu(c), k->id, &k->job)) {
        library_act(c);
    } else {
        call_work(c, library_look_up, library_looked_up);
    }
}

/* Handler, rights and route.arg of a row. */
#define MESSAGE(m)                                                                                 \
    library_message, AUTH_HOST, 0, 0, &(const enum gpu_message)                                    \
    {                                                                                              \
        GPU_MESSAGE_##m                                                                            \
    }
/* Bodies larger than GPU_BODY_MAX are read too, so that their sender hears what is wrong. */
const struct route gpu_library_routes[] = {
    {"GET", "/has_to_stop/{job}", MESSAGE(STOP)},
    {"POST", "/profiling/{job}", MESSAGE(PROFILE)},
    {"POST", "/end_epoch/{job}", MESSAGE(EPOCH)},
    {"POST", "/signal_end/{job}", MESSAGE(END)},
    {"POST", "/signal_end_profiling/{job}", MESSAGE(PROFILING_END)},
    {"POST", "/signal_end_profiling/{job}/{config}", MESSAGE(PROFILING_END)},
};
const size_t gpu_library_n_routes = ARRAY_SIZE(gpu_library_routes);
