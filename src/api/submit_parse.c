/* submit_parse.c - the body of a submit request read into rows for the store
 *
 * Owns: the three shapes (one job, an array, a sweep) and the sharing of specs.
 *
 * An element of an array is taken apart into params, after, name and the rest.  When the rest is
 * the same text as that of the element before, both share one spec and nothing but the params is
 * parsed: 100 000 trials of one command are one spec.  Otherwise the rest is read and checked in
 * full.  The texts for the store move to the front of the body (submit_body.c).
 *
 * Messages carry the path: "[17].resources.cpu: unknown key; did you mean "cpus"?".
 */
#include "api/submit_parse.h"
#include "api/api_priv.h"
#include "api/submit_sweep.h"
#include "base/json_in.h"
#include "base/json_out.h"
#include "base/yaml.h"
#include "model/vault.h"
#include <stdio.h>

enum { ELEMENT_MAX = SPEC_MAX_BYTES + 4096 }; /* bytes of one job without its params */

/* What the element before left behind. */
struct previous {
    struct spec *spec;
    struct buf rest; /* its members but for name, params and after, as text */
    struct str after_text;
    const uint64_t *after;
    size_t n_after;
    /* The element had a name.  Elements with and without a name do not share a spec. */
    bool named;
};
/* The state while a body is read.  `path` stands before keys in messages: "[17].", empty for one
 * job. */
struct reading {
    struct submit *x;
    struct buf rest; /* of the element at hand */
    struct previous prev;
    char path[32];
    struct err *e;
};
/* One element taken apart; texts point into it and are JSON. */
struct element {
    struct str text, params, after, name;
    bool whole; /* nothing but the rest: its text can be kept as it stands */
};

struct submit *submit_new_take(char *body, size_t n, const struct caller *who,
                               const struct vault *vault)
{
    struct submit *x = xcalloc(1, sizeof(*x));

    x->body = body;
    x->body_n = n;
    x->who = *who;
    x->vault = vault;
    return x;
}

void submit_free(struct submit *x)
{
    if (!x)
        return;
    buf_done(&x->texts);
    arena_done(&x->mem);
    FREE_EACH(x->specs.p, x->jobs.p, (char *)x->s.idempotency_key.p, x->body, x);
}

void submit_name(struct submit *x, struct str key, struct str batch)
{
    if (key.n)
        x->s.idempotency_key = (struct str){xstrndup(key.p, key.n), key.n};
    if (batch.n)
        x->s.batch.name = (struct str){arena_strndup(&x->mem, batch.p, batch.n), batch.n};
    if (batch.n)
        x->s.batch.project = x->specs.p[0].project;
}

/* The store frees a submission that it took; the submission is the first member of the submit. */
static void submit_free_taken(struct submission *s)
{
    submit_free((struct submit *)s);
}

/* ---- one element ---- */

/* Refuses the element at hand: "[17].params: …". */
static int element_bad(const struct reading *r, const char *key, const char *text)
{
    return err_set(r->e, ERR_INVALID, "%s%s: %s", r->path, key, text);
}

/* Says which element a syntax error is in. */
static int element_wrap(const struct reading *r)
{
    return r->path[0] ? err_wrap(r->e, "job %zu of the list", r->x->jobs.n) : -1;
}

/* Sorts a member into its place; the rest is gathered as "{"k":v,…}". */
static int take_member(struct reading *r, struct element *el, struct str key, struct str value)
{
    static const char *const sweep_keys[] = {"jobs", "array", "slots"};
    const struct {
        const char *name;
        struct str *slot;
    } apart[] = {{"params", &el->params}, {"after", &el->after}, {"name", &el->name}};

    for (size_t i = 0; i < ARRAY_SIZE(apart); i++) {
        if (!str_eq_c(key, apart[i].name))
            continue;
        if (apart[i].slot->p)
            return element_bad(r, apart[i].name, "is given twice; keep one");
        *apart[i].slot = value;
        if (apart[i].slot != &el->name)
            el->whole = false;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(sweep_keys); i++)
        if (str_eq_c(key, sweep_keys[i]))
            return element_bad(r, sweep_keys[i],
                               "belongs to a sweep; submit the sweep as an object of its own");
    if (r->rest.n > 1) /* jw_key could not tell: the value before is not checked yet */
        buf_addc(&r->rest, ',');
    jw_key(&r->rest, key);
    buf_add(&r->rest, value.p, value.n);
    return 0;
}

