/* spec_notify.c - the key `notify` of a spec: hooks that come with a submission
 *
 * The spec keeps the entries as lines of one text, because no entry contains a line end.
 */
#include "base/buf.h"
#include "base/util.h"
#include "model/hook.h"
#include "model/spec_priv.h"

int notify_read(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    bool one = json_type(v) == JSON_STR;
    size_t n = one ? 1 : json_len(v);
    AUTO(buf) struct buf all = {0};

    if (!one && json_type(v) != JSON_ARRAY)
        return spec_bad_type(r, k->name, v, "a list, as in notify: [\"end=mail:me@example.org\"]");
    if (n > (size_t)k->max)
        return spec_bad(r, k->name, "has %zu entries; at most %lld are allowed", n,
                        (long long)k->max);
    buf_init(&all, (HOOK_TARGET_MAX + 200) * HOOK_NOTIFY_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct json *entry = one ? v : json_at(v, i);
        struct hook_notify parsed;
        if (json_type(entry) != JSON_STR)
            return spec_bad_type(r, k->name, entry, "a text, as failure=mail:me@example.org");
        struct str text = str_trim(json_str(entry));
        if (hook_notify_parse(text, &parsed, r->e) < 0)
            return err_wrap(r->e, "%s%s%s", r->path, r->sub, k->name);
        buf_add(&all, text.p, text.n);
        buf_addc(&all, '\n');
    }
    free(r->s->notify);
    r->s->notify = all.n ? xstrndup(all.p, all.n - 1) : NULL;
    return 0;
}

void notify_write(struct json *j, const struct spec *s, const struct spec_key *k)
{
    struct str rest = str_of(s->notify);

    if (!rest.n)
        return;
    struct json *list = json_new_array();
    while (rest.n)
        json_push_take(list, json_new_str(str_cut(rest, '\n', &rest)));
    json_set_take(j, k->name, list);
}
