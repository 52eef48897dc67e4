"""The handle of a scheduler: samples go in, trials become jobs, outcomes come out.

Owns: the lists of tasks.  A watcher thread reads the events of the scheduling process (_core.py); one short thread
per ended trial reads its result.  `_lock` guards everything that they share.
"""

import atexit
import logging
import random
import string
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional

from berth import BerthError

from . import _table
from ._core import Core
from ._errors import SchedulerEnded, SchedulerGone
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

        return run_trial

    def stop(self, kill: bool = False, wait: bool = False) -> None:
        """Starts no more trials; the scheduling process ends when the running ones have.

        `kill` also ends those that run; `wait` returns when all is over.
        """
        with self._lock:
            if not self._ended and (not self._stopping or kill):
                if not self._stopping:
                    logger.info("The scheduler was asked to stop.")
                self._stopping = True
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
            try:
                task.number = self._core.submit(task.name, task.program, task.dir, self.layout.cwd, self.time_out)
            except BerthError as e:
                raise SchedulerGone("the scheduling process does not take task %d: %s" % (task.task_id, e)) from e
            self._by_number[task.number] = task
            self.task_list.append(task)
            self.task_defined_id.append(task.task_id)
            self.task_waiting_id.append(task.task_id)
        self._table.changed()
        return task

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
            logger.info("The scheduling process has ended.")
            for task in left:
                task.error = self._gone("; it exited with status %d" % status)
                task.done.set()
            self._table.end()
            logger.info("The watcher thread has ended.")

    def _tasks_of(self, event: Dict[str, Any]) -> List[Task]:
        """The tasks that an event is about: one, or several that were cancelled together."""
        if event["job"] is None:
            return []
        with self._lock:  # a submission that is under way has the number in a moment
            found = [self._by_number.get(n) for n in range(event["job"], event["last"] + 1)]
        return [t for t in found if t is not None and not t.done.is_set()]

    def _started(self, task: Task, pid: Optional[int]) -> None:
        with self._lock:
            task.status, task.pid = "running", pid
            _remove(self.task_waiting_id, task.task_id)
            self.task_running_id.append(task.task_id)
        logger.info("Task %d of sample %d has started as process %s.", task.task_id, task.hpo_id, pid)
        self._table.changed()

    def _stopped(self, task: Task, facts: Dict[str, Any]) -> None:
        """Its process has ended: it runs no more, and what it left behind is read by a thread of its own."""
        with self._lock:
            never_ran = task.status == "waiting"
            task.exit_code, task.reason = facts.get("exit_code"), facts.get("reason") or ""
            _remove(self.task_waiting_id, task.task_id)
            _remove(self.task_running_id, task.task_id)
            if never_ran and self._stopping:  # nothing of it is finished: it was only defined
                task.status = "fail"
                task.error = SchedulerEnded("the scheduler was stopped before task %d started" % task.task_id)
                task.done.set()
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
        return SchedulerGone(
            "the scheduling process %d of project %s has died%s; its log is %s/log"
            % (self.pid, self.layout.project, how, self._core.home)
        )

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