/* 0 = taken apart, 1 = not an object or not JSON, -1 = refused. */
static int take_apart(struct reading *r, struct element *el)
{
    AUTO(json_in) struct json_in in = {.text = el->text};
    struct str value;
    int token = json_in_next(&in);

    if (token != JSON_IN_OBJECT)
        return 1;
    el->whole = true;
    buf_reset(&r->rest);
    buf_addc(&r->rest, '{');
    while ((token = json_in_next(&in)) == JSON_IN_KEY) {
        struct str key = in.s; /* stays: raw texts are not decoded */
        if (json_in_raw(&in, &value) < 0)
            return 1;
        if (take_member(r, el, key, value) < 0)
            return -1;
    }
    buf_addc(&r->rest, '}');
    return token == JSON_IN_CLOSE ? 0 : 1;
}

/* A name that means what its text says and needs no further check. */
static bool plain_name(struct str json, struct str *out)
{
    struct str s;

    if (json.n < 3 || json.n > SPEC_NAME_MAX + 2 || json.p[0] != '"')
        return false;
    s = (struct str){json.p + 1, json.n - 2};
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == '\\' || s.p[i] == 0x7f)
            return false;
    *out = s;
    return str_is_utf8(s);
}

/* Text equal to `s` that lives as long as the submit: a piece of the body when there is one. */
static struct str keep_text(struct submit *x, struct str in, const char *s)
{
    size_t n = strlen(s);
    const char *found;

    if (!strcmp(s, "default"))
        return STR("default");
    found = memmem(in.p, in.n, s, n);
    if (found)
        return (struct str){found, n};
    return (struct str){arena_strndup(&x->mem, s, n), n};
}

static struct str keep_text_or_none(struct submit *x, struct str in, const char *s)
{
    return s ? keep_text(x, in, s) : STR("");
}

/* Values of secrets leave the text of the spec, which then is the canonical one. */
static int submit_hide(struct submit *x, const struct spec *s, const char *path, struct str *body,
                       struct str *sealed, struct err *e)
{
    AUTO(json) struct json *form = NULL, *hidden = NULL;

    if (!x->vault || !vault_spec_hides(x->vault, s))
        return 0;
    form = spec_to_json(s);
    if (vault_seal_form(x->vault, form, &hidden, e) < 0)
        return *path ? err_wrap(e, "%s", path) : -1;
    AUTO_FREE char *text = json_text(form), *values = hidden ? json_text(hidden) : xstrdup("");
    *body = str_of(arena_strdup(&x->mem, text));
    *sealed = str_of(arena_strdup(&x->mem, values));
    return 0;
}

int submit_add_spec(struct submit *x, const struct spec *s, const char *path, struct str body,
                    struct err *e)
{
    struct str sealed = STR("");

    if (submit_hide(x, s, path, &body, &sealed, e) < 0)
        return -1;
    struct spec_row row = {.body = body,
                           .sealed = sealed,
                           .name = keep_text(x, body, s->name),
                           .project = keep_text(x, body, s->project),
                           .queue = keep_text(x, body, s->queue),
                           .nodes = keep_text_or_none(x, body, s->place.nodes),
                           .snapshot = keep_text_or_none(x, body, s->command.snapshot),
                           .notify = keep_text_or_none(x, body, s->notify),
                           .need = s->need,
                           .timeout_ms = s->limits.timeout_ms,
                           .backoff_ms = s->backoff_ms,
                           .priority = s->priority,
                           .retries = s->retries,
                           .retry_lost = s->retry_lost,
                           .trains = spec_trains(s),
                           .hold = s->hold};

    vec_push(&x->specs, row);
    return 0;
}

/* The text of the new spec: the element itself when it is nothing else, or put together.  It and
 * the params are kept; never longer than the element, they may be written over it. */
static struct str spec_text(struct reading *r, const struct element *el, struct str *params)
{
    struct str whole = el->text;
    char *at = (char *)el->text.p;
    AUTO(buf) struct buf text = {0};

    if (el->whole) {
        submit_keep(r->x, &whole);
        return whole;
    }
    buf_init(&text, SPEC_MAX_BYTES);
    buf_adds(&text, "{");
    if (el->name.p) {
        buf_adds(&text, "\"name\":");
        buf_add(&text, el->name.p, el->name.n);
        if (r->rest.n > 2)
            buf_addc(&text, ',');
    }
    buf_add(&text, r->rest.p + 1, r->rest.n - 1);
    ASSERT(text.n + params->n <= el->text.n); /* the same members with less between them */
    if (submit_in_body(r->x, at))
        at = submit_room(r->x, text.n + params->n);
    memmove(at + text.n, params->p, params->n);
    memcpy(at, text.p, text.n);
    params->p = at + text.n;
    return (struct str){at, text.n};
}

