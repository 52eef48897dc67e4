"""submit(): a directory becomes a job of a scheduler.

The same steps, checks and lines as ``foundations submit``.  Nothing of the process is changed (no
chdir, no environment), so it works from several threads and from inside a job.
"""

import os
import shlex
import uuid

from . import _bundle, _conf, _http, _say, _state
from .deployment import Deployment

_SIZES = (500, 100, 50)


def submit(**kwargs):
    """Submits a job and returns its deployment.

    Keys: ``scheduler_config`` ("scheduler"), ``job_directory`` (the current one; ``job_dir`` too),
    ``command`` (a list, or one string that is split as a shell would), ``params``, ``project_name``,
    ``entrypoint``, ``num_gpus``, ``ram``, ``stream_job_logs`` (False).

    >>> foundations.submit(command=["main.py"], params={"epochs": 5})    # doctest: +SKIP
    """
    known = {
        "scheduler_config", "job_directory", "job_dir", "command", "params", "project_name", "entrypoint", "num_gpus",
        "ram", "stream_job_logs",
    }
    for key in kwargs:
        if key not in known:
            raise TypeError(
                "submit() got an unexpected keyword argument '%s'; it takes %s" % (key, ", ".join(sorted(known)))
            )
    directory = kwargs.get("job_directory") or kwargs.get("job_dir") or os.getcwd()
    directory = os.path.realpath(os.fspath(directory))
    if not os.path.isdir(directory):
        raise _conf.ConfigError("cannot enter job directory `%s`: there is no such directory" % directory)
    _conf.make_home()
    conf = _conf.submission(kwargs.get("scheduler_config") or "scheduler", directory)
    job = _Job(directory, conf, kwargs)
    server = _http.Server(conf["scheduler_url"], _conf.token())
    _send(server, job)
    deployment = Deployment(job.id, server, job.project)
    if kwargs.get("stream_job_logs") and os.environ.get("DISABLE_LOG_STREAMING", "False") == "False":
        deployment._show()
    return deployment


class _Job:
    """What is submitted: job.config.yaml with the arguments laid over it."""

    def __init__(self, directory, conf, given):
        path = os.path.join(directory, "job.config.yaml")
        config = _conf.read(path, _conf.JOB_KEYS) if os.path.isfile(path) else {}
        if config.get("log_level"):
            _say.set_level(config["log_level"])
        self.id = str(uuid.uuid4())
        self.directory = directory
        self.project = (
            given.get("project_name") or _state.project_name or config.get("project_name")
            or os.path.basename(directory) or "default"
        )
        self.params = given.get("params")
        if self.params is None:
            self.params = config.get("params")
        self.user = _user()
        self.metadata = {"project_name": self.project, "username": self.user}
        if conf.get("job_notification_channel"):
            self.metadata["job_notification_channel"] = conf["job_notification_channel"]
        self.num_gpus = _conf.gpu_count(_first(given.get("num_gpus"), _state.num_gpus, config.get("num_gpus"), 0))
        worker = dict(conf.get("worker") or {})
        worker.update(config.get("worker") or {})
        self.spec = self._spec(worker, config, given)

    def _spec(self, worker, config, given):
        spec = {k: v for k, v in worker.items() if k in _conf.SPEC_KEYS and v is not None}
        entrypoint = _first(given.get("entrypoint"), config.get("entrypoint"), worker.get("entrypoint"))
        if entrypoint is not None:
            spec["entrypoint"] = _words(entrypoint)
        if worker.get("environment"):
            spec["environment"] = _conf.environment_map(worker["environment"])
        ram = _first(given.get("ram"), _state.ram, config.get("ram"))
        if ram is not None:
            spec["mem_limit"] = _conf.ram_bytes(ram)
        spec["command"] = self._command(given.get("command"), worker)
        self._check_command(spec)
        return spec

    def _command(self, command, worker):
        return _words(command or worker.get("command") or worker.get("args") or [])

    def _check_command(self, spec):
        command, image = spec["command"], spec.get("image")
        if not command:
            _say.warning("No command was specified.")
        elif not (image and not _conf.STANDARD_IMAGE.search(image)):
            if not os.path.isfile(os.path.join(self.directory, command[0])):
                _say.warning(
                    "`%s`, the first word of the command, is not a file in %s; this may be a mistake."
                    % (command[0], self.directory)
                )


def _words(value):
    """A text as a shell would cut it, or a list."""
    if isinstance(value, str):
        return shlex.split(value)
    return [os.fspath(w) if hasattr(w, "__fspath__") else str(w) for w in value]


def _first(*values):
    return next((v for v in values if v is not None), None)


def _user():
    """The name inside the token of a login."""
    import base64
    import json

    try:
        payload = _conf.token().split(".")[1]
        data = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)).decode("utf-8"))
        return data["preferred_username"] or "CE User"
    except Exception:
        return "CE User"


def _send(server, job):
    """Up to the moment the scheduler has the job; anything before it leaves nothing behind."""
    uploaded = False
    _say.info("Job submission started. Ctrl-C to cancel.")
    try:
        server.call("GET", "/")
        _say.info("Preparing to bundle contents of %s for execution. Estimating bundle size." % job.directory)
        size = _bundle.estimate(job.directory)
        for bound in _SIZES:
            if size > bound << 20:
                _say.warning(
                    "Directory size is larger than %dMB! Name what the job does not need in a "
                    ".foundationsignore file, or keep it elsewhere. Ctrl-C to cancel." % bound
                )
                break
        _say.info("Bundling job contents.")
        uploaded = True
        _bundle.upload(server, _bundle.Bundle(job.id, job.directory, job.project, job.user, job.params), size)
        server.call("POST", "/queued_jobs", {
            "job_id": job.id, "spec": job.spec, "metadata": job.metadata, "gpu_spec": {"num_gpus": job.num_gpus},
        })
    except BaseException:
        if uploaded:
            try:
                server.call("DELETE", "/job_bundle/" + job.id, timeout=5)
            except Exception:
                pass
        raise
    _say.info("Job submitted with ID '%s'." % job.id)
