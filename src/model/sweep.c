/* sweep.c - many jobs from one form, made one by one when asked for
 *
 * Owns: the axes of a grid (each value already as text), the entries of a `jobs` list.
 *
 * Job i of a grid is i written in mixed radix, last key fastest; an array is a last axis called
 * index whose values are its numbers.  Nothing per job is kept for those two, so a million of them
 * cost what one costs.
 */
#include "model/sweep.h"
#include "base/map.h"
#include "base/util.h"
#include "base/vec.h"
#include "model/spec_priv.h"
#include "model/template.h"
#include <inttypes.h>
#include <stdio.h>

struct value {
    char *json;      /* as it stands in params */
    struct str text; /* as a placeholder gives it: json, or the string without quotes */
    char *owned;     /* what text points to when that is not json */
};
struct axis {
    char *key;
    struct value *values; /* NULL: the numbers 0 … n-1 */
    size_t n;
};
struct entry { /* of `jobs` */
    size_t spec, params_at, params_n;
    char *name;
    struct json *after; /* NULL: the shared one */
};
struct sweep {
    VEC(struct spec *) specs;
    VEC(struct axis) axes;
    VEC(struct entry) entries;
    struct buf params; /* of all entries, one after another */
    struct json *after;
    size_t count;
    int32_t slots;
    char *name;           /* never NULL */
    bool name_is_pattern; /* the shared name has placeholders */
};

enum { ENTRY_PARAMS_BYTES = 1 << 30 };

/* ---- values ---- */

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

/* Not longer than a name may be, and never cut inside a character. */
static void cut_name(struct buf *b, size_t start)
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

static size_t grid_names(void *arg, const char **out, size_t max)
{
    struct grid_arg *g = arg;
    size_t n = MIN(max, g->s->axes.n);

    for (size_t k = 0; k < n; k++)
        out[k] = g->s->axes.p[k].key;
    return n;
}

/* ---- reading ---- */

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

