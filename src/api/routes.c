/* routes.c - the table of everything that can be asked, and the search in it
 *
 * Owns: which method on which path goes to which handler, who may ask, how large a body may be.
 * docs/api/openapi.yaml describes the same table; a test compares the two.
 *
 * "{job}" and "{name}" stand for one whole segment.  A literal segment wins over a placeholder
 * because it stands earlier in the table.
 */
#include "api/api_priv.h"
#include <stdio.h>

const struct route api_routes[] = {
    {"GET", "/healthz", meta_health, AUTH_PUBLIC, 0},
    {"GET", "/metrics", metrics_get, AUTH_ADMIN, 0},
    {"GET", "/v1", meta_get, AUTH_READ, 0},
    {"GET", "/v1/routes", meta_routes, AUTH_READ, 0},
    {"GET", "/v1/openapi.yaml", meta_openapi, AUTH_READ, 0},
    {"GET", "/v1/schema/job", meta_schema_job, AUTH_READ, 0},
    {"GET", "/v1/schema/sweep", meta_schema_sweep, AUTH_READ, 0},
    {"POST", "/v1/backup", meta_backup, AUTH_ADMIN, 0},
    {"POST", "/v1/shutdown", meta_shutdown, AUTH_ADMIN, 0},

    {"POST", "/v1/jobs", jobs_submit, AUTH_WRITE, API_SUBMIT_BODY_MAX},
    {"GET", "/v1/jobs", jobs_list, AUTH_READ, 0},
    {"GET", "/v1/jobs/summary", jobs_summary, AUTH_READ, 0},
    {"POST", "/v1/jobs/cancel", jobs_cancel_many, AUTH_WRITE, API_LIST_BODY_MAX},
    {"POST", "/v1/jobs/retry", jobs_retry_many, AUTH_WRITE, API_LIST_BODY_MAX},
    {"POST", "/v1/jobs/remove", jobs_remove_many, AUTH_WRITE, API_LIST_BODY_MAX},

    {"GET", "/v1/jobs/{job}", jobs_get, AUTH_JOB, 0},
    {"DELETE", "/v1/jobs/{job}", jobs_remove, AUTH_WRITE, 0},
    {"GET", "/v1/jobs/{job}/spec", jobs_spec, AUTH_READ, 0},
    {"GET", "/v1/jobs/{job}/explain", jobs_explain, AUTH_READ, 0},
    {"GET", "/v1/jobs/{job}/logs", logs_get, AUTH_JOB, 0},
    {"GET", "/v1/jobs/{job}/metrics", reports_metrics, AUTH_READ, 0},
    {"POST", "/v1/jobs/{job}/tags", tags_set, AUTH_WRITE, 0},
    {"DELETE", "/v1/jobs/{job}/tags", tags_remove, AUTH_WRITE, 0},
    {"GET", "/v1/jobs/{job}/notes", notes_of_job, AUTH_READ, 0},
    {"POST", "/v1/jobs/{job}/notes", notes_add_to_job, AUTH_WRITE, 0},
    {"GET", "/v1/jobs/{job}/artifacts", artifacts_list, AUTH_READ, 0},
    {"GET", "/v1/jobs/{job}/artifact", artifacts_get, AUTH_READ, 0},
    {"GET", "/v1/jobs/{job}/events", events_of_job, AUTH_READ, 0},
    {"GET", "/v1/jobs/{job}/control", jobs_control, AUTH_JOB, 0},
    {"POST", "/v1/jobs/{job}/cancel", jobs_cancel, AUTH_WRITE, 0},
    {"POST", "/v1/jobs/{job}/retry", jobs_retry, AUTH_WRITE, 0},
    {"POST", "/v1/jobs/{job}/reports", reports_post, AUTH_JOB, API_REPORT_BODY_MAX},
    {"POST", "/v1/outside", outside_begin, AUTH_WRITE, 0},
    {"POST", "/v1/jobs/{job}/outside_end", outside_end, AUTH_JOB, 0},

    {"GET", "/v1/events", events_get, AUTH_READ, 0},
    {"GET", "/v1/queues", queues_list, AUTH_READ, 0},
    {"POST", "/v1/queues/{name}/pause", queues_pause, AUTH_ADMIN, 0},
    {"POST", "/v1/queues/{name}/resume", queues_resume, AUTH_ADMIN, 0},
    {"GET", "/v1/nodes", nodes_list, AUTH_READ, 0},
    {"POST", "/v1/nodes", nodes_add, AUTH_ADMIN, 0},
    {"GET", "/v1/nodes/{name}", nodes_get, AUTH_READ, 0},
    {"DELETE", "/v1/nodes/{name}", nodes_remove, AUTH_ADMIN, 0},
    {"POST", "/v1/nodes/{name}/drain", nodes_drain, AUTH_ADMIN, 0},
    {"POST", "/v1/nodes/{name}/undrain", nodes_undrain, AUTH_ADMIN, 0},
    {"GET", "/v1/projects", projects_list, AUTH_READ, 0},
    {"GET", "/v1/projects/{name}", project_get, AUTH_READ, 0},
    {"PUT", "/v1/projects/{name}", project_describe, AUTH_WRITE, 0},
    {"GET", "/v1/projects/{name}/notes", notes_of_project, AUTH_READ, 0},
    {"POST", "/v1/projects/{name}/notes", notes_add_to_project, AUTH_WRITE, 0},
    {"GET", "/v1/batches", batches_list, AUTH_READ, 0},
};
const size_t api_n_routes = ARRAY_SIZE(api_routes);

