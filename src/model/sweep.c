/* sweep.c - many jobs from one form, made one by one when asked for
 *
 * Owns: the axes of a grid (each value already as text).  Lists of jobs are read by sweep_list.c.
 *
 * Job i of a grid is i written in mixed radix, last key fastest; an array is a last axis called
 * index whose values are its numbers.  Nothing per job is kept for those two, so a million of them
 * cost what one costs.
 */
#include "base/json_out.h"
#include "base/util.h"
#include "model/spec_priv.h"
#include "model/sweep_priv.h"
#include "model/template.h"
#include <inttypes.h>
#include <stdio.h>

enum { ENTRY_PARAMS_BYTES = 1 << 30 };

/* ---- values ---- */

/* A string becomes a placeholder's text without its quotes; everything else as JSON. */
static struct value value_of(const struct json *j)
{
    struct value v = {.json = j ? json_text(j) : xstrdup("null")};

    if (json_type(j) == JSON_STR) {
        v.owned = xstrndup(json_str(j).p, json_str(j).n);
        v.text = (struct str){v.owned, json_str(j).n};
    } else {
        v.text = str_of(v.json);
    }
    return v;
}

static void axis_done(struct axis *a)
{
    for (size_t i = 0; a->values && i < a->n; i++) {
        free(a->values[i].json);
        free(a->values[i].owned);
    }
    free(a->values);
    free(a->key);
}

/* Where job i stands on axis k. */
static size_t coordinate(const struct sweep *s, size_t i, size_t k)
{
    for (size_t later = s->axes.n; --later > k;)
        i /= s->axes.p[later].n;
    return i % s->axes.p[k].n;
}

/* A byte 10xxxxxx continues a character: the cut moves to the first byte of that character. */
void sweep_cut_name(struct buf *b, size_t start)
{
    size_t n = SPEC_NAME_MAX;

    if (b->n <= start + n)
        return;
    while (n > 0 && ((unsigned char)b->p[start + n] & 0xc0) == 0x80)
        n--;
    b->n = start + n;
    b->p[b->n] = '\0';
}

/* ---- placeholders of a grid job ---- */

struct grid_arg {
    const struct sweep *s;
    size_t job;
    char index[24];
};

static bool grid_find(void *arg, struct str name, struct str *out)
{
    struct grid_arg *g = arg;

    for (size_t k = 0; k < g->s->axes.n; k++) {
        const struct axis *a = &g->s->axes.p[k];
        size_t at;

        if (!str_eq_c(name, a->key))
            continue;
        at = coordinate(g->s, g->job, k);
        if (a->values)
            *out = a->values[at].text;
        else
            *out = (struct str){g->index, (size_t)snprintf(g->index, 24, "%zu", at)};
        return true;
    }
    return false;
}

/* For suggestions only. */
static size_t grid_names(void *arg, const char **out, size_t max)
{
    struct grid_arg *g = arg;
    size_t n = MIN(max, g->s->axes.n);

    for (size_t k = 0; k < n; k++)
        out[k] = g->s->axes.p[k].key;
    return n;
}

/* ---- reading ---- */

/* A key of the table with its limits; absent gives 0. */
static int read_int(const struct json *j, const char *name, int64_t *out, struct err *e)
{
    const struct json *v = json_get(j, name);
    const struct spec_key *k = spec_key_find(spec_keys, n_spec_keys, str_of(name));

    *out = 0;
    if (!v)
        return 0;
    if (json_type(v) != JSON_INT || json_int(v) < k->min || json_int(v) > k->max) {
        AUTO_FREE char *text = json_text(v);
        return err_set(e, ERR_INVALID,
                       "%s: %.40s is not a whole number from %" PRId64 " to %" PRId64, name, text,
                       k->min, k->max);
    }
    *out = json_int(v);
    return 0;
}

int sweep_check_after(const struct json *after, const char *path, struct err *e)
{
    if (!after)
        return 0;
    bool list = json_type(after) == JSON_ARRAY;
    for (size_t i = 0; i < (list ? json_len(after) : 1); i++) {
        enum json_type t = json_type(list ? json_at(after, i) : after);
        if (t != JSON_STR && t != JSON_INT)
            return err_set(e, ERR_INVALID, "%safter: write a job id, or a list of them", path);
    }
    return 0;
}

static int add_axis(struct sweep *s, const char *key, const struct json *v, struct err *e)
{
    bool list = json_type(v) == JSON_ARRAY;
    struct axis a = {.n = list ? json_len(v) : 1};

    if (a.n == 0)
        return err_set(e, ERR_INVALID, "params.%.60s: is an empty list; write at least one value",
                       key);
    if (s->count > SWEEP_MAX_JOBS / a.n)
        return err_set(e, ERR_LIMIT,
                       "params.%.60s: makes more than %d jobs; a sweep has at most that many", key,
                       SWEEP_MAX_JOBS);
    /* The check before bounds the product by SWEEP_MAX_JOBS, so it cannot overflow. */
    s->count *= a.n;
    a.key = xstrdup(key);
    a.values = xcalloc(a.n, sizeof(*a.values));
    for (size_t i = 0; i < a.n; i++) {
        a.values[i] = value_of(list ? json_at(v, i) : v);
        if (memchr(a.values[i].text.p, '\0', a.values[i].text.n)) {
            axis_done(&a);
            return err_set(e, ERR_INVALID, "params.%.60s[%zu]: contains a NUL character; remove it",
                           key, i);
        }
    }
    vec_push(&s->axes, a);
    return 0;
}

