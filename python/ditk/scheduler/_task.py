"""One attempt of one sample: its files, and how it ended."""

import os
import threading
from typing import Any, Dict, List, Optional, Tuple

from . import _result


class Layout:
    """Where the files of a project are.

    "seed" (as in the users' document): ./<project>-<t>/ for a trial.  "late" (later versions): everything of a
    project below ./<project>/, with the number of the sample in the names.
    """

    def __init__(self, project: str, naming: str) -> None:
        if naming not in ("seed", "late"):
            raise ValueError('naming is "seed" or "late", not %r' % (naming,))
        self.project = project
        self.late = naming == "late"
        self.top = os.getcwd()
        self.folder = os.path.join(self.top, project)
        #: where trials run
        self.cwd = self.folder if self.late else self.top

    def task_name(self, task_id: int, hpo_id: int) -> str:
        if self.late:
            return "%s-hpo-id-%d-task-%d" % (self.project, hpo_id, task_id)
        return "%s-%d" % (self.project, task_id)

    def program(self, task_id: int, hpo_id: int) -> str:
        name = "hpo-id-%d-task-%d.py" % (hpo_id, task_id) if self.late else "%d.py" % task_id
        return os.path.join(self.folder, name)


class Task:
    """A trial as the scheduler knows it.

    `status` is "waiting", "running", "success", "fail", "time out", "unsafe result" or what the trial's side file
    says.  `done` is set when there is an outcome.
    """

    def __init__(self, layout: Layout, task_id: int, hpo_id: int, sample: Dict[str, Any]) -> None:
        self.task_id = task_id
        self.hpo_id = hpo_id
        self.sample = sample
        self.key: Optional[str] = None  #: DI-toolkit-scheduler-hpo-id
        self.name = layout.task_name(task_id, hpo_id)
        self.program = layout.program(task_id, hpo_id)
        self.dir = os.path.join(layout.cwd, self.name)
        self.log = os.path.join(self.dir, "log.txt")
        self.status = "waiting"
        self.reason = ""
        self.number = 0  #: of the job in the scheduler's home
        self.pid: Optional[int] = None
        self.exit_code: Optional[int] = None
        self.ret: Any = None
        self.error: Optional[BaseException] = None
        self.ended = False  #: its process has, and its result is read
        self.done = threading.Event()
        given = sample.get("exp_name")
        own = os.path.join(layout.cwd, str(given)) if given is not None else self.dir
        self._folders: List[str] = [self.dir] + ([own] if own != self.dir else [])
        self._before: Dict[str, Tuple[int, ...]] = {}

    def prepare(self, program: str) -> None:
        """Writes the program, makes the directory, and forgets results of earlier trials."""
        os.makedirs(self.dir, exist_ok=True)
        _result.clear(self.dir)
        # A directory that the user named may be shared with a trial that runs now: nothing is removed there.
        self._before = {p: _result.identity(p) for p in _result.places(self._folders)}
        with open(self.program, "w", encoding="utf-8", newline="\n") as f:
            f.write(program)

    def settle(self, why: str, strict: bool, allow_unsafe: bool) -> None:
        """Decides the outcome of a trial whose process has ended: success if and only if there is a result."""
        if why in ("timeout", "cancelled"):
            self.status = "time out" if why == "timeout" else "fail"
            return
        found = [p for p in _result.places(self._folders) if _result.identity(p) not in ((), self._before.get(p))]
        if not found:
            self.status = "fail"
            self.reason = self.reason or "it ended without a result"
            return
        if strict and self.exit_code != 0:
            self.status = "fail"
            return
        try:
            self.ret = _result.read(found[0], allow_unsafe)
            said = _result.side_file(self._folders)
            self.status = str(said["status"])
            self.reason = "" if self.status == "success" else "its side file says so"
        except _result.BadResult as e:
            self.status, self.reason = e.status, str(e)

    def report(self) -> Dict[str, Any]:
        """What is known about it, as a dict."""
        facts = {
            "task_id": self.task_id,
            "hpo_id": self.hpo_id,
            "DI-toolkit-scheduler-hpo-id": self.key,
            "name": self.name,
            "status": self.status,
            "exit_code": self.exit_code,
            "reason": self.reason,
            "log": self.log,
        }
        return {**facts, "return": self.ret} if self.status == "success" else facts

    def last_words(self) -> str:
        """The last line of its log; "" if there is none."""
        try:
            with open(self.log, "rb") as f:
                f.seek(max(0, os.fstat(f.fileno()).st_size - 4096))
                lines = f.read().decode("utf-8", "replace").strip().splitlines()
            return lines[-1].strip() if lines else ""
        except OSError:
            return ""
