/* outside.c - POST /v1/outside and /v1/jobs/{job}/outside_end: runs that somebody else started
 *
 * The answer of the first has everything a reporter needs: the job, its run, a token for it, and
 * the directory where its spool goes when the reporter shares our files.  A pid counts only when it
 * is told over the unix socket, by the owner of that process: elsewhere it would be a stranger's.
 */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "core/track.h"
#include "request/once.h"
#include <stdio.h>
#include <sys/stat.h>

enum { SILENCE_MIN_S = 5, SILENCE_MAX_S = 7 * 24 * 3600 };

struct outside_call {
    struct str body;
    struct json *json;
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

static struct outside_call *begin(struct call *c)
{
    struct outside_call *d = call_alloc(c, sizeof(*d));

    c->data = d;
    c->free_data = outside_free;
    d->body = call_copy(c, http_body(c->req));
    d->local = http_peer(c->req)->is_unix;
    return d;
}

static int wrong_type(struct call *c, const char *key, const struct json *v, const char *wanted)
{
    return err_set(&c->err, ERR_INVALID, "%s: must be %s, not %s", key, wanted,
                   json_type_name(json_type(v)));
}

static int text_member(struct call *c, const char *key, const char **out)
{
    const struct json *v = json_get(((struct outside_call *)c->data)->json, key);

    if (v && json_type(v) != JSON_STR)
        return wrong_type(c, key, v, "a string");
    *out = v ? json_str(v).p : NULL;
    return 0;
}

static int whole_member(struct call *c, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const struct json *v = json_get(((struct outside_call *)c->data)->json, key);

    if (!v)
        return 0;
    if (json_type(v) != JSON_INT)
        return wrong_type(c, key, v, "a whole number");
    if (json_int(v) < min || json_int(v) > max)
        return err_set(&c->err, ERR_INVALID, "%s: must be from %lld to %lld", key, (long long)min,
                       (long long)max);
    *out = json_int(v);
    return 0;
}

static int parse(struct call *c)
{
    struct outside_call *d = c->data;

    if (json_parse(d->body, "body", &d->json, &c->err) < 0)
        return -1;
    return json_type(d->json) == JSON_OBJECT
               ? 0
               : err_set(&c->err, ERR_INVALID, "the body must be a JSON object");
}

/* ---- the beginning ---- */

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
    if (!c->who.caller.admin && st.st_uid != c->who.caller.uid)
        return err_set(&c->err, ERR_DENIED, "pid: process %lld is not yours", (long long)o->pid);
    return 0;
}

static int read_start(struct call *c)
{
    struct outside_call *d = c->data;
    struct outside_start *o = &d->start;
    const struct json *v;
    const char *id = NULL;
    int64_t silence = 0;

    if (parse(c) < 0 || text_member(c, "name", &o->name) < 0 ||
        text_member(c, "project", &o->project) < 0 || text_member(c, "cwd", &o->cwd) < 0 ||
        text_member(c, "id", &id) < 0 || whole_member(c, "pid", 1, INT32_MAX, &o->pid) < 0 ||
        whole_member(c, "silence_s", SILENCE_MIN_S, SILENCE_MAX_S, &silence) < 0)
        return -1;
    o->silence_ms = silence * 1000;
    if (!d->local)
        o->pid = 0;
    if (id && !id_parse(str_of(id), &o->id))
        return err_set(&c->err, ERR_INVALID, "id: \"%.60s\" is neither an id nor a UUID", id);
    v = json_get(d->json, "params");
    if (v && json_type(v) != JSON_OBJECT)
        return wrong_type(c, "params", v, "an object");
    o->params = v;
    o->command = json_get(d->json, "command");
    return check_pid(c, o);
}

static void on_begun(void *arg, const struct err *e, const struct submitted *r)
{
    struct call *c = arg;
    const struct core *core = call_api(c)->conf.core;
    char token[JOB_TOKEN_MAX];

    if (e) {
        call_fail(c, e);
        return;
    }
    struct run_key key = {r->first, 1};
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
    begin(c);
    call_run_once(c, outside_go);
}

/* ---- the end ---- */

static int read_end(struct call *c)
{
    struct outside_call *d = c->data;
    const struct json *failed;
    const char *why = NULL;

    if (job_ref_arg(c, &d->f) < 0 || parse(c) < 0 || text_member(c, "why", &why) < 0)
        return -1;
    failed = json_get(d->json, "failed");
    if (failed && json_type(failed) != JSON_BOOL)
        return wrong_type(c, "failed", failed, "true or false");
    d->exit_code = failed && json_bool(failed);
    d->why = str_of(why);
    return whole_member(c, "exit_code", 0, 255, &d->exit_code);
}

static void outside_on_ended(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;

    if (e) {
        call_fail(c, e);
        return;
    }
    jw_object(&c->out, NULL);
    jw_int(&c->out, "done", (int64_t)r->done);
    jw_int(&c->out, "already", (int64_t)r->already);
    jw_end_object(&c->out);
    call_reply(c);
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
    begin(c);
    call_work(c, read_end, end_then);
}
