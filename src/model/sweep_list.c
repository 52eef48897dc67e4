/* sweep_list.c - the `jobs` list of a sweep: one job each, with its own params, name and overrides
 *
 * Entries that change nothing but params, name and after share one spec; the others share one per
 * distinct set of overrides.  The params of all entries stand in one buffer as JSON text.
 */
#include "base/map.h"
#include "base/util.h"
#include "model/spec_priv.h"
#include "model/sweep_priv.h"
#include "model/template.h"
#include <stdio.h>

/* Keys in which entries may differ and still share a spec. */
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

/* One `jobs` list being read.  `shared` is the form that all entries override. */
struct list_reader {
    struct sweep *s;
    const struct json *shared, *shared_params, *shared_name;
    struct map_str specs; /* text of the overrides → index + 1 */
    size_t plain;         /* the same for no overrides */
    char path[32];
};

/* *out is index + 1, as in the map. */
static int new_spec(struct list_reader *r, const struct json *overrides, size_t *out, struct err *e)
{
    AUTO(json) struct json *all = json_copy(r->shared);
    struct spec *spec = NULL;

    for (struct json_it it = {0}; json_next(overrides, &it);)
        override_key(all, it.key, it.val);
    if (spec_parse(all, r->path, &spec, e) < 0)
        return -1;
    vec_push(&r->s->specs, spec);
    *out = r->s->specs.n;
    return 0;
}

/* The spec of an entry: one per distinct set of overrides. */
static int entry_spec(struct list_reader *r, const struct json *entry, size_t *out, struct err *e)
{
    AUTO(json) struct json *own = json_new_object();
    AUTO_FREE char *text = NULL;
    size_t at = 0;

    for (struct json_it it = {0}; json_next(entry, &it);)
        if (!is_own_key(it.key))
            json_set_take(own, it.key, it.val ? json_copy(it.val) : NULL);
    if (json_len(own)) {
        text = json_text(own);
        at = (size_t)(uintptr_t)map_str_get(&r->specs, str_of(text));
    } else {
        at = r->plain;
    }
    if (!at && new_spec(r, own, &at, e) < 0)
        return -1;
    if (text)
        map_str_put(&r->specs, str_of(text), (void *)(uintptr_t)at);
    else
        r->plain = at;
    *out = at - 1;
    return 0;
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
    sweep_cut_name(&b, 0);
    en->name = buf_take(&b, NULL);
    return 0;
}

static int entry_params(struct list_reader *r, const struct json *entry, struct entry *en,
                        struct err *e)
{
    const struct json *own = json_get(entry, "params");
    if (params_check(own, r->path, e) < 0)
        return -1;
    AUTO(json) struct json *all = merged_params(r, own);
    if (spec_check_placeholders(r->s->specs.p[en->spec], all, r->path, e) < 0 ||
        entry_name(r, json_get(entry, "name"), all, en, e) < 0)
        return -1;
    en->params_at = r->s->params.n;
    if (all && !json_write(&r->s->params, all, JSON_COMPACT))
        return err_set(e, ERR_LIMIT, "%sparams: all params together are more than 1 GiB", r->path);
    en->params_n = r->s->params.n - en->params_at;
    return 0;
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
    if (sweep_check_after(json_get(entry, "after"), r->path, e) < 0 ||
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

/* What cannot be combined with `jobs` is refused before any entry is read. */
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

int sweep_read_list(struct sweep *s, const struct json *j, struct err *e)
{
    const struct json *jobs = json_get(j, "jobs");
    struct list_reader r = {.s = s, .shared_params = json_get(j, "params")};
    int rc = 0;

    r.shared_name = json_get(j, "name");
    if (check_list_form(j, e) < 0)
        return -1;
    AUTO(json) struct json *shared = shared_of(j);
    r.shared = shared;
    for (size_t i = 0; i < json_len(jobs) && rc == 0; i++) {
        /* The path stands before keys in messages. */
        snprintf(r.path, sizeof(r.path), "jobs[%zu].", i);
        rc = add_entry(&r, json_at(jobs, i), e);
    }
    map_str_done(&r.specs);
    if (rc < 0)
        return -1;
    s->count = s->entries.n;
    s->name = xstrdup(s->specs.p[0]->name);
    return 0;
}