/* Reads the spec of this element and makes it the one that later elements may share. */
static int element_new_spec(struct reading *r, const struct element *el, struct str *params)
{
    struct str body = spec_text(r, el, params);
    AUTO(json) struct json *j = NULL;
    struct spec *s = NULL;

    if (body.n > SPEC_MAX_BYTES)
        return err_set(r->e, ERR_LIMIT, "%s: is larger than %d MiB", r->path[0] ? r->path : "body",
                       SPEC_MAX_BYTES >> 20);
    if (json_parse(body, "body", &j, r->e) < 0)
        return element_wrap(r);
    if (spec_parse(j, r->path, &s, r->e) < 0)
        return -1;
    spec_free(r->prev.spec);
    r->prev.spec = s;
    if (submit_add_spec(r->x, s, r->path, body, r->e) < 0)
        return -1;
    buf_reset(&r->prev.rest);
    buf_add(&r->prev.rest, r->rest.p, r->rest.n);
    r->prev.named = el->name.p != NULL;
    return 0;
}

/* Checks the params; without any, the text for the row is empty. */
static int element_read_params(struct reading *r, struct str *text, struct json **out)
{
    if (text->p) {
        if (json_parse(*text, "params", out, r->e) < 0)
            return err_wrap(r->e, "%sparams", r->path);
        if (params_check(*out, r->path, r->e) < 0)
            return -1;
    }
    if (json_len(*out) == 0)
        *text = (struct str){"", 0};
    return 0;
}

static int resolve_one(struct submit *x, const struct json *j, uint64_t *out, struct err *e)
{
    char number[BODY_NUMBER_MAX];
    struct str ref;

    return body_job_ref(j, number, &ref, e) < 0 ? -1 : x->resolve(x->resolve_arg, ref, out, e);
}

int submit_resolve_after(struct submit *x, const struct json *j, const char *path,
                         const uint64_t **out, size_t *out_n, struct err *e)
{
    enum { AFTER_MAX = 1000 };
    size_t n = json_type(j) == JSON_ARRAY ? json_len(j) : 1;
    uint64_t *list;

    *out = NULL;
    *out_n = 0;
    if (json_type(j) == JSON_NULL || n == 0)
        return 0;
    if (n > AFTER_MAX)
        return err_set(e, ERR_LIMIT, "%safter: names %zu jobs; at most %d are allowed", path, n,
                       AFTER_MAX);
    list = arena_alloc(&x->mem, n * sizeof(*list));
    for (size_t i = 0; i < n; i++)
        if (resolve_one(x, json_type(j) == JSON_ARRAY ? json_at(j, i) : j, &list[i], e) < 0)
            return err_wrap(e, "%safter[%zu]", path, i);
    *out = list;
    *out_n = n;
    return 0;
}

/* The numbers of the jobs that must succeed first. */
static int read_after(struct reading *r, struct str text, struct job_row *row)
{
    struct previous *p = &r->prev;
    AUTO(json) struct json *j = NULL;

    if (!text.p)
        return 0;
    /* A thousand jobs after the same one are looked up once. */
    if (!p->after_text.p || !str_eq(text, p->after_text)) {
        if (json_parse(text, "after", &j, r->e) < 0)
            return err_wrap(r->e, "%safter", r->path);
        if (submit_resolve_after(r->x, j, r->path, &p->after, &p->n_after, r->e) < 0)
            return -1;
        p->after_text = (struct str){arena_strndup(&r->x->mem, text.p, text.n), text.n};
    }
    row->after = p->after;
    row->n_after = (uint32_t)p->n_after; /* a thousand at most */
    return 0;
}

/* What is wrong with an element that cannot be taken apart: always -1. */
static int element_explain(const struct reading *r, const struct element *el)
{
    AUTO(json) struct json *j = NULL;
    struct spec *s = NULL;

    if (json_parse(el->text, "body", &j, r->e) < 0)
        return element_wrap(r);
    if (spec_parse(j, r->path, &s, r->e) == 0) /* says what a job is */
        element_bad(r, "", "is not a job; see 'berth schema job'");
    spec_free(s);
    return -1;
}

/* In the order in which they stand in the element. */
static void keep_both(struct submit *x, struct job_row *row)
{
    bool name_first = row->name.p < row->params.p;

    submit_keep(x, name_first ? &row->name : &row->params);
    submit_keep(x, name_first ? &row->params : &row->name);
}

