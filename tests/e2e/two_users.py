"""The table of (route or option) × (caller), with the answer that each caller gets.

script/check_routes.py compares these rows with the tables of routes in src/: a route without a row here
fails the build.  test_two_users.py asks every row of a real daemon.

Callers, in the order of the columns:

  owner      the daemon's user (root), over the unix socket
  submitter  user A, whose jobs, project, queue, hook and schedule the arguments of a path name
  other      user B, who has jobs as well, but none of these
  token      whoever has the token of one running job of A, over TCP; {job} is that job
  site       a page of another site in a browser, over TCP

A number is the status.  `ok` is any answer but a refusal (401, 403, 421) or a failure of the server: the
caller may ask, and hears what is wrong with the arguments.  Everything that A makes has MARK in its name: no
answer to B, and none to a page, may contain it.
"""

MARK = "amark"

# One row: method, path, then the five answers.  A path with "?" is an option of the route before it, in the
# query of a GET, or in the body.
API = """
GET    /healthz                                   200 200 200 200 403
GET    /metrics                                   200 403 403 403 401
GET    /v1                                        200 200 200 403 401
GET    /v1/routes                                 200 200 200 403 401
POST   /v1/session                                201 201 201 403 401
DELETE /v1/session                                204 204 204 403 401
GET    /v1/openapi.yaml                           200 200 200 403 401
GET    /v1/schema/job                             200 200 200 403 401
GET    /v1/schema/sweep                           200 200 200 403 401
POST   /v1/backup                                 200 403 403 403 401
GET    /v1/backup                                 200 403 403 403 401
POST   /v1/jobs                                   201 201 201 403 401
GET    /v1/jobs                                   200 200 200 403 401
GET    /v1/jobs?user=nobody                       200 200 200 403 401
GET    /v1/jobs?project=amark                     200 200 200 403 401
GET    /v1/jobs?queue=amark                       200 200 200 403 401
GET    /v1/jobs?filter=name:amark                 200 200 200 403 401
GET    /v1/jobs?batch=1                           200 200 200 403 401
POST   /v1/jobs?after={job}                       201 201 404 403 401
GET    /v1/jobs/summary                           200 200 200 403 401
POST   /v1/jobs/cancel                            200 200 404 403 401
POST   /v1/jobs/hold                              200 200 404 403 401
POST   /v1/jobs/release                           200 200 404 403 401
POST   /v1/jobs/retry                             200 200 404 403 401
POST   /v1/jobs/remove                            200 200 404 403 401
GET    /v1/jobs/{job}                             200 200 404 200 401
DELETE /v1/jobs/{job}                             204 204 404 403 401
GET    /v1/jobs/{job}/spec                        200 200 404 403 401
GET    /v1/jobs/{job}/explain                     200 200 404 403 401
GET    /v1/jobs/{job}/logs                        200 200 404 200 401
GET    /v1/jobs/{job}/metrics                     200 200 404 403 401
POST   /v1/jobs/{job}/tags                        200 200 404 403 401
DELETE /v1/jobs/{job}/tags                        200 200 404 403 401
GET    /v1/jobs/{job}/notes                       200 200 404 403 401
POST   /v1/jobs/{job}/notes                       200 200 404 403 401
GET    /v1/jobs/{job}/artifacts                   200 200 404 403 401
GET    /v1/jobs/{job}/artifact                    404 404 404 403 401
GET    /v1/jobs/{job}/events                      200 200 404 403 401
GET    /v1/jobs/{job}/control                     200 200 404 200 401
POST   /v1/jobs/{job}/cancel                      200 200 404 403 401
POST   /v1/jobs/{job}/hold                        200 200 404 403 401
POST   /v1/jobs/{job}/release                     200 200 404 403 401
POST   /v1/jobs/{job}/retry                       200 200 404 403 401
POST   /v1/jobs/{job}/reports                     200 200 404 200 401
GET    /v1/jobs/{job}/snapshot                    404 404 404 403 401
POST   /v1/snapshots                              400 400 400 403 401
POST   /v1/snapshots/contents                     200 200 200 403 401
POST   /v1/outside                                201 201 201 403 401
POST   /v1/jobs/{job}/outside_end                 409 409 404 409 401
GET    /v1/events                                 200 200 200 403 401
GET    /v1/events?follow=0&job={job}              200 200 404 403 401
GET    /v1/queues                                 200 200 200 403 401
POST   /v1/queues/{name}/pause                    200 403 403 403 401
POST   /v1/queues/{name}/resume                   200 403 403 403 401
POST   /v1/queues/{name}/keep                     400 403 403 403 401
GET    /v1/nodes                                  200 200 200 403 401
POST   /v1/nodes                                  201 403 403 403 401
GET    /v1/nodes/{name}                           200 200 200 403 401
DELETE /v1/nodes/{name}                           409 403 403 403 401
POST   /v1/nodes/{name}/drain                     200 403 403 403 401
POST   /v1/nodes/{name}/undrain                   200 403 403 403 401
GET    /v1/hooks                                  200 200 200 403 401
POST   /v1/hooks                                  201 201 201 403 401
POST   /v1/hooks?everyone                         201 403 403 403 401
GET    /v1/hooks/{name}                           200 200 404 403 401
PUT    /v1/hooks/{name}                           200 200 404 403 401
DELETE /v1/hooks/{name}                           204 204 404 403 401
POST   /v1/hooks/{name}/pause                     200 200 404 403 401
POST   /v1/hooks/{name}/resume                    200 200 404 403 401
POST   /v1/hooks/{name}/test                      200 200 404 403 401
GET    /v1/studies                                200 200 200 403 401
POST   /v1/studies                                201 201 201 403 401
POST   /v1/studies?from=amark-study               201 201 404 403 401
GET    /v1/studies/{name}                         200 200 404 403 401
GET    /v1/studies/{name}?user=nobody             200 200 404 403 401
PATCH  /v1/studies/{name}                         200 200 404 403 401
DELETE /v1/studies/{name}                         204 204 404 403 401
GET    /v1/studies/{name}/trials                  200 200 404 403 401
POST   /v1/studies/{name}/ask                     200 200 404 403 401
POST   /v1/studies/{name}/tell                    200 200 404 403 401
POST   /v1/studies/{name}/report                  409 409 404 403 401
POST   /v1/studies/{name}/renew                   404 404 404 403 401
POST   /v1/studies/{name}/enqueue                 201 201 404 403 401
GET    /v1/study-logs                             200 200 200 403 401
GET    /v1/study-logs/{name}                      200 200 200 403 401
POST   /v1/study-logs/{name}                      200 200 200 403 401
DELETE /v1/study-logs/{name}                      204 204 204 403 401
GET    /v1/schedules                              200 200 200 403 401
POST   /v1/schedules                              201 201 201 403 401
GET    /v1/schedules/{name}                       200 200 404 403 401
GET    /v1/schedules/{name}?user=nobody           200 200 404 403 401
PUT    /v1/schedules/{name}                       200 200 404 403 401
DELETE /v1/schedules/{name}                       204 204 404 403 401
POST   /v1/schedules/{name}/pause                 200 200 404 403 401
POST   /v1/schedules/{name}/resume                200 200 404 403 401
POST   /v1/schedules/{name}/run                   201 201 404 403 401
GET    /v1/projects                               200 200 200 403 401
GET    /v1/projects/{name}                        200 200 404 403 401
PUT    /v1/projects/{name}                        200 200 404 403 401
GET    /v1/projects/{name}/notes                  200 200 404 403 401
POST   /v1/projects/{name}/notes                  200 200 404 403 401
GET    /v1/batches                                200 200 200 403 401
POST   /v1/shutdown                               202 403 403 403 401
"""

