"""A batch of jobs, described in Python instead of in a file."""

import fcntl
import json
import os
import pathlib
import struct
import time
import uuid


class ShellJob:
    STATUS_INIT = "init"
    STATUS_RUNNING = "running"
    STATUS_SUCCEED = "succeed"
    STATUS_FAILED = "failed"
    FINAL_STATUS = (STATUS_SUCCEED, STATUS_FAILED)

    def __init__(self, name, params=None, resource=None, working_dir=None, assets=None, batch=None):
        self.name = name
        self.params = {} if params is None else params
        self.resource = resource
        self.batch = batch
        self.working_dir = working_dir
        self.assets = [] if assets is None else list(assets)
        self.status = self.STATUS_INIT
        self.start_datetime = None
        self.end_datetime = None
        self.ext = {}

    @property
    def data_dir_path(self):
        return self.batch.data_dir_path / self.name

    @property
    def elapsed(self):
        """Seconds; None before it starts."""
        if self.start_datetime is None:
            return None
        return (self.end_datetime or time.time()) - self.start_datetime

    def to_dict(self):
        d = {"name": self.name, "params": self.params, "resource": self.resource}
        if self.working_dir is not None:
            d["working_dir"] = str(self.working_dir)
        d["assets"] = [str(a) for a in self.assets]
        return d

    # -- what the files of the batch say --
    def restore(self):
        marks = [s for s in self.FINAL_STATUS if os.path.exists(self.batch.marker(self, s))]
        if len(marks) > 1:
            raise ValueError("Invalid status, multiple status files exists: %s" % ", ".join("%s.%s" % (self.name, m) for m in marks))
        self.status = marks[0] if marks else self.STATUS_INIT
        if not marks:
            return
        try:
            with open(self.batch.marker(self, "json"), encoding="utf-8") as f:
                state = json.load(f)
        except (OSError, ValueError):
            return
        self.start_datetime = state.get("start_datetime")
        self.end_datetime = state.get("end_datetime")
        self.ext = state.get("ext") or {}

    def __repr__(self):
        return "<job %s: %s>" % (self.name, self.status)


class Batch:
    STATUS_NOT_START = "NOT_START"
    STATUS_RUNNING = "RUNNING"
    STATUS_FINISHED = "FINISHED"
    FILE_CONFIG = "config.json"
    FILE_PID = "server.pid"

    def __init__(self, *, name=None, job_command=None, data_dir):
        self.name = name or uuid.uuid4().hex[:8]
        self.job_command = job_command
        self.data_dir = data_dir
        self.data_dir_path = pathlib.Path(data_dir).absolute()
        self.portal = None
        self.start_time = None
        self.end_time = None
        self._jobs = []

    # -- jobs --
    def add_job(self, name, **kwargs):
        """`params`, `working_dir`, `assets` and `resource` as keywords."""
        assert self.get_job_by_name(name) is None, "job %s is already exists" % name
        job = ShellJob(name, batch=self, **kwargs)
        self._jobs.append(job)
        return job

    @property
    def jobs(self):
        return self._jobs

    def get_job_by_name(self, job_name):
        return next((j for j in self._jobs if j.name == job_name), None)

    # -- state --
    def marker(self, job, end):
        return os.path.join(self.data_dir_path, "%s.%s" % (job.name, end))

    def restore(self):
        for job in self._jobs:
            job.restore()

    def pid(self):
        """Who ran it last; None when nobody did."""
        try:
            with open(os.path.join(self.data_dir_path, self.FILE_PID)) as f:
                return int(f.read())
        except (OSError, ValueError):
            return None

    def _is_owned(self):
        try:
            with open(os.path.join(self.data_dir_path, ".hyperctl", "lock"), "rb+") as f:
                ask = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
                return struct.unpack("hhqqi4x", fcntl.fcntl(f, fcntl.F_GETLK, ask))[0] != fcntl.F_UNLCK
        except OSError:
            return False

    def status(self):
        if self.pid() is None:
            return self.STATUS_NOT_START
        return self.STATUS_RUNNING if self._is_owned() else self.STATUS_FINISHED

    def is_finished(self):
        return all(j.status in ShellJob.FINAL_STATUS for j in self._jobs)

    @property
    def elapsed(self):
        """Seconds; None before it starts."""
        if self.start_time is None:
            return None
        return (self.end_time or time.time()) - self.start_time

    def summary(self):
        def count(status):
            return sum(1 for j in self._jobs if j.status == status)

        return {
            "name": self.name,
            "status": self.status(),
            "total": len(self._jobs),
            ShellJob.STATUS_FAILED: count(ShellJob.STATUS_FAILED),
            ShellJob.STATUS_INIT: count(ShellJob.STATUS_INIT),
            ShellJob.STATUS_SUCCEED: count(ShellJob.STATUS_SUCCEED),
            ShellJob.STATUS_RUNNING: count(ShellJob.STATUS_RUNNING),
        }

    def to_config(self):
        config = {"jobs": [j.to_dict() for j in self._jobs], "name": self.name}
        if self.job_command is not None:
            config["job_command"] = self.job_command
        return config
