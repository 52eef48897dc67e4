/* train_view.c - answers about jobs that train: why they wait, when they start and end, how far
 * they are
 *
 * The planner gives reasons and predictions; here they become sentences and wall-clock times.
 */
#include "base/units.h"
#include "core/train_priv.h"
#include <stdio.h>
#include <time.h>

/* Predictions are on the planner's clock; people read wall clock times. */
static void view_to_wall(const struct core *c, struct gpu_view *v)
{
    int64_t *const times[] = {&v->start.at,  &v->start.lo,  &v->start.hi,
                              &v->finish.at, &v->finish.lo, &v->finish.hi};

    for (size_t i = 0; i < ARRAY_SIZE(times); i++)
        *times[i] = train_wall(c, *times[i]);
}

bool core_training(struct core *c, uint64_t job, struct gpu_view *out)
{
    const struct train *t = train_of(c, job);

    if (!t || !t->known || !gpus_view(c->gpu.planner, train_now(c), job, out))
        return false;
    view_to_wall(c, out);
    return true;
}

int core_training_past(struct core *c, uint64_t job, struct core_training_past *out, struct err *e)
{
    const struct train *t = train_of(c, job);
    struct ledger *led = &c->conf.ledger;
    struct job_record rec;

    if (t) {
        *out = t->past;
        return 0;
    }
    if (led->read_job(led->self, job, &rec, e) < 0)
        return -1;
    if (core_training_parse(rec.training, out))
        return 0;
    return err_set(e, ERR_NOT_FOUND, "job %llu does not train", (unsigned long long)job);
}

void core_set_endpoint(struct core *c, const char *endpoint)
{
    free(c->gpu.endpoint);
    c->gpu.endpoint = xstrdup(endpoint);
}

/* ---- why it waits ---- */

static const char *const wait_names[] = {
    [GPU_WAIT_NOTHING] = "next",          [GPU_WAIT_GPUS] = "gpus",
    [GPU_WAIT_MEMORY] = "gpu_memory",     [GPU_WAIT_CROWDED] = "gpu_crowded",
    [GPU_WAIT_NO_SHARE] = "gpu_no_share", [GPU_WAIT_RESERVED] = "gpu_reserved",
    [GPU_WAIT_BEHIND] = "behind",         [GPU_WAIT_HOST] = "host",
    [GPU_WAIT_CLOSED] = "node_drained",
};

const char *core_wait_name(enum gpu_wait w)
{
    return (size_t)w < ARRAY_SIZE(wait_names) ? wait_names[w] : "gpus";
}

/* "14:05", or with its day when that is not today. */
static void clock_text(int64_t wall_ms, int64_t now_ms, char out[32])
{
    time_t at = wall_ms / 1000, now = now_ms / 1000;
    struct tm t, today;

    localtime_r(&at, &t);
    localtime_r(&now, &today);
    strftime(out, 32,
             t.tm_yday == today.tm_yday && t.tm_year == today.tm_year ? "%H:%M" : "%b %d %H:%M",
             &t);
}

/* The interval is left out when both ends read the same. */
static void add_span(struct buf *b, const char *what, int64_t at, int64_t lo, int64_t hi,
                     int64_t now)
{
    char a[32], l[32], h[32];

    clock_text(at, now, a);
    clock_text(lo, now, l);
    clock_text(hi, now, h);
    if (!strcmp(l, h))
        buf_addf(b, "%s %s", what, a);
    else
        buf_addf(b, "%s %s (%s-%s)", what, a, l, h);
}

static void add_prediction(struct buf *b, const struct gpu_view *v, int64_t now)
{
    if (!v->running && v->start.at) {
        buf_adds(b, ". It ");
        add_span(b, "starts about", v->start.at, v->start.lo, v->start.hi, now);
    }
    if (v->finish.at) {
        buf_adds(b, v->running || !v->start.at ? ". It " : " and ");
        add_span(b, "ends about", v->finish.at, v->finish.lo, v->finish.hi, now);
    }
}

/* There are devices for it, but something else is lacking on their node. */
static void host_text(struct core *c, const struct job *j, struct buf *b)
{
    const struct limit *limit = queue_refusal(c->queue, j->wait.shape);
    const struct node *n = &c->cluster.nodes.p[c->gpu.wants_room_on];
    const struct usage *u = &c->cluster.usage.p[c->gpu.wants_room_on];
    struct resources need = queue_shape_at(c->queue, j->wait.shape)->need;

    need.gpus = 0;
    struct resources lack = resources_missing(n, u, &need);
    if (limit) {
        char user[64], text[160];
        job_owner_name(c, j, user, sizeof(user));
        limit_text(limit, user, text, sizeof(text));
        buf_adds(b, text);
    } else if (lack.mem_bytes)
        buf_addf(b, "there are GPUs for it, but not enough memory free on %s", n->name);
    else if (lack.mcpu)
        buf_addf(b, "there are GPUs for it, but not enough CPUs free on %s", n->name);
    else if (lack.slots)
        buf_addf(b, "there are GPUs for it, but all slots of %s are in use", n->name);
    else
        buf_addf(b, "the next plan decides whether %s can start it", n->name);
}

