"""get_metrics_for_all_jobs(): a project as a table."""

from . import _conf, _http
from .deployment import fixed_columns, last_metrics, listing


def tracker():
    """The server that knows about jobs: of the execution config, else of the default scheduler."""
    conf = _conf.execution() or {}
    results = conf.get("results_config")
    url = results.get("tracker_url") if isinstance(results, dict) else None
    if not isinstance(url, str) or not url:
        import os

        url = _conf.submission("scheduler", os.getcwd())["scheduler_url"]
    return _http.Server(url, _conf.token())


def _row(job):
    row = fixed_columns(job)
    metrics = last_metrics(job)
    for p in job.get("job_parameters") or []:
        name = p["name"]
        row["param_" + name if name in metrics or name in row else name] = p["value"]
    for name, value in metrics.items():
        row["metric_" + name if name in ("project_name", "job_id", "user", "status", "start_time", "completed_time",
                                         "creation_time", "tags") else name] = value
    for key, value in (job.get("tags") or {}).items():
        row["tag_" + key] = value
    return row


def get_metrics_for_all_jobs(project_name, as_dicts=False):
    """One row per job of the project: what it is, its parameters, the last value of each metric, its
    tags.  A pandas DataFrame, or with ``as_dicts=True`` a list of dicts, which needs no pandas."""
    try:
        rows = [_row(job) for job in listing(tracker(), project_name)]
    except _http.Refused as e:
        if e.status == 404:
            raise ValueError("Project `%s` does not exist" % project_name)
        raise
    if as_dicts:
        return rows
    try:
        import pandas
    except ImportError:
        raise ImportError(
            "get_metrics_for_all_jobs needs pandas for a DataFrame; install it, or ask for a list with as_dicts=True"
        )
    return pandas.DataFrame(rows)
