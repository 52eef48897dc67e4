/* outside.c - POST /v1/outside and /v1/jobs/{job}/outside_end: runs that somebody else started
 *
 * The answer of the first has everything a reporter needs: the job, its run, a token for it, and
 * the directory where its spool goes when the reporter shares our files.  A pid counts only when it
 * is told over the unix socket, by the owner of that process: elsewhere it would be a stranger's.
 */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "base/json.h"
#include "core/track.h"
#include "request/once.h"
#include <stdio.h>
#include <sys/stat.h>

enum { SILENCE_MIN_S = 5, SILENCE_MAX_S = 7 * 24 * 3600 };

struct outside_call {
    struct json *json; /* the body */
    struct outside_start start;
    struct job_facts f;
    int64_t exit_code;
    struct str why;
    bool local; /* came over the unix socket */
};

static void outside_free(void *data)
{
    json_free(((struct outside_call *)data)->json);
}

static void outside_call_start(struct call *c)
{
    struct outside_call *d = call_alloc(c, sizeof(*d));

    c->data = d;
    c->free_data = outside_free;
    d->local = http_peer(c->req)->is_unix;
    call_keep_body(c);
}

/* NULL when the member is absent: the core tells that apart from an empty text. */
static int outside_text(struct call *c, const char *key, const char **out)
{
    const struct json *body = ((struct outside_call *)c->data)->json;
    struct str text;

    if (body_text(c, body, key, &text) < 0)
        return -1;
    *out = json_get(body, key) ? text.p : NULL;
    return 0;
}

static int outside_read_body(struct call *c)
{
    struct outside_call *d = c->data;

    d->json = body_object(c);
    return d->json ? 0 : -1;
}

/* ---- the beginning ---- */

/* Cancelling the job sends SIGTERM to this pid, so only an admin may name a process of another
 * user. */
static int check_pid(struct call *c, struct outside_start *o)
{
    char path[64];
    struct stat st;

    if (!o->pid)
        return 0;
    snprintf(path, sizeof(path), "/proc/%lld", (long long)o->pid);
    if (stat(path, &st) < 0)
        return err_set(&c->err, ERR_INVALID, "pid: there is no process %lld on this machine",
                       (long long)o->pid);
    if (!caller_sees(&c->who.caller, st.st_uid))
        return err_set(&c->err, ERR_DENIED, "pid: process %lld is not yours", (long long)o->pid);
    return 0;
}

/* Worker thread.  Fills d->start, which borrows its texts from the body. */
static int read_start(struct call *c)
{
    struct outside_call *d = c->data;
    struct outside_start *o = &d->start;
    const struct json *v;
    const char *id = NULL;
    int64_t silence = 0;

    if (outside_read_body(c) < 0 || outside_text(c, "name", &o->name) < 0 ||
        outside_text(c, "project", &o->project) < 0 || outside_text(c, "cwd", &o->cwd) < 0 ||
        outside_text(c, "id", &id) < 0 || body_int(c, d->json, "pid", 1, INT32_MAX, &o->pid) < 0 ||
        body_int(c, d->json, "silence_s", SILENCE_MIN_S, SILENCE_MAX_S, &silence) < 0)
        return -1;
    o->silence_ms = silence * 1000;
    /* Over TCP the pid may be one of another machine. */
    if (!d->local)
        o->pid = 0;
    if (id && !id_parse(str_of(id), &o->id))
        return err_set(&c->err, ERR_INVALID, "id: \"%.60s\" is neither an id nor a UUID", id);
    v = json_get(d->json, "params");
    if (v && json_type(v) != JSON_OBJECT)
        return body_wrong_type(c, "params", v, "an object");
    o->params = v;
    o->command = json_get(d->json, "command");
    return check_pid(c, o);
}

/* A core_submit_fn.  A run from outside is always the first run of its job. */
static void on_begun(void *arg, const struct err *e, const struct submitted *r)
{
    struct call *c = arg;
    const struct core *core = call_api(c)->conf.core;
    char token[JOB_TOKEN_MAX];

    if (e) {
        call_fail(c, e);
        return;
    }
    struct run_key key = core_run_key(core, r->first, r->id, 1);
    AUTO_FREE char *dir = core_run_dir(core, key);
    core_job_token(core, key, token);
    jw_object(&c->out, NULL);
    jw_id(&c->out, "id", r->id);
    jw_int(&c->out, "number", (int64_t)r->first);
    jw_int(&c->out, "run", key.run);
    jw_text(&c->out, "token", token);
    jw_text(&c->out, "run_dir", dir);
    jw_end_object(&c->out);
    c->status = 201;
    call_reply(c);
}

/* Loop thread.  d->start borrows texts of d->json, which lives until the call ends. */
static void begin_then(struct call *c)
{
    struct outside_call *d = c->data;

    core_outside_begin(call_api(c)->conf.core, &d->start, &c->who.caller, on_begun, c);
}

static void outside_go(struct call *c)
{
    struct outside_call *d = c->data;

    d->start.idempotency_key = call_once_key(c);
    call_work(c, read_start, begin_then);
}

void outside_begin(struct call *c)
{
    outside_call_start(c);
    call_run_once(c, outside_go);
}

/* ---- the end ---- */

/* "failed": true is short for exit code 1; an "exit_code" wins over it. */
static int read_end(struct call *c)
{
    struct outside_call *d = c->data;
    const struct json *failed;
    const char *why = NULL;

    if (job_ref_arg(c, &d->f) < 0 || outside_read_body(c) < 0 || outside_text(c, "why", &why) < 0)
        return -1;
    failed = json_get(d->json, "failed");
    if (failed && json_type(failed) != JSON_BOOL)
        return body_wrong_type(c, "failed", failed, "true or false");
    d->exit_code = failed && json_bool(failed);
    d->why = str_of(why);
    return body_int(c, d->json, "exit_code", 0, 255, &d->exit_code);
}

static void outside_on_ended(void *arg, const struct err *e, const struct acted *r)
{
    acted_reply(arg, e, r, 2);
}

static void end_then(struct call *c)
{
    struct outside_call *d = c->data;
    struct caller who = c->who.caller;

    who.admin |= c->who.token.job == d->f.seq; /* it speaks for itself */
    core_outside_end(call_api(c)->conf.core, d->f.seq, d->exit_code, d->why, &who, outside_on_ended,
                     c);
}

void outside_end(struct call *c)
{
    outside_call_start(c);
    call_work(c, read_end, end_then);
}