/* One job: its own spec, or that of the element before, and its row. */
static int read_element(struct reading *r, struct str text)
{
    struct element el = {.text = text};
    struct job_row row = {0};
    struct str name = {0};
    AUTO(json) struct json *params = NULL;
    int rc = take_apart(r, &el);
    bool plain, share;

    if (rc != 0)
        return rc < 0 ? -1 : element_explain(r, &el);
    if (r->rest.overflow)
        return element_bad(r, "command",
                           "is too large: a job may have at most 4 MiB besides its params");
    row.params = el.params;
    if (read_after(r, el.after, &row) < 0 || element_read_params(r, &row.params, &params) < 0)
        return -1;
    plain = !el.name.p || plain_name(el.name, &name);
    share = r->prev.spec && plain && r->prev.named == (el.name.p != NULL) &&
            str_eq(buf_str(&r->rest), buf_str(&r->prev.rest));
    if (!share && element_new_spec(r, &el, &row.params) < 0)
        return -1;
    if (spec_check_placeholders(r->prev.spec, params, r->path, r->e) < 0)
        return -1;
    row.spec = r->x->specs.n - 1; /* an index; the controller makes it a number */
    row.priority = vec_last(&r->x->specs).priority;
    if (share && el.name.p && !str_eq(name, vec_last(&r->x->specs).name))
        row.name = name;
    if (share)
        keep_both(r->x, &row);
    vec_push(&r->x->jobs, row);
    return 0;
}

/* ---- the shapes ---- */

static int read_array(struct reading *r)
{
    /* The texts that are kept move to the front of the body: places in it would be wrong. */
    AUTO(json_in)
    struct json_in in = {.text = {r->x->body, r->x->body_n}, .no_place = true, .e = r->e};
    struct str text;
    int rc;

    json_in_next(&in); /* the [ that brought us here */
    while ((rc = json_in_raw(&in, &text)) == 1) {
        if (r->x->jobs.n == SWEEP_MAX_JOBS)
            return err_set(r->e, ERR_LIMIT,
                           "more than %d jobs in one request; split it into several",
                           SWEEP_MAX_JOBS);
        snprintf(r->path, sizeof(r->path), "[%zu].", r->x->jobs.n);
        if (read_element(r, text) < 0)
            return -1;
        submit_was_read(r->x, in.text.p + in.at);
    }
    if (rc < 0)
        return err_wrap(r->e, "body, after job %zu", r->x->jobs.n);
    if (r->x->jobs.n == 0)
        return err_set(r->e, ERR_INVALID, "the list of jobs is empty; give at least one");
    return 0;
}

static char first_char(const struct submit *x)
{
    struct str s = json_trim((struct str){x->body, x->body_n});

    return s.n ? s.p[0] : 0;
}

/* YAML is read as a tree and written as JSON, so that one reader sees both. */
static int yaml_to_json(struct submit *x, struct err *e)
{
    AUTO(json) struct json *j = NULL;

    if (yaml_parse((struct str){x->body, x->body_n}, "body", &j, e) < 0)
        return -1;
    free(x->body);
    x->body = json_text(j);
    x->body_n = strlen(x->body);
    return 0;
}

int submit_prepare(struct submit *x, bool yaml, struct err *e)
{
    if (yaml && yaml_to_json(x, e) < 0)
        return -1;
    switch (first_char(x)) {
    case '[':
        x->single = false;
        return 0;
    case '{':
        return submit_is_sweep((struct str){x->body, x->body_n}, &x->single, e);
    case 0:
        return err_set(e, ERR_INVALID,
                       "the body is empty; send a job such as {\"command\":[\"echo\",\"hello\"]}");
    default:
        return err_set(e, ERR_INVALID,
                       "the body must be a job (an object), a list of jobs or a "
                       "sweep; see 'berth schema job'");
    }
}

int submit_parse(struct submit *x, submit_resolve_fn resolve, void *arg, struct err *e)
{
    struct reading r = {.x = x, .e = e};
    int rc;

    x->resolve = resolve;
    x->resolve_arg = arg;
    buf_init(&r.rest, ELEMENT_MAX);
    buf_init(&r.prev.rest, ELEMENT_MAX);
    if (first_char(x) == '[')
        rc = read_array(&r);
    else if (x->single)
        rc = read_element(&r, json_trim((struct str){x->body, x->body_n}));
    else
        rc = submit_read_sweep(x, e);
    buf_done(&r.rest);
    buf_done(&r.prev.rest);
    spec_free(r.prev.spec);
    if (rc < 0)
        return -1;
    x->s.specs = x->specs.p;
    x->s.n_specs = x->specs.n;
    x->s.jobs = x->jobs.p;
    x->s.n_jobs = x->jobs.n;
    x->s.free_fn = submit_free_taken;
    return 0;
}
