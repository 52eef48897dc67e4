/* submit.c - POST /submit: from the words of run-scheduler to a job in the queue
 *
 * Owns: what has to be looked up before a submission can be translated (who sends it, which
 * directories and which python there are), the claim on its ports, and the answer.
 *
 * A worker thread reads, looks and translates; the controller takes the job; the answer follows the
 * commit.  An Idempotency-Key names one answer for ever, as it does for POST /v1/jobs.
 */
#include "api/submit_parse.h"
#include "base/file.h"
#include "base/json_out.h"
#include "base/util.h"
#include "dialect/gpu/dialect_priv.h"
#include "dialect/gpu/translate.h"
#include "io/forward.h"
#include "request/once.h"
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>

/* One POST /submit.  The call owns it and frees it with submit_done, whatever the outcome. */
struct submit_call {
    struct call *c;
    struct gpu_dialect *d;
    int32_t max_gpus;
    int64_t max_mem_bytes;
    struct gpu_submission s;
    struct submit *x; /* NULL once the controller has it */
    struct id id;
    /* claim: ports reserved for the job while it is submitted; 0 = none. */
    uint64_t claim, number;
    bool replay, options; /* options: sent by the command, whose messages name its options */
};

static void submit_done(void *data)
{
    struct submit_call *k = data;

    if (k->claim)
        job_ports_drop(k->d->env.ports, k->claim);
    submit_free(k->x);
    gpu_submission_done(&k->s);
}

/* ---- looking: worker thread ---- */

/* home is "" when the user database has none. */
struct person {
    char name[64], home[512];
};

/* Name and home directory; a user without an entry is called by the number. */
static void person_find(uint32_t uid, struct person *out)
{
    char text[4096];
    struct passwd pw, *found = NULL;

    *out = (struct person){0};
    auth_name_lookup(uid, out->name);
    if (getpwuid_r(uid, &pw, text, sizeof(text), &found) == 0 && found && found->pw_dir)
        snprintf(out->home, sizeof(out->home), "%s", found->pw_dir);
}

/* A daemon of root may be told by its admin to submit for somebody else, as old clients do; in all
 * other cases `username` must be who is asking. */
static int person_asked_for(struct submit_call *k, struct person *p, struct err *e)
{
    struct caller *who = &k->c->who.caller;
    char text[4096];
    struct passwd pw, *found = NULL;

    person_find(who->uid, p);
    snprintf(who->user, sizeof(who->user), "%s", p->name);
    if (!k->s.username || !strcmp(k->s.username, p->name))
        return 0;
    if (!who->admin || k->d->env.uid != 0)
        return err_set(e, ERR_DENIED,
                       "username '%.60s': you are %s, and a job runs as the user who submits it",
                       k->s.username, p->name);
    if (getpwnam_r(k->s.username, &pw, text, sizeof(text), &found) != 0 || !found)
        return err_set(e, ERR_INVALID, "username '%.60s': there is no such user", k->s.username);
    who->uid = pw.pw_uid;
    who->gid = pw.pw_gid;
    person_find(who->uid, p);
    snprintf(who->user, sizeof(who->user), "%s", p->name);
    return 0;
}

static bool dir_exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Of the user's own home first, as their command sees it. */
static const char *find_datasets(struct submit_call *k, const struct person *p)
{
    const struct json *home = json_get(k->s.environment, "HOME");
    const char *places[3] = {
        json_type(home) == JSON_STR
            ? arena_printf(&k->c->mem, STR_FMT "/datasets", STR_ARG(json_str(home)))
            : NULL,
        arena_printf(&k->c->mem, "/home/%s/datasets", p->name),
        p->home[0] ? arena_printf(&k->c->mem, "%s/datasets", p->home) : NULL,
    };

    if (k->s.datasets_dir)
        return k->s.datasets_dir;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        if (places[i] && places[i][0] == '/' && !strchr(places[i], ':') && dir_exists(places[i]))
            return places[i];
    return NULL;
}

