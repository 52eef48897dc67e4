"""A search while it runs: samples go out to worker threads, outcomes come back.

Owns: how many trials run, when no more samples start, what the algorithm and the observers are told.  One thread
at a time, under `_lock`, asks, tells and ranks; the function itself runs without the lock.
"""

import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from ._expression import evaluate
from ._progress import Progress
from ._rank import RankList
from ._space import dotted, leaves
from ._trial import Trial, fitting

if TYPE_CHECKING:
    from ._hpo import Runner

Result = Tuple[Any, Any, Dict[str, float]]
#: The methods that an observer may have.
EVENTS = (
    "init init_ok run_start run_complete step step_ok step_fail step_skip step_final"
    " try_ try_complete try_ok try_fail try_skip"
).split()


class Search:
    def __init__(self, runner: "Runner") -> None:
        assert runner._target is not None
        self._runner = runner
        maximize, self._target, self._target_name = runner._target
        paths = [path for path, _ in leaves(runner._space)]
        concerns = [name for _, name in runner._concerns]
        self._ranks = RankList(runner._rank, maximize, self._target_name, concerns, paths)
        self._listeners = _listeners(runner._observers if runner._silent else [Progress(paths)] + runner._observers)
        self._record: Any = _Unrecorded()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._running = 0
        self._stopped = False
        self._fatal: Optional[BaseException] = None

    def run(self) -> Optional[Result]:
        r = self._runner
        shown = {"max_retries": r._max_retries, "max_steps": r._max_steps, "max_workers": r._max_workers}
        self._notify("init", r._algorithm.name, {**shown, **r._settings})
        algorithm = r._algorithm(r._space, r._max_steps, **r._settings)
        try:
            self._notify("init_ok")
            if r._recorder is not None:
                named = [(dotted(path), value) for path, value in leaves(r._space)]
                maximize, _, name = r._target  # type: ignore[misc]
                self._record = r._recorder(
                    algorithm=r._algorithm.name, leaves=named, maximize=maximize, target=name, trials=r._max_steps
                )
            self._notify("run_start")
            self._work(algorithm)
        finally:
            with self._lock:
                self._stopped = True  # threads that are left behind by an error tell the algorithm nothing
                algorithm.close()
                self._record.close()
        best = self._ranks.best()
        return None if best is None else (best.config, best.ret, best.metrics)

    def _work(self, algorithm: Any) -> None:
        """Hands out samples until there are no more, and waits for the last of them.  Raises what ended the search."""
        number = 0
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._over() or self._running < self._runner._max_workers)
                sample = None if self._over() else algorithm.next_sample()
                if sample is None:
                    break
                number += 1
                self._running += 1
                trial = Trial(number, sample[0])
                self._record.asked(number, algorithm.drawn)
                self._notify("step", trial)
                threading.Thread(
                    target=self._try, args=(algorithm, trial), name="trial-%d" % number, daemon=True
                ).start()
            self._changed.wait_for(lambda: self._fatal is not None or not self._running)
            if self._fatal is not None:
                raise self._fatal
            self._notify("run_complete", self._stopped)

    def _over(self) -> bool:
        return self._stopped or self._fatal is not None

    def _try(self, algorithm: Any, trial: Trial) -> None:
        """Runs in a thread of its own."""
        fatal: Optional[BaseException] = None
        try:
            trial.run(self._runner._function, self._runner._max_retries, self._notify)
        except BaseException as e:  # noqa: B902 - an observer failed
            fatal = e
        with self._changed:
            try:
                if fatal is None and self._fatal is None:
                    self._settle(algorithm, trial)
            except BaseException as e:  # noqa: B902 - the thread that called run() raises it
                fatal = e
            self._fatal = self._fatal or fatal
            self._running -= 1
            self._changed.notify_all()

    def _settle(self, algorithm: Any, trial: Trial) -> None:
        """Ranks a trial that has ended."""
        if trial.state == "ok":
            outcome = trial.outcome()
            target = evaluate(self._target, outcome)
            concerns = [evaluate(e, outcome) for e, _ in self._runner._concerns]
            algorithm.tell(trial.number - 1, self._ranks.key(target))
            self._ranks.add(trial, target, concerns)
            self._record.told(trial.number, target)
            names = [name for _, name in self._runner._concerns]
            self._notify("step_ok", trial, dict([(self._target_name, target)] + list(zip(names, concerns))))
            if any(evaluate(condition, outcome) for condition in self._runner._stops):
                self._stopped = True
        else:
            algorithm.drop(trial.number - 1)
            self._record.dropped(trial.number, trial.error)
            self._notify("step_skip" if trial.state == "skipped" else "step_fail", trial, trial.error)
            if getattr(trial.error, "ends_search", False):
                self._stopped = True
            if getattr(trial.error, "aborts_search", False):
                assert trial.error is not None
                raise trial.error
        self._notify("step_final", trial, self._ranks)

    def _notify(self, event: str, *facts: Any) -> None:
        for listener in self._listeners[event]:
            listener(*facts)


class _Unrecorded:
    """Of a search whose trials are nobody's jobs: it is over when its program is."""

    def asked(self, number: int, drawn: Any) -> None: ...

    def told(self, number: int, target: Any) -> None: ...

    def dropped(self, number: int, error: Optional[BaseException]) -> None: ...

    def close(self) -> None: ...


def _listeners(observers: List[Any]) -> Dict[str, List[Callable[..., Any]]]:
    """Event → the methods that want it, each called with as many facts as it takes."""
    return {
        event: [fitting(getattr(o, event)) for o in observers if callable(getattr(o, event, None))] for event in EVENTS
    }
