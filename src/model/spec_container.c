/* spec_container.c - the key `container` of a job with an image: what it accepts, and as text
 *
 * Kept as the text of a JSON object in the order of the table below, sizes in bytes, so that equal
 * settings are equal texts.  Whoever starts the job reads it (core/container.c).
 */
#include "base/units.h"
#include "base/util.h"
#include "model/spec_priv.h"
#include <stdio.h>

const struct spec_key container_keys[] = {
    {"entrypoint", KEY_ENTRYPOINT, .max = SPEC_WORD_MAX,
     .doc = "program that stands before the command instead of the image's own: a text, or a list "
            "of words; \"\" for none"},
    {"image_command", KEY_BOOL,
     .doc = "run the image's own command; `command` is then only what listings show"},
    {"workdir", KEY_DIR, .min = 1, .max = 4095,
     .doc = "directory inside in which it starts; by default cwd, else the image's"},
    {"user", KEY_TEXT, .min = 1, .max = 100,
     .doc = "who it runs as: \"root\", \"1000:1000\", or \"image\" for the image's own; by default "
            "the submitter"},
    {"network", KEY_TEXT, .min = 1, .max = 200,
     .doc = "host, none, bridge, or the name of a network, made when it is not there"},
    {"runtime", KEY_TEXT, .min = 1, .max = 100, .doc = "the engine's runtime, such as nvidia"},
    {"ipc", KEY_TEXT, .min = 1, .max = 200, .doc = "whose shared memory it uses: private, host, …"},
    {"shm_size", KEY_SIZE, .min = 1 << 10, .max = INT64_C(1) << 50,
     .doc = "size of /dev/shm, as 8G; the engine gives 64M"},
    {"pull", KEY_PULL, .doc = "when the image is fetched: missing (default), always or never"},
    {"labels", KEY_LABELS, .max = 100, .doc = "labels of the container, besides our own"},
    {"hostname", KEY_TEXT, .min = 1, .max = 63, .doc = "its host name"},
    {"init", KEY_BOOL,
     .doc = "put a small first process before the command that passes signals on and reaps "
            "(default true)"},
    {"read_only", KEY_BOOL, .doc = "nothing outside of mounts can be written"},
};
const size_t n_container_keys = ARRAY_SIZE(container_keys);

static const char *const pull_names[] = {"missing", "always", "never"};

/* ---- values ---- */

static int read_text(const struct reader *r, const struct spec_key *k, const struct json *v,
                     struct json **out)
{
    AUTO_FREE char *text = NULL;

    if (spec_read_text(r, k, v, &text) < 0)
        return -1;
    if (k->kind == KEY_DIR && text[0] != '/')
        return spec_bad(r, k->name, "\"%.80s\" is not absolute; write a path that starts with /",
                        text);
    *out = json_new_str(str_of(text));
    return 0;
}

static int read_size(const struct reader *r, const struct spec_key *k, const struct json *v,
                     struct json **out)
{
    int64_t n = 0;
    char shown[SHOW_MAX];

    if (json_type(v) == JSON_INT)
        n = json_int(v);
    else if (json_type(v) != JSON_STR)
        return spec_bad_type(r, k->name, v, "a size, as 8G");
    else if (size_parse(json_str(v), &n, r->e) < 0)
        return err_wrap(r->e, "%s%s%s", r->path, r->sub, k->name);
    if (n < k->min || n > k->max)
        return spec_bad(r, k->name, "%s is out of range; write a size, as 8G", spec_show(v, shown));
    *out = json_new_int(n);
    return 0;
}

static bool word_ok(const struct json *v, int64_t max)
{
    return json_type(v) == JSON_STR && json_str(v).n <= (size_t)max &&
           !memchr(json_str(v).p, '\0', json_str(v).n);
}

static int read_entrypoint(const struct reader *r, const struct spec_key *k, const struct json *v,
                           struct json **out)
{
    bool list = json_type(v) == JSON_ARRAY;