static int read_grid(struct sweep *s, const struct json *j, struct err *e)
{
    const struct json *params = json_get(j, "params");
    int64_t array;

    if (params_check(params, "", e) < 0 || read_int(j, "array", &array, e) < 0)
        return -1;
    for (struct json_it it = {0}; params && json_next(params, &it);)
        if (add_axis(s, it.key, it.val, e) < 0)
            return -1;
    if (!array)
        return 0;
    if (params && json_has(params, "index"))
        return err_set(e, ERR_INVALID,
                       "params.index: an array has an index of its own; use another name");
    if (s->count > (size_t)(SWEEP_MAX_JOBS / array))
        return err_set(e, ERR_LIMIT,
                       "array: %" PRId64 " of every combination of params are more than %d jobs",
                       array, SWEEP_MAX_JOBS);
    s->count *= (size_t)array;
    vec_push(&s->axes, ((struct axis){.key = xstrdup("index"), .n = (size_t)array}));
    return 0;
}

/* Placeholders are checked with the values of job 0; all jobs have the same parameters. */
static int finish_grid(struct sweep *s, const struct json *j, struct err *e)
{
    struct grid_arg g = {.s = s};
    struct template_vars v = {grid_find, grid_names, &g};
    struct spec *spec;
    AUTO(buf) struct buf b = {0};

    if (spec_parse(j, "", &spec, e) < 0)
        return -1;
    vec_push(&s->specs, spec);
    s->name = xstrdup(spec->name);
    if (!s->axes.n)
        return 0;
    if (spec_check_template(spec, &v, "", e) < 0)
        return -1;
    s->name_is_pattern = json_has(j, "name") && template_has_placeholder(str_of(s->name));
    buf_init(&b, SPEC_COMMAND_BYTES);
    if (s->name_is_pattern && template_expand(str_of(s->name), &v, &b, e) < 0)
        return err_wrap(e, "name");
    return 0;
}

int sweep_parse(const struct json *j, struct sweep **out, struct err *e)
{
    struct sweep *s;
    int64_t slots;
    int rc;

    if (json_type(j) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "a sweep is a map with at least a command, not %s",
                       json_type_name(json_type(j)));
    if (read_int(j, "slots", &slots, e) < 0 || sweep_check_after(json_get(j, "after"), "", e) < 0)
        return -1;
    s = xcalloc(1, sizeof(*s));
    s->count = 1;
    s->slots = (int32_t)slots;
    buf_init(&s->params, ENTRY_PARAMS_BYTES);
    if (json_get(j, "after"))
        s->after = json_copy(json_get(j, "after"));
    if (json_has(j, "jobs"))
        rc = sweep_read_list(s, j, e);
    else
        rc = read_grid(s, j, e) < 0 ? -1 : finish_grid(s, j, e);
    return HAND_OUT(rc, out, s, sweep_free);
}

void sweep_free(struct sweep *s)
{
    if (!s)
        return;
    vec_free_each(&s->specs, spec_free);
    vec_done_each(&s->axes, axis_done);
    for (size_t i = 0; i < s->entries.n; i++) {
        free(s->entries.p[i].name);
        json_free(s->entries.p[i].after);
    }
    buf_done(&s->params);
    json_free(s->after);
    FREE_EACH(s->specs.p, s->axes.p, s->entries.p, s->name, s);
}

/* ---- asking ---- */

size_t sweep_count(const struct sweep *s)
{
    return s->count;
}

int32_t sweep_slots(const struct sweep *s)
{
    return s->slots;
}

const char *sweep_name(const struct sweep *s)
{
    return s->name;
}

size_t sweep_n_specs(const struct sweep *s)
{
    return s->specs.n;
}

const struct spec *sweep_spec(const struct sweep *s, size_t k)
{
    ASSERT(k < s->specs.n);
    return s->specs.p[k];
}

const struct json *sweep_after(const struct sweep *s, size_t i)
{
    ASSERT(i < s->count);
    return s->entries.n && s->entries.p[i].after ? s->entries.p[i].after : s->after;
}

/* Writes the JSON by hand: the values are JSON texts already. */
static void grid_job(const struct sweep *s, size_t i, struct buf *params, struct buf *name)
{
    struct grid_arg g = {.s = s, .job = i};
    struct template_vars v = {grid_find, grid_names, &g};

    for (size_t k = 0; k < s->axes.n; k++) {
        const struct axis *a = &s->axes.p[k];
        size_t at = coordinate(s, i, k);

        buf_addc(params, k ? ',' : '{');
        jw_str(params, NULL, str_of(a->key));
        buf_addc(params, ':');
        if (a->values)
            buf_adds(params, a->values[at].json);
        else
            buf_addf(params, "%zu", at);
    }
    if (s->axes.n)
        buf_addc(params, '}');
    if (s->name_is_pattern) {
        size_t start = name->n;
        struct err ignored; /* the pattern was checked when the sweep was read */
        template_expand(str_of(s->name), &v, name, &ignored);
        sweep_cut_name(name, start);
    }
}

void sweep_job(const struct sweep *s, size_t i, size_t *out_spec, struct buf *params,
               struct buf *name)
{
    ASSERT(i < s->count);
    if (!s->entries.n) {
        *out_spec = 0;
        grid_job(s, i, params, name);
        return;
    }
    const struct entry *en = &s->entries.p[i];
    *out_spec = en->spec;
    buf_add(params, s->params.p ? s->params.p + en->params_at : "", en->params_n);
    if (en->name)
        buf_adds(name, en->name);
}
