/* search_verbs.c - berth search
 * ls|show|best|trials|export|importance|plot|extend|resume|stop|enqueue|rm */
#include "base/util.h"
#include "cli/commands.h"
#include "cli/search.h"
#include "cli/view.h"
#include <stdio.h>

/* ---- looking ---- */

/* A result as people read it, in a row of a table; nothing for null. */
static void set_value_text(struct json *row, const struct json *item)
{
    const struct json *value = json_get(item, "value"), *values = json_get(item, "values");
    AUTO(buf) struct buf text = {0};

    if (value && !values)
        buf_addf(&text, "%.6g", json_real(value));
    for (size_t i = 0; i < json_len(values); i++)
        buf_addf(&text, "%s%.6g", i ? ", " : "", json_real(json_at(values, i)));
    json_set_str(row, "value", text.p ? text.p : "");
}

/* The members of a study that a table shows, on one level. */
static struct json *study_row(const struct json *study)
{
    struct json *row = json_copy(study), *counts = search_counts(study);
    AUTO(buf) struct buf aim = {0};

    json_set_int(row, "done", search_done_count(study));
    json_set_int(row, "running", int_of(counts, "running"));
    json_set_int(row, "failed", int_of(counts, "failed"));
    search_aim_text(&aim, study, "min", "max");
    json_set_str(row, "aim", aim.p);
    set_value_text(row, json_get(study, "best"));
    if (json_len(json_get(study, "front"))) {
        AUTO(buf) struct buf front = {0};
        search_best_text(&front, study);
        json_set_str(row, "value", front.p);
    }
    json_set_take(row, "params", json_copy(json_get(json_get(study, "best"), "params")));
    json_free(counts);
    return row;
}

static int search_ls(struct cli *c, struct err *e)
{
    static const struct column cols[] = {
        {"SEARCH", "name", CELL_TEXT, true, NULL, NULL},
        {"STATE", "state", CELL_TEXT, false, NULL, NULL},
        {"DONE", "done", CELL_NUMBER, false, NULL, NULL},
        {"OF", "trials", CELL_NUMBER, false, "", NULL},
        {"RUNNING", "running", CELL_NUMBER, false, "0", NULL},
        {"FAILED", "failed", CELL_NUMBER, false, "0", NULL},
        {"AIM", "aim", CELL_TEXT, false, NULL, NULL},
        {"BEST", "value", CELL_TEXT, false, "", NULL},
        {"PARAMETERS", "params", CELL_PARAMS, true, "", NULL},
        {"ENGINE", "engine", CELL_TEXT, false, NULL, NULL},
        {"USER", "user", CELL_TEXT, false, NULL, NULL},
        {"CREATED", "created", CELL_AGE, false, NULL, NULL},
    };
    AUTO(json) struct json *reply = NULL, *rows = json_new_array();

    if (cli_get(c, "/v1/studies", &reply, e) < 0)
        return -1;
    const struct json *items = json_get(reply, "items");
    for (size_t i = 0; i < json_len(items); i++)
        json_push_take(rows, study_row(json_at(items, i)));
    view_rows(c, cli_json(c) ? items : rows, cols, ARRAY_SIZE(cols));
    if (!json_len(items) && c->err.is_tty && !cli_json(c) && !cli_csv(c))
        cli_say("no searches yet; berth search --help shows how to start one");
    return 0;
}

static int search_show(struct cli *c, const char *name, struct err *e)
{
    AUTO(json) struct json *study = NULL;
    struct search_curve curve = {0};

    if (resource_get(c, "studies", name, "", &study, e) < 0)
        return -1;
    if (cli_json(c)) {
        cli_print_json(study);
        return 0;
    }
    int rc = search_curve_load(c, study, &curve, e);
    if (rc == 0)
        search_page(c, study, &curve);
    search_curve_done(&curve);
    return rc;
}

struct trial_pages {
    struct view_pages pages;
    struct json *rows; /* of the table, which needs all of them to know its widths */
};

static const struct column trial_columns[] = {
    {"TRIAL", "number", CELL_NUMBER, false, NULL, NULL},
    {"STATE", "state", CELL_TEXT, false, NULL, NULL},
    {"VALUE", "value", CELL_TEXT, false, "", NULL},
    {"JOB", "job", CELL_NUMBER, false, "", NULL},
    {"PARENT", "parent", CELL_NUMBER, false, "", NULL},
    {"PARAMETERS", "params", CELL_PARAMS, true, NULL, NULL},
    {"REASON", "reason", CELL_TEXT, true, "", NULL},
};

