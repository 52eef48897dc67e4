/* submit.c - POST /queued_jobs, and how such a job is started
 *
 * A worker thread reads, checks that the bundle is there and translates; the controller takes the
 * job; the answer follows the commit.  A job that is refused leaves nothing in the queue.
 */
#include "api/submit_parse.h"
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/atlas_priv.h"
#include "dialect/atlas/translate.h"
#include "dialect/atlas/worker.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

extern char **environ;

/* One submission.  `room` is read on the loop thread before the worker thread begins. */
struct enqueue {
    struct atlas_room room;
    struct submit *x; /* NULL once the controller has it */
    char id[ATLAS_ID_MAX];
};

static void enqueue_free(void *data)
{
    submit_free(((struct enqueue *)data)->x);
}

/* A submit_resolve_fn: the form of Atlas has no member for jobs to wait for. */
static int atlas_no_refs(void *arg, struct str ref, uint64_t *out, struct err *e)
{
    (void)arg;
    (void)ref;
    (void)out;
    return err_set(e, ERR_INVALID, "an Atlas job cannot wait for another job");
}

/* Translates to the job form and lets the API's own parser check it, so both doors accept the
 * same jobs. */
int atlas_prepare(const struct atlas *a, const struct atlas_submission *s,
                  const struct atlas_room *room, const struct caller *who, struct submit **out,
                  struct err *e)
{
    AUTO(json) struct json *form = NULL;

    if (atlas_translate(s,
                        &(struct atlas_world){.home = a->conf.home,
                                              .python = a->conf.python,
                                              .mounts = a->conf.mounts,
                                              .gpus = room->gpus,
                                              .mem_bytes = room->mem_bytes,
                                              .environ_ = environ},
                        &form, e) < 0)
        return -1;
    atlas_notify_add(a, s->metadata, form);
    if (strlen(s->id) == ATLAS_ID_LEN)
        json_set_str(form, "name", s->id); /* see atlas_id_format */
    char *text = json_text(form);
    struct submit *x = submit_new_take(text, strlen(text), who, core_vault(a->conf.core));
    if (submit_prepare(x, false, e) < 0 || submit_parse(x, atlas_no_refs, NULL, e) < 0) {
        submit_free(x);
        return -1;
    }
    atlas_id_parse(s->id, &x->s.jobs[0].id);
    *out = x;
    return 0;
}

/* Everything that can be refused is refused here, on a worker thread. */
static int enqueue_work(struct call *c)
{
    struct enqueue *q = c->data;
    AUTO(json) struct json *body = call_json_body(c);
    struct atlas_submission s;
    char tree[ATLAS_TREE_MAX];
    struct id id;

    if (!body || atlas_submission_read(body, &s, &c->err) < 0)
        return -1;
    id_parse(str_of(s.id), &id);
    id_format_uuid(id, q->id); /* the canonical form, for paths */
    s.id = q->id;
    atlas_bundle_tree(q->id, tree);
    if (!cas_has_tree(call_atlas(c)->cas, tree))
        return err_set(&c->err, ERR_INVALID, "job %s has no bundle; upload the bundle first",
                       q->id);
    return atlas_prepare(call_atlas(c), &s, &q->room, &c->who.caller, &q->x, &c->err);
}

/* Runs after the commit: what the client hears is on disk. */
static void submit_on_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    struct call *c = arg;
    struct enqueue *q = c->data;

    (void)r;
    if (e && e->code == ERR_CONFLICT) {
        err_set(&c->err, ERR_INVALID, "job %s exists already; choose another id", q->id);
        call_fail(c, &c->err);
    } else if (e) {
        call_fail(c, e);
    } else {
        c->status = 201;
        buf_addf(&c->out, "\"%s\"\n", q->id);
        call_reply(c);
    }
}

/* From here on the controller owns the submission. */
static void enqueue_then(struct call *c)
{
    struct enqueue *q = c->data;

    if (!c->req) { /* the client has left: nothing is submitted */
        call_free(c);
        return;
    }
    struct submit *x = TAKE(q->x);
    x->who = c->who.caller;
    core_submit_take(call_atlas(c)->conf.core, &x->s, &x->who, submit_on_submitted, c);
}

/* GPUs that were excluded or lost do not count. */
static int32_t usable_gpus(const struct node *n)
{
    int32_t count = 0;

    for (size_t i = 0; i < n->n_devices; i++)
        count += n->devices[i].state != DEVICE_EXCLUDED && n->devices[i].state != DEVICE_LOST;
    return count;
}

/* Loop thread, because the nodes belong to the controller. */
struct atlas_room atlas_room_of(const struct atlas *a)
{
    struct atlas_room room = {0};
    const struct core *core = a->conf.core;

