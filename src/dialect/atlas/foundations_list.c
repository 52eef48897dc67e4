/* foundations_list.c - foundations list: the jobs of a server with their parameters and metrics
 *
 * The newest job comes first.  A metric is shown with its last value.
 */
#include "base/table.h"
#include "base/util.h"
#include "dialect/atlas/foundations.h"
#include "dialect/atlas/home.h"
#include "io/http_response.h"
#include <stdio.h>

enum { TABLE_MAX = 64 << 20 };

/* GET of a path; *out is the answer, yours. */
static int list_ask(struct foundations *f, const char *path, struct json **out, struct err *e)
{
    struct http_response r = {0};

    if (found_call(f, "GET", path, NULL, &r, e) < 0)
        return -1;
    int rc = json_parse(buf_str(&r.body), "the server's answer", out, e);
    http_response_done(&r);
    return rc;
}

/* name=value of each; of a metric with several values the last. */
static void list_values(struct table *t, const struct json *values)
{
    AUTO(buf) struct buf b = {0};

    for (size_t i = 0; i < json_len(values); i++) {
        const struct json *one = json_at(values, i), *v = json_get(one, "value");
        if (json_type(v) == JSON_ARRAY)
            v = json_at(v, json_len(v) - 1);
        AUTO_FREE char *text = json_type(v) == JSON_STR ? xstrdup(json_str(v).p) : json_text(v);
        buf_addf(&b, "%s" STR_FMT "=%s", i ? " " : "", STR_ARG(json_get_str(one, "name")), text);
    }
    table_cell(t, b.n ? buf_str(&b) : STR("-"), COLOUR_NONE);
}

static void list_rows(struct table *t, const struct json *jobs)
{
    for (size_t i = 0; i < json_len(jobs); i++) {
        const struct json *j = json_at(jobs, i);
        struct str started = json_get_str(j, "start_time");
        table_cell(t, json_get_str(j, "job_id"), COLOUR_NONE);
        table_cell(t, json_get_str(j, "project"), COLOUR_NONE);
        table_cell(t, json_get_str(j, "status"), COLOUR_NONE);
        /* 2024-05-01T10:00:00 is as much of it as people read. */
        table_cell(t, started.n ? (struct str){started.p, MIN(started.n, (size_t)19)} : STR("-"),
                   COLOUR_NONE);
        list_values(t, json_get(j, "job_parameters"));
        list_values(t, json_get(j, "output_metrics"));
    }
}

static int list_project(struct foundations *f, struct table *t, struct str project, struct err *e)
{
    AUTO(json) struct json *listing = NULL;
    AUTO(buf) struct buf path = {0};

    buf_adds(&path, "/api/v2beta/projects/");
    url_encode(&path, project);
    buf_adds(&path, "/job_listing");
    if (list_ask(f, path.p, &listing, e) < 0)
        return -1;
    list_rows(t, json_get(listing, "jobs"));
    return 0;
}

/* A project that was removed meanwhile is left out. */
static int list_all(struct foundations *f, struct table *t, struct err *e)
{
    AUTO(json) struct json *projects = NULL;

    if (list_ask(f, "/api/v2beta/projects", &projects, e) < 0)
        return -1;
    for (size_t i = 0; i < json_len(projects); i++) {
        struct str name = json_get_str(json_at(projects, i), "name");
        if (list_project(f, t, name, e) < 0 && e->code != ERR_NOT_FOUND)
            return -1;
        *e = (struct err){0};
    }
    return 0;
}

int found_list(struct foundations *f, const struct found_opts *o)
{
    static const char *const titles[] = {"JOB",     "PROJECT",    "STATUS",
                                         "STARTED", "PARAMETERS", "METRICS"};
    const char *project = o->ops.n > 1 ? o->ops.p[1] : NULL;
    AUTO(buf) struct buf out = {0};
    struct err e = {0};

    if (found_connect(f, f->cwd, o->ops.p[0], NULL))
        return 1;
    struct table *t = table_new();
    for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
        table_column(t, titles[i], TABLE_LEFT, i > 3);
    int rc = project ? list_project(f, t, str_of(project), &e) : list_all(f, t, &e);
    buf_init(&out, TABLE_MAX);
    if (rc == 0 && table_rows(t))
        table_render(t, f->c->out.is_tty ? f->c->out.width : 0, f->c->out.colour, &out);
    bool none = table_rows(t) == 0;
    table_free(t);
    if (rc < 0 && e.code == ERR_NOT_FOUND) {
        found_say(f, "Error: Project `%s` does not exist in environment `%s`", project,
                  o->ops.p[0]);
        return 1;
    }
    if (rc < 0)
        return found_fail(f, &e);
    if (none)
        return found_say(f, "There are no jobs yet; `foundations submit` makes one");
    cli_print(&out);
    return 0;
}