# POST /submit and the rows of scheduler-state on the daemon's own listeners.
GPU = """
POST   /submit                                    400 400 400 403 401
GET    /gpu-scheduler/jobs                        200 200 200 403 401
GET    /gpu-scheduler/jobs?n=1000&all=1           200 200 200 403 401
GET    /gpu-scheduler/jobs/{ref}                  200 200 404 403 401
"""

# Messages of training libraries: the same rows on the library port of loopback, where the kernel says whose
# process asks; here `owner`, `submitter` and `other` connect over TCP.
LIBRARY = """
GET    /has_to_stop/{job}                         200 200 404 200 403
POST   /profiling/{job}                           200 200 404 200 403
POST   /end_epoch/{job}                           200 200 404 200 403
POST   /signal_end/{job}                          200 200 404 200 403
POST   /signal_end_profiling/{job}                200 200 404 200 403
POST   /signal_end_profiling/{job}/{config}       200 200 404 200 403
"""

# An atlas-server of A: everybody connects over TCP to loopback, and `token` is a token of another server.
ATLAS = """
GET    /                                                                 ok  ok 200 200 403
POST   /job_bundle                                                       ok  ok 403 403 403
POST   /job_bundle/contents                                              ok  ok 403 403 403
GET    /job_bundle/{id}                                                  ok  ok 403 403 403
DELETE /job_bundle/{id}                                                  ok  ok 403 403 403
POST   /queued_jobs                                                      ok  ok 403 403 403
GET    /queued_jobs                                                      ok  ok 403 403 403
GET    /queued_jobs/{id}                                                 ok  ok 403 403 403
DELETE /queued_jobs/{id}                                                 ok  ok 403 403 403
PATCH  /queued_jobs/{id}                                                 ok  ok 403 403 403
GET    /running_jobs                                                     ok  ok 403 403 403
GET    /completed_jobs                                                   ok  ok 403 403 403
GET    /failed_jobs                                                      ok  ok 403 403 403
GET    /running_jobs/{id}/logs                                           ok  ok 403 403 403
GET    /completed_jobs/{id}/logs                                         ok  ok 403 403 403
GET    /failed_jobs/{id}/logs                                            ok  ok 403 403 403
GET    /running_jobs/{id}/container_id                                   ok  ok 403 403 403
DELETE /running_jobs/{id}                                                ok  ok 403 403 403
DELETE /completed_jobs/{id}                                              ok  ok 403 403 403
DELETE /failed_jobs/{id}                                                 ok  ok 403 403 403
GET    /jobs/{id}                                                        ok  ok 403 403 403
GET    /jobs/{id}/logs                                                   ok  ok 403 403 403
GET    /workers                                                          ok  ok 403 403 403
POST   /workers                                                          ok  ok 403 403 403
DELETE /workers/{id}                                                     ok  ok 403 403 403
GET    /scheduled_jobs                                                   ok  ok 403 403 403
POST   /scheduled_jobs                                                   ok  ok 403 403 403
GET    /scheduled_jobs/{id}                                              ok  ok 403 403 403
PUT    /scheduled_jobs/{id}                                              ok  ok 403 403 403
PATCH  /scheduled_jobs/{id}                                              ok  ok 403 403 403
DELETE /scheduled_jobs/{id}                                              ok  ok 403 403 403
GET    /archive/{file...}                                                ok  ok 403 403 403
GET    /{file...}                                                        ok  ok 403 403 403
GET    /api/v2beta/jobs/{file...}                                        ok  ok 403 403 403
PUT    /api/v2beta/jobs/{file...}                                        ok  ok 403 403 403
"""

