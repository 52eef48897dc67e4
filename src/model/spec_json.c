/* spec_json.c - a spec as text again, and its end
 *
 * The canonical form has the keys in the order of spec_keys.c, numbers in base units with text for
 * durations ("1500ms"), and leaves out what is at its default; parsing it gives an equal spec.
 */
#include "base/util.h"
#include "model/spec_priv.h"
#include <inttypes.h>
#include <stdio.h>

void spec_free(struct spec *s)
{
    if (!s)
        return;
    texts_free(s->command.argv);
    texts_free(s->command.env);
    place_done(&s->place);
    training_done(&s->train);
    container_done(&s->container);
    FREE_EACH(s->command.shell, s->command.cwd, s->command.snapshot, s->command.snapshot_dir,
              s->command.secrets, s->name, s->project, s->queue, s->notify, s->origin.dialect,
              s->origin.extra, s);
}

/* The counterpart of put_int in spec.c. */
static int64_t get_int(const struct spec *s, const struct spec_key *k)
{
    const void *p = key_member(s, k);

    return k->width == sizeof(int64_t) ? *(const int64_t *)p : *(const int32_t *)p;
}

int spec_check_image(const struct spec *s, struct err *e)
{
    for (size_t i = 0; i < n_spec_keys; i++) {
        const struct spec_key *k = &spec_keys[i];
        /* Only keys with a number may set no_image; get_int reads nothing else. */
        if (k->no_image && get_int(s, k) != k->fallback)
            return err_set(e, ERR_INVALID, "%s: %s", k->name, k->no_image);
    }
    return 0;
}

static struct json *command_json(const struct spec_command *c)
{
    struct json *words;

    if (c->shell)
        return json_new_str(str_of(c->shell));
    words = json_new_array();
    for (char **w = c->argv; *w; w++)
        json_push_take(words, json_new_str(str_of(*w)));
    return words;
}

static struct json *env_json(const struct spec *s)
{
    struct json *env = json_new_object();

    for (char **v = s->command.env; *v; v++) {
        const char *eq = strchr(*v, '=');
        AUTO_FREE char *key = xstrndup(*v, (size_t)(eq - *v));
        json_set_str(env, key, eq + 1);
    }
    return env;
}

/* Durations carry their unit, because a bare number would be read as seconds. */
static struct json *number_json(const struct spec_key *k, int64_t v)
{
    char text[32];

    if (k->kind == KEY_DURATION)
        snprintf(text, sizeof(text), "%" PRId64 "ms", v);
    else if (k->kind == KEY_CPUS && v % 1000)
        snprintf(text, sizeof(text), "%" PRId64 "m", v);
    else
        return json_new_int(k->kind == KEY_CPUS ? v / 1000 : v);
    return json_new_str(str_of(text));
}

static void set_number(struct json *j, const struct spec_key *k, const struct spec *s)
{
    int64_t v = get_int(s, k);

    if (v != k->fallback)
        json_set_take(j, k->name, number_json(k, v));
}

static void set_need(struct json *j, const struct spec_key *k, const struct spec *s)
{
    if (k->kind == KEY_SHARE)
        training_write(j, s, k);
    else
        set_number(j, k, s);
}

void spec_write_object(struct json *j, const char *key, const char *text)
{
    struct json *tree = NULL;
    struct err e;

    /* json_text made the text, so it parses. */
    if (text && json_parse(str_of(text), key, &tree, &e) == 0)
        json_set_take(j, key, tree);
}

static void set_key(struct json *j, const struct spec *s, const struct spec_key *k)
{
    struct json *sub;

    switch (k->kind) {
    case KEY_TEXT:
    case KEY_DIR:
        if (*(char **)key_member(s, k))
            json_set_str(j, k->name, *(char **)key_member(s, k));
        return;
    case KEY_COMMAND:
        json_set_take(j, k->name, command_json(&s->command));
        return;
    case KEY_ENV:
        if (s->command.env[0])
            json_set_take(j, k->name, env_json(s));
        return;
    /* Resources always go out nested, however they were written. */
    case KEY_RESOURCES:
        sub = json_new_object();
        for (size_t i = 0; i < n_resource_keys; i++)
            set_need(sub, &resource_keys[i], s);
        if (json_len(sub))
            json_set_take(j, k->name, sub);
        else
            json_free(sub);
        return;
    case KEY_BOOL:
        if (*(bool *)key_member(s, k))
            json_set_take(j, k->name, json_new_bool(true));
        return;
    case KEY_PATH:
    case KEY_SIGNAL:
    case KEY_TIME:
    case KEY_LAUNCH:
        training_write(j, s, k);
        return;
    case KEY_EXTRA:
        spec_write_object(j, k->name, s->origin.extra);
        return;
    case KEY_MOUNTS:
    case KEY_PORTS:
    case KEY_CONTAINER:
        container_write(j, s, k);
        return;
    case KEY_NODES:
    case KEY_ASSETS:
        place_write(j, s, k);
        return;
    case KEY_SECRETS:
        secrets_write(j, s, k);
        return;
    case KEY_NOTIFY:
        notify_write(j, s, k);
        return;
    default:
        set_number(j, k, s);
    }
}

struct json *spec_to_json(const struct spec *s)
{
    struct json *j = json_new_object();

    for (size_t i = 0; i < n_spec_keys; i++)
        if (!spec_keys[i].sweep)
            set_key(j, s, &spec_keys[i]);
    return j;
}

struct str scalar_text(const struct json *v, char scratch[32], char **owned)
{
    switch (json_type(v)) {
    case JSON_STR:
        return json_str(v);
    case JSON_INT:
        return (struct str){scratch, (size_t)snprintf(scratch, 32, "%" PRId64, json_int(v))};
    case JSON_BOOL:
        return json_bool(v) ? STR("true") : STR("false");
    case JSON_NULL:
        return STR("null");
    default:
        *owned = json_text(v);
        return str_of(*owned);
    }
}
