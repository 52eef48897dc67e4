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

enum { KNOWN_MAX = 65536 };

struct known {
    struct id id;
    uint64_t job;
};
struct library_call {
    struct gpu_call base;
    enum gpu_message message;
    struct gpu_report report;
    char ref[ID_UUID_MAX];
    struct id id;
    uint64_t job;
    struct http_peer peer;
    bool by_peer; /* it has to be the owner's process: `peer_uid`, when `peer_known` */
    bool peer_known;
    uint32_t peer_uid;
};

/* ---- jobs by id ---- */

static uint64_t fold(struct id id)
{
    return id.hi ^ id.lo;
}

static bool known_job(const struct gpu_dialect *d, struct id id, uint64_t *out)
{
    const struct known *k = map_u64_get(&d->known, fold(id));

    if (!k || id_cmp(k->id, id) != 0)
        return false;
    *out = k->job;
    return true;
}

static void forget_all(struct gpu_dialect *d)
{
    uint64_t key;
    void *k;

    for (size_t it = 0; map_u64_next(&d->known, &it, &key, &k);)
        free(k);
    map_u64_done(&d->known);
    d->known = (struct map_u64){0};
}

static void know(struct gpu_dialect *d, struct id id, uint64_t job)
{
    struct known *k = map_u64_get(&d->known, fold(id));

    if (!k) {
        if (d->known.n >= KNOWN_MAX)
            forget_all(d); /* the store knows them all */
        k = xmalloc(sizeof(*k));
        map_u64_put(&d->known, fold(id), k);
    }
    *k = (struct known){id, job};
}

void gpu_library_done(struct gpu_dialect *d)
{
    forget_all(d);
}

/* ---- answers ---- */

static void answer(struct gpu_call *c, int status, const char *text)
{
    struct http_req *r = gpu_call_take_req(c);

    if (r)
        http_reply(r, status, "text/plain; charset=utf-8", str_of(text));
    gpu_call_free(c);
}

static void refuse(struct gpu_call *c, const struct err *e)
{
    struct library_call *k = (struct library_call *)c;
    int status = err_http_status(e->code);

    if (e->code == ERR_INVALID)
        log_info("library", "job %s: %s", k->ref, e->text);
    answer(c, status, e->code == ERR_NOT_FOUND ? "no such job runs here\n" : e->text);
}

static void on_epoch(void *arg, const struct err *e, const struct acted *r)
{
    struct gpu_call *c = arg;

    (void)r;
    if (e)
        refuse(c, e);
    else
        answer(c, 200, "ok");
}

/* ---- who may ---- */

static bool may_speak(struct library_call *k, struct err *e)
{
    struct gpu_dialect *d = k->base.d;
    const struct who *w = &k->base.who;
    struct run_key run = {0};
    struct job_record rec;

    if (!core_job_active(d->conf.core, k->job, &run) || !run.run) {
        err_set(e, ERR_NOT_FOUND, "it does not run");
        return false;
    }
    if (!w->known && !k->by_peer)
        return true; /* of this host, on the library port; looked at before */
    if (k->by_peer && k->peer_known && k->peer_uid == 0)
        return true;
    if (w->token.job) {
        if (run_key_eq(w->token, run))
            return true;
        err_set(e, w->token.job == k->job ? ERR_NOT_FOUND : ERR_DENIED,
                "this token belongs to another attempt or job");
        return false;
    }
    if (w->caller.admin)
        return true;
    struct ledger led = store_ledger(d->conf.store);
    uint32_t uid = k->by_peer ? k->peer_uid : w->caller.uid;
    if ((!k->by_peer || k->peer_known) && led.read_job(led.self, k->job, &rec, e) == 0 &&
        rec.uid == uid)
        return true;
    err_set(e, ERR_NOT_FOUND, "it is not yours");
    return false;
}

