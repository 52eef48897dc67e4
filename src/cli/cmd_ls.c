/* cmd_ls.c - berth ls: what runs, what waits, what ended
 *
 * Owns: what is shown by default.  For people: everything that runs, the head of the queue, the
 * last that ended; a filter shows the newest matches.  For programs (json, csv): all that match.
 */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/view.h"

enum { RECENT = 20, ACTIVE = 50, MATCHES = 50 };

struct ls_opts {
    const char *columns;
};
static const struct opt ls_own[] = {
    {"columns", 'c', OPT_TEXT, "LIST", offsetof(struct ls_opts, columns),
     "show these parameters, metrics and fields, separated by commas; acc.max is the highest value "
     "of a metric, as are .min .first .mean .last .count .step .max_step .min_step"},
};
static const struct opt_group ls_group = OPT_GROUP("Columns", ls_own);

static bool for_people(const struct cli *c)
{
    return !cli_json(c) && !cli_csv(c);
}

static int ls_overview(struct cli *c, struct json *rows, struct json **out_counts, struct err *e)
{
    static const int64_t limits[] = {ACTIVE, RECENT, RECENT};
    const struct list_query everything = {.limit = -1};

    if (list_counts(c, &everything, out_counts, e) < 0)
        return -1;
    return int_of(*out_counts, "total") > 0 ? list_overview(c, NULL, limits, rows, e) : 0;
}

/* -1 = everything.  Programs get all jobs unless -n was given. */
static int64_t limit_of(const struct cli *c)
{
    if (c->opt.limit.set)
        return c->opt.limit.v;
    return for_people(c) && !c->opt.all ? MATCHES : -1;
}

/* The columns that were asked for; NULL = those of every list. */
static const char *columns_query(const struct chosen_columns *cols)
{
    return cols->query.n ? buf_str(&cols->query).p : NULL;
}

/* -n 0 asks for nothing: the daemon would refuse a limit of 0. */
static int matches(struct cli *c, const struct operands *ops, const struct chosen_columns *cols,
                   struct json *rows, bool *out_more, struct err *e)
{
    AUTO_FREE char *filter = filter_text(ops);
    struct list_query q = {filter, c->opt.state, c->opt.sort, limit_of(c), columns_query(cols)};

    return q.limit == 0 ? 0 : list_jobs(c, &q, rows, out_more, e);
}

struct csv_pages {
    struct view_pages pages;
    const struct chosen_columns *cols;
};

static void print_page(void *arg, const struct json *items)
{
    struct csv_pages *p = arg;

    if (p->cols->all.n) {
        AUTO(json) struct json *flat = columns_flatten(p->cols, items);
        view_page(&p->pages, flat, p->cols->all.p, p->cols->all.n);
    } else {
        view_page(&p->pages, items, job_columns, n_job_columns);
    }
}

/* However many there are, only one page of them is held at a time. */
static int for_programs(struct cli *c, const struct operands *ops,
                        const struct chosen_columns *cols, struct err *e)
{
    AUTO_FREE char *filter = filter_text(ops);
    struct list_query q = {filter, c->opt.state, c->opt.sort, limit_of(c), columns_query(cols)};
    struct csv_pages v = {{.c = c}, cols};

    int rc = q.limit == 0  ? 0
             : cli_json(c) ? list_texts(c, &q, view_page_text, &v.pages, e)
                           : list_pages(c, &q, print_page, &v, NULL, e);
    if (rc < 0)
        return -1;
    view_pages_end(&v.pages);
    return 0;
}

/* counts NULL: a filter was given, and the total is not known. */
static void ls_footer(const struct cli *c, const struct json *counts, size_t shown, bool more)
{
    AUTO(buf) struct buf b = {0};

    if (!c->out.is_tty)
        return;
    if (counts) {
        counts_format(&b, counts, c->out.colour);
        if ((int64_t)shown < int_of(counts, "total"))
            buf_addf(&b, "; %lld not shown (berth ls -a)",
                     (long long)int_of(counts, "total") - (long long)shown);
        buf_addc(&b, '\n');
    } else if (more) {
        buf_addf(&b, "%zu shown, there are more; use -n N or --all\n", shown);
    }
    cli_print(&b);
}

