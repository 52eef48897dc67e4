/* job_column.c - names of columns
 *
 * A name that ends in a word such as ".max" may be that of a parameter (a path, or a name with a
 * dot) or a figure of a metric.  Both readings are kept: only the jobs know which one they have.
 */
#include "model/job_column.h"
#include "base/util.h"
#include "base/vec.h"

static const char *const stat_names[] = {
    [JOB_COLUMN_LAST] = "last",         [JOB_COLUMN_MIN] = "min",
    [JOB_COLUMN_MAX] = "max",           [JOB_COLUMN_FIRST] = "first",
    [JOB_COLUMN_MEAN] = "mean",         [JOB_COLUMN_COUNT] = "count",
    [JOB_COLUMN_STEP] = "step",         [JOB_COLUMN_MIN_STEP] = "min_step",
    [JOB_COLUMN_MAX_STEP] = "max_step",
};
static const struct {
    struct str prefix;
    enum job_column_kind kind;
} prefixes[] = {{{"params.", 7}, JOB_COLUMN_PARAM},
                {{"tag.", 4}, JOB_COLUMN_TAG},
                {{"metric.", 7}, JOB_COLUMN_METRIC}};

/* Cuts ".max" from the end of *name; false = its end is no such word. */
static bool cut_stat(struct str *name, enum job_column_stat *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(stat_names); i++) {
        size_t n = strlen(stat_names[i]);
        if (name->n > n + 1 && name->p[name->n - n - 1] == '.' &&
            !memcmp(name->p + name->n - n, stat_names[i], n)) {
            name->n -= n + 1;
            *out = (enum job_column_stat)i;
            return true;
        }
    }
    return false;
}

/* "name".stat: the quotes say where the name ends, so nothing is left to guess. */
static int parse_quoted(struct str rest, struct arena *a, struct job_column *out, struct err *e)
{
    const char *end = memchr(rest.p + 1, '"', rest.n - 1);
    struct str name, tail;

    if (!end)
        return err_set(e, ERR_INVALID, "column %.60s: the closing quote is missing", out->text);
    name = (struct str){rest.p + 1, (size_t)(end - rest.p - 1)};
    tail = (struct str){end, rest.n - (size_t)(end - rest.p)};
    if (tail.n > 1 && (!cut_stat(&tail, &out->stat) || tail.n != 1))
        return err_set(e, ERR_INVALID,
                       "column %.60s: behind the quotes stands .last, .min, .max, .first, .mean, "
                       ".count, .step, .min_step or .max_step",
                       out->text);
    if (!name.n)
        return err_set(e, ERR_INVALID, "column %.60s: the name is missing", out->text);
    out->param = out->metric = arena_strndup(a, name.p, name.n);
    return 0;
}

void job_column_of_name(const char *name, enum job_column_kind kind, struct arena *a,
                        struct job_column *out)
{
    struct str metric = str_of(name);

    out->kind = kind;
    out->stat = JOB_COLUMN_LAST;
    out->text = out->text ? out->text : arena_strdup(a, name);
    out->param = arena_strdup(a, name);
    cut_stat(&metric, &out->stat);
    out->metric = arena_strndup(a, metric.p, metric.n);
}

int job_column_parse(struct str text, struct arena *a, struct job_column *out, struct err *e)
{
    struct str rest = str_trim(text);

    *out = (struct job_column){.text = arena_strndup(a, rest.p, rest.n)};
    if (rest.n > JOB_COLUMN_TEXT_MAX)
        return err_set(e, ERR_INVALID, "column %.60s…: a name has at most %d bytes", out->text,
                       JOB_COLUMN_TEXT_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
        if (str_starts(rest, prefixes[i].prefix)) {
            out->kind = prefixes[i].kind;
            rest = (struct str){rest.p + prefixes[i].prefix.n, rest.n - prefixes[i].prefix.n};
            break;
        }
    if (!rest.n)
        return err_set(e, ERR_INVALID, "column '%.60s': the name is missing", out->text);
    if (*rest.p == '"')
        return parse_quoted(rest, a, out, e);
    job_column_of_name(arena_strndup(a, rest.p, rest.n), out->kind, a, out);
    return 0;
}

/* Up to the next comma that stands in no quotes. */
static struct str cut_column(struct str list, struct str *rest)
{
    bool quoted = false;
    size_t i = 0;

    for (; i < list.n && (quoted || list.p[i] != ','); i++)
        quoted ^= list.p[i] == '"';
    size_t behind = MIN(i + 1, list.n);
    *rest = (struct str){list.p + behind, list.n - behind};
    return (struct str){list.p, i};
}

int job_columns_parse(struct str list, struct arena *a, struct job_column **out, size_t *out_n,
                      struct err *e)
{
    VEC(struct job_column) found = {0};
    int rc = 0;

    while (rc == 0 && list.n) {
        struct str one = str_trim(cut_column(list, &list));
        struct job_column c;
        if (!one.n)
            continue;
        rc = found.n == JOB_COLUMNS_MAX
                 ? err_set(e, ERR_LIMIT, "columns: at most %d columns", JOB_COLUMNS_MAX)
                 : job_column_parse(one, a, &c, e);
        if (rc == 0)
            vec_push(&found, c);
    }
    if (rc == 0 && found.n) {
        *out = arena_alloc(a, found.n * sizeof(**out));
        memcpy(*out, found.p, found.n * sizeof(**out));
    }
    *out_n = rc == 0 ? found.n : 0;
    vec_done(&found);
    return rc;
}
