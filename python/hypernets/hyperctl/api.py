"""Questions to the HTTP port of a batch.  Prints nothing: a job's output is the job's."""

import json
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request

from . import consts

_injected = None  # (params, directory) of a developer at work

# The port is on this machine or a neighbour's: a proxy for the outside world is never the way there.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _base(portal):
    portal = portal.rstrip("/")
    return portal if portal.endswith("/hyperctl") else portal + "/hyperctl"


def _fetch(url, method="GET"):
    request = urllib.request.Request(url, method=method, data=b"" if method == "POST" else None)
    try:
        with _opener.open(request) as reply:
            text = reply.read().decode("utf-8")
    except urllib.error.HTTPError as e:
        raise RuntimeError(e.read().decode("utf-8", "replace")) from e
    answer = json.loads(text)
    if answer["code"] != 0:
        raise RuntimeError(text)
    return answer["data"]


def _job_url(portal, job_name):
    return "%s/api/job/%s" % (_base(portal), urllib.parse.quote(job_name, safe=""))


def get_job(job_name, api_server_portal):
    """The job as the batch knows it."""
    return _fetch(_job_url(api_server_portal, job_name))


def list_jobs(api_server_portal):
    """All jobs of the batch."""
    assert api_server_portal
    return _fetch(_base(api_server_portal) + "/api/job")["jobs"]


def kill_job(api_server_portal, job_name):
    """Ends a running job; returns when nothing of it is left."""
    return _fetch(_job_url(api_server_portal, job_name) + "/kill", method="POST")


def _params_of_file():
    path = os.environ.get(consts.KEY_ENV_JOB_PARAMS_FILE)
    if not path or not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def get_job_params():
    """The parameters of the job this runs in, as a dict.

    They never change, so the copy beside the job's script will do: it is there on machines that cannot reach the port,
    and after the process that ran the batch has gone.
    """
    if _injected is not None:
        return _injected[0]
    name, portal = os.environ.get(consts.KEY_ENV_JOB_NAME), os.environ.get(consts.KEY_ENV_SERVER_PORTAL)
    assert name, "%s is not set: this does not run as a job of hyperctl" % consts.KEY_ENV_JOB_NAME
    params = _params_of_file()
    if params is not None:
        return params
    if not portal:
        raise urllib.error.URLError("%s is not set" % consts.KEY_ENV_SERVER_PORTAL)
    return get_job(name, portal)["params"]


def get_job_data_dir():
    """Where the job's output files are; None outside a job."""
    if _injected is not None:
        return _injected[1]
    return os.environ.get(consts.KEY_ENV_JOB_DATA_DIR)


def get_job_working_dir():
    """Where the job was started; None outside a job."""
    if _injected is not None:
        return _injected[1]
    return os.environ.get(consts.KEY_ENV_JOB_WORKING_DIR)


def inject(params, job_data_dir=None):
    """While developing: `get_job_params()` answers `params`, with no batch and no server."""
    global _injected
    if job_data_dir is None:
        job_data_dir = tempfile.mkdtemp(prefix="hyperctl-")
    _injected = (params, job_data_dir)


def reset_dev_params():
    """Undoes `inject`."""
    global _injected
    _injected = None
