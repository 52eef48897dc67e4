"""A submitted job, seen from the script that submitted it."""

import time

from . import _http, _say

FINAL = ("completed", "failed")
PATIENCE_S = 15.0
NAP_S = 0.25


class Deployment:
    """What submit() returns.  Every call asks the scheduler; nothing is remembered but the id."""

    def __init__(self, job_id, server, project):
        self._id, self._server, self._project = job_id, server, project

    def __repr__(self):
        return "<foundations job %s of project %s>" % (self._id, self._project)

    def job_name(self):
        """The id of the job."""
        return self._id

    # ---- state ----

    def get_true_job_status(self):
        """queued, pending, running, completed or failed; None when the scheduler does not know it."""
        return self._facts().get("status")

    def _facts(self):
        try:
            return self._server.json("GET", "/jobs/%s?logs=0" % self._id)
        except _http.Refused as e:
            if e.status == 404:
                return {}
            raise

    def get_job_status(self):
        """As get_true_job_status, with failed told as completed and pending as queued."""
        status = self.get_true_job_status()
        return {"failed": "completed", "pending": "queued"}.get(status, status)

    def is_job_complete(self):
        return self.get_true_job_status() in FINAL

    # ---- logs ----

    def get_job_logs(self):
        """The log so far, as text."""
        return self._server.call("GET", "/jobs/%s/logs?offset=0" % self._id).decode("utf-8", "replace")

    def _pieces(self, on_reason=None):
        """Bytes of the log as they come, until the job has ended; a restart of the server is waited out.

        on_reason gets why a job that does nothing more has not ended: its archive waits for space.
        """
        at, lost_since, looks = 0, None, 0
        while True:
            before = at
            try:
                conn, reply = self._server.open(
                    "GET", "/jobs/%s/logs?offset=%d&follow=1" % (self._id, at), timeout=None
                )
                try:
                    while reply.status == 200:
                        data = reply.read1(65536) if hasattr(reply, "read1") else reply.read(1)
                        if not data:
                            break
                        at += len(data)
                        yield data
                finally:
                    conn.close()
            except Exception as e:
                if isinstance(e, (ValueError, TypeError)):
                    raise
            try:
                facts = self._facts()
                status, lost_since = facts.get("status"), None
                if on_reason and status == "running" and facts.get("reason"):
                    on_reason(facts["reason"])
            except Exception:
                lost_since = lost_since or time.monotonic()
                if time.monotonic() - lost_since > PATIENCE_S:
                    return
                time.sleep(NAP_S)
                continue
            looks = looks + 1 if status is None else 0
            if looks >= 3 or (status in FINAL and at == before):
                return
            if status not in FINAL:
                time.sleep(NAP_S)

    def stream_job_logs(self):
        """An iterator of the lines of the log, as the job writes them."""
        left = b""
        for data in self._pieces():
            lines = (left + data).split(b"\n")
            left = lines.pop()
            for line in lines:
                yield line.decode("utf-8", "replace")
        if left:
            yield left.decode("utf-8", "replace")

    def _show(self):
        """What the command line shows after a submission."""
        _say.info("Job queued. Ctrl-C to stop streaming - job will not be interrupted or cancelled.")
        last, told = b"\n", set()

        def tell(reason):
            if reason not in told:
                _say.warning("Job '%s': %s" % (self._id, reason))
            told.add(reason)

        try:
            for data in self._pieces(tell):
                if last == b"\n" and data and not getattr(self, "_spoke", False):
                    _say.info("Job running, streaming logs.")
                    self._spoke = True
                _say.raw(data)
                last = data[-1:]
        except KeyboardInterrupt:
            return
        if last != b"\n":
            _say.raw(b"\n")
        try:
            status = self.get_true_job_status()
        except Exception:
            status = "unknown"
        if status == "completed":
            _say.info("Job '%s' has completed." % self._id)
        elif status == "failed":
            _say.error("Job '%s' has failed." % self._id)
        elif status is None:
            _say.info("Job '%s' cannot be found any more; it was possibly removed from the queue." % self._id)
        elif status == "unknown":
            _say.warning(
                "The status of job '%s' is unknown: the scheduler does not tell; try "
                "`foundations get logs` later." % self._id
            )
        else:
            _say.info(
                "Job '%s' is still running; `foundations get logs` shows the rest of its log." % self._id
            )

    # ---- waiting, results ----

    def wait_for_deployment_to_complete(self, wait_seconds=5, log_output=True):
        """Returns when the job has ended; looks every `wait_seconds`."""
        while True:
            status = self.get_job_status()
            if status is None:
                raise KeyError("job %s is not known to the scheduler any more" % self._id)
            if status == "completed":
                break
            if log_output:
                _say.info("Job '%s' is %s; waiting for it to complete." % (self._id, status))
            time.sleep(wait_seconds)
        if log_output:
            true = self.get_true_job_status()
            _say.info("Job '%s' has %s." % (self._id, "failed" if true == "failed" else "completed"))

    def get_job_details(self, wait_seconds=5):
        """What the tracker knows of the job once it has ended: a dict with its parameters, metrics
        (last values) and tags (keys)."""
        self.wait_for_deployment_to_complete(wait_seconds, log_output=False)
        job = find_job(self._server, self._project, self._id)
        details = fixed_columns(job)
        details["parameters"] = {p["name"]: p["value"] for p in job.get("job_parameters") or []}
        details["metrics"] = last_metrics(job)
        return details

    def get_metric(self, name, wait_seconds=5):
        """The last value of a metric, once the job has ended; KeyError when it has none of that name."""
        return self.get_job_details(wait_seconds)["metrics"][name]

    def get_param(self, name, wait_seconds=5):
        """The value of a parameter, once the job has ended; KeyError when it has none of that name."""
        return self.get_job_details(wait_seconds)["parameters"][name]


def listing(server, project, query=""):
    """The tracker's list of a project's jobs."""
    return server.json("GET", "/api/v2beta/projects/%s/job_listing%s" % (_http.quoted(project), query))["jobs"]


def find_job(server, project, job_id):
    for job in listing(server, project, "?job_id=" + job_id):
        if job.get("job_id") == job_id:
            return job
    raise KeyError("job %s is not in project %s" % (job_id, project))


def fixed_columns(job):
    return {
        "project_name": job.get("project"), "job_id": job.get("job_id"), "user": job.get("user"),
        "status": job.get("status"), "start_time": job.get("start_time"), "completed_time": job.get("completed_time"),
        "creation_time": job.get("creation_time"), "tags": list(job.get("tags") or {}),
    }


def last_metrics(job):
    last = {}
    for metric in job.get("output_metrics") or []:
        value = metric["value"]
        last[metric["name"]] = value[-1] if isinstance(value, list) and value else value
    return last
