"""The handle of a scheduler: samples go in, trials become jobs, outcomes come out.

Owns: the lists of tasks.  A watcher thread reads the events of the scheduling process (_core.py); one short thread
per ended trial reads its result.  `_lock` guards everything that they share.
"""

import atexit
import collections
import logging
import random
import string
import threading
import weakref
from typing import Any, Callable, Deque, Dict, List, Optional, Union

from berth import BerthError

from . import _table
from ._core import Core
from ._errors import SchedulerEnded, SchedulerGone
from ._record import Record
from ._shared import SharedCore, users_daemon
from ._task import Layout, Task
from ._template import Template

logger = logging.getLogger("ditk.scheduler")
ID_KEY = "DI-toolkit-hpo-id"
ATTEMPT_KEY = "DI-toolkit-scheduler-hpo-id"
LAST_WORDS_S = 5.0  #: how long an exit waits for a scheduling process that has nothing left to do
_ENDS = ("job.succeeded", "job.failed", "job.cancelled", "job.lost")
_live: "weakref.WeakSet[Scheduler]" = weakref.WeakSet()


class Scheduler:
    """Runs trials of one project.  `with` stops it at the end of the block."""

    def __init__(
        self,
        template: Template,
        layout: Layout,
        max_number_of_running_task: int,
        max_number_of_tasks: int,
        time_out: Optional[float],
        strict: bool,
        allow_unsafe_pickle: bool,
        shared: Optional[bool] = None,
    ) -> None:
        self.template = template
        self.layout = layout
        self.max_number_of_tasks = max_number_of_tasks
        self.time_out = time_out or None
        self._strict = strict
        self._allow_unsafe = allow_unsafe_pickle
        self._lock = threading.RLock()
        self._by_number: Dict[int, Task] = {}
        self._stopping = False
        self._ended = False
        self._shut_down = False
        self._samples = 0
        self.task_list: List[Task] = []
        self.task_defined_id: List[int] = []
        self.task_running_id: List[int] = []
        self.task_waiting_id: List[int] = []
        self.task_finished_id: List[int] = []
        self.task_success_id: List[int] = []
        self.task_abnormal_id: List[int] = []
        self.task_reports: List[Dict[str, Any]] = []
        self._pending: Deque[Task] = collections.deque()  # kept back: the limit of those that run is reached
        self._flying = 0  # jobs that have not ended
        client = None if shared is False else users_daemon()
        if shared and client is None:
            raise RuntimeError("no daemon of this user runs here; start one with `berth serve`, or leave out shared=True")
        self._core: Union[Core, SharedCore]
        if client is not None:
            self._core = SharedCore(layout.folder, max_number_of_running_task, client)
        else:
            self._core = Core(layout.folder, max_number_of_running_task)
        self.pid = self._core.pid  #: of the scheduling process
        self._table = _table.Printer(self._lists, brackets=not layout.late)
        self.monitor_thread = threading.Thread(target=self._watch, name="ditk-watcher", daemon=True)
        self.monitor_thread.start()
        _live.add(self)

    def __enter__(self) -> "Scheduler":
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # ---- for the search ----

    def get_hpo_callable(self) -> Callable[..., Any]:
        """A function of (sample, id) that runs the sample as a trial and returns its result."""

        def run_trial(sample: Dict[str, Any], hpo_id: Optional[int] = None) -> Any:
            task = self._submit(sample, hpo_id)
            task.done.wait()
            if task.error is not None:
                raise task.error
            logger.info("Task %d of sample %d succeeded.", task.task_id, task.hpo_id)
            logger.info("Task %d returned %r", task.task_id, task.ret)
            return task.ret

        if isinstance(self._core, SharedCore):
            run_trial.record_search = self._record_search  # type: ignore[attr-defined]
        return run_trial

    def _record_search(self, **about: Any) -> Record:
        """For a search over this scheduler: it is a study of the user's daemon."""
        assert isinstance(self._core, SharedCore)
        return Record(self._core.study, self._job_of, **about)

    def _job_of(self, hpo_id: int) -> Optional[int]:
        """The job of the last attempt of a sample."""
        with self._lock:
            return next((t.number for t in reversed(self.task_list) if t.hpo_id == hpo_id), None)

    def stop(self, kill: bool = False, wait: bool = False) -> None:
        """Starts no more trials; the scheduling process ends when the running ones have.

        `kill` also ends those that run; `wait` returns when all is over.
        """
        with self._lock:
            if not self._ended and (not self._stopping or kill):
                if not self._stopping:
                    logger.info("The scheduler was asked to stop.")
                self._stopping = True
                while self._pending:
                    self._never_started(self._pending.popleft())
                try:
                    self._core.cancel(self._core.unfinished() if kill else self._core.hold_back())
                except BerthError as e:
                    logger.error("The scheduling process does not answer: %s", e)
                self._end_if_idle()
        if wait and threading.current_thread() is not self.monitor_thread:
            self.monitor_thread.join()

    # ---- tasks ----

    def _submit(self, sample: Dict[str, Any], hpo_id: Optional[int]) -> Task:
        if not isinstance(sample, dict):
            raise TypeError("a sample for a scheduler is a dict like main_config, not %s" % type(sample).__name__)
        settings = {k: v for k, v in sample.items() if k not in (ID_KEY, ATTEMPT_KEY)}
        self.template.check(settings)
        with self._lock:
            if self._ended and not self._stopping:
                raise self._gone()
            if self._stopping:
                raise SchedulerEnded("the scheduler was stopped and takes no more samples")
            if len(self.task_list) >= self.max_number_of_tasks:
                raise SchedulerEnded("the scheduler has had its %d tasks" % self.max_number_of_tasks)
            self._samples += hpo_id is None
            task = Task(self.layout, len(self.task_list), self._samples if hpo_id is None else hpo_id, settings)
            program = self.template.program(settings, task.name)
            logger.info("New sample %d: %r", task.hpo_id, settings)
            task.key = "".join(random.choices(string.ascii_uppercase, k=8))
            sample.update({ID_KEY: task.hpo_id} if self.layout.late else {}, **{ATTEMPT_KEY: task.key})
            task.prepare(program)
            if self._core.room is None or self._flying < self._core.room:
                self._launch(task)
            else:
                self._pending.append(task)
            self.task_list.append(task)
            self.task_defined_id.append(task.task_id)
            self.task_waiting_id.append(task.task_id)
        self._table.changed()
        return task

    def _launch(self, task: Task) -> None:
        try:
            task.number = self._core.submit(
                task.name, task.program, task.dir, self.layout.cwd, self.time_out, task.sample
            )
        except BerthError as e:
            raise SchedulerGone("the scheduling process does not take task %d: %s" % (task.task_id, e)) from e
        self._by_number[task.number] = task
        self._flying += 1

    def _launch_next(self) -> None:
        """A job has ended: one that was kept back takes its place."""
        self._flying -= 1
        if self._pending and self._core.room is not None and self._flying < self._core.room:
            task = self._pending.popleft()
            try:
                self._launch(task)
            except SchedulerGone as e:
                self._refused(task, e)

    def _refused(self, task: Task, error: Exception) -> None:
        _remove(self.task_waiting_id, task.task_id)
        task.status, task.error = "fail", error
        task.done.set()

    def _never_started(self, task: Task) -> None:
        self._refused(task, SchedulerEnded("the scheduler was stopped before task %d started" % task.task_id))

    def _watch(self) -> None:
        """The watcher thread."""
        try:
            for event in self._core.events():
                for task in self._tasks_of(event):
                    if event["kind"] == "job.running":
                        self._started(task, event["data"].get("pid"))
                    elif event["kind"] in _ENDS:
                        self._stopped(task, event["data"])
        finally:
            with self._lock:
                self._ended = True
                left = [t for t in self.task_list if not t.done.is_set()]
            status = self._core.wait(clean=not left)
            logger.info("The scheduling process has ended." if self.pid else "The trials of the scheduler have ended.")
            for task in left:
                task.error = self._gone("; it exited with status %d" % status if self.pid else "")
                task.done.set()
            self._table.end()
            logger.info("The watcher thread has ended.")

    def _tasks_of(self, event: Dict[str, Any]) -> List[Task]:
        """The tasks that an event is about: one, or several that were cancelled together."""
        if event["job"] is None:
            return []
        first, last = event["job"], event["last"]
        with self._lock:  # a submission that is under way has the number in a moment
            if last - first > len(self._by_number):  # of somebody else, most of them
                found = [t for n, t in self._by_number.items() if first <= n <= last]
            else:
                found = [self._by_number[n] for n in range(first, last + 1) if n in self._by_number]
        return [t for t in found if not t.done.is_set()]

    def _started(self, task: Task, pid: Optional[int]) -> None:
        with self._lock:
            if task.status != "waiting":
                return  # said twice
            task.status, task.pid = "running", pid
            _remove(self.task_waiting_id, task.task_id)
            self.task_running_id.append(task.task_id)
        logger.info("Task %d of sample %d has started as process %s.", task.task_id, task.hpo_id, pid)
        self._table.changed()

    def _stopped(self, task: Task, facts: Dict[str, Any]) -> None:
        """Its process has ended: it runs no more, and what it left behind is read by a thread of its own."""
        with self._lock:
            if task.ended:
                return  # said twice
            task.ended = True
            self._core.ended(task.number)
            self._launch_next()
            never_ran = task.status == "waiting"
            task.exit_code, task.reason = facts.get("exit_code"), facts.get("reason") or ""
            _remove(self.task_waiting_id, task.task_id)
            _remove(self.task_running_id, task.task_id)
            if never_ran and self._stopping:  # nothing of it is finished: it was only defined
                self._never_started(task)
                self._end_if_idle()
                return
        why = facts.get("why") or ""
        threading.Thread(target=self._settle, args=(task, why), name="ditk-result", daemon=True).start()

    def _settle(self, task: Task, why: str) -> None:
        try:
            task.settle(why, self._strict, self._allow_unsafe)
        except Exception as e:  # noqa: B902 - such as no more processes: the trial is lost, the scheduler goes on
            task.status, task.reason = "fail", repr(e)
        with self._lock:
            good = task.status == "success"
            if not good:
                words = task.last_words()
                task.error = ValueError(
                    "task %d (sample %d) ended with status %r: %s, exit code %s; its log is %s%s"
                    % (task.task_id, task.hpo_id, task.status, task.reason or "no reason", task.exit_code, task.log,
                       " and ends with %r" % words if words else "")
                )  # fmt: skip
            self.task_finished_id.append(task.task_id)
            (self.task_success_id if good else self.task_abnormal_id).append(task.task_id)
            self.task_reports.append(task.report())
            task.done.set()
            self._end_if_idle()
        self._table.changed()

    def _end_if_idle(self) -> None:
        """Ends the scheduling process when nothing is left to do."""
        idle = all(t.done.is_set() for t in self.task_list)
        full = len(self.task_success_id) == self.max_number_of_tasks
        if idle and (self._stopping or full) and not self._shut_down and not self._ended:
            self._stopping = self._shut_down = True
            self._core.shut_down()

    def _gone(self, how: str = "") -> SchedulerGone:
        return SchedulerGone(self._core.died(self.layout.project) + how)

    def _lists(self) -> _table.Lists:
        """The six rows of the table; late naming counts samples, not tasks."""
        with self._lock:
            rows = (
                self.task_defined_id, self.task_running_id, self.task_waiting_id, self.task_finished_id,
                self.task_success_id, self.task_abnormal_id,
            )  # fmt: skip
            if self.layout.late:
                return tuple(tuple(self.task_list[t].hpo_id for t in row) for row in rows)
            return tuple(map(tuple, rows))


def _remove(ids: List[int], task_id: int) -> None:
    if task_id in ids:
        ids.remove(task_id)


@atexit.register
def _stop_all() -> None:
    """Whoever leaves without stop() waits for no trial: those that run go on, the others never start."""
    for scheduler in list(_live):
        scheduler.stop()
        if scheduler._shut_down:  # it is on its way out; with its last words the home is complete
            scheduler.monitor_thread.join(LAST_WORDS_S)