    if (!list && !word_ok(v, k->max))
        return spec_bad_type(r, k->name, v, "a program, or a list of words");
    if (json_len(v) > SPEC_LIST_MAX)
        return spec_bad(r, k->name, "has %zu words; at most %d are allowed", json_len(v),
                        SPEC_LIST_MAX);
    for (size_t i = 0; list && i < json_len(v); i++)
        if (!word_ok(json_at(v, i), k->max))
            return spec_bad_type(r, k->name, json_at(v, i), "texts in the list");
    *out = json_copy(v);
    return 0;
}

static int read_pull(const struct reader *r, const struct spec_key *k, const struct json *v,
                     struct json **out)
{
    char shown[SHOW_MAX];

    for (size_t i = 0; json_type(v) == JSON_STR && i < ARRAY_SIZE(pull_names); i++)
        if (str_eq_c(json_str(v), pull_names[i])) {
            *out = json_copy(v);
            return 0;
        }
    return spec_bad(r, k->name, "%s is none of missing, always and never", spec_show(v, shown));
}

static int read_labels(const struct reader *r, const struct spec_key *k, const struct json *v,
                       struct json **out)
{
    if (json_type(v) != JSON_OBJECT)
        return spec_bad_type(r, k->name, v, "a map, as in labels: {team: vision}");
    if (json_len(v) > (size_t)k->max)
        return spec_bad(r, k->name, "has %zu entries; at most %lld are allowed", json_len(v),
                        (long long)k->max);
    struct json *copy = json_new_object();
    for (struct json_it it = {0}; json_next(v, &it);) {
        char scratch[32];
        AUTO_FREE char *owned = NULL;
        bool scalar = json_type(it.val) != JSON_NULL && json_type(it.val) < JSON_ARRAY;
        if (scalar && it.key[0] && strncmp(it.key, "berth.", 6) != 0) {
            json_set_take(copy, it.key, json_new_str(scalar_text(it.val, scratch, &owned)));
            continue;
        }
        json_free(copy);
        return spec_bad(r, k->name,
                        "\"%.60s\" cannot be set: labels have names other than berth.*, and texts",
                        it.key);
    }
    *out = copy;
    return 0;
}

static int read_value(const struct reader *r, const struct spec_key *k, const struct json *v,
                      struct json **out)
{
    switch (k->kind) {
    case KEY_BOOL:
        if (json_type(v) != JSON_BOOL)
            return spec_bad_type(r, k->name, v, "true or false");
        *out = json_copy(v);
        return 0;
    case KEY_SIZE:
        return read_size(r, k, v, out);
    case KEY_ENTRYPOINT:
        return read_entrypoint(r, k, v, out);
    case KEY_PULL:
        return read_pull(r, k, v, out);
    case KEY_LABELS:
        return read_labels(r, k, v, out);
    default:
        return read_text(r, k, v, out);
    }
}

/* ---- the object ---- */

static int read_keys(const struct reader *r, const struct json *v, struct json *out)
{
    for (size_t i = 0; i < n_container_keys; i++) {
        const struct spec_key *k = &container_keys[i];
        const struct json *one = json_get(v, k->name);
        struct json *value = NULL;
        if (one && read_value(r, k, one, &value) < 0)
            return -1;
        if (one)
            json_set_take(out, k->name, value);
    }
    return 0;
}

int container_read(const struct reader *outer, const struct spec_key *key, const struct json *v)
{
    struct reader r = *outer;
    char path[160];

    if (json_type(v) != JSON_OBJECT)
        return spec_bad_type(outer, key->name, v, "a map, as in container: {network: host}");
    r.sub = "container.";
    snprintf(path, sizeof(path), "%s%s", r.path, r.sub);
    for (struct json_it it = {0}; json_next(v, &it);)
        if (!spec_key_find(container_keys, n_container_keys, str_of(it.key)))
            return spec_unknown_key(path, it.key, container_keys, n_container_keys, false, r.e);
    struct json *out = json_new_object();
    int rc = read_keys(&r, v, out);
    char **text = key_member(outer->s, key);
    if (rc == 0 && json_len(out))
        *text = json_text(out);
    json_free(out);
    return rc;
}
