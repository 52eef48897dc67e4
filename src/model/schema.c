/* schema.c - JSON Schema of the job form and of the sweep form, made from the key table
 *
 * Made on first use and kept.  As parser and schema read the same table they cannot drift apart.
 */
#include "model/spec_priv.h"
#include "model/sweep.h"
#include <threads.h>

/* The functions of this file return new trees, which the caller frees or hands over. */
static struct json *typed(const char *type)
{
    struct json *j = json_new_object();

    json_set_str(j, "type", type);
    return j;
}

static struct json *array_of(struct json *items)
{
    struct json *j = typed("array");

    json_set_take(j, "items", items);
    return j;
}

/* {"type": ["a", "b", …]} */
static struct json *typed_any(const char *const *types)
{
    struct json *j = json_new_object(), *list = json_new_array();

    for (; *types; types++)
        json_push_take(list, json_new_str(str_of(*types)));
    json_set_take(j, "type", list);
    return j;
}

/* A number in base units, or a text with a unit. */
static struct json *with_unit(const struct spec_key *k, const char *pattern)
{
    static const char *const number_or_text[] = {"number", "string", NULL};
    struct json *j = typed_any(number_or_text);

    json_set_str(j, "pattern", pattern);
    json_set_int(j, "minimum", k->min);
    json_set_int(j, "maximum", k->kind == KEY_SIZE ? k->max : k->max / 1000);
    return j;
}

/* Takes both schemas. */
static struct json *either(struct json *a, struct json *b)
{
    struct json *j = json_new_object(), *list = json_new_array();

    json_push_take(list, a);
    json_push_take(list, b);
    json_set_take(j, "oneOf", list);
    return j;
}

static struct json *key_schema(const struct spec_key *k);

static struct json *resources_schema(void)
{
    struct json *j = typed("object"), *props = json_new_object();

    for (size_t i = 0; i < n_resource_keys; i++)
        json_set_take(props, resource_keys[i].name, key_schema(&resource_keys[i]));
    json_set_take(j, "properties", props);
    json_set_take(j, "additionalProperties", json_new_bool(false));
    return j;
}

static const char *const text_or_number[] = {"string", "integer", NULL};

static struct json *text_schema(const struct spec_key *k)
{
    struct json *j = k->kind == KEY_TEXT ? typed_any(text_or_number) : typed("string");

    json_set_int(j, "minLength", k->min);
    json_set_int(j, "maxLength", k->max);
    if (k->kind == KEY_DIR)
        json_set_str(j, "pattern", "^/");
    return j;
}

static struct json *int_schema(const struct spec_key *k)
{
    struct json *j = typed("integer");

    json_set_int(j, "minimum", k->min);
    json_set_int(j, "maximum", k->max);
    return j;
}

static struct json *command_schema(void)
{
    static const char *const word[] = {"string", "number", "boolean", NULL};
    struct json *line = typed("string"), *words = array_of(typed_any(word));

    json_set_int(line, "minLength", 1);
    json_set_int(words, "minItems", 1);
    return either(line, words);
}

static struct json *env_schema(void)
{
    static const char *const value[] = {"string", "number", "boolean", NULL};
    struct json *j = typed("object");

    json_set_take(j, "additionalProperties", typed_any(value));
    return j;
}

static struct json *texts_schema(const struct spec_key *k, const char *pattern)
{
    struct json *text = typed("string"), *j;

    json_set_str(text, "pattern", pattern);
    j = array_of(text);
    json_set_int(j, "maxItems", k->max);
    return j;
}

static struct json *container_schema(void)
{
    struct json *j = typed("object"), *props = json_new_object();

    for (size_t i = 0; i < n_container_keys; i++)
        json_set_take(props, container_keys[i].name, key_schema(&container_keys[i]));
    json_set_take(j, "properties", props);
    json_set_take(j, "additionalProperties", json_new_bool(false));
    return j;
}

static struct json *one_of(const char *const *words)
{
    struct json *j = typed("string"), *list = json_new_array();

    for (; *words; words++)
        json_push_take(list, json_new_str(str_of(*words)));
    json_set_take(j, "enum", list);
    return j;
}

static struct json *launch_schema(void)
{
    static const char *const words[] = {"node", "gpu", NULL};

    return one_of(words);
}

static struct json *pull_schema(void)
{
    static const char *const words[] = {"missing", "always", "never", NULL};

    return one_of(words);
}

static struct json *time_schema(void)
{
    struct json *j = typed("string");

    json_set_str(j, "format", "date-time");
    return j;
}

/* A job's id or number, or a list of them. */
static struct json *after_schema(void)
{
    static const char *const job[] = {"string", "integer", NULL};

    return either(typed_any(job), array_of(typed_any(job)));
}

static void add_properties(struct json *form, bool many);

