/* cmd_compare.c - berth compare: what differs between jobs, and what came of it
 *
 * A row for each parameter that is not the same in all jobs, and for each metric, whose values come
 * with the difference to the first job.
 */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"

enum { JOBS_MAX = 20 };

/* The jobs, and their parameters by path: those submitted under those they logged. */
struct comparison {
    struct json *jobs, *params; /* arrays, one element a job */
    struct json *names;         /* of parameters, in the order of their first appearance */
};

/* {"opt": {"name": "adam"}} becomes opt.name. */
static void add_params(struct json *to, struct json *names, const char *path,
                       const struct json *from)
{
    for (struct json_it it = {0}; json_next(from, &it);) {
        AUTO_FREE char *name = xasprintf("%s%s%s", path, *path ? "." : "", it.key);
        if (json_type(it.val) == JSON_OBJECT && json_len(it.val)) {
            add_params(to, names, name, it.val);
            continue;
        }
        json_set_take(to, name, json_copy(it.val));
        json_set_bool(names, name, true);
    }
}

static int comparison_load(struct cli *c, const struct operands *ops, struct comparison *x,
                           struct err *e)
{
    for (size_t i = 0; i < ops->n; i++) {
        struct json *job = NULL, *params = json_new_object();
        json_push_take(x->params, params);
        if (resource_get(c, "jobs", ops->p[i], "", &job, e) < 0)
            return -1;
        json_push_take(x->jobs, job);
        add_params(params, x->names, "", json_get(job, "params"));
        add_params(params, x->names, "", json_get(job, "logged_params"));
    }
    return 0;
}

static bool is_number(const struct json *v)
{
    return json_type(v) == JSON_INT || json_type(v) == JSON_REAL;
}

/* 1 and 1.0 are the same. */
static bool is_same(const struct json *a, const struct json *b)
{
    if (is_number(a) && is_number(b))
        return json_real(a) == json_real(b);
    AUTO_FREE char *x = a ? json_text(a) : NULL, *y = b ? json_text(b) : NULL;
    return x && y ? !strcmp(x, y) : x == y;
}

static bool param_differs(const struct comparison *x, const char *name)
{
    for (size_t i = 1; i < json_len(x->params); i++)
        if (!is_same(json_get(json_at(x->params, 0), name), json_get(json_at(x->params, i), name)))
            return true;
    return false;
}

/* ---- for programs ---- */

static struct json *list_of(const struct json *objects, const char *name, const char *member)
{
    struct json *all = json_new_array();

    for (size_t i = 0; i < json_len(objects); i++) {
        const struct json *v = json_get(json_at(objects, i), name);
        json_push_take(all, json_copy(member ? json_get(v, member) : v));
    }
    return all;
}

static struct json *metrics_of(const struct comparison *x)
{
    struct json *all = json_new_array();

    for (size_t i = 0; i < json_len(x->jobs); i++)
        json_push_take(all, json_copy(json_get(json_at(x->jobs, i), "metrics")));
    return all;
}

/* The names of all metrics, in the order of their first appearance. */
static struct json *metric_names(const struct json *metrics)
{
    struct json *names = json_new_object();

    for (size_t i = 0; i < json_len(metrics); i++)
        for (struct json_it it = {0}; json_next(json_at(metrics, i), &it);)
            json_set_bool(names, it.key, true);
    return names;
}

static void compare_json(const struct comparison *x, const struct json *metrics,
                         const struct json *names)
{
    AUTO(json) struct json *out = json_new_object();
    struct json *params = json_new_object(), *values = json_new_object();
    AUTO(buf) struct buf b = {0};

    json_set_take(out, "jobs", list_of(x->jobs, "number", NULL));
    for (struct json_it it = {0}; json_next(x->names, &it);)
        if (param_differs(x, it.key))
            json_set_take(params, it.key, list_of(x->params, it.key, NULL));
    for (struct json_it it = {0}; json_next(names, &it);)
        json_set_take(values, it.key, list_of(metrics, it.key, "value"));
    json_set_take(out, "params", params);
    json_set_take(out, "metrics", values);
    json_write(&b, out, JSON_COMPACT);
    buf_addc(&b, '\n');
    cli_print(&b);
}