/* The one node with GPUs, or NULL when there are more. */
static const struct node *only_node(const struct core *c)
{
    const struct node *one = NULL;

    for (size_t i = 0; i < c->cluster.nodes.n; i++)
        if (c->cluster.nodes.p[i].n_devices) {
            if (one)
                return NULL;
            one = &c->cluster.nodes.p[i];
        }
    return one;
}

/* Names every node with GPUs that is drained or away. */
static void closed_text(const struct core *c, struct buf *b)
{
    for (size_t i = 0; i < c->cluster.nodes.n; i++) {
        const struct node *n = &c->cluster.nodes.p[i];
        if (!c->cluster.hosts.p[i] || !n->n_devices || (!n->drained && !n->away))
            continue;
        if (b->n)
            buf_adds(b, "; ");
        if (n->drained)
            buf_addf(b, "%s is drained; `berth nodes --undrain %s` puts it back to work", n->name,
                     n->name);
        else
            buf_addf(b, "%s is away (%s)", n->name, n->trouble);
    }
}

/* One sentence without its full stop: add_prediction continues the text. */
static void reason_text(struct core *c, const struct job *j, const struct gpu_view *v,
                        struct buf *b)
{
    const struct train *t = train_of(c, j->wait.job);
    const struct node *only = only_node(c);
    int32_t n = t->spec->gpus;
    char mem[UNIT_TEXT_MAX];

    size_format(v->reserved_bytes, mem);
    switch (v->wait) {
    case GPU_WAIT_NOTHING:
        buf_adds(b, "it starts with the next plan");
        return;
    case GPU_WAIT_GPUS:
        buf_addf(b, "waits for %d GPU%s", n, n == 1 ? "" : "s");
        if (only)
            buf_addf(b, " on %s", only->name);
        return;
    case GPU_WAIT_MEMORY:
        buf_addf(b, "waits for GPU memory: %s on each of %d GPU%s",
                 v->reserved_bytes ? mem : "all of it", n, n == 1 ? "" : "s");
        return;
    case GPU_WAIT_CROWDED:
        buf_addf(b, "waits for %d GPU%s: each has as many jobs as may share it", n,
                 n == 1 ? "" : "s");
        return;
    case GPU_WAIT_NO_SHARE:
        buf_adds(b, "waits for whole GPUs: this job, or the jobs that run there, do not share");
        return;
    case GPU_WAIT_RESERVED:
        buf_adds(b, "free GPUs are reserved for a job that has waited longer");
        break;
    case GPU_WAIT_BEHIND:
        buf_adds(b, "jobs that are shorter or more important go first");
        break;
    case GPU_WAIT_HOST:
        host_text(c, j, b);
        return;
    case GPU_WAIT_CLOSED:
        closed_text(c, b);
        return;
    }
    if (v->wait_for)
        buf_addf(b, " (job %llu)", (unsigned long long)v->wait_for);
}

/* The planner does not know the job because no node can ever take it. */
static bool explain_refused(struct core *c, const struct train *t, struct json *out)
{
    (void)c;
    if (!t->refused)
        return false;
    json_set_str(out, "kind", "never_fits");
    json_set_str(out, "text", t->refused);
    return true;
}

static void put_time_at(struct json *out, const char *key, int64_t wall_ms)
{
    char text[TIME_TEXT_MAX];

    if (!wall_ms)
        return;
    time_format_utc(wall_ms, text);
    json_set_str(out, key, text);
}

bool train_explain(struct core *c, struct job *j, struct json *out)
{
    const struct train *t = train_of(c, j->wait.job);
    struct gpu_view v;
    AUTO(buf) struct buf text = {0};

    if (!t || !t->spec->gpus)
        return false;
    if (!core_training(c, j->wait.job, &v))
        return !j->run && explain_refused(c, t, out);
    buf_init(&text, 4096);
    if (j->run) {
        const struct json *was = json_get(out, "text");
        struct str s = was ? json_str(was) : STR("");
        buf_add(&text, s.p, s.n);
        if (v.stopping)
            buf_adds(&text, ", and it is being preempted: it stops at the end of its epoch");
    } else {
        reason_text(c, j, &v, &text);
        json_set_str(out, "kind", core_wait_name(v.wait));
        if (v.wait_for)
            json_set_int(out, "other", (int64_t)v.wait_for);
    }
    add_prediction(&text, &v, core_wall(c));
    json_set_str(out, "text", text.p);
    put_time_at(out, "predicted_start", v.start.at);
    put_time_at(out, "predicted_end", v.finish.at);
    return true;
}