/* The directory for users who name none: theirs, below our home. */
static int own_snapshots(struct submit_call *k, const char **out, struct err *e)
{
    const struct caller *who = &k->c->who.caller;
    AUTO_FREE char *all = path_join(k->d->env.home, "snapshots");
    char *mine = arena_printf(&k->c->mem, "%s/%s", all, who->user);

    char name[GPU_LABEL_MAX];

    if (strchr(mine, ':'))
        return err_set(e, ERR_INVALID,
                       "%s is missing: a directory below '%.100s' cannot be mounted, "
                       "since it contains a ':'",
                       gpu_argument_label("snapshotsDir", k->s.options, name), k->d->env.home);
    /* 0711: users may enter their own directory but not list those of others. */
    if (dir_make_all(all, 0711, e) < 0)
        return err_wrap(e, "making the directory for snapshots");
    if (mkdir(mine, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "cannot make %s", mine);
    /* lchown does not follow a link that somebody put there. */
    if (who->uid != geteuid() && lchown(mine, who->uid, who->gid) < 0)
        return err_sys(e, "cannot give %s to its user", mine);
    *out = mine;
    return 0;
}

/* Is there a program of this name on that PATH? */
static bool on_path(struct str path, const char *name)
{
    char file[4096];

    for (struct str dir; path.n > 0;) {
        dir = str_cut(path, ':', &path);
        if (snprintf(file, sizeof(file), STR_FMT "/%s", STR_ARG(dir), name) < (int)sizeof(file) &&
            access(file, X_OK) == 0)
            return true;
    }
    return false;
}

/* The interpreter that the PATH of the job has; python3 when it has both or none. */
static const char *find_python(const struct gpu_submission *s)
{
    const struct json *own = json_get(s->env, "PATH"),
                      *path = own ? own : json_get(s->environment, "PATH");
    struct str text =
        json_type(path) == JSON_STR ? json_str(path) : STR("/usr/local/bin:/usr/bin:/bin");

    return on_path(text, "python3") || !on_path(text, "python") ? "python3" : "python";
}

/* With the rights of the user: the daemon may be root. */
static int check_dirs(const struct submit_call *k, struct err *e)
{
    const struct caller *who = &k->c->who.caller;
    char name[GPU_LABEL_MAX];

    if (k->s.custom_dir && gpu_dir_check(k->s.custom_dir, who->uid, who->gid, GPU_MAY_READ, e) < 0)
        return err_wrap(e, "%s", gpu_argument_label("directoryToMount", k->s.options, name));
    if (k->s.snapshots_dir &&
        gpu_dir_check(k->s.snapshots_dir, who->uid, who->gid, GPU_MAY_READ | GPU_MAY_WRITE, e) < 0)
        return err_wrap(e, "%s", gpu_argument_label("snapshotsDir", k->s.options, name));
    return 0;
}

/* ---- reading: worker thread ---- */

/* submit_parse asks for the jobs named by `after`, which this form does not have. */
static int submit_no_refs(void *arg, struct str ref, uint64_t *out, struct err *e)
{
    (void)arg;
    (void)ref;
    (void)out;
    return err_set(e, ERR_INVALID, "a job of the GPU scheduler cannot wait for other jobs");
}

static bool keep_id(void *arg, const struct job_view *v)
{
    struct submit_call *k = arg;

    k->id = v->id;
    k->number = v->seq;
    return false;
}

/* Worker thread: the submission becomes a job form and then rows for the store. */
static int translate(struct submit_call *k, const struct person *p, struct err *e)
{
    struct gpu_world w = {.max_gpus = k->max_gpus,
                          .max_mem_bytes = k->max_mem_bytes,
                          .on_cpu = k->d->on_cpu,
                          .python = find_python(&k->s),
                          .datasets_dir = find_datasets(k, p),
                          .log_limit_bytes = k->d->log_limit_bytes,
                          .user = p->name,
                          .home = p->home[0] ? p->home : NULL};
    AUTO(json) struct json *form = NULL;

    if (!k->s.snapshots_dir && own_snapshots(k, &w.snapshots_dir, e) < 0)
        return -1;
    if (gpu_translate(&k->s, &w, &form, e) < 0)
        return -1;
    char *text = json_text(form);
    k->x = submit_new_take(text, strlen(text), &k->c->who.caller, core_vault(k->d->env.core));
    if (submit_prepare(k->x, false, e) < 0 || submit_parse(k->x, submit_no_refs, NULL, e) < 0)
        return -1;
    struct str key = call_once_key(k->c);
    if (key.n)
        k->x->s.idempotency_key = (struct str){xstrndup(key.p, key.n), key.n};
    k->x->s.idempotency_print = call_once_print(k->c);
    return 0;
}

/* Worker thread.  A repeated request is translated, too: only so can it be compared. */
static int submit_work(struct call *c)
{
    struct submit_call *k = c->data;
    AUTO(json) struct json *body = call_json_body(c);
    /* These members depend on the GPUs and directories of the host at the time of the request. */
    static const char *const host_keys[] = {"env", "resources", "mounts", "extra", NULL};
    struct once_made made;
    struct person p;
    int rc;

    if (!body || gpu_submission_read(body, k->options, &k->c->mem, &k->s, &c->err) < 0 ||
        person_asked_for(k, &p, &c->err) < 0)
        return -1;
    call_once_body(c, c->body);
    rc = call_once_find(c, &made);
    if (rc < 0 || check_dirs(k, &c->err) < 0 || translate(k, &p, &c->err) < 0)
        return -1;
    k->replay = rc == 1;
    if (!k->replay)
        return 0;
    if (!made.compared && call_once_check(c, &made, &k->x->s, host_keys) < 0)
        return -1;
    return store_job(k->d->env.store, made.first, keep_id, k, &c->err);
}

/* ---- handing over: loop thread ---- */

/* 201 for a new job, 200 for the answer to a repeated request. */
static void submit_reply(struct submit_call *k)
{
    struct call *c = k->c;
    char uuid[ID_UUID_MAX], location[64];

    id_format_uuid(k->id, uuid);
    jw_object(&c->out, NULL);
    jw_text(&c->out, "id", uuid);
    jw_int(&c->out, "number", (int64_t)k->number);
    jw_text(&c->out, "state", "pending");
    jw_end_object(&c->out);
    snprintf(location, sizeof(location), "/v1/jobs/%llu", (unsigned long long)k->number);
    if (c->req)
        http_reply_header(c->req, "Location", location);
    c->status = k->replay ? 200 : 201;
    call_reply(c);
}

static void gpu_on_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    struct submit_call *k = arg;

    if (e) {
        call_fail(k->c, e);
        return;
    }
    k->id = r->id;
    k->number = r->first;
    if (k->claim)
        job_ports_assign(k->d->env.ports, k->claim, r->first);
    /* The ports belong to the job now; submit_done must not drop them. */
    k->claim = 0;
    submit_reply(k);
}