static void act(struct gpu_call *c)
{
    struct library_call *k = (struct library_call *)c;
    struct core *core = c->d->conf.core;
    bool known = false, stop;
    int rc = 0;

    if (!may_speak(k, &c->err)) {
        refuse(c, &c->err);
        return;
    }
    switch (k->message) {
    case GPU_MESSAGE_STOP:
        stop = core_has_to_stop(core, k->job, &known);
        if (!known) {
            err_set(&c->err, ERR_NOT_FOUND, "it does not run");
            refuse(c, &c->err);
        } else {
            answer(c, 200, stop ? "1" : "0");
        }
        return;
    case GPU_MESSAGE_EPOCH:
        core_epoch_done(core, k->job, k->report.done, on_epoch, c);
        return;
    case GPU_MESSAGE_PROFILE:
        rc = core_profiled(core, k->job, &k->report.profile, &c->err);
        break;
    case GPU_MESSAGE_END:
        rc = core_signal_end(core, k->job, &c->err);
        break;
    default:
        break;
    }
    if (rc < 0)
        refuse(c, &c->err);
    else
        answer(c, 200, "ok");
}

/* ---- the way in ---- */

static int look_up(struct gpu_call *c)
{
    struct library_call *k = (struct library_call *)c;

    if (k->by_peer)
        k->peer_known = gpu_peer_uid(&k->peer, &k->peer_uid);
    if (k->job)
        return 0;
    return store_resolve(c->d->conf.store, str_of(k->ref), &k->job, &c->err);
}

static void looked_up(struct gpu_call *c)
{
    struct library_call *k = (struct library_call *)c;

    if (c->err.code) {
        refuse(c, &c->err);
        return;
    }
    know(c->d, k->id, k->job);
    act(c);
}

/* -1: refused and answered. */
static int identify(struct gpu_dialect *d, struct http_req *r, bool own, struct who *out)
{
    const struct http_peer *peer = http_peer(r);
    struct err e = {0};

    *out = (struct who){0};
    if (own && !http_header(r, "authorization").p) {
        if (peer->local)
            return 0;
        err_set(&e, ERR_DENIED, "send the token of the attempt (SCHED_TOKEN) from another host");
        http_reply_err(r, &e);
        return -1;
    }
    return gpu_identify(d, r, AUTH_JOB, out);
}

bool gpu_library_takes(struct http_req *r)
{
    struct str id;
    const char *method;

    return gpu_message_of(http_path(r), &id, &method) != GPU_MESSAGE_NONE;
}

static void wrong_method(struct http_req *r, const char *method)
{
    http_reply_header(r, "Allow", method);
    http_reply(r, 405, "text/plain; charset=utf-8", STR("not with this method\n"));
}

void gpu_library_request(struct gpu_dialect *d, struct http_req *r, bool own)
{
    struct str id;
    const char *method = "";
    enum gpu_message m = gpu_message_of(http_path(r), &id, &method);
    struct who who;
    struct library_call *k;

    if (m == GPU_MESSAGE_NONE) {
        http_reply(r, 404, "text/plain; charset=utf-8", STR("no such path\n"));
        return;
    }
    if (!str_eq_c(http_method(r), method)) {
        wrong_method(r, method);
        return;
    }
    if (identify(d, r, own, &who) < 0)
        return;
    k = gpu_call_new(d, r, &who, sizeof(*k));
    k->message = m;
    snprintf(k->ref, sizeof(k->ref), STR_FMT, (int)MIN(id.n, sizeof(k->ref) - 1), id.p);
    if (gpu_report_read(m, http_body(r), &k->report, &k->base.err) < 0) {
        refuse(&k->base, &k->base.err);
        return;
    }
    if (id.n >= sizeof(k->ref) || !id_parse(id, &k->id)) {
        err_set(&k->base.err, ERR_NOT_FOUND, "no such id");
        refuse(&k->base, &k->base.err);
        return;
    }
    k->peer = *http_peer(r);
    k->by_peer = d->conf.multi_user && !who.known;
    if (known_job(d, k->id, &k->job) && !k->by_peer) {
        act(&k->base);
        return;
    }
    k->base.work = look_up;
    k->base.then = looked_up;
    gpu_call_work(&k->base);
}
