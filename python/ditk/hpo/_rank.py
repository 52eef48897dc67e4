"""The best trials so far.

Owns: which trial is better, and the rank list as a table.
"""

import bisect
from typing import Any, List, Sequence, Tuple

from .. import _table
from ._space import dotted, lookup
from ._trial import Trial


class RankList:
    """Trials from best to worst, at most `length` of them; equal targets in the order of their ends."""

    def __init__(self, length: int, maximize: bool, target: str, concerns: Sequence[str], paths: Sequence[Any]) -> None:
        self.length = length
        self.maximize = maximize
        self.headings = ["#"] + [dotted(p) for p in paths] + [target] + list(concerns)
        self.paths = paths
        self.total = 0
        self._keys: List[Tuple[bool, Any]] = []
        self._rows: List[Tuple[Trial, List[Any]]] = []

    def key(self, target: Any) -> Any:
        """Smaller is better."""
        return -target if self.maximize else target

    def add(self, trial: Trial, target: Any, concerns: Sequence[Any]) -> None:
        # NaN is not comparable: it goes behind everything else, whatever its neighbours are.
        nan = bool(target != target)
        key = (nan, 0 if nan else self.key(target))
        at = bisect.bisect_right(self._keys, key)
        row = [trial.number] + [lookup(trial.config, p) for p in self.paths] + [target] + list(concerns)
        self._keys.insert(at, key)
        self._rows.insert(at, (trial, row))
        del self._keys[self.length :], self._rows[self.length :]
        self.total += 1

    def best(self) -> Any:
        """The best trial, or None."""
        return self._rows[0][0] if self._rows else None

    def __len__(self) -> int:
        return len(self._rows)

    def __str__(self) -> str:
        return _table.ranks(self.headings, [row for _, row in self._rows])
