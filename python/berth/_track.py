"""A process that the scheduler did not start becomes a job: notebooks, scripts run by hand.

Owns: telling the daemon of this process and how it ends.  Everything in between is what a job does
(_inside.py): the variables a job would find are set, so children report too.

Rules: no daemon, no job, one warning, and the script goes on.  The end is the last line of the spool
and a request; whichever the daemon sees first counts, and a killed process is noticed by its pid.
"""

import atexit
import logging
import os
import sys
import tempfile
from typing import Any, Mapping, Optional

from . import _inside
from ._client import BerthError, Client, Job, _ref

_log = logging.getLogger("berth")
_tracked: Optional["_Tracked"] = None


class _Tracked:
    def __init__(self, client: Client, number: int) -> None:
        self.client, self.number = client, number
        self.pid = os.getpid()
        self.failed: Optional[str] = None
        self.over = False

    def end(self, exit_code: int, why: str = "") -> None:
        if self.over or os.getpid() != self.pid:
            return
        self.over = True
        spool = _inside._spool
        if spool is not None:
            spool.end(exit_code, why)
            spool.flush(1.0)
        try:
            self.client.call(
                "POST", "/v1/jobs/%d/outside_end" % self.number, {"exit_code": exit_code, "why": why}
            )
        except BerthError:
            pass  # the spool says it


def track(
    project: Optional[str] = None,
    name: Optional[str] = None,
    params: Optional[Mapping[str, Any]] = None,
    *,
    id: Optional[str] = None,
    client: Optional[Client] = None,
) -> Optional[Job]:
    """Makes this process a job from now on, so that log(), tag() and the others report.

    It ends when the process does: succeeded, or failed after an exception nobody caught.  Inside a
    job it does nothing.  The result is the job, None when no daemon answers (said once).
    """
    global _tracked
    if _inside.in_job() or _tracked is not None:
        return None
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
    except (BerthError, OSError, ValueError) as e:
        try:
            _log.warning("berth.track: this process is not tracked: %s", e)
        except Exception:
            pass
        return None
    _enter(made, client, remote)
    _tracked = _Tracked(client, made["number"])
    return Job(client, client.call("GET", "/v1/jobs/" + _ref(made["number"])))


def _enter(made: Mapping[str, Any], client: Client, remote: bool) -> None:
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
    os.environ.update(env)
    _inside._spool = None
    _inside._get("track")
    if remote and _inside._spool is not None:
        _inside._spool.beat()


def _on_error(kind: Any, value: BaseException, trace: Any) -> None:
    if _tracked is not None and not issubclass(kind, SystemExit):
        _tracked.failed = "%s: %s" % (kind.__name__, value)
    _before(kind, value, trace)


def _at_exit() -> None:
    if _tracked is None:
        return
    try:
        _tracked.end(1 if _tracked.failed else 0, (_tracked.failed or "")[:500])
    except Exception:
        pass


_before = sys.excepthook
sys.excepthook = _on_error
atexit.register(_at_exit)  # after _inside's, so it runs before it
