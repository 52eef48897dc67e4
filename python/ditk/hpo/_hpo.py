"""The entry: a function with a search around it.

Owns: `hpo` and the chain of settings that ends with run().  _search.py runs it.
"""

import functools
import inspect
import os
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

from ._algorithm import Algorithm, Grid, Random
from ._bayes import Bayes
from ._search import Result, Search
from ._trial import fitting


class Runner:
    """A search under construction.  Every method but run() returns the runner.

    Settings that are not listed here are passed to the algorithm: `.seed(1)`, `.init_steps(10)`.
    """

    def __init__(self, function: Callable[..., Any], algorithm: Type[Algorithm], silent: bool, recorder: Any) -> None:
        self._function = function
        self._recorder = recorder  # of a scheduler: what keeps the search as a study; None = nothing
        self._algorithm = algorithm
        self._silent = silent
        self._space: Any = {}
        self._max_steps: Optional[int] = None
        self._max_workers = os.cpu_count() or 1
        self._max_retries = 3
        self._rank = 5
        self._target: Optional[Tuple[bool, Any, str]] = None
        self._concerns: List[Tuple[Any, str]] = []
        self._stops: List[Any] = []
        self._observers: List[Any] = []
        self._settings: Dict[str, Any] = {}

    def __getattr__(self, name: str) -> Callable[[Any], "Runner"]:
        if name.startswith("_"):
            raise AttributeError(name)

        def setting(value: Any) -> "Runner":
            self._settings[name] = value
            return self

        return setting

    def max_steps(self, n: int) -> "Runner":
        """How many samples there are; a grid takes it as a budget that its choices may exceed."""
        self._max_steps = _whole("max_steps", n, 0)
        return self

    def max_workers(self, n: int) -> "Runner":
        """How many trials run at once; by default as many as this machine has CPUs."""
        self._max_workers = _whole("max_workers", n, 1)
        return self

    def max_retries(self, n: int) -> "Runner":
        """How many attempts a sample has in all."""
        self._max_retries = _whole("max_retries", n, 1)
        return self

    def maximize(self, target: Any, name: str = "target") -> "Runner":
        """The larger this expression, the better the trial."""
        return self._aim(True, target, name)

    def minimize(self, target: Any, name: str = "target") -> "Runner":
        """The smaller this expression, the better the trial."""
        return self._aim(False, target, name)

    def _aim(self, maximize: bool, target: Any, name: str) -> "Runner":
        if self._target is not None:
            raise SyntaxError("a search has one target; maximize or minimize was called before")
        self._target = (maximize, target, name)
        return self

    def concern(self, expression: Any, name: str) -> "Runner":
        """One more column of the rank list."""
        self._concerns.append((expression, name))
        return self

    def rank(self, n: int) -> "Runner":
        """The length of the rank list."""
        self._rank = _whole("rank", n, 1)
        return self

    def stop_when(self, condition: Any) -> "Runner":
        """Start no more samples after a success for which this is true.  Several conditions: any of them."""
        self._stops.append(condition)
        return self

    def spaces(self, space: Any) -> "Runner":
        """What to search: dicts, lists and tuples of constants and of uniform(…), choice(…) and the others."""
        self._space = space
        return self

    def set_utils(self, **values: Any) -> "Runner":
        """Sets acq, kappa, kappa_decay, kappa_decay_delay and xi at once."""
        known = ("acq", "kappa", "kappa_decay", "kappa_decay_delay", "xi")
        for name in values:
            if name not in known:
                raise TypeError("set_utils() has no argument %r; it has %s" % (name, ", ".join(known)))
        self._settings.update(values)
        return self

    def set_gp_params(self, **values: Any) -> "Runner":
        """Parameters of the Gaussian process of `bayes`."""
        self._settings["gp_params"] = {**self._settings.get("gp_params", {}), **values}
        return self

    def add_event_set(self, observer: Any) -> "Runner":
        """An object whose methods init, init_ok, run_start, step, try_, try_ok, … are called as they happen."""
        self._observers.append(observer)
        return self

    def run(self) -> Optional[Result]:
        """Searches.  (config, return value, metrics) of the best trial; None if no trial succeeded."""
        if self._target is None:
            raise SyntaxError("the search has no target; call maximize(…) or minimize(…) before run()")
        for name in self._settings:
            if name not in self._algorithm.settings:
                warnings.warn("the algorithm %s does not use %s" % (self._algorithm.name, name), stacklevel=2)
        return Search(self).run()


class Hpo:
    """A function that can be searched; it is still called as before."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self._function, instance)

    def grid(self, silent: bool = False) -> Runner:
        """Every point of a grid."""
        return self.search(Grid, silent)

    def random(self, silent: bool = False) -> Runner:
        """Independent points."""
        return self.search(Random, silent)

    def bayes(self, silent: bool = False) -> Runner:
        """Points where a model of the results expects the most."""
        return self.search(Bayes, silent)

    def search(self, algorithm_class: Type[Algorithm], silent: bool = False) -> Runner:
        """An algorithm of your own: a subclass of ditk.hpo.Algorithm."""
        if not (inspect.isclass(algorithm_class) and issubclass(algorithm_class, Algorithm)):
            raise TypeError("search needs a subclass of ditk.hpo.Algorithm, not %r" % (algorithm_class,))
        recorder = getattr(self._function, "record_search", None)
        return Runner(fitting(self._function), algorithm_class, silent, recorder)


def hpo(function: Callable[..., Any]) -> Hpo:
    """Wraps a function of (config) or (config, trial id) for a search; also a decorator."""
    return function if isinstance(function, Hpo) else Hpo(function)


def _whole(name: str, n: Any, least: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or n < least:
        raise ValueError("%s needs a whole number from %d on, not %r" % (name, least, n))
    return n