/* The engine opens the ports of a container: for us they are only taken, so they must be free. */
static int engine_ports(const struct submit_call *k, struct port_pair *port, struct err *e)
{
    const char *addr = k->d->env.ports_addr;

    for (size_t i = 0; i < k->s.n_ports; i++) {
        port[i] = (struct port_pair){k->s.port[i].node, k->s.port[i].node};
        if (!port_is_free(addr ? addr : "0.0.0.0", port[i].node))
            return err_set(e, ERR_CONFLICT, "nodePort %d: another process listens on this port",
                           port[i].node);
    }
    return 0;
}

/* Ports below 1024 belong to the system: a daemon of root gives them to its admins only. */
static int claim_ports(struct submit_call *k, struct err *e)
{
    char name[GPU_LABEL_MAX];
    const char *label = gpu_argument_label("portMapping", k->s.options, name);

    for (size_t i = 0; i < k->s.n_ports; i++)
        if (k->s.port[i].node < 1024 && !k->c->who.caller.admin)
            return err_set(e, ERR_DENIED,
                           "nodePort %d: only an administrator may use ports below 1024",
                           k->s.port[i].node);
    struct port_pair taken[GPU_PORTS_MAX];
    if (k->s.image && engine_ports(k, taken, e) < 0)
        return err_wrap(e, "%s '%.60s'", label, k->s.ports);
    const struct port_pair *port = k->s.image ? taken : k->s.port;
    if (k->s.n_ports && job_ports_claim(k->d->env.ports, port, k->s.n_ports, &k->claim, e) < 0)
        return err_wrap(e, "%s '%.60s'", label, k->s.ports);
    return 0;
}

/* Loop thread: claims the ports of the job, then submits it. */
static void gpu_submit_then(struct call *c)
{
    struct submit_call *k = c->data;

    if (k->replay) {
        submit_reply(k);
    } else if (!c->req) { /* nobody waits any more: nothing is submitted */
        call_free(c);
    } else if (call_closing(c)) {
        call_fail_closing(c);
    } else if (claim_ports(k, &c->err) < 0) {
        call_fail(c, &c->err);
    } else {
        struct submit *x = TAKE(k->x);
        x->who = c->who.caller;
        core_submit_take(k->d->env.core, &x->s, &x->who, gpu_on_submitted, k);
    }
}

/* What the largest node could give. */
static void look_at_nodes(struct submit_call *k, const struct core *core)
{
    for (size_t at = 0; at < core_node_count(core); at++) {
        const struct node *n = core_node(core, at);
        for (size_t i = 0; n && i < n->n_devices; i++)
            k->max_mem_bytes = MAX(k->max_mem_bytes, n->devices[i].mem_bytes);
        if (n)
            k->max_gpus = MAX(k->max_gpus, (int32_t)n->n_devices);
    }
}

static void gpu_submit_begin(struct call *c)
{
    call_work(c, submit_work, gpu_submit_then);
}

void gpu_submit(struct call *c)
{
    struct submit_call *k = call_alloc(c, sizeof(*k));
    const char *names = call_param(c, "names");

    k->c = c;
    k->options = names && !strcmp(names, "options");
    k->d = call_gpu(c);
    c->data = k;
    c->free_data = submit_done;
    /* The body is needed on the worker thread, after this handler has returned. */
    call_keep_body(c);
    look_at_nodes(k, k->d->env.core);
    call_run_once(c, gpu_submit_begin);
}
