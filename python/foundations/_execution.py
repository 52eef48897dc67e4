"""Execution mode: ``python main.py`` as a tracked job.

Importing the module announces the script to the server and reports go the way those of scheduled jobs
go.  At the end the directory is archived and the job is completed, or failed after an exception
nobody caught or an exit with another status than 0.  Whatever goes wrong on the way is one WARNING; the
script runs as it would have.
"""

import atexit
import getpass
import os
import shutil
import stat
import sys
import tempfile
import threading
import uuid
from urllib.parse import urlsplit

from . import _berth, _bundle, _conf, _http, _job, _say
from ._ignore import Ignore

ANSWER_S = 3.0  #: how long a server may take before the script goes on without it
FLUSH_S = 5.0  #: how long the end waits for the last reports to be taken
ARCHIVE_MAX = 500 << 20  #: a directory larger than this stays where it is


def begin():
    """Makes this process a job, or says why not."""
    conf = _conf.execution()
    if conf is None:
        _without("there is no execution config in %s/config/execution" % _conf.home())
        return
    if isinstance(conf.get("log_level"), str):
        _say.set_level(conf["log_level"])
    results = conf.get("results_config")
    results = results if isinstance(results, dict) else {}
    url = results.get("tracker_url")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        _without("results_config.tracker_url of the execution config names no server")
        return
    try:
        _Tracked(_server(url, results), results.get("archive_end_point")).start()
    except (OSError, RuntimeError, ValueError) as e:
        _without(str(e))


class _LocalServer(_http.Server):
    """The server of this home, over its socket: it knows who asks, and sees when this process dies."""

    def __init__(self, url, path):
        super().__init__(url)
        self.socket = path

    def connection(self, timeout=_http.TIMEOUT_S):
        return _berth.http_module().UnixConnection(self.socket, timeout)


def _server(url, results):
    server = _http.Server(url, _conf.token())
    local = urlsplit(server.url).hostname in ("localhost", "127.0.0.1", "::1")
    mine = results.get("archive_end_point") in (None, os.path.join(_conf.home(), "job_data"))
    path = os.path.join(_conf.home(), "database", "sock")
    return _LocalServer(url, path) if local and mine and os.path.exists(path) else server


def _without(why):
    _job.quiet = _job.untracked = True
    _say.notice("This script is not tracked and runs as usual: %s" % why)


