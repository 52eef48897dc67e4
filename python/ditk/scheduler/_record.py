"""A search as a study of the user's daemon: `berth search ls`, `best`, `importance` and `plot` show it.

Owns: the space of the study and its trials.  The samples come from ditk.hpo, so each is a point that is chosen by
hand.  What cannot be recorded is said once; the search itself goes on.
"""

import logging
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from berth import BerthError, Study

logger = logging.getLogger("ditk.scheduler")
ENGINES = {"grid": "grid", "random": "random", "bayes": "auto"}
ORDINAL_MAX = 1000  #: more steps than these are shown as an interval


class Record:
    """`leaves`: (dotted path, value) of the space, in the order of the values that asked() gets.  Calls come one at
    a time."""

    def __init__(
        self,
        open_study: Callable[..., Study],
        job_of: Callable[[int], Optional[int]],
        *,
        algorithm: str,
        leaves: List[Tuple[str, Any]],
        maximize: bool,
        target: str,
        trials: Optional[int],
    ) -> None:
        self._job_of = job_of
        self._dimensions = list(_named(leaves))
        self._numbers: Dict[int, int] = {}  # trial of the study by sample
        self._study: Optional[Study] = None
        space = {name: found for name, found in ((n, _range(d)) for n, d in self._dimensions) if found is not None}
        engine = ENGINES.get(algorithm, "random")
        self._study = self._try(lambda: open_study(space or {"sample": 1}, engine, maximize, target, trials or None))
        if self._study is not None:
            logger.info("The search is the study %s: `berth search show %s`.", self._study.name, self._study.name)

    def _try(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (BerthError, TypeError) as e:
            logger.warning("The search is not recorded as a study any more: %s", e)
            self._study = None
            return None

    def asked(self, sample: int, values: List[Any]) -> None:
        if self._study is None:
            return
        point = {n: _point(d, v) for (n, d), v in zip(self._dimensions, values) if _range(d) is not None}
        study = self._study

        def ask() -> int:
            study.enqueue(point or {"sample": 1})
            return study.ask().number

        number = self._try(ask)
        if number is not None:
            self._numbers[sample] = number

    def told(self, sample: int, target: Any) -> None:
        try:
            value: Optional[float] = float(target)
        except (TypeError, ValueError):
            value = None
        self._tell(sample, value, "its target is %r, not a number" % (target,))

    def dropped(self, sample: int, error: Optional[BaseException]) -> None:
        self._tell(sample, None, "%s: %s" % (type(error).__name__, error))

    def _tell(self, sample: int, value: Optional[float], reason: str) -> None:
        number, study = self._numbers.get(sample), self._study
        if study is not None and number is not None:
            job = self._job_of(sample)
            self._try(lambda: study.tell(number, value, reason=None if value is not None else reason[:500], job=job))

    def close(self) -> None:
        """There are no more samples: the study has ended with those it had."""
        study = self._study
        if study is not None and self._numbers:
            self._try(lambda: study.extend(len(self._numbers)))
            study.close()


def _named(leaves: List[Tuple[str, Any]]) -> Iterator[Tuple[str, Any]]:
    """(name, dimension) for (path, value): the path, and lr.draw for what lr is computed from."""
    for path, value in leaves:
        inside = value.dimensions()
        for i, d in enumerate(inside):
            yield path if d is value else path + ".draw" + ("" if len(inside) == 1 else str(i)), d


def _plain(items: List[Any]) -> bool:
    texts = [(type(i), i) for i in items if i is None or isinstance(i, (bool, int, str)) or _finite(i)]
    return len(texts) == len(items) == len(set(texts))


def _finite(value: Any) -> bool:
    return isinstance(value, float) and value - value == 0


def _items(d: Any) -> List[Any]:
    """The items of a choice as JSON can say them: themselves, or numbered texts."""
    return d.items if _plain(d.items) else ["%d: %.60r" % (i, item) for i, item in enumerate(d.items)]


def _range(d: Any) -> Optional[Dict[str, Any]]:
    """The dimension as a range of Berth; None if it has one value only."""
    if getattr(d, "count", 2) == 1:
        return None
    if hasattr(d, "items"):
        return {"choice": _items(d)}
    if not hasattr(d, "count"):
        return {"uniform": [d.low, d.high]}
    first, last = d.item(0), d.item(d.count - 1)
    if d.whole:
        return {"int": [first, last], "step": d.step} if d.step != 1 else {"int": [first, last]}
    return {"ordinal": [d.item(i) for i in range(d.count)]} if d.count <= ORDINAL_MAX else {"uniform": [first, last]}


def _point(d: Any, value: Any) -> Any:
    if hasattr(d, "items"):
        return _items(d)[next(i for i, item in enumerate(d.items) if item is value or item == value)]
    return value if hasattr(d, "count") else min(max(value, d.low), d.high)
