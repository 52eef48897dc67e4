/* gpu_memory.c - what is kept across restarts of the caller
 *
 * Names: "gpu.family.<name>" (speed_save.c), "gpu.job.<number>", "gpu.all".  A text that cannot be
 * read is ignored: everything in it can be learnt again.
 */
#include "base/json_out.h"
#include "sched/gpu_priv.h"

#include <math.h>

enum { TEXT_MAX = 1 << 20 };

/* ---- a job ---- */

static void save_job(const struct gpus *g, const struct gjob *j, struct buf *out)
{
    jw_object(out, NULL);
    jw_int(out, "done", j->progress.done);
    jw_int(out, "attempts", j->history.attempts);
    jw_int(out, "preemptions", j->history.preemptions);
    jw_int(out, "waited_ms", j->progress.waited_ms);
    jw_int(out, "measured_bytes", j->measured_bytes);
    jw_int(out, "mem_bytes", j->mem_bytes);
    jw_double(out, "work", gpu_work(j));
    if (j->apart)
        jw_str(out, "family", speeds_family_name(g->speeds, j->family));
    jw_int(out, "judged", j->pace.judged); /* a number: records of older versions have one */
    jw_double(out, "service_s", j->progress.service_s);
    jw_double(out, "ref_s", j->progress.ref_s);
    jw_array(out, "own");
    for (size_t i = 0; i < j->pace.own.n; i++) {
        const struct speed_point *p = &j->pace.own.p[i];
        jw_array(out, NULL);
        jw_int(out, NULL, p->key.n);
        jw_double(out, NULL, p->log_rate);
        jw_double(out, NULL, p->weight);
        for (int32_t k = 0; k < p->key.n_with; k++)
            jw_str(out, NULL, speeds_family_name(g->speeds, p->key.with[k]));
        jw_end_array(out);
    }
    jw_end_array(out);
    jw_end_object(out);
}

/* Numbers of a record that are missing, negative or not finite become 0, as in a new job. */
static double real_of(const struct json *j, const char *key)
{
    double x = json_get(j, key) ? json_real(json_get(j, key)) : 0;

    return isfinite(x) && x > 0 ? x : 0;
}

/* `unit` turns logarithms of saved rates into those of the work this job counts in now: records of
 * older versions counted epochs. */
static void load_own(struct gpus *g, struct gjob *j, const struct json *rows, double unit)
{
    for (size_t i = 0; i < json_len(rows); i++) {
        const struct json *r = json_at(rows, i);
        uint32_t with[SPEED_WITH_MAX];
        size_t n_with = json_len(r) < 3 ? SPEED_WITH_MAX + 1 : json_len(r) - 3;
        if (n_with > SPEED_WITH_MAX)
            continue;
        double n = json_real(json_at(r, 0)), rate = json_real(json_at(r, 1));
        double weight = json_real(json_at(r, 2));
        if (!(n >= 1 && n <= GPU_SET_MAX) || !isfinite(rate) || !(weight > 0))
            continue;
        for (size_t k = 0; k < n_with; k++)
            with[k] = speeds_family(g->speeds, json_str(json_at(r, 3 + k)));
        struct speed_key key = speed_key_make((int32_t)n, with, (int32_t)n_with);
        if (!speed_own_find(&j->pace.own, &key))
            vec_push(&j->pace.own, ((struct speed_point){key, rate + unit, weight}));
    }
    j->pace.own_version++;
}

void gpu_recall_job(struct gpus *g, struct gjob *j)
{
    AUTO_FREE char *text = map_u64_del(&g->saved, j->say.job);
    AUTO(json) struct json *t = NULL;

    if (!text || json_parse(str_of(text), "job", &t, NULL) < 0)
        return;
    j->progress.done = (int32_t)real_of(t, "done");
    j->history.attempts = (int32_t)real_of(t, "attempts");
    j->history.preemptions = (int32_t)real_of(t, "preemptions");
    j->progress.waited_ms = (int64_t)real_of(t, "waited_ms");
    j->measured_bytes = (int64_t)real_of(t, "measured_bytes");
    /* A recorded reservation replaces the one the user stated only when it was measured or is
     * larger. */
    if (j->measured_bytes || json_int(json_get(t, "mem_bytes")) > j->mem_bytes)
        j->mem_bytes = (int64_t)real_of(t, "mem_bytes");
    j->pace.judged = real_of(t, "judged") > 0;
    j->progress.service_s = real_of(t, "service_s");
    j->progress.ref_s = real_of(t, "ref_s");
    double work = real_of(t, "work");
    load_own(g, j, json_get(t, "own"), log(gpu_work(j) / (work > 0 ? work : 1)));
    const struct json *family = json_get(t, "family");
    if (json_type(family) == JSON_STR) {
        j->family = speeds_family(g->speeds, json_str(family));
        j->apart = true;
    }
}

