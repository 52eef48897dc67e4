"""Runs a `Batch`: the program ``hyperctl`` does it, and tells this process what happens, line by line.

(The module's name is spelled as programs import it.)
"""

import json
import logging
import os
import shutil
import subprocess
import tempfile
import threading
import time

from .. import __version__
from .batch import Batch, ShellJob

logger = logging.getLogger(__name__)


def _program():
    """The words that start hyperctl."""
    named = os.environ.get("HYPERCTL")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    beside = os.path.normpath(os.path.join(here, *[os.pardir] * 5, "bin", "berth"))
    for found in (shutil.which("hyperctl"), shutil.which("berth"), beside):
        if found and os.access(found, os.X_OK):
            return [found] if os.path.basename(found) == "hyperctl" else [found, "hyperctl"]
    raise FileNotFoundError("the program hyperctl is not on the PATH; install it, or name it in HYPERCTL")


class Executor:
    """What runs a job, as callbacks get it."""

    def __init__(self, job):
        self.job = job

    def status(self):
        return self.job.status


class _Scheduler:
    """How many jobs had ended before this run, and how many this run started."""

    def __init__(self):
        self.n_skipped = 0
        self.n_allocated = 0


class BatchApplication:
    def __init__(self, batch, server_host="localhost", server_port=8060, scheduler_exit_on_finish=True,
                 scheduler_interval=5000, scheduler_callbacks=None, scheduler_signal_file=None, independent_tmp=True,
                 backend_conf=None, **kwargs):
        self.batch = batch
        self.server_host = server_host
        self.server_port = server_port
        self.exit_on_finish = scheduler_exit_on_finish
        self.interval = scheduler_interval
        self.callbacks = list(scheduler_callbacks or [])
        self.signal_file = scheduler_signal_file
        self.independent_tmp = independent_tmp
        self.backend_conf = backend_conf
        self.job_scheduler = _Scheduler()
        self._process = None
        self._control = None
        self._lock = threading.Lock()

    # -- descriptions --
    @property
    def portal(self):
        return "http://%s:%s" % (self.server_host, self.server_port)

    def to_config(self):
        config = self.batch.to_config()
        config["server"] = {"host": self.server_host, "port": self.server_port}
        config["scheduler"] = {"interval": self.interval, "exit_on_finish": self.exit_on_finish}
        if self.signal_file is not None:
            config["scheduler"]["signal_file"] = str(self.signal_file)
        config["independent_tmp"] = self.independent_tmp
        if self.backend_conf is not None:
            config["backend"] = self.backend_conf
        config["version"] = __version__
        return config

    def summary_batch(self):
        summary = self.batch.summary()
        summary["portal"] = self.portal
        return summary

    @staticmethod
    def load(config_dict, batch_dir):
        """The application a batch file describes; every job gets the batch's command."""
        batch = Batch(name=config_dict.get("name"), job_command=config_dict.get("job_command"), data_dir=batch_dir)
        commands = {}
        for d in config_dict["jobs"]:
            job = batch.add_job(d["name"], params=d.get("params"), resource=d.get("resource"),
                                working_dir=d.get("working_dir"), assets=d.get("assets"))
            commands[job.name] = d.get("command")
        server, scheduler = config_dict.get("server") or {}, config_dict.get("scheduler") or {}
        app = BatchApplication(batch, server_host=server.get("host", "localhost"), server_port=server.get("port", 8060),
                               scheduler_exit_on_finish=scheduler.get("exit_on_finish", True),
                               scheduler_interval=scheduler.get("interval", 5000),
                               scheduler_signal_file=scheduler.get("signal_file"),
                               independent_tmp=config_dict.get("independent_tmp", True),
                               backend_conf=config_dict.get("backend"))
        app._commands = commands
        return app

    _commands = {}

    def _file(self):
        """A batch file with this application's settings; it may hold passwords, so it is ours alone and short-lived."""
        config = self.to_config()
        for job in config["jobs"]:
            if self._commands.get(job["name"]):
                job["command"] = self._commands[job["name"]]
        fd, path = tempfile.mkstemp(prefix="hyperctl-", suffix=".json")
        with os.fdopen(fd, "w", encoding="utf-8") as f:
            json.dump(config, f)
        return path

    # -- running --
    def start(self):
        """Blocks until all jobs have ended; with scheduler_exit_on_finish False until `stop`."""
        path = self._file()
        events, write_end = os.pipe()
        control, self._control = os.pipe()
        try:
            with self._lock:
                self._process = subprocess.Popen(
                    _program() + ["run", "--config", path, "--batch-dir", str(self.batch.data_dir_path),
                                  "--events-fd", str(write_end), "--control-fd", str(control)],
                    pass_fds=(write_end, control))
        finally:
            os.close(write_end)
            os.close(control)
        try:
            with os.fdopen(events, encoding="utf-8") as lines:
                ended = self._follow(lines, path)
        except BaseException:
            self._end()
            raise
        finally:
            if os.path.exists(path):
                os.unlink(path)
        if not ended and not self._stopped():
            raise RuntimeError("hyperctl ended with status %s" % self._process.wait())

    def _follow(self, lines, path):
        """True when the batch finished."""
        for line in lines:
            event = json.loads(line)
            kind = event["event"]
            if kind == "start":
                os.unlink(path)
                self._on_start(event)
            elif kind == "finish":
                self.batch.end_time = self.batch.start_time + event["elapsed"]
                for c in self.callbacks:
                    c.on_finish(self.batch, event["elapsed"])
                if self.exit_on_finish:
                    return True
            else:
                self._on_job(kind, event)
        return self.batch.is_finished()

    def _on_start(self, event):
        self.batch.start_time = time.time()
        self.batch.portal = event["portal"]
        self.server_port = event["port"]
        self.batch.restore()
        self.job_scheduler.n_skipped = sum(1 for j in self.batch.jobs if j.status in ShellJob.FINAL_STATUS)
        for c in self.callbacks:
            c.on_start(self.batch)
        os.write(self._control, b"go\n")

    def _on_job(self, kind, event):
        job = self.batch.get_job_by_name(event["job"])
        if job is None:
            return
        job.status = event["status"]
        job.start_datetime = event["started_ms"] / 1000 if event["started_ms"] else None
        job.end_datetime = event["ended_ms"] / 1000 if event["ended_ms"] else None
        job.ext = event.get("ext") or {}
        if kind == "job_start":
            self.job_scheduler.n_allocated += 1
            self._call("on_job_start", job, Executor(job))
        elif kind in ("job_succeed", "job_failed"):
            self._call("on_" + kind, job, Executor(job), job.elapsed)
        elif kind == "job_break":
            self._call("on_job_break", job, RuntimeError(event["error"]))

    def _call(self, hook, *args):
        for c in self.callbacks:
            try:
                getattr(c, hook)(self.batch, *args)
            except Exception:  # a hook that fails must not end the batch
                logger.exception("%s of %s failed", hook, type(c).__name__)

    # -- ending --
    def _stopped(self):
        return self._control is None

    def _end(self):
        with self._lock:
            control, self._control = self._control, None
        if control is not None:
            os.close(control)
        self._process.wait()

    def stop(self):
        """Ends what still runs and closes the port; from any thread."""
        if self._process is None:
            raise RuntimeError("the batch was never started")
        self._end()
