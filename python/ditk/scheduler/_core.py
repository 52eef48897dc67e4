"""A scheduling process without a daemon of the user: one with a home of its own, for one scheduler.

Owns: the home below the project's directory, starting and ending the daemon, its stream of events.  The daemon does
the rest: queue, limit, time-outs, kills.  Not for use by several threads at once, but for events() and wait().
"""

import fcntl
import json
import os
import shutil
import sys
import tempfile
from typing import Any, Dict, Iterator, List, Optional

from berth import BerthError, Client
from berth._client import FINAL, start_daemon

KEEP = 3  #: homes of ended schedulers that stay, with the records of their trials
GRACE_S = 5.0  #: between SIGTERM and SIGKILL
QUEUE = "default"


def lock_project(folder: str) -> int:
    """A lock on the directories of the trials; held by one scheduler at a time."""
    homes = os.path.join(folder, ".berth")
    os.makedirs(homes, mode=0o700, exist_ok=True)
    fd = os.open(os.path.join(homes, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise RuntimeError(
            "another scheduler runs the project %s in this directory; stop it, or choose another"
            " dijob_project_name" % os.path.basename(folder)
        ) from None
    return fd


def refuse_running(folder: str, names: List[str], cancel: str) -> None:
    """Raises RuntimeError while trials of an earlier scheduler run: they write into the same directories."""
    if names:
        raise RuntimeError(
            "trials of an earlier scheduler of the project %s still run (%s); wait until they have ended, stop"
            " them with `%s`, or choose another dijob_project_name"
            % (os.path.basename(folder), ", ".join(names), cancel)
        )


def trial_command(program: str, folder: str) -> List[str]:
    """Runs a program; both its outputs go to files of `folder`."""
    line = 'exec "$0" "$1" >"$2" 2>"$3"'
    words = [sys.executable, program, os.path.join(folder, "stdout.txt"), os.path.join(folder, "log.txt")]
    return ["/bin/sh", "-c", line] + words


def events_of(pieces: Iterator[bytes]) -> Iterator[Dict[str, Any]]:
    """The events of a stream that comes in pieces."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield json.loads(line[5:].decode("utf-8"))


class Core:
    """The daemon of one scheduler."""

    room: Optional[int] = None  #: trials that may be submitted at once; its slots are the limit of those that run

    def __init__(self, folder: str, slots: int) -> None:
        self._homes = os.path.join(folder, ".berth")
        self._lock = lock_project(folder)
        try:
            self._tidy(folder)
            self.home = tempfile.mkdtemp(prefix="home-", dir=self._homes)
            # It lives while it has clients or jobs, so also until the last trial has ended after this process.
            self._process = start_daemon(self.home, "--slots", str(slots), "--idle", "1s")
        except BaseException:
            os.close(self._lock)
            raise
        self.pid: Optional[int] = self._process.pid
        self._client = Client(home=self.home, autostart=False)

    def _tidy(self, folder: str) -> None:
        """Removes all but the newest homes.  Raises RuntimeError while trials of an earlier scheduler run, since
        they write into the same directories."""
        homes = [os.path.join(self._homes, n) for n in os.listdir(self._homes) if n.startswith("home-")]
        for home in homes:
            try:
                with Client(home=home, autostart=False) as client:
                    running = [j.name for j in client.jobs(state="starting,running,stopping")]
            except BerthError:
                continue
            refuse_running(folder, running, "berth cancel --all --home " + home)
        ended = [h for h in homes if os.path.exists(os.path.join(h, "ended"))]
        for home in sorted(ended, key=os.path.getmtime, reverse=True)[KEEP:]:
            shutil.rmtree(home, ignore_errors=True)

    def died(self, project: str) -> str:
        return "the scheduling process %s of project %s has died; its log is %s/log" % (self.pid, project, self.home)

    def submit(self, name: str, program: str, folder: str, cwd: str, time_out: Optional[float], sample: Any) -> int:
        """Puts a trial into the queue; the number of its job."""
        command = trial_command(program, folder)
        return int(self._client.submit(command, name=name, cwd=cwd, timeout=time_out, grace=GRACE_S).number)

    def events(self) -> Iterator[Dict[str, Any]]:
        """Every event from the first on, as it happens; ends with the daemon."""
        try:
            yield from events_of(Client(home=self.home, autostart=False).stream("/v1/events?after=0"))
        except BerthError:
            pass

    def hold_back(self) -> List[int]:
        """Lets no more trials start; the numbers of those that have not."""
        self._client.call("POST", "/v1/queues/%s/pause" % QUEUE)
        return [int(j.number) for j in self._client.jobs(state="queued")]

    def ended(self, number: int) -> None:
        """A job has ended."""

    def cancel(self, numbers: List[int]) -> None:
        if numbers:
            self._client.call("POST", "/v1/jobs/cancel", {"jobs": numbers})

    def unfinished(self) -> List[int]:
        return [int(j.number) for j in self._client.jobs() if j.state not in FINAL]

    def shut_down(self) -> None:
        """Asks the daemon to exit; fine if it has."""
        try:
            self._client.call("POST", "/v1/shutdown")
        except BerthError:
            pass

    def wait(self, clean: bool) -> int:
        """Waits for the end of the daemon; its exit status."""
        status = self._process.wait()
        if clean:
            with open(os.path.join(self.home, "ended"), "w", encoding="utf-8"):
                pass
        os.close(self._lock)
        return status