static void trials_page(void *arg, const struct json *items)
{
    struct trial_pages *t = arg;

    if (!t->rows) {
        view_page(&t->pages, items, trial_columns, ARRAY_SIZE(trial_columns));
        return;
    }
    for (size_t i = 0; i < json_len(items); i++) {
        struct json *row = json_copy(json_at(items, i));
        set_value_text(row, json_at(items, i));
        json_push_take(t->rows, row);
    }
}

static int search_list_trials(struct cli *c, const char *name, struct err *e)
{
    bool table = !cli_json(c) && !cli_csv(c);
    struct trial_pages t = {.pages = {.c = c}, .rows = table ? json_new_array() : NULL};
    int rc = search_trials(c, name, 0, trials_page, &t, e);

    if (rc == 0 && table)
        view_rows(c, t.rows, trial_columns, ARRAY_SIZE(trial_columns));
    else if (rc == 0)
        view_pages_end(&t.pages);
    json_free(t.rows);
    return rc;
}

/* ---- export: a column for each parameter ---- */

struct trial_export {
    struct table *table;
    struct json *names; /* of all parameters, as members, in the order of their first appearance */
    struct json *rows;
};

static void export_page(void *arg, const struct json *items)
{
    struct trial_export *x = arg;

    for (size_t i = 0; i < json_len(items); i++) {
        const struct json *params = json_get(json_at(items, i), "params");
        for (struct json_it it = {0}; json_next(params, &it);)
            if (!json_has(x->names, it.key))
                json_set_take(x->names, it.key, NULL);
        json_push_take(x->rows, json_copy(json_at(items, i)));
    }
}

static void export_cell(struct table *t, const struct json *v)
{
    AUTO_FREE char *text = v && json_type(v) != JSON_STR ? json_text(v) : NULL;

    table_cell(t, text ? str_of(text) : json_str(v), COLOUR_NONE);
}

static void export_table(struct trial_export *x, const struct json *study)
{
    static const char *const first[] = {"number", "state"}, *const last[] = {"job", "reason"};
    size_t goals = search_goals(study);

    for (size_t i = 0; i < ARRAY_SIZE(first); i++)
        table_column(x->table, first[i], TABLE_LEFT, false);
    for (size_t i = 0; i < goals; i++) {
        struct str metric = search_goal(study, i).metric;
        table_column(x->table, metric.n ? metric.p : "value", TABLE_LEFT, false);
    }
    for (struct json_it it = {0}; json_next(x->names, &it);)
        table_column(x->table, it.key, TABLE_LEFT, false);
    for (size_t i = 0; i < ARRAY_SIZE(last); i++)
        table_column(x->table, last[i], TABLE_LEFT, false);
    for (size_t r = 0; r < json_len(x->rows); r++) {
        const struct json *row = json_at(x->rows, r);
        for (size_t i = 0; i < ARRAY_SIZE(first); i++)
            export_cell(x->table, json_get(row, first[i]));
        for (size_t i = 0; i < goals; i++)
            export_cell(x->table,
                        goals > 1 ? json_at(json_get(row, "values"), i) : json_get(row, "value"));
        for (struct json_it it = {0}; json_next(x->names, &it);)
            export_cell(x->table, json_get(json_get(row, "params"), it.key));
        for (size_t i = 0; i < ARRAY_SIZE(last); i++)
            export_cell(x->table, json_get(row, last[i]));
    }
}

/* CSV unless -o json: the study and its trials in one object. */
static int search_export(struct cli *c, const char *name, struct err *e)
{
    AUTO(json) struct json *study = NULL, *names = json_new_object(), *rows = json_new_array();
    struct trial_export x = {.names = names, .rows = rows};
    AUTO(buf) struct buf out = {0};

    if (resource_get(c, "studies", name, "", &study, e) < 0 ||
        search_trials(c, name, 0, export_page, &x, e) < 0)
        return -1;
    if (cli_json(c)) {
        AUTO(json) struct json *all = json_new_object();
        json_set_take(all, "study", TAKE(study));
        json_set_take(all, "trials", TAKE(rows));
        cli_print_json(all);
        return 0;
    }
    x.table = table_new();
    export_table(&x, study);
    table_render_csv(x.table, &out);
    table_free(x.table);
    cli_print(&out);
    return 0;
}

/* ---- the best ---- */

/* A new job with the spec of the trial and its parameters.  Its output is printed, as with berth
 * run; the trial itself stays as it is. */