static int check_after(const struct json *v, const char *path, struct err *e)
{
    if (!v)
        return 0;
    bool list = json_type(v) == JSON_ARRAY;
    for (size_t i = 0; i < (list ? json_len(v) : 1); i++) {
        enum json_type t = json_type(list ? json_at(v, i) : v);
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

/* ---- a list of jobs ---- */

static bool is_own_key(const char *key)
{
    return !strcmp(key, "params") || !strcmp(key, "name") || !strcmp(key, "after");
}

/* Maps are merged one level deep, so that an entry can change one variable; the rest replaces. */
static void override_key(struct json *into, const char *key, const struct json *val)
{
    const struct json *old = json_get(into, key);

    if (json_type(old) != JSON_OBJECT || json_type(val) != JSON_OBJECT) {
        json_set_take(into, key, val ? json_copy(val) : NULL);
        return;
    }
    struct json *merged = json_copy(old);
    for (struct json_it it = {0}; json_next(val, &it);)
        json_set_take(merged, it.key, it.val ? json_copy(it.val) : NULL);
    json_set_take(into, key, merged);
}

struct list_reader {
    struct sweep *s;
    const struct json *shared, *shared_params, *shared_name;
    struct map_str specs; /* text of the overrides → index + 1 */
    char path[32];
};

/* The spec of an entry: the shared one, or one per distinct set of overrides. */
static int entry_spec(struct list_reader *r, const struct json *entry, size_t *out, struct err *e)
{
    struct json *own = json_new_object(), *all = NULL;
    AUTO_FREE char *text = NULL;
    struct spec *spec = NULL;
    int rc = 0;

    for (struct json_it it = {0}; json_next(entry, &it);)
        if (!is_own_key(it.key))
            json_set_take(own, it.key, it.val ? json_copy(it.val) : NULL);
    text = json_text(own);
    *out = (size_t)(uintptr_t)map_str_get(&r->specs, str_of(text));
    if (!*out) {
        all = json_copy(r->shared);
        for (struct json_it it = {0}; json_next(own, &it);)
            override_key(all, it.key, it.val);
        rc = spec_parse(all, r->path, &spec, e);
    }
    if (rc == 0 && spec) {
        vec_push(&r->s->specs, spec);
        *out = r->s->specs.n;
        map_str_put(&r->specs, str_of(text), (void *)(uintptr_t)*out);
    }
    *out -= rc == 0;
    json_free(own);
    json_free(all);
    return rc;
}

/* Shared params first, then the entry's; the entry's value where both have the key. */
static struct json *merged_params(const struct list_reader *r, const struct json *own)
{
    struct json *all;

    if (!json_len(own) && !json_len(r->shared_params))
        return NULL;
    all = r->shared_params ? json_copy(r->shared_params) : json_new_object();
    for (struct json_it it = {0}; own && json_next(own, &it);)
        json_set_take(all, it.key, it.val ? json_copy(it.val) : NULL);
    return all;
}

/* Its own name, or the shared one when that has placeholders to fill. */
static int entry_name(struct list_reader *r, const struct json *name, const struct json *params,
                      struct entry *en, struct err *e)
{
    AUTO(buf) struct buf b = {0};

    if (name && (json_type(name) != JSON_STR || !json_str(name).n ||
                 json_str(name).n > SPEC_NAME_MAX || memchr(json_str(name).p, 0, json_str(name).n)))
        return err_set(e, ERR_INVALID, "%sname: write a text of 1 to %d bytes", r->path,
                       SPEC_NAME_MAX);
    struct str pattern = json_str(name ? name : r->shared_name);
    bool fill = json_len(params) && template_has_placeholder(pattern);
    if (!name && !fill)
        return 0;
    buf_init(&b, SPEC_COMMAND_BYTES);
    if (!fill)
        buf_add(&b, pattern.p, pattern.n);
    else if (params_expand(pattern, params, &b, e) < 0)
        return err_wrap(e, "%sname", r->path);
    cut_name(&b, 0);
    en->name = buf_take(&b, NULL);
    return 0;
}

static int entry_params(struct list_reader *r, const struct json *entry, struct entry *en,
                        struct err *e)
{
    const struct json *own = json_get(entry, "params");
    struct json *all;
    int rc;

    if (params_check(own, r->path, e) < 0)
        return -1;
    all = merged_params(r, own);
    rc = spec_check_placeholders(r->s->specs.p[en->spec], all, r->path, e);
    if (rc == 0)
        rc = entry_name(r, json_get(entry, "name"), all, en, e);
    en->params_at = r->s->params.n;
    if (rc == 0 && all && !json_write(&r->s->params, all, false))
        rc = err_set(e, ERR_LIMIT, "%sparams: all params together are more than 1 GiB", r->path);
    en->params_n = r->s->params.n - en->params_at;
    json_free(all);
    return rc;
}

static int add_entry(struct list_reader *r, const struct json *entry, struct err *e)
{
    static const char *const many[] = {"jobs", "array", "slots"};
    struct entry en = {0};

    if (json_type(entry) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "%.*s: is %s; write a map, as in {params: {lr: 0.1}}",
                       (int)strlen(r->path) - 1, r->path, json_type_name(json_type(entry)));
    for (size_t i = 0; i < ARRAY_SIZE(many); i++)
        if (json_has(entry, many[i]))
            return err_set(e, ERR_INVALID, "%s%s: belongs to the whole sweep; move it out of jobs",
                           r->path, many[i]);
    if (check_after(json_get(entry, "after"), r->path, e) < 0 ||
        entry_spec(r, entry, &en.spec, e) < 0)
        return -1;
    if (entry_params(r, entry, &en, e) < 0) {
        free(en.name);
        return -1;
    }
    if (json_get(entry, "after"))
        en.after = json_copy(json_get(entry, "after"));
    vec_push(&r->s->entries, en);
    return 0;
}

/* What all entries share: the form without the keys that are read here. */
static struct json *shared_of(const struct json *j)
{
    static const char *const own[] = {"jobs", "params", "after", "slots"};
    struct json *shared = json_new_object();

    for (struct json_it it = {0}; json_next(j, &it);) {
        bool skip = false;
        for (size_t i = 0; i < ARRAY_SIZE(own); i++)
            skip = skip || !strcmp(it.key, own[i]);
        if (!skip)
            json_set_take(shared, it.key, it.val ? json_copy(it.val) : NULL);
    }
    return shared;
}

static int check_list_form(const struct json *j, struct err *e)
{
    const struct json *jobs = json_get(j, "jobs"), *params = json_get(j, "params");

    if (json_type(jobs) != JSON_ARRAY || !json_len(jobs))
        return err_set(e, ERR_INVALID, "jobs: write a list with at least one job");
    if (json_len(jobs) > SWEEP_MAX_JOBS)
        return err_set(e, ERR_LIMIT, "jobs: has %zu entries; at most %d are allowed",
                       json_len(jobs), SWEEP_MAX_JOBS);
    if (json_has(j, "array"))
        return err_set(e, ERR_INVALID, "array: cannot be combined with jobs; keep one of them");
    if (params_check(params, "", e) < 0)
        return -1;
    for (struct json_it it = {0}; params && json_next(params, &it);)
        if (json_type(it.val) == JSON_ARRAY)
            return err_set(e, ERR_INVALID,
                           "params.%.60s: a list means every combination, which cannot be combined "
                           "with jobs; put the values into the jobs",
                           it.key);
    return spec_check_shared(j, e);
}

static int read_list(struct sweep *s, const struct json *j, struct err *e)
{
    const struct json *jobs = json_get(j, "jobs");
    struct list_reader r = {.s = s, .shared_params = json_get(j, "params")};
    struct json *shared;
    int rc = 0;

    r.shared_name = json_get(j, "name");
    if (check_list_form(j, e) < 0)
        return -1;
    r.shared = shared = shared_of(j);
    for (size_t i = 0; i < json_len(jobs) && rc == 0; i++) {
        snprintf(r.path, sizeof(r.path), "jobs[%zu].", i);
        rc = add_entry(&r, json_at(jobs, i), e);
    }
    map_str_done(&r.specs);
    json_free(shared);
    if (rc < 0)
        return -1;
    s->count = s->entries.n;
    s->name = xstrdup(s->specs.p[0]->name);
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
    if (read_int(j, "slots", &slots, e) < 0 || check_after(json_get(j, "after"), "", e) < 0)
        return -1;
    s = xcalloc(1, sizeof(*s));
    s->count = 1;
    s->slots = (int32_t)slots;
    buf_init(&s->params, ENTRY_PARAMS_BYTES);
    if (json_get(j, "after"))
        s->after = json_copy(json_get(j, "after"));
    if (json_has(j, "jobs"))
        rc = read_list(s, j, e);
    else
        rc = read_grid(s, j, e) < 0 ? -1 : finish_grid(s, j, e);
    if (rc < 0) {
        sweep_free(s);
        return -1;
    }
    *out = s;
    return 0;
}

void sweep_free(struct sweep *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->specs.n; i++)
        spec_free(s->specs.p[i]);
    for (size_t i = 0; i < s->axes.n; i++)
        axis_done(&s->axes.p[i]);
    for (size_t i = 0; i < s->entries.n; i++) {
        free(s->entries.p[i].name);
        json_free(s->entries.p[i].after);
    }
    vec_done(&s->specs);
    vec_done(&s->axes);
    vec_done(&s->entries);
    buf_done(&s->params);
    json_free(s->after);
    free(s->name);
    free(s);
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

static void grid_job(const struct sweep *s, size_t i, struct buf *params, struct buf *name)
{
    struct grid_arg g = {.s = s, .job = i};
    struct template_vars v = {grid_find, grid_names, &g};

    for (size_t k = 0; k < s->axes.n; k++) {
        const struct axis *a = &s->axes.p[k];
        size_t at = coordinate(s, i, k);

        buf_addc(params, k ? ',' : '{');
        buf_add_json_str(params, str_of(a->key));
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
        cut_name(name, start);
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
