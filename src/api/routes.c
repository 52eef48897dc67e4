/* routes.c - the table of everything that can be asked under /v1
 *
 * Owns: which method on which path goes to which handler, who may ask, how large a body may be.
 * docs/api/openapi.yaml describes the same table; a test compares the two.
 * request/route.h says how paths are written.
 */
#include "api/api_priv.h"

/* route.arg of two rows with one handler: what is set. */
static const bool yes = true, no = false;

const struct route api_routes[] = {
    {"GET", "/healthz", meta_health, AUTH_PUBLIC},
    {"GET", "/metrics", metrics_get, AUTH_ADMIN},
    {"GET", "/v1", meta_get, AUTH_READ},
    {"GET", "/v1/routes", meta_routes, AUTH_READ},
    {"GET", "/v1/openapi.yaml", meta_openapi, AUTH_READ},
    {"GET", "/v1/schema/job", meta_schema_job, AUTH_READ},
    {"GET", "/v1/schema/sweep", meta_schema_sweep, AUTH_READ},
    {"POST", "/v1/backup", meta_backup, AUTH_ADMIN},
    {"POST", "/v1/shutdown", meta_shutdown, AUTH_ADMIN},

    {"POST", "/v1/jobs", jobs_submit, AUTH_WRITE, API_SUBMIT_BODY_MAX},
    {"GET", "/v1/jobs", jobs_list, AUTH_READ},
    {"GET", "/v1/jobs/summary", jobs_summary, AUTH_READ},
    {"POST", "/v1/jobs/cancel", jobs_act_many, AUTH_WRITE, API_LIST_BODY_MAX, 0, &act_cancel},
    {"POST", "/v1/jobs/hold", jobs_act_many, AUTH_WRITE, API_LIST_BODY_MAX, 0, &act_hold},
    {"POST", "/v1/jobs/release", jobs_act_many, AUTH_WRITE, API_LIST_BODY_MAX, 0, &act_release},
    {"POST", "/v1/jobs/retry", jobs_act_many, AUTH_WRITE, API_LIST_BODY_MAX, 0, &act_retry},
    {"POST", "/v1/jobs/remove", jobs_act_many, AUTH_WRITE, API_LIST_BODY_MAX, 0, &act_remove},

    {"GET", "/v1/jobs/{job}", jobs_get, AUTH_JOB},
    {"DELETE", "/v1/jobs/{job}", jobs_act_one, AUTH_WRITE, 0, 0, &act_delete},
    {"GET", "/v1/jobs/{job}/spec", jobs_spec, AUTH_READ},
    {"GET", "/v1/jobs/{job}/explain", jobs_explain, AUTH_READ},
    {"GET", "/v1/jobs/{job}/logs", logs_get, AUTH_JOB},
    {"GET", "/v1/jobs/{job}/metrics", reports_metrics, AUTH_READ},
    {"POST", "/v1/jobs/{job}/tags", tags_set, AUTH_WRITE},
    {"DELETE", "/v1/jobs/{job}/tags", tags_remove, AUTH_WRITE},
    {"GET", "/v1/jobs/{job}/notes", notes_of_job, AUTH_READ},
    {"POST", "/v1/jobs/{job}/notes", notes_add_to_job, AUTH_WRITE},
    {"GET", "/v1/jobs/{job}/artifacts", artifacts_list, AUTH_READ},
    {"GET", "/v1/jobs/{job}/artifact", artifacts_get, AUTH_READ},
    {"GET", "/v1/jobs/{job}/events", events_of_job, AUTH_READ},
    {"GET", "/v1/jobs/{job}/control", jobs_control, AUTH_JOB},
    {"POST", "/v1/jobs/{job}/cancel", jobs_act_one, AUTH_WRITE, 0, 0, &act_cancel},
    {"POST", "/v1/jobs/{job}/hold", jobs_act_one, AUTH_WRITE, 0, 0, &act_hold},
    {"POST", "/v1/jobs/{job}/release", jobs_act_one, AUTH_WRITE, 0, 0, &act_release},
    {"POST", "/v1/jobs/{job}/retry", jobs_act_one, AUTH_WRITE, 0, 0, &act_retry},
    {"POST", "/v1/jobs/{job}/reports", reports_post, AUTH_JOB, API_REPORT_BODY_MAX},
    {"POST", "/v1/outside", outside_begin, AUTH_WRITE},
    {"POST", "/v1/jobs/{job}/outside_end", outside_end, AUTH_JOB},

    {"GET", "/v1/events", events_get, AUTH_READ},
    {"GET", "/v1/queues", queues_list, AUTH_READ},
    {"POST", "/v1/queues/{name}/pause", queues_set_paused, AUTH_ADMIN, 0, 0, &yes},
    {"POST", "/v1/queues/{name}/resume", queues_set_paused, AUTH_ADMIN, 0, 0, &no},
    {"GET", "/v1/nodes", nodes_list, AUTH_READ},
    {"POST", "/v1/nodes", nodes_add, AUTH_ADMIN},
    {"GET", "/v1/nodes/{name}", nodes_get, AUTH_READ},
    {"DELETE", "/v1/nodes/{name}", nodes_remove, AUTH_ADMIN},
    {"POST", "/v1/nodes/{name}/drain", nodes_set_drained, AUTH_ADMIN, 0, 0, &yes},
    {"POST", "/v1/nodes/{name}/undrain", nodes_set_drained, AUTH_ADMIN, 0, 0, &no},
    {"GET", "/v1/hooks", hooks_list, AUTH_READ},
    {"POST", "/v1/hooks", hooks_define, AUTH_WRITE},
    {"GET", "/v1/hooks/{name}", hooks_get, AUTH_READ},
    {"PUT", "/v1/hooks/{name}", hooks_define, AUTH_WRITE},
    {"DELETE", "/v1/hooks/{name}", hooks_remove, AUTH_WRITE},
    {"POST", "/v1/hooks/{name}/pause", hooks_set_paused, AUTH_WRITE, 0, 0, &yes},
    {"POST", "/v1/hooks/{name}/resume", hooks_set_paused, AUTH_WRITE, 0, 0, &no},
    {"POST", "/v1/hooks/{name}/test", hooks_test, AUTH_WRITE},
    {"GET", "/v1/schedules", schedules_list, AUTH_READ},
    {"POST", "/v1/schedules", schedules_add, AUTH_WRITE, API_LIST_BODY_MAX},
    {"GET", "/v1/schedules/{name}", schedules_get, AUTH_READ},
    {"PUT", "/v1/schedules/{name}", schedules_put, AUTH_WRITE, API_LIST_BODY_MAX},
    {"DELETE", "/v1/schedules/{name}", schedules_remove, AUTH_WRITE},
    {"POST", "/v1/schedules/{name}/pause", schedules_set_paused, AUTH_WRITE, 0, 0, &yes},
    {"POST", "/v1/schedules/{name}/resume", schedules_set_paused, AUTH_WRITE, 0, 0, &no},
    {"POST", "/v1/schedules/{name}/run", schedules_run, AUTH_WRITE},
    {"GET", "/v1/projects", projects_list, AUTH_READ},
    {"GET", "/v1/projects/{name}", project_get, AUTH_READ},
    {"PUT", "/v1/projects/{name}", project_describe, AUTH_WRITE},
    {"GET", "/v1/projects/{name}/notes", notes_of_project, AUTH_READ},
    {"POST", "/v1/projects/{name}/notes", notes_add_to_project, AUTH_WRITE},
    {"GET", "/v1/batches", batches_list, AUTH_READ},
};
const size_t api_n_routes = ARRAY_SIZE(api_routes);
