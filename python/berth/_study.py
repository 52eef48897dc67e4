"""A search for good parameters, driven from Python: ask for a trial, tell its result.

Owns: the Python face of ``/v1/studies``.  The daemon keeps the study, proposes the points and
learns from the results; this module evaluates nothing but the function it is given.
"""

import collections
import math
import threading
import time
import urllib.parse
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Type, Union, overload

from ._client import BerthError, Client, Unavailable

PATIENCE_S = 60.0  #: how long a call waits for a daemon that went away
PAGE = 1000
LEASE_S = 60  #: optimize: a process that is silent for so long has vanished, and others get its trials

Space = Mapping[str, Any]
Value = Union[None, float, Mapping[str, float], Iterable[float]]  #: several: in the order of the objectives, or by name
Goal = Union[None, bool, str, Iterable[str]]


class Pruned(Exception):
    """Raised by an objective whose trial is to end early; the last reported value counts for it."""


class Exhausted(BerthError):
    """There is no further trial: the limit is reached, or every point of the space was tried."""


class Trial(Mapping[str, Any]):
    """One point and its result.  A mapping of its parameters: ``trial["lr"]``, ``f(**trial)``."""

    def __init__(self, study: "Study", data: Mapping[str, Any]) -> None:
        self._study = study
        self.number: int = data["number"]
        self.params: Dict[str, Any] = dict(data.get("params") or {})
        self.state: str = data.get("state") or "running"
        self.value: Optional[float] = data.get("value")  #: the first of several
        self.values: Optional[List[float]] = data.get("values")  #: with several objectives
        self.job: Optional[int] = data.get("job")  #: the job that ran it, for a study with a command
        self.reason: Optional[str] = data.get("reason")
        self.hold: int = data.get("hold") or 0  #: which handing out this is, of a trial with a lease
        self.parent: Optional[int] = data.get("parent")  #: engine pbt: the trial whose state this one continues
        self.lost = False  #: its lease ended, and another client has it
        self._reported: Optional[float] = None

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.params)

    def __len__(self) -> int:
        return len(self.params)

    def __repr__(self) -> str:
        return "<berth.Trial %d %s value=%r %r>" % (self.number, self.state, self.value, self.params)

    def report(self, value: float, step: int) -> bool:
        """An intermediate value.  True: the trial is not worth its time; raise Pruned, or return."""
        self._reported = float(value)
        if not math.isfinite(self._reported):
            return False  # the final value decides what a NaN on the way means
        return self.lost or self._study._report(self, self._reported, step)

    def renew(self) -> bool:
        """A sign of life, for a trial with a lease.  False: it is not this client's any more."""
        self._study._renew([self])
        return not self.lost


class Trials(List[Trial]):
    """The trials of a study, in the order of their numbers."""

    def to_pandas(self) -> Any:
        """A data frame with a column per parameter (``params_lr``).  Needs pandas."""
        try:
            import pandas
        except ImportError as e:
            raise ImportError("to_pandas() needs the package pandas, which is not installed") from e
        return pandas.DataFrame([_row(t) for t in self])


def _row(trial: Trial) -> Dict[str, Any]:
    row: Dict[str, Any] = {"number": trial.number, "state": trial.state}
    metrics = [metric for _, metric in trial._study.objectives]
    if len(metrics) == 1:
        row["value"] = trial.value
    else:
        row.update(("values_" + m, trial.values and trial.values[i]) for i, m in enumerate(metrics))
    row.update(("params_" + name, value) for name, value in trial.params.items())
    row["job"] = trial.job
    return row


