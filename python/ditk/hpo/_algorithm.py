"""Where samples come from: every point of a grid, or points drawn at random.

Owns: the algorithms that need no model.  An algorithm is asked for samples, one at a time and by one thread,
and told how they ended.
"""

import functools
import itertools
import math
import operator
import random
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ._space import Choice, Dimension, Finite, Interval, dimensions, sample


class Algorithm:
    """The base of all algorithms; `.search(class)` takes one of yours.

    ask() gives the values of `self.dimensions` in order, or None when there are no more.  tell() and drop() get
    the number of that answer (0, 1, …).  `target` is to be minimised.
    """

    name = "custom"
    #: settings of the chain that this algorithm reads, with their defaults
    settings: Dict[str, Any] = {}
    #: what ask() gave last
    drawn: Optional[List[Any]] = None

    def __init__(self, space: Any, max_steps: Optional[int], **settings: Any) -> None:
        self.space = space
        self.dimensions: List[Dimension] = dimensions(space)
        self.max_steps = max_steps
        self.options = {**self.settings, **{k: v for k, v in settings.items() if k in self.settings}}

    def ask(self) -> Optional[List[Any]]:
        raise NotImplementedError

    def tell(self, number: int, target: Any) -> None:
        """The sample succeeded."""

    def drop(self, number: int) -> None:
        """The sample was skipped, or every attempt of it failed."""

    def close(self) -> None:
        """No more samples are needed."""

    def next_sample(self) -> Optional[Tuple[Any]]:
        """The next sample in a tuple, since a sample may be None itself; None when there are no more."""
        values = self.drawn = self.ask()
        return None if values is None else (sample(self.space, iter(values)),)


def grid_counts(dims: List[Dimension], max_steps: Optional[int]) -> List[int]:
    """How many points each dimension of a grid gets.

    Choices get all their items.  The others share the budget in proportion to their lengths: first stepped ones
    by growing count, then continuous ones.
    """
    counts = [d.count if isinstance(d, Finite) else 0 for d in dims]
    # A stepped dimension with one value takes no part; it would make every length a division by zero.
    open_to = [i for i, d in enumerate(dims) if not isinstance(d, Choice) and counts[i] != 1]
    if max_steps is None:
        if any(isinstance(dims[i], Interval) for i in open_to):
            raise ValueError("a grid over a continuous space needs max_steps(n): how many points it may have")
        return counts
    open_to.sort(key=lambda i: (isinstance(dims[i], Interval), counts[i]))
    shared = [d for d in dims if isinstance(d, Choice)] + [dims[i] for i in open_to]
    # One division after the other: where a share is exactly a half, the last bit decides how it is rounded, and
    # programs of the original expect its grids.
    remaining = functools.reduce(operator.truediv, (d.length for d in shared), max_steps)
    for left, i in zip(range(len(open_to), 0, -1), open_to):
        length = dims[i].length
        n = round(max(length * remaining ** (1 / left), 1))
        counts[i] = min(n, counts[i]) if isinstance(dims[i], Finite) else n
        remaining /= counts[i] / length
    return counts


class Grid(Algorithm):
    """Every combination of the points of the dimensions, once; the last dimension varies fastest."""

    name = "grid"

    def __init__(self, space: Any, max_steps: Optional[int], **settings: Any) -> None:
        super().__init__(space, max_steps, **settings)
        counts = grid_counts(self.dimensions, max_steps)
        axes = [d.points(n) for d, n in zip(self.dimensions, counts)]  # type: ignore[attr-defined]
        self._points: Iterator[Tuple[Any, ...]] = itertools.product(*axes)

    def ask(self) -> Optional[List[Any]]:
        point = next(self._points, None)
        return None if point is None else list(point)


class Random(Algorithm):
    """Independent points.  A space without continuous dimensions is drawn from without putting back."""

    name = "random"
    settings = {"seed": None}

    def __init__(self, space: Any, max_steps: Optional[int], **settings: Any) -> None:
        super().__init__(space, max_steps, **settings)
        self._random = random.Random(self.options["seed"])
        finite = all(isinstance(d, Finite) for d in self.dimensions)
        #: points not drawn yet; None = the space is continuous
        self._left = math.prod(d.count for d in self.dimensions) if finite else None  # type: ignore[attr-defined]
        self._moved: Dict[int, int] = {}
        self._asked = 0

    def ask(self) -> Optional[List[Any]]:
        if self._left == 0 or self._asked == self.max_steps:
            return None
        self._asked += 1
        if self._left is None:
            return [self._draw(d) for d in self.dimensions]
        number = self._draw_number()
        values = []
        for d in reversed(self.dimensions):
            number, digit = divmod(number, d.count)  # type: ignore[attr-defined]
            values.append(d.item(digit))  # type: ignore[attr-defined]
        return values[::-1]

    def _draw(self, d: Dimension) -> Any:
        if isinstance(d, Finite):
            return d.item(self._random.randrange(d.count))
        assert isinstance(d, Interval)
        share = self._random.random()
        return d.at(share or 0.5 ** 54 if d.open_ends else share)

    def _draw_number(self) -> int:
        """A step of a shuffle that keeps only what it moved, so that huge spaces cost nothing."""
        assert self._left is not None
        at = self._random.randrange(self._left)
        self._left -= 1
        drawn = self._moved.get(at, at)
        self._moved[at] = self._moved.pop(self._left, self._left)
        return drawn