TRACKER = """
GET    /api/v2beta/auth/cli_login                                       401 401 401 401 403
GET    /api/v2beta/auth/login                                           401 401 401 401 403
GET    /api/v2beta/auth/logout                                           ok  ok 200 200 403
GET    /api/v2beta/auth/verify                                          401 401 401 401 403
GET    /auth/cli_login                                                  401 401 401 401 403
GET    /auth/login                                                      401 401 401 401 403
GET    /auth/logout                                                      ok  ok 200 200 403
GET    /auth/verify                                                     401 401 401 401 403
GET    /api/v2beta/projects                                              ok  ok 403 403 403
GET    /api/v2beta/projects/{project}/job_listing                        ok  ok 403 403 403
GET    /api/v2beta/projects/{project}/job_listing/{job}/logs             ok  ok 403 403 403
POST   /api/v2beta/projects/{project}/job_listing/{job}/tags             ok  ok 403 403 403
GET    /api/v2beta/projects/{project}/job_listing/{column}/{way}         ok  ok 403 403 403
DELETE /api/v2beta/projects/{project}/job_listing/{job}                  ok  ok 403 403 403
DELETE /api/v2beta/projects/{project}/job_listing/{job}/tags/{tag}       ok  ok 403 403 403
GET    /api/v2beta/projects/{project}/description                        ok  ok 403 403 403
PUT    /api/v2beta/projects/{project}/description                        ok  ok 403 403 403
GET    /api/v2beta/projects/{project}/note_listing                       ok  ok 403 403 403
POST   /api/v2beta/projects/{project}/note_listing                       ok  ok 403 403 403
GET    /api/v2beta/projects/{project}/overview_metrics                   ok  ok 403 403 403
POST   /api/v2beta/upload_to_tensorboard                                 ok  ok 403 403 403
"""

# A batch of A on loopback; `token` is a token of another batch in front of the path.
HYPERCTL = """
GET    /                                          200 200 403 404 403
GET    /api/job                                   200 200 403 404 403
GET    /api/job/{name}                            200 200 403 404 403
POST   /api/job/{name...}                         200 200 403 404 403
GET    /api/batch                                 200 200 403 404 403
GET    /api/batch/views                           200 200 403 404 403
"""

# The file of each table of routes.
TABLES = {
    "src/api/routes.c": API,
    "src/dialect/gpu/part.c": GPU,
    "src/dialect/gpu/library.c": LIBRARY,
    "src/dialect/atlas/dialect.c": ATLAS,
    "src/dialect/atlas/tracker.c": TRACKER,
    "src/dialect/hyperctl/routes.c": HYPERCTL,
}
# Lists in which A finds MARK: so an empty answer to B proves something.
FULL = ("/v1/jobs", "/v1/events", "/v1/queues", "/v1/hooks", "/v1/schedules", "/v1/studies", "/v1/projects", "/v1/batches",
        "/gpu-scheduler/jobs")
CALLERS = ("owner", "submitter", "other", "token", "site")


def rows(table):
    """[(method, path, {caller: answer})]"""
    out = []
    for line in table.split("\n"):
        if line.strip():
            method, path, *answers = line.split()
            assert len(answers) == len(CALLERS), line
            out.append((method, path, dict(zip(CALLERS, answers))))
    return out
