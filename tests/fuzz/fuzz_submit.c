/* fuzz_submit.c - bodies of submit requests
 *
 * The reader takes elements apart as text, shares specs between neighbours and writes over the
 * body; the oracle builds the whole tree and parses every element in full.  What one accepts the
 * other must accept, with the same name, spec and params for every job.
 */
#include "api/submit_parse.h"
#include "base/json.h"
#include "model/vault.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int resolve(void *arg, struct str ref, uint64_t *out, struct err *e)
{
    int64_t number;

    (void)arg;
    if (!str_to_i64(ref, &number) || number <= 0)
        return err_set(e, ERR_NOT_FOUND, "there is no such job");
    *out = (uint64_t)number;
    return 0;
}

static void check_job(const struct submit *x, size_t i, const struct json *el)
{
    const struct job_row *row = &x->s.jobs[i];
    const struct spec_row *spec = &x->s.specs[row->spec];
    struct str name = row->name.n ? row->name : spec->name;
    struct json *body = NULL, *params = NULL, *want_j, *got_j;
    struct spec *want = NULL, *got = NULL;
    struct err e = {0};

    ASSERT(row->spec < x->s.n_specs);
    ASSERT(json_parse(spec->body, "body", &body, &e) == 0);
    ASSERT(!json_has(body, "params") && !json_has(body, "after"));
    ASSERT(spec_parse(body, "", &got, &e) == 0);
    ASSERT(spec_parse(el, "", &want, &e) == 0);
    ASSERT(str_eq_c(name, want->name));
    ASSERT(str_eq_c(spec->project, want->project) && str_eq_c(spec->queue, want->queue));
    ASSERT(spec->timeout_ms == want->limits.timeout_ms && row->priority == want->priority);
    want_j = spec_to_json(want);
    got_j = spec_to_json(got);
    json_del(want_j, "name");
    json_del(got_j, "name");
    ASSERT(json_equal(want_j, got_j));
    if (row->params.n)
        ASSERT(json_parse(row->params, "params", &params, &e) == 0);
    ASSERT(json_len(params) == json_len(json_get(el, "params")));
    if (json_len(params))
        ASSERT(json_equal(params, json_get(el, "params")));
    json_free(want_j);
    json_free(got_j);
    json_free(body);
    json_free(params);
    spec_free(want);
    spec_free(got);
}

static void check_list(const struct submit *x, const struct json *tree)
{
    bool list = json_type(tree) == JSON_ARRAY;

    ASSERT(x->s.n_jobs == (list ? json_len(tree) : 1));
    for (size_t i = 0; i < x->s.n_jobs; i++)
        check_job(x, i, list ? json_at(tree, i) : tree);
}

/* The same body where secrets are hidden: what is stored can be read again, and no variable that is
 * a secret is left in it. */
static void submit_with_vault(const uint8_t *data, size_t n, const struct caller *who)
{
    static const uint8_t secret[32];
    static struct vault *vault;
    struct err e = {0};
    char *body = xcalloc(1, n + 1);

    if (!vault)
        ASSERT(vault_new(secret, "A*,!AB", &vault, &e) == 0);
    memcpy(body, data, n);
    struct submit *x = submit_new_take(body, n, who, vault);
    if (submit_prepare(x, false, &e) == 0 && submit_parse(x, resolve, NULL, &e) == 0) {
        for (size_t i = 0; i < x->s.n_specs; i++) {
            struct json *j = NULL;
            struct spec *s = NULL;
            ASSERT(json_parse(x->s.specs[i].body, "spec", &j, &e) == 0);
            ASSERT(spec_parse(j, "", &s, &e) == 0);
            for (char **v = s->command.env; *v; v++)
                ASSERT(!vault_hides(vault, str_of(s->command.secrets),
                                    (struct str){*v, strcspn(*v, "=")}));
            spec_free(s);
            json_free(j);
        }
    }
    submit_free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct caller who = {.uid = 1, .user = "fuzz"};
    struct json *tree = NULL;
    struct submit *x;
    char *body;
    struct err e = {0}, ignored = {0};

    json_parse((struct str){(const char *)data, n}, "body", &tree, &ignored);
    body = xcalloc(1, n + 1);
    memcpy(body, data, n);
    x = submit_new_take(body, n, &who, NULL);
    if (submit_prepare(x, false, &e) == 0 && submit_parse(x, resolve, NULL, &e) == 0) {
        ASSERT(tree && x->s.n_jobs > 0 && x->s.n_specs > 0);
        if (x->single || json_type(tree) == JSON_ARRAY)
            check_list(x, tree);
    } else {
        ASSERT(e.code && e.text[0]);
    }
    submit_free(x);
    json_free(tree);
    submit_with_vault(data, n, &who);
    return 0;
}