    for (size_t i = 0; i < core_node_count(core); i++) {
        const struct node *n = core_node(core, i);
        if (!n)
            continue;
        int32_t gpus = usable_gpus(n);
        room.gpus = MAX(room.gpus, gpus);
        room.mem_bytes = MAX(room.mem_bytes, n->mem_bytes);
    }
    return room;
}

/* POST /queued_jobs: {"job_id", "spec", "metadata", "gpu_spec"}. */
void atlas_enqueue(struct call *c)
{
    struct enqueue *q = call_alloc(c, sizeof(*q));

    c->data = q;
    c->free_data = enqueue_free;
    q->room = atlas_room_of(call_atlas(c));
    atlas_work(c, enqueue_work, enqueue_then);
}

/* ---- the start of a run ---- */

/* Only the empty directory, because a container may mount it; the worker fills it. */
static int make_work_dir(const struct atlas *a, const char *id, struct err *e)
{
    AUTO_FREE char *dir = path_join(a->work_dir, id);

    if (mkdir(dir, 0755) < 0 && errno != EEXIST)
        return err_sys(e, "cannot make the working directory %s", dir);
    return 0;
}

/* Where the host cannot mount, the worker prints which volumes are missing. */
static void set_unmounted(const struct json *extra, struct env_sink *out)
{
    AUTO(buf) struct buf list = {0};

    buf_init(&list, 1 << 20);
    for (struct json_it it = {0}; json_next(json_get(json_get(extra, "spec"), "volumes"), &it);) {
        const struct json *bind = json_get(it.val, "bind");
        if (json_type(bind) == JSON_STR && !str_starts(json_str(bind), STR("/job")))
            buf_addf(&list, "%s (%s)\n", it.key, json_str(bind).p);
    }
    if (list.n)
        out->set(out->self, ATLAS_UNMOUNTED_VARIABLE, list.p);
}

/* Images read NVIDIA_VISIBLE_DEVICES; "void" hides all GPUs. */
static void submit_set_gpus(const struct launch_facts *f, struct env_sink *out)
{
    char list[1024] = "";
    size_t n = 0;

    for (int32_t i = -1; f->gpus && (i = gpu_set_next(f->gpus, (uint32_t)(i + 1))) >= 0;)
        n += (size_t)snprintf(list + n, sizeof(list) - MIN(n, sizeof(list)), "%s%d", n ? "," : "",
                              f->node->devices[i].index);
    out->set(out->self, "NVIDIA_VISIBLE_DEVICES", n ? list : "void");
}

/* The worker of Atlas (worker.c) starts first and then becomes the command of the job. */
int atlas_launch(void *self, const struct launch *l, const struct launch_facts *f,
                 struct launch_extras *x, struct err *e)
{
    struct atlas *a = self;
    struct arena *mem = x->mem;
    struct env_sink *out = &x->env;
    const char *said = l->spec->origin.extra;
    bool image = l->spec->container.image;
    struct json *extra = NULL;
    char id[ATLAS_ID_MAX];

    atlas_id_format(l->id, str_of(l->name ? l->name : l->spec->name), id);
    if (make_work_dir(a, id, e) < 0 ||
        json_parse(str_of(said ? said : "{}"), "extra", &extra, e) < 0)
        return -1;
    const struct json *run = json_get(extra, "run"), *refused = json_get(extra, "refused");
    char **all = arena_alloc(mem, 8 * sizeof(*all));
    all[0] = arena_strdup(mem, a->conf.program);
    all[1] = arena_strdup(mem, ATLAS_WORKER_COMMAND);
    all[2] = arena_strdup(mem, a->conf.home);
    all[3] = arena_strdup(mem, id);
    all[4] = arena_strdup(mem, json_type(run) == JSON_STR ? json_str(run).p : ATLAS_RUN_SCRIPT);
    all[5] = arena_strdup(mem, "--");
    if (json_type(refused) == JSON_STR)
        all[6] = arena_strdup(mem, json_str(refused).p);
    x->before = all;
    if (!a->conf.mounts && !image)
        set_unmounted(extra, out);
    json_free(extra);
    if (l->spec->need.mem_bytes && !image)
        out->set(out->self, ATLAS_RAM_VARIABLE,
                 arena_printf(mem, "%lld", (long long)l->spec->need.mem_bytes));
    /* Ours found it for our own library; the job's comes with its bundle. */
    for (char **v = l->spec->command.env; *v; v++)
        if (!strncmp(*v, "PYTHONPATH=", 11))
            out->set(out->self, "PYTHONPATH", *v + 11);
    submit_set_gpus(f, out);
    atlas_live_add(a, f->key.job, id);
    return 0;
}
