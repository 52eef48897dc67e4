/* train_spec.c - what the specs of jobs that train say, kept once for all jobs of a spec
 *
 * Owns: how the job form becomes what the planner is told: which GPU counts are possible, who may
 * be stopped and how, what a family is.
 */
#include "base/file.h"
#include "core/train_priv.h"
#include "model/template.h"
#include <stdio.h>

struct train_spec *train_spec_ref(struct core *c, uint64_t seq)
{
    struct train_spec *s = map_u64_get(&c->gpu.specs, seq);

    if (!s) {
        s = xcalloc(1, sizeof(*s));
        s->seq = seq;
        map_u64_put(&c->gpu.specs, seq, s);
    }
    s->users++;
    return s;
}

void train_spec_unref(struct core *c, struct train_spec *s)
{
    if (--s->users)
        return;
    map_u64_del(&c->gpu.specs, s->seq);
    free(s->family);
    free(s);
}

/* The wanted count, its doubles, and the most it can use. */
static void fill_counts(struct gpu_job *g, int32_t gpus, int32_t max)
{
    g->ref = gpus;
    for (int32_t n = gpus; n <= max && g->n_counts < GPU_COUNTS_MAX - 1; n *= 2)
        g->counts[g->n_counts++] = n;
    if (max > g->counts[g->n_counts - 1])
        g->counts[g->n_counts++] = max;
}

/* A job that reports epochs is stopped between two of them, even if it also names a signal. */
static enum gpu_preempt preempt_of(const struct training *t)
{
    if (t->epochs)
        return GPU_PREEMPT_EPOCH;
    return t->preempt_signal ? GPU_PREEMPT_SIGNAL : GPU_PREEMPT_NEVER;
}

static void train_spec_fill(struct train_spec *s, const struct spec *spec)
{
    const struct training *t = &spec->train;
    struct buf family;

    s->gpus = spec->need.gpus;
    s->epochs = t->epochs;
    s->signal = t->epochs ? 0 : t->preempt_signal;
    s->resumes = t->checkpoint != NULL;
    s->per_gpu = t->launch == LAUNCH_GPU;
    s->dialect = spec->origin.dialect != NULL;
    s->grace_ms = spec->limits.grace_ms;
    s->read = true;
    if (!s->gpus)
        return;
    buf_init(&family, SPEC_MAX_BYTES);
    spec_family(spec, &family);
    /* Rates per step and rates per epoch cannot be compared. */
    if (t->epoch_steps)
        buf_adds(&family, " by steps");
    s->family = buf_take(&family, NULL);
    s->say = (struct gpu_job){.mem_bytes = t->gpu_mem_bytes,
                              .estimate_s = (double)t->estimate_ms / 1000,
                              .epochs = t->epochs,
                              .epoch_work = (double)t->epoch_steps,
                              .deadline_ms = t->deadline_ms,
                              .preempt = preempt_of(t),
                              .share = spec_shares(spec)};
    fill_counts(&s->say, s->gpus, MAX(t->gpus_max, s->gpus));
}

void train_spec_read(struct core *c, struct train_spec *s, uint64_t job)
{
    struct ledger *led = &c->conf.ledger;
    struct launch l = {0};
    struct err e;

    if (s->read)
        return;
    if (led->read_launch(led->self, job, &l, &e) == 0)
        train_spec_fill(s, l.spec);
    launch_done(&l); /* what cannot be read now fails the start, with its reason */
}

/* ---- the file it resumes from ---- */

struct values {
    const struct json *params;
    char *owned[8];
    size_t n;
};

/* A parameter for the template of the path.  A text is used as it is, any other value as JSON. */
static bool spec_param_value(void *arg, struct str name, struct str *out)
{
    struct values *v = arg;
    AUTO_FREE char *key = xstrndup(name.p, name.n);
    const struct json *j = json_get(v->params, key);

    if (!j || v->n == ARRAY_SIZE(v->owned))
        return false;
    if (json_type(j) == JSON_STR) {
        *out = json_str(j);
        return true;
    }
    v->owned[v->n] = json_text(j);
    *out = str_of(v->owned[v->n++]);
    return true;
}

static size_t no_names(void *arg, const char **out, size_t max)
{
    (void)arg;
    (void)out;
    (void)max;
    return 0;
}

char *train_checkpoint(const struct launch *l)
{
    const char *path = l->spec->train.checkpoint;
    struct values v = {.params = l->params};
    const struct template_vars vars = {spec_param_value, no_names, &v};
    AUTO(buf) struct buf text = {0};
    struct err e;

    if (!path)
        return NULL;
    buf_init(&text, 64 << 10);
    if (!l->params || template_expand(str_of(path), &vars, &text, &e) < 0) {
        buf_reset(&text);
        buf_adds(&text, path);
    }
    while (v.n)
        free(v.owned[--v.n]);
    return path_absolute(text.p, l->spec->command.cwd ? l->spec->command.cwd : "/");
}