class Study:
    """A search that the daemon keeps under a name.

    ``Study("lr", {"lr": {"log": [1e-5, 0.1]}, "opt": ["adam", "sgd"]}, minimize="loss")`` begins one, or
    opens it again when it was begun with the same arguments; ``Study("lr")`` opens one that exists.

    ``minimize="ms", maximize=["acc", "f1"]``, or ``objectives=[("minimize", "ms"), ("maximize", "acc")]`` for an
    order of one's own, search for several metrics: results are lists in this order or mappings, and the study has
    a `front` in place of the best trial.

    Many processes may work on one study.  ``alone=True`` says that this is the only one: then trials that an
    earlier process left unfinished are handed out again, with the same parameters.

    Its methods may be called by several threads.
    """

    def __init__(
        self,
        name: str,
        space: Optional[Space] = None,
        *,
        minimize: Goal = None,
        maximize: Goal = None,
        objectives: Optional[Iterable[Tuple[str, str]]] = None,
        engine: Optional[str] = None,
        seed: Optional[int] = None,
        trials: Optional[int] = None,
        constraints: Optional[Iterable[str]] = None,
        stop: Any = None,
        warm_start: Optional[str] = None,
        alone: bool = False,
        client: Optional[Client] = None,
    ) -> None:
        self.name = name
        self.alone = alone
        self._client = client or Client()
        self._lock = threading.Lock()
        self._held: Dict[int, int] = {}  # trials that this process was given and has not told: their holds
        self._orphans: Optional[Deque[Dict[str, Any]]] = None  # None: to be looked for
        if space is None:
            self._about = self._call("GET", "")
        else:
            goals = _goals(minimize, maximize, objectives)
            body = {
                "name": name,
                "space": dict(space),
                "objective": goals[0] if len(goals) == 1 else goals,
                "engine": engine,
                "seed": seed,
                "trials": trials,
                "constraints": list(constraints) if constraints else None,
                "stop": stop,
                "from": warm_start,
            }
            self._about = self._request("POST", "/v1/studies", {k: v for k, v in body.items() if v is not None})

    def __repr__(self) -> str:
        return "<berth.Study %s>" % self.name

    # ---- requests ----

    def _path(self, rest: str) -> str:
        return "/v1/studies/" + urllib.parse.quote(self.name, safe="") + rest

    def _request(
        self, method: str, path: str, body: Any = None, on_break: Optional[Callable[[], Any]] = None
    ) -> Any:
        """One call.  A daemon that went away is waited for.  Then the call is repeated, unless `on_break`
        finds out what became of it and returns something."""
        until = time.monotonic() + PATIENCE_S
        pause = 0.02
        broken = False
        while True:
            try:
                with self._lock:
                    if broken and on_break is not None:
                        answer = on_break()
                        if answer is not None:
                            return answer
                    return self._client.call(method, path, body)
            except Unavailable:
                broken = True
                if time.monotonic() >= until:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    def _call(self, method: str, rest: str, body: Any = None, on_break: Optional[Callable[[], Any]] = None) -> Any:
        return self._request(method, self._path(rest), body, on_break)

    def _pages(self, call: Callable[[str, str], Any]) -> Iterator[Dict[str, Any]]:
        after: Optional[int] = 0
        while after is not None:
            page = call("GET", "/trials?after=%d&limit=%d" % (after, PAGE))
            yield from page["items"]
            after = page.get("next")

    def _plain(self, method: str, rest: str) -> Any:
        """A call with the lock held."""
        return self._client.call(method, self._path(rest))

    def _report(self, trial: Trial, value: float, step: int) -> bool:
        body = {"number": trial.number, "step": step, "value": value, **_hold(trial.hold)}
        return bool(self._call("POST", "/report", body).get("stop"))

    def _renew(self, trials: List[Trial]) -> None:
        body = {"trials": [{"number": t.number, **_hold(t.hold)} for t in trials]}
        lost = self._call("POST", "/renew", body)["lost"]
        for t in trials:
            t.lost = t.lost or t.number in lost

    # ---- ask and tell ----

    def _find_orphans(self) -> None:
        """With the lock held: the trials that run, but not here."""
        running = (t for t in self._pages(self._plain) if t["state"] == "running")
        self._orphans = collections.deque(t for t in running if t["number"] not in self._held)

    def _take_orphans(self, n: int) -> List[Dict[str, Any]]:
        with self._lock:
            if self._orphans is None:
                self._find_orphans()
            assert self._orphans is not None
            found = [self._orphans.popleft() for _ in range(min(n, len(self._orphans)))]
            self._held.update((t["number"], t.get("hold") or 0) for t in found)
        return found

    def _asked(self, answer: Mapping[str, Any]) -> List[Trial]:
        self._held.update((t["number"], t.get("hold") or 0) for t in answer.get("trials") or ())
        return [Trial(self, t) for t in answer.get("trials") or ()]

    @overload
    def ask(self, *, lease: Optional[int] = None) -> Trial: ...

    @overload
    def ask(self, n: int, *, lease: Optional[int] = None) -> List[Trial]: ...

    def ask(self, n: Optional[int] = None, *, lease: Optional[int] = None) -> Union[Trial, List[Trial]]:
        """The next trial; ``ask(8)`` gives up to eight.  Raises Exhausted when there is none.

        With a lease, in seconds, another client gets the trial if this one is silent for so long: `report` and
        `renew` of the trial are signs of life.
        """
        found, _ = self._ask(1 if n is None else n, lease)
        if not found:
            raise Exhausted("the study %s has no further trial" % self.name, "exhausted")
        return found[0] if n is None else found

    def _ask(self, want: int, lease: Optional[int]) -> Tuple[List[Trial], bool]:
        """Trials, and whether more may come: other clients have some under a lease, and may vanish."""
        found: List[Trial] = []
        if self.alone:
            found = [Trial(self, t) for t in self._take_orphans(want)]
        if len(found) == want:
            return found, True
        # Whether a request that broke was carried out is not known.  Alone, what it took is found again.
        body = {"n": want - len(found), **_lease(lease)}
        answer = self._call("POST", "/ask", body, self._ask_broke if self.alone else None)
        found += self._asked(answer)
        mine = sum(1 for hold in list(self._held.values()) if hold)
        busy = not (found or answer.get("leased") or answer.get("exhausted", True))  # a population at work
        return found, busy or bool(answer.get("leased", 0) > mine)

    def _ask_broke(self) -> Optional[Dict[str, Any]]:
        self._find_orphans()
        found, self._orphans = list(self._orphans or ()), collections.deque()
        return {"trials": found} if found else None

    def tell(
        self,
        trial: Union[Trial, int],
        value: Value = None,
        *,
        failed: bool = False,
        pruned: bool = False,
        reason: Optional[str] = None,
        job: Optional[int] = None,
    ) -> None:
        """The result of a trial: a number, or with several objectives a list of them or a mapping by metric.  NaN,
        infinity and None count as failed.  `job` is the number of the job that ran it, where there is one."""
        result = self._result(trial, value, failed, pruned, reason)
        self._tell([result if job is None else {**result, "job": job}], 0)

    def _result(
        self, trial: Union[Trial, int], value: Value, failed: bool, pruned: bool, reason: Optional[str]
    ) -> Dict[str, Any]:
        return _result(trial, value, [metric for _, metric in self.objectives], failed, pruned, reason)

    def _tell(self, results: List[Dict[str, Any]], ask: int, lease: Optional[int] = None) -> List[Trial]:
        body: Dict[str, Any] = {"trials": results}
        if ask:
            body.update(ask=ask, **_lease(lease))
        answer = self._call("POST", "/tell", body, lambda: self._told_before(results, ask, lease))
        for r in results:
            self._held.pop(r["number"], None)
        return self._asked(answer)

    def _told_before(
        self, results: List[Dict[str, Any]], ask: int, lease: Optional[int]
    ) -> Optional[Dict[str, Any]]:
        """After a break: was it carried out?  All of a request is, or nothing.  Whoever has another hold of the
        trial than this client may have told it, too."""
        number, hold = results[0]["number"], results[0].get("hold") or 0
        page = self._plain("GET", "/trials?after=%d&limit=1" % (number - 1))
        states = [t["state"] for t in page["items"] if t["number"] == number and hold in (0, t.get("hold") or 0)]
        if not states or states[0] in ("running", "waiting"):
            return None
        if not ask:
            return {"trials": []}
        if self.alone:
            found = self._ask_broke()
            if found:
                return found
        return dict(self._client.call("POST", self._path("/ask"), {"n": ask, **_lease(lease)}))

    def enqueue(self, params: Optional[Mapping[str, Any]] = None, **more: Any) -> int:
        """A point chosen by hand; it is tried next.  Its number."""
        return int(self._call("POST", "/enqueue", {"params": {**(params or {}), **more}})["number"])

    # ---- a whole search ----

    def optimize(
        self,
        objective: Callable[[Trial], Value],
        n: Optional[int] = None,
        parallel: int = 1,
        catch: Union[Type[Exception], Tuple[Type[Exception], ...]] = (),
        lease: Optional[int] = LEASE_S,
    ) -> Optional[Trial]:
        """Evaluates ``objective(trial)`` for up to `n` trials (None: until there are no more), in
        `parallel` threads, and returns the best trial; with several objectives None, and `front` has them.

        An exception makes its trial failed and then ends the search, unless `catch` lists its type.  If this
        process is killed, or silent for `lease` seconds, other processes that search get its trials; None: never.
        """
        _Search(self, objective, n, catch, None if self.alone else lease).run(parallel)
        return self.best

    # ---- looking ----

    def refresh(self) -> "Study":
        """Asks the daemon how far the study is."""
        self._about = self._call("GET", "")
        return self

    @property
    def best(self) -> Optional[Trial]:
        """The best trial so far, or None."""
        found = self.refresh()._about.get("best")
        return Trial(self, dict(found, state="done")) if found else None

    @property
    def front(self) -> Trials:
        """The trials that no other is better than in everything; with one objective the best trial."""
        found = self.refresh()._about
        best = found.get("front", [found["best"]] if found.get("best") else [])
        return Trials(Trial(self, dict(t, state="done", value=t.get("value", t.get("values", [None])[0]))) for t in best)

    @property
    def trials(self) -> Trials:
        """Every trial so far."""
        return Trials(Trial(self, t) for t in self._pages(lambda method, rest: self._call(method, rest)))

    @property
    def counts(self) -> Dict[str, int]:
        """How many trials are in each state."""
        return dict(self.refresh()._about["counts"])

    @property
    def state(self) -> str:
        """running, paused or finished."""
        return str(self.refresh()._about["state"])

    @property
    def space(self) -> Dict[str, Any]:
        return dict(self._about["space"])

    @property
    def engine(self) -> str:
        return str(self._about["engine"])

    @property
    def objectives(self) -> List[Tuple[str, str]]:
        """("minimize", "loss") for each of them."""
        found = self._about["objective"]
        return [next(iter(goal.items())) for goal in (found if isinstance(found, list) else [found])]

    @property
    def minimizes(self) -> bool:
        """Is the metric, or the first of several, to be small?"""
        return self.objectives[0][0] == "minimize"

    # ---- changing ----

    def extend(self, trials: int) -> "Study":
        """Sets the limit of trials."""
        self._about = self._call("PATCH", "", {"trials": trials})
        return self

    def remove(self, force: bool = False) -> None:
        """Forgets the study; jobs it made stay.  force: cancels those that run."""
        self._call("DELETE", "?force=true" if force else "")

    def close(self) -> None:
        """Closes the connection; the next call opens one again."""
        self._client.close()