class _Tracked:
    def __init__(self, server, results):
        self.server = server
        self.results = results if isinstance(results, str) else None
        self.dir = os.getcwd()
        self.pid = os.getpid()
        self.failed = None
        self.run_dir = self.own_dir = None

    def start(self):
        job_id = os.environ.get("FOUNDATIONS_JOB_ID") or str(uuid.uuid4())
        project = (
            os.environ.get("FOUNDATIONS_PROJECT_NAME") or os.environ.get("PROJECT_NAME")
            or os.path.basename(self.dir) or "default"
        )
        reply = self.server.json("POST", "/v1/outside", {
            "id": job_id, "project": project, "name": os.path.basename(sys.argv[0] or "python") or "python",
            "user": user(), "cwd": self.dir, "pid": self.pid, "command": [sys.executable] + sys.argv,
        }, timeout=ANSWER_S)
        self.run_dir = reply.get("run_dir") or ""
        if not os.access(os.path.dirname(self.run_dir), os.W_OK):  # a server on another machine
            self.run_dir = self.own_dir = tempfile.mkdtemp(prefix="foundations-run-")
        env = {
            "BERTH_JOB_ID": reply["id"], "BERTH_JOB_NUMBER": str(reply["number"]),
            "BERTH_RUN": "%d.%d" % (reply["number"], reply.get("run", 1)), "BERTH_RUN_DIR": self.run_dir,
            "BERTH_JOB_TOKEN": reply.get("token") or "", "BERTH_OUTSIDE": "1",
        }
        if isinstance(self.server, _LocalServer):
            env["BERTH_SOCKET"] = self.server.socket
        else:
            env["BERTH_URL"] = self.server.url
        self.id = job_id
        spool = _berth.spool_module().Spool(env)
        _job.current = _job.Job(job_id, project, spool, self.files(job_id))
        # Processes this one starts report to the same job.
        os.environ.update(env, FOUNDATIONS_JOB_ID=job_id, FOUNDATIONS_PROJECT_NAME=project)
        self.hook = sys.excepthook
        sys.excepthook = self.on_exception
        self.exits = _berth.exits_module().Exits()
        atexit.register(self.end)
        spool.stop_requested()  # the sender starts, and says that this run lives

    def files(self, job_id):
        """The archive, when it is on this machine; else over HTTP."""
        if self.results and os.access(os.path.join(self.results, "archive"), os.W_OK):
            archive = os.path.join(self.results, "archive", job_id)
            os.environ["FOUNDATIONS_JOB_ARCHIVE"] = archive
            return _job.LocalFiles(archive)
        return RemoteFiles(self.server, job_id)

    def on_exception(self, kind, value, trace):
        self.failed = "%s: %s" % (kind.__name__, value)
        self.hook(kind, value, trace)

    def end(self):
        if os.getpid() != self.pid:
            return  # a forked child that ends like a script
        job = _job.current
        try:
            self.archive(job)
        except Exception as e:
            _say.notice("the directory was not archived: %s" % e)
        status = 1 if self.failed else self.exits.status()
        try:
            job.spool.end(status, self.failed or ("exit status %d" % status if status else ""))
            if not job.spool.flush(FLUSH_S):
                _say.notice("the last reports of this script did not reach the server; they are in %s" % self.run_dir)
                return
            job.spool.close()
        except Exception as e:
            _say.notice("the end of this script was not reported: %r" % (e,))
            return
        if self.own_dir:
            shutil.rmtree(self.own_dir, ignore_errors=True)

    def archive(self, job):
        if self.dir in ("/", os.path.expanduser("~")):
            _say.notice("%s is no project directory and was not archived" % self.dir)
            return
        ignore = Ignore.load(os.path.join(self.dir, ".foundationsignore"))
        found, size = [], 0
        for path, rel, st in _bundle.walk(self.dir, ignore):
            size += st.st_size if stat.S_ISREG(st.st_mode) else 0
            if size > ARCHIVE_MAX:
                _say.notice(
                    "%s is larger than %dMB and was not archived; name what is not needed in a "
                    ".foundationsignore file" % (self.dir, ARCHIVE_MAX >> 20)
                )
                return
            found.append((path, rel, st))
        for path, rel, st in found:
            if not stat.S_ISREG(st.st_mode):
                continue
            try:
                job.files.keep("artifacts", rel, path)
            except FileNotFoundError:
                pass  # removed since it was found; the others are kept


class RemoteFiles:
    """The job's archive on another machine."""

    def __init__(self, server, job_id):
        self._server, self._id = server, job_id

    def _path(self, job_id, *parts):
        path = "/".join(_http.quoted(p) for part in parts for p in part.split("/") if p)
        return "/api/v2beta/jobs/%s/files/%s" % (_http.quoted(job_id or self._id), path)

    def keep(self, section, name, path):
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            self._server.call(
                "PUT", self._path(None, section, name), f if size else b"",
                {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
            )
        return section + "/" + name

    def listing(self, job_id, key):
        try:
            rows = self._server.json("GET", self._path(job_id, "synced_directories", key) + "/")
        except _http.Refused as e:
            if e.status == 404:
                return {}
            raise
        return {row["path"]: (row["size"], row["mtime"]) for row in rows}

    def fetch(self, job_id, key, name, target):
        data = self._server.call("GET", self._path(job_id, "synced_directories", key, name))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        part = "%s.%d.%d.part" % (target, os.getpid(), threading.get_ident())
        with open(part, "wb") as f:
            f.write(data)
        os.replace(part, target)


def user():
    """Who runs this script."""
    try:
        return os.environ.get("FOUNDATIONS_USER") or getpass.getuser()
    except Exception:
        return "unknown"
