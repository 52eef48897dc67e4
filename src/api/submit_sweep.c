/* submit_sweep.c - a sweep as rows
 *
 * The sweep itself (combinations, overrides, arrays) is model/sweep.c; here each of its jobs gets a
 * row.  Params and names are written into one buffer that grows, so rows keep offsets until it is
 * complete.
 */
#include "api/submit_sweep.h"

/* All params and names of one sweep together. */
enum { SWEEP_TEXT_MAX = 1 << 30 };

/* A list as a value means one job for each of its elements. */
static bool has_list(const struct json *params)
{
    for (struct json_it it = {0}; json_next(params, &it);)
        if (json_type(it.val) == JSON_ARRAY)
            return true;
    return false;
}

int submit_is_sweep(struct str object, bool *out_single, struct err *e)
{
    AUTO(json) struct json *j = NULL;

    if (json_parse(object, "body", &j, e) < 0)
        return -1;
    *out_single = !json_has(j, "jobs") && !json_has(j, "array") && !json_has(j, "slots") &&
                  !has_list(json_get(j, "params"));
    return 0;
}

/* The specs of a sweep are made, not sent: their texts live in the arena. */
static int add_specs(struct submit *x, const struct sweep *sw, struct err *e)
{
    for (size_t k = 0; k < sweep_n_specs(sw); k++) {
        AUTO(json) struct json *j = spec_to_json(sweep_spec(sw, k));
        AUTO_FREE char *text = json_text(j);
        struct str body = {arena_strdup(&x->mem, text), strlen(text)};

        if (submit_add_spec(x, sweep_spec(sw, k), "", body, e) < 0)
            return -1;
    }
    return 0;
}

/* A text of x->texts from `from` on, as an offset until the buffer stands still. */
static struct str text_since(const struct submit *x, size_t from)
{
    return (struct str){(const char *)from, x->texts.n - from};
}

/* The offset as a pointer, once the buffer does not move any more. */
static struct str text_settle(const struct submit *x, struct str s)
{
    return s.n ? (struct str){x->texts.p + (size_t)s.p, s.n} : (struct str){NULL, 0};
}

/* Most jobs of a sweep wait for the same: the list before is used again. */
struct after {
    const struct json *of;
    const uint64_t *list;
    size_t n;
};

static int find_after(struct submit *x, const struct sweep *sw, size_t i, struct after *a,
                      struct err *e)
{
    const struct json *of = sweep_after(sw, i);
    char path[40] = "";

    if (of == a->of)
        return 0;
    if (i > 0)
        snprintf(path, sizeof(path), "jobs[%zu].", i);
    a->of = of;
    return submit_resolve_after(x, of, path, &a->list, &a->n, e);
}

/* A row for each job of the sweep. */
static int add_jobs(struct submit *x, const struct sweep *sw, struct err *e)
{
    size_t n = sweep_count(sw);
    struct after after = {0};
    AUTO(buf) struct buf name = {0};

    buf_init(&name, 4096);
    buf_init(&x->texts, SWEEP_TEXT_MAX);
    vec_reserve(&x->jobs, n);
    for (size_t i = 0; i < n; i++) {
        struct job_row row = {0};
        size_t spec = 0, from = x->texts.n;

        if (find_after(x, sw, i, &after, e) < 0)
            return -1;
        row.after = after.list;
        row.n_after = (uint32_t)after.n;

        buf_reset(&name);
        sweep_job(sw, i, &spec, &x->texts, &name);
        row.spec = spec;
        row.priority = x->specs.p[spec].priority;
        row.params = text_since(x, from);
        from = x->texts.n;
        buf_add(&x->texts, name.p, name.n);
        row.name = text_since(x, from);
        if (x->texts.overflow)
            return err_set(e, ERR_LIMIT, "the params of all jobs together are larger than %d MiB",
                           SWEEP_TEXT_MAX >> 20);
        vec_push(&x->jobs, row);
    }
    for (size_t i = 0; i < n; i++) {
        x->jobs.p[i].params = text_settle(x, x->jobs.p[i].params);
        x->jobs.p[i].name = text_settle(x, x->jobs.p[i].name);
    }
    return 0;
}

int submit_read_sweep(struct submit *x, struct err *e)
{
    AUTO(json) struct json *j = NULL;
    struct sweep *sw = NULL;
    const char *name;
    int rc = -1;

    if (json_parse((struct str){x->body, x->body_n}, "body", &j, e) < 0)
        return -1;
    if (sweep_parse(j, &sw, e) == 0 && add_specs(x, sw, e) == 0)
        rc = add_jobs(x, sw, e);
    if (rc == 0) {
        name = sweep_name(sw);
        x->s.batch.name = (struct str){arena_strdup(&x->mem, name), strlen(name)};
        x->s.batch.project = x->specs.p[0].project;
        x->s.batch.slots = sweep_slots(sw);
    }
    sweep_free(sw);
    return rc;
}
