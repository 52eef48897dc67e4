"""A process that the scheduler did not start becomes a job: notebooks, scripts run by hand.

Owns: telling the daemon of this process and how it ends.  Everything in between is what a job does
(_inside.py): the variables a job would find are set, so children report too.

Rules:

* No daemon, no job, one warning, and the script goes on.  The end is the last line of the spool and
  a request; whichever the daemon sees first counts, and a killed process is noticed by its pid.
* A process is one job at a time.  track() ends the job before it, unless that one is the block of a
  ``with``: then it is interrupted, and goes on when the inner one has ended.
* Processes that a tracked one starts report to its job; so does track() inside a job.
"""

import atexit
import logging
import os
import sys
import tempfile
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import _inside, _term
from ._client import BerthError, Client, Job, _ref
from ._exits import Exits

_log = logging.getLogger("berth")
_active: List["Run"] = []  # the last one gets the reports; those before it are interrupted
_parts = 0  # calls of track() inside a job
CUT = 500  #: bytes of a reason


class Run(Job):
    """The job that track() made of this process, with all that a Job has.  False when there is none:
    no daemon answered, or the process is part of a job already."""

    def __init__(self, client: Optional[Client], data: Mapping[str, Any]) -> None:
        super().__init__(client, data)  # type: ignore[arg-type]
        self._pid = os.getpid()
        self._within = False  # a `with` statement ends it
        self._over = not data
        self._failed = ""
        self._before: Tuple[Dict[str, Optional[str]], Any] = ({}, None)

    def __bool__(self) -> bool:
        return bool(self._data)

    def __getattr__(self, name: str) -> Any:
        # A script that prints the number of its job must not fail because there is no daemon.
        if not name.startswith("_") and not self._data:
            return None
        return super().__getattr__(name)

    def __enter__(self) -> "Run":
        self._within = True
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None:
            self.finish()
        elif issubclass(kind, SystemExit):
            code = getattr(value, "code", None)
            self.finish(code if isinstance(code, int) else 0 if code is None else 1)
        else:
            self.finish(1, "%s: %s" % (kind.__name__, value))

    def finish(self, exit_code: int = 0, why: str = "") -> None:
        """Ends the job: succeeded, or failed with this exit code.  Jobs that began within it end
        first.  Reports go to the job around it again, if there is one.  A second call does nothing."""
        if self._over or os.getpid() != self._pid:
            return
        while _active and _active[-1] is not self:
            _active[-1]._end(exit_code, why)
        self._end(exit_code, why)

    def _end(self, exit_code: int, why: str) -> None:
        self._over = True
        _active[:] = [run for run in _active if run is not self]
        try:
            self._report_end(exit_code & 0xFF, why[:CUT])
        except Exception as e:
            _say("the end of job %s was not reported: %r", self._data.get("number"), e)
        env, state = self._before
        for name, old in env.items():
            if old is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = old
        _inside._resume(state)
        if not _active:
            _term.leave()

    def _report_end(self, exit_code: int, why: str) -> None:
        spool = _inside._spool
        if spool is not None:
            spool.end(exit_code, why)
            spool.flush(1.0)
        try:
            path = "/v1/jobs/%d/outside_end" % self._data["number"]
            self._client.call("POST", path, {"exit_code": exit_code, "why": why})
        except BerthError:
            pass  # the spool says it


def track(
    project: Optional[str] = None,
    name: Optional[str] = None,
    params: Optional[Mapping[str, Any]] = None,
    *,
    id: Optional[str] = None,
    client: Optional[Client] = None,
) -> Run:
    """Makes this process a job from now on, so that log(), tag() and the others report.

    It ends with finish(), with the block of ``with berth.track(…) as run:``, with the next track(), or
    with the process: succeeded, or failed after an exception nobody caught or an exit status but 0.  Inside a job nothing new
    begins: `params` are logged to that job.  The result is the job; it is false when there is none.
    """
    global _exits
    if _inside.in_job() and not _own():
        return _part_of_a_job(params)
    while _active and not _active[-1]._within:
        _active[-1].finish()
    argv = getattr(sys, "orig_argv", None) or [sys.executable] + sys.argv
    body = {
        "name": name or os.path.basename(sys.argv[0] or "python") or "python",
        "project": project or os.path.basename(os.getcwd()) or "default",
        "params": dict(params or {}),
        "command": [str(word) for word in argv],
        "cwd": os.getcwd(),
    }
    if id is not None:
        body["id"] = id
    client = client or Client()
    remote = client._url is not None
    if not remote:
        body["pid"] = os.getpid()
    try:
        made = client.call("POST", "/v1/outside", body)
        run = Run(client, client.call("GET", "/v1/jobs/" + _ref(made["number"])))
    except (BerthError, OSError, ValueError) as e:
        _say("this process is not tracked: %s", e)
        return Run(None, {})
    _enter(run, made, client, remote)
    if _exits is None:
        _exits = Exits()
    return run


def _own() -> bool:
    """Is the job around us one that track() began in this very process?"""
    return bool(_active) and _active[-1]._pid == os.getpid()


def _part_of_a_job(params: Optional[Mapping[str, Any]]) -> Run:
    global _parts
    _parts += 1
    if _parts == 2:
        _say(
            "this process is part of job %s, and so is every run that it tracks;"
            " submit one job for each",
            os.environ.get("BERTH_JOB_NUMBER", os.environ.get("BERTH_JOB_ID")),
        )
    if params:
        _inside.log_params(params)
    return Run(None, {})


def _enter(run: Run, made: Mapping[str, Any], client: Client, remote: bool) -> None:
    env = {
        "BERTH_JOB_ID": made["id"],
        "BERTH_JOB_NUMBER": str(made["number"]),
        "BERTH_RUN": "%d.%d" % (made["number"], made["run"]),
        "BERTH_JOB_TOKEN": made["token"],
        # On another machine the lines are kept here until they are sent.
        "BERTH_RUN_DIR": tempfile.mkdtemp(prefix="berth-run-") if remote else made["run_dir"],
        "BERTH_OUTSIDE": "1",
    }
    if remote and client._url is not None:
        env["BERTH_URL"] = client._url.geturl()
    else:
        env["BERTH_SOCKET"] = client._socket
    run._before = ({key: os.environ.get(key) for key in env}, _inside._begin())
    os.environ.update(env)
    _active.append(run)
    _inside._get("track")
    if remote and _inside._spool is not None:
        _inside._spool.beat()


def _say(text: str, *args: Any) -> None:
    try:
        _log.warning("berth.track: " + text, *args)
    except Exception:  # a user's log handler may raise
        pass


def _on_error(kind: Any, value: BaseException, trace: Any) -> None:
    if not issubclass(kind, SystemExit):
        for run in _active:
            run._failed = "%s: %s" % (kind.__name__, value)
    _before(kind, value, trace)


def _at_exit() -> None:
    while _own():
        try:
            status = 0 if _exits is None else _exits.status()
            _active[-1].finish(1 if _active[-1]._failed else status, _active[-1]._failed)
        except Exception:
            _active.pop()


_exits: Optional[Exits] = None
_before = sys.excepthook
sys.excepthook = _on_error
atexit.register(_at_exit)  # after _inside's, so it runs before it
