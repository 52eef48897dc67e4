/* cmd_best.c - berth best: the jobs with the highest or the lowest value of a metric
 *
 * Owns: what of a metric counts.  The best value a job has reported, unless a figure is named
 * (acc.last, loss.mean).
 */
#include "base/util.h"
#include "cli/best.h"
#include "cli/commands.h"
#include "cli/list.h"

enum { BEST_SHOWN = 5 };

static const struct opt best_own[] = {
    {"maximize", 0, OPT_TEXT, "METRIC", offsetof(struct best_opts, maximize),
     "the highest value is the best; acc.last takes the last one of each job instead of the "
     "highest"},
    {"metric", 'm', OPT_TEXT, "METRIC", offsetof(struct best_opts, maximize),
     "the same as --maximize"},
    {"minimize", 0, OPT_TEXT, "METRIC", offsetof(struct best_opts, minimize),
     "the lowest value is the best"},
};
const struct opt_group best_group = OPT_GROUP("Best", best_own);

/* The figure to sort by, and the columns to show. */
static int best_columns(const struct best_opts *o, struct arena *mem, const char **sort,
                        char **columns, struct err *e)
{
    bool low = o->minimize != NULL;
    const char *name = low ? o->minimize : o->maximize;
    struct job_column c;

    if (!name || (o->maximize && o->minimize))
        return err_set(e, ERR_INVALID, "name one metric: --maximize acc, or --minimize loss");
    if (job_column_parse(str_of(name), mem, &c, e) < 0)
        return -1;
    if (strcmp(c.param, c.metric) != 0 || c.stat != JOB_COLUMN_LAST) {
        *sort = arena_printf(mem, "%s%s", low ? "" : "-", name);
        *columns = arena_printf(mem, "name,state,%s,params", name);
        return 0;
    }
    const char *stat = low ? "min" : "max";
    *sort = arena_printf(mem, "%s%s.%s", low ? "" : "-", name, stat);
    *columns = arena_printf(mem, "name,state,%s.%s,%s.%s_step,%s.last,params", name, stat, name,
                            stat, name);
    return 0;
}

int best_jobs(struct cli *c, const struct best_opts *o, const char *filter, int64_t limit,
              struct chosen_columns *cols, struct json **out, struct err *e)
{
    AUTO(json) struct json *rows = json_new_array(), *flat = NULL;
    struct json *best = json_new_array();
    struct arena mem = {0};
    const char *sort = NULL;
    char *columns = NULL;
    int rc = best_columns(o, &mem, &sort, &columns, e);

    if (rc == 0)
        rc = columns_choose(cols, columns, e);
    if (rc == 0) {
        struct list_query q = {filter, c->opt.state, sort, limit, buf_str(&cols->query).p};
        rc = list_jobs(c, &q, rows, NULL, e);
    }
    if (rc == 0)
        flat = columns_flatten(cols, rows);
    /* The first column behind number, name and state is the one that decides. */
    for (size_t i = 0; rc == 0 && i < json_len(flat); i++) {
        const struct json *v = json_get(json_at(flat, i), cols->all.p[3].key);
        if (json_type(v) == JSON_INT || json_type(v) == JSON_REAL || json_type(v) == JSON_STR)
            json_push_take(best, json_copy(json_at(flat, i)));
    }
    arena_done(&mem);
    return HAND_OUT(rc, out, best, json_free);
}

static int best_run(struct cli *c, const void *opts, const struct operands *ops)
{
    AUTO(json) struct json *rows = NULL;
    AUTO_FREE char *filter = filter_text(ops);
    struct chosen_columns cols = {0};
    struct err e = {0};
    int64_t limit = c->opt.limit.set ? c->opt.limit.v : BEST_SHOWN;
    int rc = opt_range(&c->opt.limit, "-n", 1, INT64_MAX, &e);

    if (rc == 0 && (c->opt.sort || c->opt.all))
        rc =
            err_set(&e, ERR_INVALID,
                    "the best come first, and -n says how many; --sort and --all are for berth ls");

    if (rc == 0)
        rc = best_jobs(c, opts, filter, limit, &cols, &rows, &e);
    if (rc == 0)
        view_rows(c, rows, cols.all.p, cols.all.n);
    if (rc == 0 && !json_len(rows) && c->err.is_tty)
        cli_say("no job that matches has this metric");
    bool found = rc == 0 && json_len(rows);
    columns_done(&cols);
    return rc < 0 ? cli_fail(&e) : !found;
}

const struct command cmd_best = {
    BERTH_COMMAND(SECTION_LOOK, "best", "[OPTION…] [FILTER…]", best_run,
                  "show the jobs with the best values of a metric"),
    .description =
        "A job counts with the best value that it has reported; the next columns are the step of "
        "that value and the last value. The exit status is 1 when no job has the metric.",
    OPTIONS(struct best_opts, &best_group, &list_group, &output_group, &common_group),
    .examples = EXAMPLES(
        {"berth best --maximize acc", "the five jobs with the highest acc"},
        {"berth best --minimize loss 'name~cnn and lr<0.1' -n 1", "the best of those that match"},
        {"berth best --batch mnist -m acc -n 1 -o json | jq '.[0].params'",
         "the parameters of the best job of a sweep"}),
    OPERANDS("filter", 0, SIZE_MAX, COMPLETE_NONE),
};