class _Search:
    """One call of Study.optimize.  Each thread tells its result and asks for its next trial at once."""

    def __init__(
        self, study: Study, objective: Callable[[Trial], Value], n: Optional[int], catch: Any, lease: Optional[int]
    ) -> None:
        self.study = study
        self.objective = objective
        self.left = n  # trials that may still be asked for; None = no limit
        self.catch = catch
        self.lease = lease
        self.running: Dict[int, Trial] = {}  # those with a lease
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.error: Optional[BaseException] = None
        self.over = False

    def claim(self) -> bool:
        """May one more trial be asked for?"""
        with self.lock:
            if self.over or self.left == 0:
                return False
            if self.left is not None:
                self.left -= 1
            return True

    def stop(self, error: Optional[BaseException] = None) -> None:
        with self.lock:
            self.over = True
            if error is not None and self.error is None:
                self.error = error

    def evaluate(self, trial: Trial) -> Dict[str, Any]:
        if trial.hold:
            self.running[trial.number] = trial
        try:
            return self.study._result(trial, self.objective(trial), False, False, None)
        except Pruned as e:
            one = len(self.study.objectives) == 1  # several cannot be judged before the end
            return self.study._result(trial, trial._reported if one else None, not one, one, str(e) or None)
        except BaseException as e:
            if not isinstance(e, self.catch):
                self.stop(e)
            if not isinstance(e, Exception) and self.study.alone:
                raise  # Ctrl-C: nothing is told, so that the trial is handed out again
            return self.study._result(trial, None, True, False, "%s: %s" % (type(e).__name__, e))
        finally:
            self.running.pop(trial.number, None)

    def next(self) -> Trial:
        """Waits while others have trials that they may lose."""
        pause = 0.05
        while True:
            found, more = self.study._ask(1, self.lease)
            if found:
                return found[0]
            if not more or self.over:
                raise Exhausted("the study %s has no further trial" % self.study.name, "exhausted")
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    def tell(self, trial: Trial, result: Dict[str, Any], ask: int) -> List[Trial]:
        """Unless somebody else has the trial by now: then its result is not wanted."""
        try:
            if not trial.lost:
                return self.study._tell([result], ask, self.lease)
        except BerthError as e:
            if e.code != "conflict" or not trial.hold:
                raise
            trial.lost = True
        self.study._held.pop(trial.number, None)
        return []

    def work(self) -> None:
        trial: Optional[Trial] = None
        claimed = False
        try:
            while trial is not None or claimed or self.claim():
                if trial is None:
                    trial = self.next()
                result = self.evaluate(trial)
                # An orphan is handed out by ask() alone.
                claimed = not self.study.alone and self.claim()
                told = self.tell(trial, result, 1 if claimed else 0)
                trial = told[0] if told else None
                claimed = claimed and trial is None
        except Exhausted:
            self.stop()
        except BaseException as e:
            self.stop(e)

    def renew(self) -> None:
        """A sign of life for all trials that are evaluated, three times per lease."""
        while not self.ended.wait((self.lease or LEASE_S) / 3):
            held = [t for t in list(self.running.values()) if not t.lost]
            try:
                if held:
                    self.study._renew(held)
            except BerthError:
                pass  # who tells the result says what is wrong

    def run(self, parallel: int) -> None:
        threads = [threading.Thread(target=self.work, daemon=True) for _ in range(parallel - 1)]
        for t in threads:
            t.start()
        threading.Thread(target=self.renew, daemon=True).start()
        try:
            self.work()
            for t in threads:
                t.join()
        finally:
            self.ended.set()
        if self.error is not None:
            raise self.error