static int run_again(struct cli *c, const struct json *best, struct err *e)
{
    AUTO_FREE char *number = xasprintf("%lld", (long long)int_of(best, "job"));
    AUTO(json) struct json *spec = NULL;
    struct run_session s;
    struct run_opts o = {0};

    if (run_session_open(&s, c, 0, e) < 0)
        return cli_fail(e);
    int rc = resource_get(c, "jobs", number, "/spec", &spec, e);
    if (rc == 0) {
        json_set_take(spec, "params", json_copy(json_get(best, "params")));
        rc = run_one(&s, &o, spec, NULL);
    } else {
        rc = cli_fail(e);
    }
    run_session_close(&s);
    return rc;
}

/* Of several objectives there is a front, and a person names a trial of it. */
static const struct json *front_trial(const struct json *study, const char *name,
                                      const char *number, struct err *e)
{
    const struct json *front = json_get(study, "front");
    int64_t n = 0;

    if (!number || !str_to_i64(str_of(number), &n))
        err_set(e, ERR_INVALID,
                "%s has several objectives and no single best trial; name one of its front, as in: "
                "berth search best %s %lld --run",
                name, name, (long long)int_of(json_at(front, 0), "number"));
    for (size_t i = 0; n && i < json_len(front); i++)
        if (int_of(json_at(front, i), "number") == n)
            return json_at(front, i);
    if (!e->code)
        err_set(e, ERR_NOT_FOUND, "trial %lld is not on the front of %s", (long long)n, name);
    return NULL;
}

static void print_front(struct cli *c, const struct json *study)
{
    const struct json *front = json_get(study, "front");
    AUTO(buf) struct buf b = {0};

    if (cli_json(c)) {
        cli_print_json(front);
        return;
    }
    for (size_t i = 0; i < json_len(front); i++) {
        search_front_text(&b, study, json_at(front, i));
        if (json_get(json_at(front, i), "job"))
            buf_addf(&b, " (job %lld)", (long long)int_of(json_at(front, i), "job"));
        buf_addc(&b, '\n');
    }
    cli_print(&b);
}

static void print_best(struct cli *c, const struct json *study)
{
    const struct json *best = json_get(study, "best");
    AUTO(buf) struct buf b = {0};

    if (cli_json(c)) {
        cli_print_json(best);
        return;
    }
    search_best_text(&b, study);
    if (json_get(best, "job"))
        buf_addf(&b, " (job %lld)", (long long)int_of(best, "job"));
    cli_print_line(b.p);
}

static int search_best(struct cli *c, const struct operands *ops, bool run, struct err *e)
{
    AUTO(json) struct json *study = NULL;
    const char *name = ops->p[1];

    if (resource_get(c, "studies", name, "", &study, e) < 0)
        return cli_fail(e);
    const struct json *best = json_get(study, "best");
    if (!search_has_best(study))
        err_set(e, ERR_NOT_FOUND, "no trial of %s has a result yet", name);
    else if (run && !best)
        best = front_trial(study, name, ops->n > 2 ? ops->p[2] : NULL, e);
    if (!e->code && run && !json_get(best, "job"))
        err_set(e, ERR_CONFLICT, "%s has no command: its trials were not jobs, so none can be run",
                name);
    if (e->code)
        return cli_fail(e);
    if (run)
        return run_again(c, best, e);
    if (best)
        print_best(c, study);
    else
        print_front(c, study);
    return 0;
}

/* ---- changing ---- */

/* "extend NAME N": N trials more than now. */
static int search_extend(struct cli *c, const struct operands *ops, struct err *e)
{
    AUTO(json) struct json *study = NULL, *reply = NULL;
    struct json *body = NULL;
    int64_t more = 0;

    if (ops->n != 3 || !str_to_i64(str_of(ops->p[2]), &more) || more < 1)
        return err_set(e, ERR_INVALID, "how many trials more? as in: berth search extend %s 100",
                       ops->n > 1 ? ops->p[1] : "NAME");
    if (resource_get(c, "studies", ops->p[1], "", &study, e) < 0)
        return -1;
    if (!json_get(study, "trials"))
        return err_set(e, ERR_CONFLICT, "%s has no limit of trials, so there is none to raise",
                       ops->p[1]);
    body = json_new_object();
    json_set_int(body, "trials", int_of(study, "trials") + more);
    if (search_change_take(c, ops->p[1], body, &reply, e) < 0)
        return -1;
    if (cli_json(c))
        cli_print_json(reply);
    else
        cli_say("%s now has at most %lld trials", ops->p[1], (long long)int_of(reply, "trials"));
    return 0;
}

static void running_jobs(void *arg, const struct json *items)
{
    struct json *jobs = arg;

    for (size_t i = 0; i < json_len(items); i++)
        if (str_eq_c(text_of(json_at(items, i), "state"), "running") &&
            int_of(json_at(items, i), "job"))
            json_push_take(jobs, json_new_int(int_of(json_at(items, i), "job")));
}

