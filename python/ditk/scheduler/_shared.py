"""The user's own daemon as the scheduling process: trials wait in one queue with all other jobs.

Owns: which daemon that is, the jobs of this scheduler in it, its stream of events, the study that shows the search.
At most `room` trials are in the queue at once; the scheduler keeps the others back, so that nothing stays behind
when its program is killed.  Not for use by several threads at once, but for events() and wait().
"""

import http.client
import os
import re
import socket
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from berth import BerthError, Client, Study
from berth._client import FINAL

from ._core import GRACE_S, events_of, lock_project, refuse_running, trial_command

PATIENCE_S = 60.0  #: how long a daemon that went away is waited for: jobs outlive it
AGAIN_S = 0.1


def users_daemon() -> Optional[Client]:
    """A client of the daemon that `berth submit` would use: one that runs, or that of BERTH_HOME, which is started.

    None inside a job, where trials would wait for the slot of the search itself, and for a daemon that may be on
    another machine, since trials leave their results in files here.
    """
    if os.environ.get("BERTH_JOB_ID"):
        return None
    url, chosen = os.environ.get("BERTH_URL") or "", bool(os.environ.get("BERTH_HOME"))
    if url and not url.startswith("unix:"):
        return None
    client = Client(autostart=chosen and not url)
    try:
        client.call("GET", "/healthz")
    except BerthError:
        if chosen:
            raise
        return None
    return client


class SharedCore:
    """The jobs of one scheduler in the user's daemon."""

    pid: Optional[int] = None

    def __init__(self, folder: str, slots: int, client: Client) -> None:
        self.room: Optional[int] = slots
        self.home = client.home
        self.client = client
        self._project = os.path.basename(folder)
        self._flying: Dict[int, None] = {}  # jobs that have not ended
        self._over = False
        self._socket: Optional[socket.socket] = None
        self._lock = lock_project(folder)
        try:
            left = dict(self._left_behind(folder))
            refuse_running(folder, list(left.values()), "berth cancel " + " ".join(map(str, left)))
        except BaseException:
            os.close(self._lock)
            raise

    def _left_behind(self, folder: str) -> Iterator[Tuple[int, str]]:
        """(number, name) of trials of this project in this directory that run."""
        here = os.path.realpath(folder)
        for job in self.client.jobs(project=self._project, state="starting,running,stopping"):
            spec = self.client.call("GET", "/v1/jobs/%d" % job.number)["spec"]
            if os.path.realpath(spec.get("cwd") or "") in (here, os.path.dirname(here)):
                yield int(job.number), job.name

    def died(self, project: str) -> str:
        return "the daemon of %s, which runs the trials of project %s, does not answer" % (self.home, project)

    def submit(self, name: str, program: str, folder: str, cwd: str, time_out: Optional[float], sample: Any) -> int:
        """Puts a trial into the queue, with its sample as parameters; the number of its job."""
        command = trial_command(program, folder)
        # {name} in a command would be the parameter of that name: a path may have braces of its own.
        params = None if any("{" in word for word in command) else dict(_flat(sample, ""))
        job = self.client.submit(
            command, name=name, cwd=cwd, timeout=time_out, grace=GRACE_S, project=self._project, params=params
        )
        self._flying[int(job.number)] = None
        return int(job.number)

    # ---- events ----

    def events(self) -> Iterator[Dict[str, Any]]:
        """What happens from now on; ends with shut_down(), or when the daemon is away for too long."""
        until: Optional[float] = None
        while not self._over:
            try:
                for event in self._listen():
                    until = None
                    yield event
            except (BerthError, OSError, http.client.HTTPException):
                pass
            until = until or time.monotonic() + PATIENCE_S
            if self._over or time.monotonic() >= until:
                return
            time.sleep(AGAIN_S)

    def _listen(self) -> Iterator[Dict[str, Any]]:
        client = Client(home=self.home, autostart=False)
        client._socket = self.client._socket
        conn = client._connected(None)
        try:
            self._socket = conn.sock
            conn.request("GET", "/v1/events")
            reply = conn.getresponse()
            # The stream begins now: what happened before, also while the daemon was away, is looked up.
            for number in list(self._flying):
                yield from _caught_up(client.call("GET", "/v1/jobs/%d" % number))
            for event in events_of(iter(lambda: reply.read1(65536), b"")):
                yield event
        finally:
            self._socket = None
            client.close()
            conn.close()

    def ended(self, number: int) -> None:
        """The job has ended; its end may be reported twice."""
        self._flying.pop(number, None)

    # ---- the end ----

    def hold_back(self) -> List[int]:
        """The jobs that have not started; they are held, so that none starts before it is cancelled."""
        held = []
        for number in list(self._flying):
            try:
                self.client.call("POST", "/v1/jobs/%d/hold" % number)
                held.append(number)
            except BerthError as e:
                if e.status not in (404, 409):
                    raise
        return held

    def cancel(self, numbers: List[int]) -> None:
        if numbers:
            self.client.call("POST", "/v1/jobs/cancel", {"jobs": numbers})

    def unfinished(self) -> List[int]:
        return list(self._flying)

    def shut_down(self) -> None:
        """Ends events(); the daemon goes on."""
        self._over = True
        listening = self._socket
        if listening is not None:
            try:
                listening.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def wait(self, clean: bool) -> int:
        self.client.close()
        os.close(self._lock)
        return 0

    # ---- the study ----

    def study(
        self, space: Dict[str, Any], engine: str, maximize: bool, target: str, trials: Optional[int]
    ) -> Study:
        """A new study under the name of the project, or that name with a number."""
        client = Client(home=self.home, autostart=False)
        client._socket = self.client._socket
        taken = {s["name"] for s in client.call("GET", "/v1/studies")["items"]}
        base = re.sub(r"[^A-Za-z0-9_.-]", "-", self._project)[:80]
        names = [base] + ["%s-%d" % (base, i) for i in range(2, len(taken) + 2)]
        name = next(n for n in names if n not in taken)
        return Study(
            name, space, minimize=None if maximize else target, maximize=target if maximize else None, engine=engine,
            trials=trials, client=client,
        )  # fmt: skip


def _caught_up(job: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """The events that lead to the present state of a job."""
    run = (job.get("runs") or [{}])[-1]
    about = {"job": job["number"], "last": job["number"]}
    if run.get("pid") is not None:
        yield {**about, "kind": "job.running", "data": {"pid": run["pid"]}}
    if job["state"] in FINAL:
        why = "cancelled" if job["state"] == "cancelled" else run.get("state") or ""
        facts = {"exit_code": job["exit_code"], "reason": job["reason"], "why": why}
        yield {**about, "kind": "job." + job["state"], "data": facts}


def _flat(node: Any, path: str) -> Iterator[Any]:
    """(dotted path, value) of a sample; what is no plain value goes by its text."""
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _flat(value, "%s.%s" % (path, key) if path else str(key))
    elif path:
        yield path, node if isinstance(node, (bool, int, str)) or node is None else _number(node)


def _number(node: Any) -> Any:
    plain = isinstance(node, float) and node - node == 0  # neither infinite nor NaN, which JSON does not have
    return node if plain else repr(node)