# ---- helpers ----


def _lease(seconds: Optional[int]) -> Dict[str, Any]:
    return {"lease": seconds} if seconds else {}


def _hold(hold: int) -> Dict[str, Any]:
    return {"hold": hold} if hold else {}


def _goals(minimize: Goal, maximize: Goal, objectives: Optional[Iterable[Tuple[str, str]]]) -> List[Dict[str, str]]:
    goals = [{way: metric} for way, metric in objectives or ()]
    for way, goal in (("minimize", minimize), ("maximize", maximize)):
        names = [goal] if isinstance(goal, str) else ["value"] if goal is True else list(goal or ())
        goals += [{way: name} for name in names if name]
    if not goals:
        raise TypeError('a study needs an objective: minimize="loss" or maximize="acc"')
    if any(way not in ("minimize", "maximize") for goal in goals for way in goal):
        raise TypeError('objectives are pairs such as ("minimize", "loss") and ("maximize", "acc")')
    return goals


def _values(number: int, value: Value, metrics: List[str]) -> Optional[List[float]]:
    """One number for each metric, or None."""
    if value is None:
        return None
    if len(metrics) > 1:
        try:
            found = [value[m] for m in metrics] if isinstance(value, Mapping) else list(value)  # type: ignore[arg-type]
        except (TypeError, KeyError):
            raise TypeError("the result of trial %d is %r, not one number for each of %s" % (number, value, ", ".join(metrics))) from None
        if len(found) != len(metrics):
            raise TypeError("the result of trial %d has %d values, the study %d objectives" % (number, len(found), len(metrics)))
    else:
        found = [value]  # type: ignore[list-item]
    try:
        return [float(v) for v in found]
    except (TypeError, ValueError):
        raise TypeError("the result of trial %d is %r, not a number" % (number, value)) from None


def _result(
    trial: Union[Trial, int], value: Value, metrics: List[str], failed: bool, pruned: bool, reason: Optional[str]
) -> Dict[str, Any]:
    number = trial.number if isinstance(trial, Trial) else int(trial)
    values = _values(number, value, metrics)
    bad = [v for v in values or () if not math.isfinite(v)]
    if bad:
        reason, values = reason or "the result is %r" % bad[0], None
    if failed or values is None:
        result: Dict[str, Any] = {"number": number, "failed": True, "reason": reason or "no result"}
    else:
        result = {"number": number, "value": values[0]} if len(values) == 1 else {"number": number, "values": values}
        if pruned:
            result["pruned"] = True
    if isinstance(trial, Trial):
        result.update(_hold(trial.hold))
        trial.value = None if "failed" in result else (values or [None])[0]
        trial.values = result.get("values")
        trial.reason = result.get("reason")
        trial.state = "failed" if "failed" in result else "pruned" if pruned else "done"
    return result
