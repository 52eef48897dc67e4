/* generate.c - a batch file out of a template
 *
 * Keys of `params` in the order of the file, the last one varies fastest.  Every job carries the
 * command, so that the result can be run as it is.
 */
#include "dialect/hyperctl/generate.h"
#include "base/file.h"
#include "base/yaml.h"
#include "dialect/hyperctl/batch.h"
#include <libgen.h>

int hyper_template_parse(struct str text, const char *name, struct json **out, struct err *e)
{
    return yaml_parse_11(text, name, out, e);
}

/* Counts the combinations before any is made: a typing error can ask for millions. */
static int check_params(const struct json *params, size_t *out_n, struct err *e)
{
    size_t n = 1;

    if (json_type(params) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "params is missing; write a map of names to lists");
    for (struct json_it it = {0}; json_next(params, &it);) {
        if (json_type(it.val) != JSON_ARRAY)
            return err_set(e, ERR_INVALID, "Value of param '%.100s' should be list", it.key);
        size_t len = json_len(it.val);
        if (len && n > HYPER_GENERATE_MAX / len)
            return err_set(e, ERR_LIMIT, "params make more than %d jobs; split the template",
                           HYPER_GENERATE_MAX);
        n *= len;
    }
    *out_n = n;
    return 0;
}

/* Combination number i, taken apart from the last key to the first. */
static struct json *combination(const struct json *params, size_t i, size_t total)
{
    struct json *o = json_new_object();

    for (struct json_it it = {0}; json_next(params, &it);) {
        size_t len = json_len(it.val);
        total /= len;
        const struct json *v = json_at(it.val, i / total % len);
        json_set_take(o, it.key, v ? json_copy(v) : NULL);
    }
    return o;
}

/* A member that is absent stays absent. */
static void copy_member(const struct json *from, struct json *to, const char *key)
{
    if (json_get(from, key))
        json_set_take(to, key, json_copy(json_get(from, key)));
}

/* A random name: two runs of the same template must not share directories. */
static void set_id(struct json *o, const char *key)
{
    char id[HYPER_ID_LEN + 1];

    hyper_id_make(id);
    json_set_str(o, key, id);
}

static struct json *make_job(const struct json *t, const struct json *command, size_t i,
                             size_t total)
{
    struct json *job = json_new_object();
    const struct json *dir = json_get(t, "working_dir");

    set_id(job, "name");
    json_set_take(job, "params", combination(json_get(t, "params"), i, total));
    copy_member(t, job, "resource");
    json_set_take(job, "command", json_copy(command));
    copy_member(t, job, "data_dir");
    if (json_type(dir) == JSON_ARRAY) /* a list of one, as older templates have it */
        dir = json_at(dir, 0);
    if (dir)
        json_set_take(job, "working_dir", json_copy(dir));
    copy_member(t, job, "assets");
    return job;
}

static int check_template(const struct json *t, const struct json **out_command, struct err *e)
{
    const struct json *dir = json_get(t, "working_dir");
    const struct json *command = json_get(t, "command");

    if (json_type(t) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "a template is a map with params and command");
    if (!command)
        command = json_get(json_get(t, "execution"), "command");
    if (!command)
        command = json_get(t, "job_command");
    if (json_type(command) != JSON_STR)
        return err_set(e, ERR_INVALID, "command is %s; write what each job shall run",
                       command ? json_type_name(json_type(command)) : "missing");
    if (json_type(dir) == JSON_ARRAY && json_len(dir) != 1)
        return err_set(e, ERR_INVALID, "working_dir is a list of %zu; write one path",
                       json_len(dir));
    *out_command = command;
    return 0;
}

int hyper_generate(const struct json *t, const char *version, struct json **out, struct err *e)
{
    static const char *const copied[] = {"server", "scheduler", "backend", "batches_data_dir",
                                         "independent_tmp"};
    const struct json *command = NULL;
    size_t n = 0;

    if (json_type(t) == JSON_OBJECT && check_params(json_get(t, "params"), &n, e) < 0)
        return -1;
    if (check_template(t, &command, e) < 0)
        return -1;
    struct json *o = json_new_object(), *jobs = json_new_array();
    for (size_t i = 0; i < n; i++)
        json_push_take(jobs, make_job(t, command, i, n));
    json_set_take(o, "jobs", jobs);
    if (json_get(t, "name"))
        copy_member(t, o, "name");
    else
        set_id(o, "name");
    if (json_get(t, "version"))
        copy_member(t, o, "version");
    else
        json_set_str(o, "version", version);
    for (size_t i = 0; i < ARRAY_SIZE(copied); i++)
        copy_member(t, o, copied[i]);
    *out = o;
    return 0;
}

/* Missing directories on the way to the output are made. */
static int write_result(const char *output, const struct json *batch, struct err *e)
{
    AUTO_FREE char *text = json_text_as(batch, JSON_PYTHON_INDENTED), *copy = xstrdup(output);
    const char *dir = dirname(copy);

    if (dir_make_all(dir, 0777, e) < 0)
        return err_wrap(e, "making %s", dir);
    return file_write_atomic(output, text, strlen(text), 0644, e);
}

int hyper_generate_file(const char *template_path, const char *output, const char *version,
                        struct err *e)
{
    AUTO_FREE char *text = NULL;
    AUTO(json) struct json *t = NULL, *batch = NULL;
    size_t n;

    if (access(output, F_OK) == 0)
        return err_set(e, ERR_CONFLICT, "FileExistsError: %.200s", output);
    if (file_read_all(template_path, HYPER_TEMPLATE_MAX, &text, &n, e) < 0) {
        if (e->code == ERR_NOT_FOUND)
            err_set(e, ERR_NOT_FOUND, "No such file or directory: '%.180s'", template_path);
        return -1;
    }
    if (hyper_template_parse((struct str){text, n}, template_path, &t, e) < 0 ||
        hyper_generate(t, version, &batch, e) < 0)
        return -1;
    return write_result(output, batch, e);
}
