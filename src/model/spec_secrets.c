/* spec_secrets.c - the key `secrets` of a spec: which variables of its environment are hidden
 *
 * Names or patterns; one that starts with ! is an exception.  The spec keeps them as one text
 * "HF_TOKEN,!SORT_KEY", because no name contains a comma.  In a stored spec the list has the name
 * of every variable that was sealed (model/vault.h).
 */
#include "base/buf.h"
#include "base/util.h"
#include "model/spec_priv.h"
#include "model/vault.h"

int secrets_read(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    bool one = json_type(v) == JSON_STR;
    size_t n = one ? 1 : json_len(v);
    AUTO(buf) struct buf all = {0};

    if (!one && json_type(v) != JSON_ARRAY)
        return spec_bad_type(r, k->name, v, "a list of names, as in secrets: [HF_TOKEN]");
    if (n > (size_t)k->max)
        return spec_bad(r, k->name, "has %zu entries; at most %lld are allowed", n,
                        (long long)k->max);
    buf_init(&all, (VAULT_NAME_MAX + 2) * (size_t)k->max);
    for (size_t i = 0; i < n; i++) {
        const struct json *entry = one ? v : json_at(v, i);
        /* Whatever is wrong with it is not shown: it may be a value in the wrong place. */
        if (json_type(entry) != JSON_STR || !vault_name_ok(json_str(entry)))
            return spec_bad(r, k->name,
                            "entry %zu is not the name of a variable; values go under env", i);
        if (all.n)
            buf_addc(&all, ',');
        buf_add(&all, json_str(entry).p, json_str(entry).n);
    }
    free(r->s->command.secrets);
    r->s->command.secrets = all.n ? xstrndup(all.p, all.n) : NULL;
    return 0;
}

void secrets_write(struct json *j, const struct spec *s, const struct spec_key *k)
{
    struct str rest = str_of(s->command.secrets);

    if (!rest.n)
        return;
    struct json *list = json_new_array();
    while (rest.n)
        json_push_take(list, json_new_str(str_cut(rest, ',', &rest)));
    json_set_take(j, k->name, list);
}