/* One entry of `jobs`: everything but the keys that make many jobs. */
static struct json *entry_schema(void)
{
    struct json *j = typed("object");

    add_properties(j, false);
    return j;
}

static struct json *shape_of(const struct spec_key *k)
{
    switch (k->kind) {
    case KEY_TEXT:
    case KEY_DIR:
        return text_schema(k);
    case KEY_COMMAND:
        return command_schema();
    case KEY_ENV:
        return env_schema();
    case KEY_RESOURCES:
        return resources_schema();
    case KEY_CPUS:
        return with_unit(k, "^[0-9]*\\.?[0-9]+m?$");
    case KEY_SIZE:
        return with_unit(k, "^[0-9]*\\.?[0-9]+ *([KMGT]i?)?B?$");
    case KEY_DURATION:
        return with_unit(k, "^([0-9]*\\.?[0-9]+(ms|s|m|h|d)?)+$");
    case KEY_INT:
        return int_schema(k);
    case KEY_BOOL:
    case KEY_SHARE:
        return typed("boolean");
    case KEY_PATH:
        return text_schema(k);
    case KEY_SIGNAL:
        return typed_any(text_or_number);
    case KEY_TIME:
        return time_schema();
    case KEY_LAUNCH:
        return launch_schema();
    case KEY_MOUNTS:
        return texts_schema(k, "^/.*:/");
    case KEY_PORTS:
        return texts_schema(k, "^[0-9]+:[0-9]+$");
    case KEY_NODES:
        return texts_schema(k, "^[^ ,/]+$");
    case KEY_ASSETS:
        return texts_schema(k, ".");
    case KEY_SECRETS:
        return either(typed("string"), texts_schema(k, "^!?[A-Za-z0-9_*?.-]+$"));
    case KEY_NOTIFY:
        return either(typed("string"), texts_schema(k, "^[^=]+=.+"));
    case KEY_EXTRA:
        return typed("object");
    case KEY_CONTAINER:
        return container_schema();
    case KEY_ENTRYPOINT:
        return either(typed("string"), array_of(typed("string")));
    case KEY_PULL:
        return pull_schema();
    case KEY_LABELS:
        return env_schema();
    case KEY_PARAMS:
        return typed("object");
    case KEY_AFTER:
        return after_schema();
    case KEY_JOBS:
        return array_of(entry_schema());
    }
    return json_new_object();
}

static struct json *key_schema(const struct spec_key *k)
{
    struct json *j = shape_of(k);

    json_set_str(j, "description", k->doc);
    /* The table has milliseconds; a number in the form is seconds. */
    if (k->fallback && k->kind == KEY_DURATION)
        json_set_int(j, "default", k->fallback / 1000);
    else if (k->fallback)
        json_set_int(j, "default", k->fallback);
    return j;
}

/* many: with the keys that make many jobs of one form. */
static void add_properties(struct json *form, bool many)
{
    struct json *props = json_new_object();

    for (size_t i = 0; i < n_spec_keys; i++) {
        const struct spec_key *k = &spec_keys[i];
        if (many || !k->sweep || k->kind == KEY_PARAMS || k->kind == KEY_AFTER)
            json_set_take(props, k->name, key_schema(k));
    }
    /* The flat forms; slots means something else there. */
    for (size_t i = 0; i < n_resource_keys; i++)
        if (!spec_key_find(spec_keys, n_spec_keys, str_of(resource_keys[i].name)))
            json_set_take(props, resource_keys[i].name, key_schema(&resource_keys[i]));
    json_set_take(form, "properties", props);
    json_set_take(form, "additionalProperties", json_new_bool(false));
}

static char *make(const char *title, bool sweep)
{
    struct json *j = json_new_object(), *required;
    struct buf b;

    json_set_str(j, "$schema", "https://json-schema.org/draft/2020-12/schema");
    json_set_str(j, "title", title);
    json_set_str(j, "type", "object");
    add_properties(j, sweep);
    /* In a sweep the command may stand in the entries of `jobs` instead. */
    if (!sweep) {
        required = json_new_array();
        json_push_take(required, json_new_str(STR("command")));
        json_set_take(j, "required", required);
    }
    buf_init(&b, 1 << 20);
    json_write(&b, j, JSON_PRETTY);
    buf_addc(&b, '\n');
    json_free(j);
    return buf_take(&b, NULL);
}

/* Made once and never freed; any thread may ask. */
static char *job_text, *sweep_text;
static once_flag once = ONCE_FLAG_INIT;

static void make_all(void)
{
    job_text = make("Berth job", false);
    sweep_text = make("Berth sweep", true);
}

const char *spec_schema(void)
{
    call_once(&once, make_all);
    return job_text;
}

const char *spec_sweep_schema(void)
{
    call_once(&once, make_all);
    return sweep_text;
}