/* ---- for people ---- */

static void put_value(struct table *t, const struct json *v, const struct json *base)
{
    AUTO(buf) struct buf b = {0};

    view_value(&b, v);
    if (v != base && is_number(v) && is_number(base))
        buf_addf(&b, " (%+.3g)", json_real(v) - json_real(base));
    table_cell(t, buf_str(&b), COLOUR_NONE);
}

static void put_label(struct table *t, const char *what, const char *name)
{
    AUTO_FREE char *text = xasprintf("%s%s", what, name);

    table_cell(t, str_of(text), COLOUR_DIM);
}

static void compare_table(struct cli *c, const struct comparison *x, const struct json *metrics,
                          const struct json *names)
{
    struct table *t = table_new();
    AUTO(buf) struct buf out = {0};
    size_t n = json_len(x->jobs);

    table_column(t, "", TABLE_LEFT, false);
    for (size_t i = 0; i < n; i++) {
        const struct json *job = json_at(x->jobs, i);
        AUTO_FREE char *title = xasprintf("%lld " STR_FMT, (long long)int_of(job, "number"),
                                          STR_ARG(text_of(job, "name")));
        table_column(t, title, TABLE_RIGHT, true);
    }
    put_label(t, "state", "");
    for (size_t i = 0; i < n; i++) {
        struct str state = text_of(json_at(x->jobs, i), "state");
        table_cell(t, state, state_colour(state));
    }
    for (struct json_it it = {0}; json_next(x->names, &it);) {
        if (!param_differs(x, it.key))
            continue;
        put_label(t, "", it.key);
        for (size_t i = 0; i < n; i++)
            put_value(t, json_get(json_at(x->params, i), it.key), NULL);
    }
    for (struct json_it it = {0}; json_next(names, &it);) {
        const struct json *base = json_get(json_get(json_at(metrics, 0), it.key), "value");
        put_label(t, "metric ", it.key);
        for (size_t i = 0; i < n; i++)
            put_value(t, json_get(json_get(json_at(metrics, i), it.key), "value"), base);
    }
    table_render(t, c->out.width, c->out.colour, &out);
    table_free(t);
    cli_print(&out);
}

static int compare_run(struct cli *c, const void *opts UNUSED, const struct operands *ops)
{
    AUTO(json)
    struct json *jobs = json_new_array(), *params = json_new_array(), *names = json_new_object();
    struct comparison x = {jobs, params, names};
    struct err e = {0};

    if (ops->n > JOBS_MAX) {
        err_set(&e, ERR_INVALID, "at most %d jobs; berth ls --columns lists more", JOBS_MAX);
        return cli_fail(&e);
    }
    if (comparison_load(c, ops, &x, &e) < 0)
        return cli_fail(&e);
    AUTO(json) struct json *metrics = metrics_of(&x), *measured = metric_names(metrics);
    if (cli_json(c))
        compare_json(&x, metrics, measured);
    else
        compare_table(c, &x, metrics, measured);
    return 0;
}

const struct command cmd_compare = {
    BERTH_COMMAND(SECTION_LOOK, "compare", "[OPTION…] JOB JOB…", compare_run,
                  "show what differs between jobs"),
    .description = "A row for each parameter that is not the same in all jobs, then the last value "
                   "of each metric, with the difference to the first job.",
    .groups = OPTION_GROUPS(&output_group, &common_group),
    .examples =
        EXAMPLES({"berth compare 5 6 7", "parameters that differ, and metrics side by side"},
                 {"berth compare 5 6 -o json | jq .params", "for a script"}),
    OPERANDS("job", 2, SIZE_MAX, COMPLETE_JOB),
};
