/* columns.c - columns that a user names
 *
 * Owns: which names are fields of a job.  Every other name is the daemon's business: it sends the
 * values of a row in a member of their own, from where they move beside the fields.
 */
#include "cli/columns.h"
#include "base/util.h"

static const struct column number_column = {"JOB", "number", CELL_NUMBER, false, NULL, NULL};
static const struct {
    const char *name;
    struct column column;
} fields[] = {
    {"id", {"ID", "id", CELL_TEXT, false, NULL, NULL}},
    {"name", {"NAME", "name", CELL_TEXT, true, NULL, NULL}},
    {"state", {"STATE", "state", CELL_STATE, false, NULL, NULL}},
    {"project", {"PROJECT", "project", CELL_TEXT, true, NULL, NULL}},
    {"queue", {"QUEUE", "queue", CELL_TEXT, true, NULL, NULL}},
    {"user", {"USER", "user", CELL_TEXT, true, NULL, NULL}},
    {"batch", {"BATCH", "batch_name", CELL_TEXT, true, NULL, NULL}},
    {"exit_code", {"EXIT", "exit_code", CELL_EXIT, false, NULL, NULL}},
    {"priority", {"PRIORITY", "priority", CELL_NUMBER, false, NULL, NULL}},
    {"attempt", {"ATTEMPT", "attempt", CELL_NUMBER, false, NULL, NULL}},
    {"created", {"CREATED", "created", CELL_AGE, false, NULL, NULL}},
    {"started", {"STARTED", "started", CELL_AGE, false, NULL, NULL}},
    {"ended", {"ENDED", "ended", CELL_AGE, false, NULL, NULL}},
    {"duration", {"TIME", "duration_ms", CELL_RUNTIME, false, NULL, NULL}},
    {"reason", {"REASON", "reason", CELL_TEXT, true, NULL, NULL}},
    {"params", {"PARAMS", "params", CELL_PARAMS, true, NULL, NULL}},
    {"command", {"COMMAND", "command", CELL_COMMAND, true, NULL, NULL}},
};

static const struct column *find_field(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
        if (!strcmp(fields[i].name, name))
            return &fields[i].column;
    return NULL;
}

int columns_choose(struct chosen_columns *c, const char *list, struct err *e)
{
    struct job_column *named = NULL;
    size_t n = 0, n_fields = 0;

    if (job_columns_parse(str_of(list), &c->mem, &named, &n, e) < 0)
        return -1;
    if (!n)
        return err_set(e, ERR_INVALID, "--columns: name at least one column, as in lr,acc.max");
    for (size_t i = 0; i < n; i++)
        n_fields += find_field(named[i].text) != NULL;
    vec_push(&c->all, number_column);
    for (const char *const *p = (const char *const[]){"name", "state", NULL}; *p && !n_fields; p++)
        vec_push(&c->all, *find_field(*p));
    for (size_t i = 0; i < n; i++) {
        const struct column *field = find_field(named[i].text);
        struct column value = {.title = named[i].text, .key = named[i].text, .kind = CELL_VALUE};
        vec_push(&c->all, field ? *field : value);
        if (!field)
            buf_addf(&c->query, "%s%s", c->query.n ? "," : "", named[i].text);
    }
    return 0;
}

struct json *columns_flatten(const struct chosen_columns *c, const struct json *rows)
{
    struct json *out = json_new_array();

    for (size_t i = 0; i < json_len(rows); i++) {
        struct json *row = json_copy(json_at(rows, i));
        const struct json *values = json_get(json_at(rows, i), "columns");
        for (size_t k = 0; k < c->all.n; k++)
            if (c->all.p[k].kind == CELL_VALUE)
                json_set_take(row, c->all.p[k].key, json_copy(json_get(values, c->all.p[k].key)));
        json_push_take(out, row);
    }
    return out;
}

void columns_done(struct chosen_columns *c)
{
    vec_done(&c->all);
    buf_done(&c->query);
    arena_done(&c->mem);
}