static bool path_matches(const char *pattern, struct str path, struct str *out_arg)
{
    struct str pat = str_of(pattern), arg = {0};

    while (pat.n > 0 && path.n > 0) {
        struct str want = str_cut(pat, '/', &pat), got = str_cut(path, '/', &path);

        if (want.n > 0 && want.p[0] == '{') {
            if (got.n == 0)
                return false;
            arg = got;
        } else if (!str_eq(want, got)) {
            return false;
        }
    }
    if (pat.n > 0 || path.n > 0)
        return false;
    *out_arg = arg;
    return true;
}

enum route_result route_find(struct str method, struct str path, const struct route **out,
                             struct str *out_arg, char *allow, size_t allow_n)
{
    bool head = str_eq_c(method, "HEAD");
    size_t used = 0;
    const char *allowed_path = NULL;

    while (path.n > 1 && path.p[path.n - 1] == '/') /* "/v1/jobs/" is "/v1/jobs" */
        path.n--;
    for (size_t i = 0; i < api_n_routes; i++) {
        const struct route *r = &api_routes[i];
        struct str arg;

        if (!path_matches(r->path, path, &arg))
            continue;
        /* "/v1/jobs/cancel" also looks like a job called "cancel": only the first pattern counts.
         */
        if (allowed_path && strcmp(allowed_path, r->path) != 0)
            continue;
        if (str_eq_c(method, r->method) || (head && !strcmp(r->method, "GET"))) {
            *out = r;
            *out_arg = arg;
            return ROUTE_FOUND;
        }
        allowed_path = r->path;
        if (used < allow_n)
            used += (size_t)snprintf(allow + used, allow_n - used, "%s%s%s", used ? ", " : "",
                                     r->method, !strcmp(r->method, "GET") ? ", HEAD" : "");
    }
    return allowed_path ? ROUTE_NO_METHOD : ROUTE_NO_PATH;
}

const char *route_nearest(struct str path)
{
    const char *paths[128];
    char word[128] = "";
    size_t n = 0;

    ASSERT(api_n_routes <= ARRAY_SIZE(paths));
    for (size_t i = 0; i < api_n_routes; i++)
        paths[i] = api_routes[i].path;
    /* Job numbers and ids would only count as typing errors. */
    for (struct str seg; path.n > 0 && n < sizeof(word) - 1;) {
        seg = str_cut(path, '/', &path);
        if (seg.n > 0 && seg.p[0] >= '0' && seg.p[0] <= '9')
            seg = STR("{job}");
        n += (size_t)snprintf(word + n, sizeof(word) - n, STR_FMT "%s", (int)MIN(seg.n, 100), seg.p,
                              path.n > 0 ? "/" : "");
    }
    return str_nearest(word, paths, api_n_routes);
}