static void print_table(struct cli *c, const struct json *rows, const struct chosen_columns *cols)
{
    AUTO(json) struct json *flat = cols->all.n ? columns_flatten(cols, rows) : NULL;

    if (flat)
        view_rows(c, flat, cols->all.p, cols->all.n);
    else
        view_rows(c, rows, job_columns, n_job_columns);
}

/* plain: nothing was asked for in particular, so the overview is shown. */
static int ls_table(struct cli *c, const struct operands *ops, const struct chosen_columns *cols,
                    struct err *e)
{
    bool plain = !list_restricted(c, ops) && !c->opt.limit.set && !c->opt.all && !c->opt.sort &&
                 !cols->all.n;
    AUTO(json) struct json *rows = json_new_array(), *counts = NULL;
    bool more = false;
    int rc = plain ? ls_overview(c, rows, &counts, e) : matches(c, ops, cols, rows, &more, e);

    if (rc == 0) {
        print_table(c, rows, cols);
        if (json_len(rows))
            ls_footer(c, counts, json_len(rows), more);
        else if (c->err.is_tty)
            cli_say(plain ? "no jobs yet; submit one with berth submit -- COMMAND"
                          : "no job matches; berth ls lists all jobs");
    }
    return rc;
}

static int ls(struct cli *c, const void *opts, const struct operands *ops)
{
    const struct ls_opts *o = opts;
    struct chosen_columns cols = {0};
    struct err e = {0};
    int rc = o->columns ? columns_choose(&cols, o->columns, &e) : 0;

    if (rc == 0 && c->opt.limit.set && c->opt.limit.v < 0)
        rc = err_set(&e, ERR_INVALID, "-n %lld must be 0 or more", (long long)c->opt.limit.v);
    if (rc == 0)
        rc = for_people(c) ? ls_table(c, ops, &cols, &e) : for_programs(c, ops, &cols, &e);
    columns_done(&cols);
    return rc < 0 ? cli_fail(&e) : 0;
}

const struct command cmd_ls = {
    BERTH_COMMAND(SECTION_LOOK, "ls", "[OPTION…] [FILTER…]", ls,
                  "list running, queued and finished jobs"),
    .description =
        "Without options: all running jobs, the first 20 queued and the last 20 finished ones. "
        "With a filter or an option: the newest 50 jobs that match, or the number that -n gives. "
        "With -o json or csv: all jobs that match.\n\nA filter compares with : = != ~ < <= > >= "
        "and joins with and, or, not and parentheses. Fields: id name state project user batch "
        "cron exit_code priority attempt created started ended duration reason, tag.NAME, "
        "metric.NAME; any other word is a parameter or a metric, and quotes hold any name. ~ finds "
        "a part of the text; : takes a comma list; times take an age such as 2h; the states active "
        "and finished stand for several states.",
    OPTIONS(struct ls_opts, &list_group, &ls_group, &output_group, &common_group),
    .examples = EXAMPLES(
        {"berth ls", "running and queued jobs, and the last 20 that ended"},
        {"berth ls 'state:failed and name~cnn and lr<0.1'",
         "a filter: fields of a job, its parameters, tag.NAME and metric.NAME"},
        {"berth ls state:failed 'created>2h'", "several terms: a job must match all of them"},
        {"berth ls --project mnist --sort -duration -n 10", "the ten slowest of a project"},
        {"berth ls --columns lr,acc.max,acc --sort -acc.max -n 10",
         "the ten jobs with the highest acc, with a parameter and the metric"},
        {"berth ls -o json | jq -r '.[] | select(.state==\"failed\") | .id'", "ids for a script"},
        {"berth ls -a -o csv > jobs.csv", "every job, for a spreadsheet"}),
    OPERANDS("filter", 0, SIZE_MAX, COMPLETE_NONE),
};