static int cancel_running(struct cli *c, const char *name, struct err *e)
{
    AUTO(json) struct json *body = json_new_object();
    struct json *jobs = json_new_array();

    json_set_take(body, "jobs", jobs);
    if (search_trials(c, name, 0, running_jobs, jobs, e) < 0)
        return -1;
    return json_len(jobs) ? cli_post(c, "/v1/jobs/cancel", body, NULL, e) : 0;
}

/* Running trials end by themselves; with --force they are cancelled. */
static int search_stop_one(struct cli *c, const char *name, bool force, struct err *e)
{
    AUTO(json) struct json *reply = NULL;

    if (search_change_take(c, name, search_paused(true), &reply, e) < 0 ||
        (force && cancel_running(c, name, e) < 0))
        return -1;
    if (cli_json(c))
        cli_print_json(reply);
    else
        cli_say("paused %s; berth search resume %s continues it", name, name);
    return 0;
}

static int search_resume(struct cli *c, const struct search_opts *o, const char *name,
                         struct err *e)
{
    struct json *body = search_paused(false);
    struct run_session s;

    if (o->parallel.set)
        json_set_int(body, "parallel", o->parallel.v);
    if (o->detach)
        return search_change_take(c, name, body, NULL, e) < 0 ? cli_fail(e) : 0;
    if (run_session_open(&s, c, (int32_t)o->parallel.v, e) < 0) {
        json_free(body);
        return cli_fail(e);
    }
    int rc = search_change_take(c, name, body, NULL, e) < 0 ? cli_fail(e)
                                                            : search_stay(&s, name, o->quiet);
    run_session_close(&s);
    return rc;
}

static int search_enqueue(struct cli *c, const struct operands *ops, struct err *e)
{
    AUTO(json) struct json *body = json_new_object(), *reply = NULL;
    struct opt_list words = {ops->p + 2, ops->n > 2 ? ops->n - 2 : 0, 0};
    struct json *params = json_new_object();
    AUTO(buf) struct buf path = {0};

    json_set_take(body, "params", params);
    if (!words.n)
        return err_set(e, ERR_INVALID,
                       "the point is missing, as in: berth search enqueue NAME lr=0.1 opt=sgd");
    if (jobspec_add_options(params, "param", &words, false, e) < 0)
        return -1;
    resource_path(&path, "studies", ops->p[1], "/enqueue");
    if (cli_post(c, path.p, body, &reply, e) < 0)
        return -1;
    if (cli_json(c))
        cli_print_json(reply);
    else
        cli_say("trial %lld will have these parameters", (long long)int_of(reply, "number"));
    return 0;
}

static int search_rm(struct cli *c, const char *name, bool force, struct err *e)
{
    AUTO(buf) struct buf path = {0};

    resource_path(&path, "studies", name, "");
    query_add(&path, "force", force ? "true" : NULL);
    return cli_call(c, "DELETE", path.p, NULL, NULL, NULL, e);
}

/* ---- which one ---- */

bool search_is_verb(const char *word)
{
    struct str rest = STR(SEARCH_VERBS), verb;

    while (choice_next(&rest, &verb))
        if (str_eq_c(verb, word))
            return true;
    return false;
}

int search_verb(struct cli *c, const struct search_opts *o, const struct operands *ops)
{
    const char *verb = ops->p[0], *name = ops->n > 1 ? ops->p[1] : NULL;
    struct err e = {0};
    int rc;

    if (!strcmp(verb, "ls"))
        return search_ls(c, &e) < 0 ? cli_fail(&e) : 0;
    if (!name)
        return cli_refuse("which search? as in: berth search %s NAME (berth search ls)", verb);
    if (!strcmp(verb, "best"))
        return search_best(c, ops, o->run, &e);
    if (!strcmp(verb, "resume"))
        return search_resume(c, o, name, &e);
    if (!strcmp(verb, "show"))
        rc = search_show(c, name, &e);
    else if (!strcmp(verb, "trials"))
        rc = search_list_trials(c, name, &e);
    else if (!strcmp(verb, "export"))
        rc = search_export(c, name, &e);
    else if (!strcmp(verb, "importance") || !strcmp(verb, "plot"))
        rc = search_plot(c, o, ops, &e);
    else if (!strcmp(verb, "extend"))
        rc = search_extend(c, ops, &e);
    else if (!strcmp(verb, "enqueue"))
        rc = search_enqueue(c, ops, &e);
    else if (!strcmp(verb, "rm"))
        rc = search_rm(c, name, o->force, &e);
    else
        rc = search_stop_one(c, name, o->force, &e);
    return rc < 0 ? cli_fail(&e) : 0;
}
