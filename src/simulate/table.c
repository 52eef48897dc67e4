/* table.c - how fast each type of job is: steps per second, alone and in pairs, by GPU count
 *
 * The file is {"type": {"gpus": {"alone": r, "other type": r, …}, …}, …}.  A pair that is not
 * listed, or listed as 0, does not fit on one device together.  Kept as one dense array: a
 * simulation asks for a rate at every change of company.
 */
#include "simulate/sim.h"
#include <math.h>

/* `other` is the type of the neighbour + 1; 0 = alone. */
static size_t table_index(const struct sim_table *t, size_t type, size_t count, size_t other)
{
    return (type * (size_t)t->n_counts + count) * (t->types.n + 1) + other;
}

static int table_count_index(const struct sim_table *t, int32_t n)
{
    for (int i = 0; i < t->n_counts; i++)
        if (t->counts[i] == n)
            return i;
    return -1;
}

double sim_table_rate(const struct sim_table *t, uint32_t type, int32_t n, int32_t other)
{
    int c = table_count_index(t, n);

    return c < 0 ? 0 : t->rates[table_index(t, type, (size_t)c, (size_t)other + 1)];
}

int32_t sim_table_find(const struct sim_table *t, const char *type)
{
    for (size_t i = 0; i < t->types.n; i++)
        if (!strcmp(t->types.p[i], type))
            return (int32_t)i;
    return -1;
}

/* Inserts a count into the ascending list. */
static int add_count(struct sim_table *t, const char *text, const char *name, const char *type,
                     struct err *e)
{
    int64_t n;
    int i = t->n_counts;

    if (!str_to_i64(str_of(text), &n) || n < 1 || n > GPU_SET_MAX)
        return err_set(e, ERR_INVALID, "%s: \"%s\".\"%s\" is no GPU count; use 1 to %d", name, type,
                       text, GPU_SET_MAX);
    if (table_count_index(t, (int32_t)n) >= 0)
        return 0;
    if (t->n_counts == GPU_COUNTS_MAX)
        return err_set(e, ERR_LIMIT, "%s: more than %d different GPU counts", name, GPU_COUNTS_MAX);
    for (; i > 0 && t->counts[i - 1] > n; i--)
        t->counts[i] = t->counts[i - 1];
    t->counts[i] = (int32_t)n;
    t->n_counts++;
    return 0;
}

/* First pass: which types and counts there are. */
static int table_read_names(struct sim_table *t, const struct json *j, const char *name,
                            struct err *e)
{
    for (struct json_it it = {0}; json_next(j, &it);) {
        if (t->types.n == SIM_TYPES_MAX)
            return err_set(e, ERR_LIMIT, "%s: more than %d types", name, SIM_TYPES_MAX);
        if (json_type(it.val) != JSON_OBJECT || !json_len(it.val))
            return err_set(
                e, ERR_INVALID,
                "%s: \"%s\" must be an object of GPU counts, such as {\"1\": {\"alone\": "
                "12.5}}",
                name, it.key);
        vec_push(&t->types, arena_strdup(&t->arena, it.key));
        for (struct json_it c = {0}; json_next(it.val, &c);)
            if (add_count(t, c.key, name, it.key, e) < 0)
                return -1;
    }
    return t->types.n ? 0 : err_set(e, ERR_INVALID, "%s: the table names no types", name);
}

/* A row must have a rate "alone": a job that cannot run alone could never start. */
static int table_read_row(struct sim_table *t, size_t type, const char *count,
                          const struct json *row, const char *name, struct err *e)
{
    int64_t n = 0;
    bool alone = false;

    str_to_i64(str_of(count), &n);
    if (json_type(row) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "%s: \"%s\".\"%s\" must be an object of rates", name,
                       t->types.p[type], count);
    for (struct json_it it = {0}; json_next(row, &it);) {
        bool number = json_type(it.val) == JSON_INT || json_type(it.val) == JSON_REAL;
        double r = number ? json_real(it.val) : -1;
        if (r < 0 || !isfinite(r))
            return err_set(e, ERR_INVALID,
                           "%s: \"%s\".\"%s\".\"%s\" must be steps per second, 0 or more", name,
                           t->types.p[type], count, it.key);
        bool is_alone = !strcmp(it.key, "alone");
        int32_t other = is_alone ? SIM_ALONE : sim_table_find(t, it.key);
        if (!is_alone && other < 0)
            continue; /* measured next to something that no job of this table is */
        alone |= is_alone && r > 0;
        t->rates[table_index(t, type, (size_t)table_count_index(t, (int32_t)n),
                             (size_t)other + 1)] = r;
    }
    return alone ? 0
                 : err_set(e, ERR_INVALID, "%s: \"%s\".\"%s\" has no rate \"alone\" above 0", name,
                           t->types.p[type], count);
}

static int read_rates(struct sim_table *t, const struct json *j, const char *name, struct err *e)
{
    size_t type = 0;

    /* The index behind the last element is the size of the array. */
    t->rates = xcalloc(table_index(t, t->types.n, 0, 0), sizeof(*t->rates));
    for (struct json_it it = {0}; json_next(j, &it); type++)
        for (struct json_it c = {0}; json_next(it.val, &c);)
            if (table_read_row(t, type, c.key, c.val, name, e) < 0)
                return -1;
    return 0;
}

int sim_table_parse(struct str text, const char *name, struct sim_table *out, struct err *e)
{
    struct sim_table t = {0};
    AUTO(json) struct json *j = NULL;
    int rc = json_parse(text, name, &j, e);

    if (rc == 0 && json_type(j) != JSON_OBJECT)
        rc =
            err_set(e, ERR_INVALID,
                    "%s: a table is an object: {\"type\": {\"gpus\": {\"alone\": steps/s}}}", name);
    if (rc == 0)
        rc = table_read_names(&t, j, name, e);
    if (rc == 0)
        rc = read_rates(&t, j, name, e);
    if (rc < 0)
        sim_table_done(&t);
    else
        *out = t;
    return rc;
}

void sim_table_done(struct sim_table *t)
{
    free(t->rates);
    t->rates = NULL;
    vec_done(&t->types);
    arena_done(&t->arena);
}