/* ---- all ---- */

static void save_all(const struct gpus *g, struct buf *out)
{
    jw_object(out, NULL);
    jw_array(out, "said");
    jw_double(out, NULL, g->trust.said_var);
    jw_double(out, NULL, g->trust.said_weight);
    jw_end_array(out);
    jw_array(out, "spread");
    for (int i = 0; i < 2 * GPU_SPREADS; i++) {
        const struct gpu_spread *s = &g->trust.spread[i / GPU_SPREADS][i % GPU_SPREADS];
        jw_array(out, NULL);
        jw_int(out, NULL, s->n);
        for (int k = 0; k < 3; k++)
            jw_double(out, NULL, s->q[k]);
        jw_end_array(out);
    }
    jw_end_array(out);
    jw_end_object(out);
}

static void load_all(struct gpus *g, const struct json *t)
{
    const struct json *said = json_get(t, "said"), *spread = json_get(t, "spread");
    double var = json_len(said) == 2 ? json_real(json_at(said, 0)) : 0;

    if (isfinite(var) && var > 0) {
        g->trust.said_var = var;
        g->trust.said_weight = MAX(1, MIN(30, json_real(json_at(said, 1))));
    }
    for (size_t i = 0; i < json_len(spread) && i < 2 * GPU_SPREADS; i++) {
        const struct json *r = json_at(spread, i);
        struct gpu_spread s = {.n = json_len(r) == 4 ? json_int(json_at(r, 0)) : -1};
        for (size_t k = 0; s.n >= 0 && k < 3; k++)
            s.q[k] = json_real(json_at(r, k + 1));
        if (s.n >= 0 && isfinite(s.q[0]) && s.q[0] <= s.q[1] && s.q[1] <= s.q[2] && s.q[2] < 20)
            g->trust.spread[i / GPU_SPREADS][i % GPU_SPREADS] = s;
    }
}

void gpus_recall(struct gpus *g, struct str name, struct str text)
{
    struct str family = STR("gpu.family."), job = STR("gpu.job.");
    AUTO(json) struct json *t = NULL;
    int64_t id;

    if (str_starts(name, job)) {
        struct str number = {name.p + job.n, name.n - job.n};
        if (str_to_i64(number, &id) && id > 0 && text.n) {
            free(map_u64_del(&g->saved, (uint64_t)id));
            map_u64_put(&g->saved, (uint64_t)id, xstrndup(text.p, text.n));
        }
        return;
    }
    if (json_parse(text, "record", &t, NULL) < 0)
        return;
    if (str_starts(name, family))
        (void)speeds_load(g->speeds, (struct str){name.p + family.n, name.n - family.n}, t, NULL);
    else if (str_eq_c(name, "gpu.all") && json_type(t) == JSON_OBJECT)
        load_all(g, t);
}

/* ---- handing over ---- */

static void memory_hand_over(struct gpus *g, struct buf *name, struct buf *text)
{
    if (!text->overflow && !name->overflow)
        g->hands.remember(g->hands.self, buf_str(name), buf_str(text));
    buf_reset(name);
    buf_reset(text);
}

static void keep_jobs(struct gpus *g, struct buf *name, struct buf *text)
{
    for (size_t i = 0; i < g->forgotten.n; i++) {
        buf_addf(name, "gpu.job.%lu", g->forgotten.p[i]);
        memory_hand_over(g, name, text);
    }
    vec_clear(&g->forgotten);
    for (size_t i = 0; i < g->changed.n; i++) {
        struct gjob *j = gpu_find(g, g->changed.p[i]);
        if (!j)
            continue;
        j->dirty = false;
        buf_addf(name, "gpu.job.%lu", j->say.job);
        save_job(g, j, text);
        memory_hand_over(g, name, text);
    }
    vec_clear(&g->changed);
}

void gpu_keep(struct gpus *g)
{
    AUTO(buf) struct buf name = {0};
    AUTO(buf) struct buf text = {0};
    uint32_t family;

    if (!g->hands.remember)
        return;
    buf_init(&name, 4096);
    buf_init(&text, TEXT_MAX);
    keep_jobs(g, &name, &text);
    while (speeds_take_dirty(g->speeds, &family)) {
        struct str n = speeds_family_name(g->speeds, family);
        buf_addf(&name, "gpu.family." STR_FMT, STR_ARG(n));
        speeds_save(g->speeds, family, &text);
        memory_hand_over(g, &name, &text);
    }
    if (g->unsaved) {
        g->unsaved = false;
        buf_adds(&name, "gpu.all");
        save_all(g, &text);
        memory_hand_over(g, &name, &text);
    }
}
