"""Search spaces: intervals, steps, choices, what is computed from them, and any nesting of containers.

Owns: the primitives, the order in which the dimensions of a space are visited, and how a list of values
of the dimensions becomes a sample.
"""

import math
import numbers
from decimal import Decimal
from statistics import NormalDist
from typing import Any, Callable, Iterator, List, Sequence, Tuple, Union

from ._expression import ARITHMETIC, SIGNS

Number = Union[int, float]


class Value:
    """Something that has another value in each sample."""

    def dimensions(self) -> List["Dimension"]:
        """The dimensions it is computed from, in order."""
        raise NotImplementedError

    def compute(self, values: Iterator[Any]) -> Any:
        """The value for one sample; takes the values of its dimensions, in order."""
        raise NotImplementedError

    def __rshift__(self, function: Callable[[Any], Any]) -> "Value":
        if not callable(function):
            raise TypeError("value >> function needs something that can be called, not %r" % (function,))
        return Computed(function, (self,))


class Computed(Value):
    """The result of a function of values and constants."""

    def __init__(self, function: Callable[..., Any], parts: Tuple[Any, ...]) -> None:
        self.function = function
        self.parts = parts

    def dimensions(self) -> List["Dimension"]:
        return [d for p in self.parts if isinstance(p, Value) for d in p.dimensions()]

    def compute(self, values: Iterator[Any]) -> Any:
        return self.function(*[p.compute(values) if isinstance(p, Value) else p for p in self.parts])


for _name, (_symbol, _function) in ARITHMETIC.items():
    setattr(Value, "__%s__" % _name, lambda self, other, f=_function: Computed(f, (self, other)))
    setattr(Value, "__r%s__" % _name, lambda self, other, f=_function: Computed(f, (other, self)))
for _name, (_symbol, _function) in SIGNS.items():
    setattr(Value, "__%s__" % _name, lambda self, f=_function: Computed(f, (self,)))


class Dimension(Value):
    """One coordinate of a search space."""

    #: what the grid shares its points by: the number of items of a choice, last - first value of the others
    length: Number

    def dimensions(self) -> List["Dimension"]:
        return [self]

    def compute(self, values: Iterator[Any]) -> Any:
        return next(values)


class Interval(Dimension):
    """Real numbers from low to high.  The ends of an open one are no values (the inverse normal has none there)."""

    def __init__(self, low: Number, high: Number, open_ends: bool = False) -> None:
        self.low, self.high, self.open_ends = low, high, open_ends
        self.length = high - low

    def at(self, share: float) -> float:
        """The point at `share` (0 to 1) of the way from low to high."""
        return float(self.high) if share == 1 else self.low + self.length * share

    def points(self, n: int) -> List[float]:
        """n points: both ends and equal steps between them; the midpoints of n cells if the ends are open."""
        if self.open_ends or n == 1:
            return [self.at((2 * i + 1) / (2 * n)) for i in range(n)]
        return [self.at(i / (n - 1)) for i in range(n)]


class Finite(Dimension):
    """A dimension with `count` values, numbered from 0."""

    count: int

    def item(self, i: int) -> Any:
        raise NotImplementedError

    def points(self, n: int) -> List[Any]:
        """n of the values, evenly spread; the middle one for n = 1."""
        if n == 1:
            return [self.item((self.count - 1) // 2)]
        return [self.item(round(i * (self.count - 1) / (n - 1))) for i in range(n)]


class Steps(Finite):
    """start, start + step, … up to end.  Whole numbers stay whole; others are added as decimals, so that three
    steps of 0.3 are 0.9."""

    def __init__(self, start: Number, end: Number, step: Number) -> None:
        self.whole = all(isinstance(v, int) for v in (start, end, step))
        self.start, self.step = start, step
        steps = (end - start) // step if self.whole else math.floor((end - start) / step * (1 + 1e-9))
        self.count = int(steps) + 1
        self.length = steps * step  # up to the last value, which may lie before `end`

    def item(self, i: int) -> Number:
        if self.whole:
            return self.start + i * self.step
        return float(Decimal(repr(self.start)) + i * Decimal(repr(self.step)))


class Choice(Finite):
    def __init__(self, items: Sequence[Any]) -> None:
        self.items = list(items)
        self.count = self.length = len(self.items)

    def item(self, i: int) -> Any:
        return self.items[i]


# ---- what users call ----


def _numbers(name: str, **given: Any) -> List[Number]:
    """The values as Python's own numbers, so that those of NumPy are taken too."""
    taken: List[Number] = []
    for key, value in given.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError("%s: %s must be a number, not %r" % (name, key, value))
        if not math.isfinite(value):
            raise ValueError("%s: %s must be finite, not %r" % (name, key, value))
        taken.append(int(value) if isinstance(value, numbers.Integral) else float(value))
    return taken


def uniform(low: Number, high: Number) -> Value:
    """Real numbers from low to high."""
    low, high = _numbers("uniform", low=low, high=high)
    if not low < high:
        raise ValueError("uniform(%r, %r): the first number must be below the second" % (low, high))
    return Interval(low, high)


def quniform(start: Number, end: Number, step: Number) -> Value:
    """start, start + step, start + 2 * step, … up to end."""
    start, end, step = _numbers("quniform", start=start, end=end, step=step)
    if start > end:
        raise ValueError("quniform(%r, %r, %r): start is above end" % (start, end, step))
    if step <= 0:
        raise ValueError("quniform(%r, %r, %r): step must be positive" % (start, end, step))
    return Steps(start, end, step)


def randint(low: Number, high: Number) -> Value:
    """Whole numbers from low to high, both included."""
    low, high = _numbers("randint", low=low, high=high)
    first, last = math.ceil(low), math.floor(high)
    if first > last:
        raise ValueError("randint(%r, %r): no whole number lies between them" % (low, high))
    return Steps(first, last, 1)


def choice(items: Sequence[Any]) -> Value:
    """One of the items of a list or a tuple."""
    if not isinstance(items, (list, tuple)):
        raise TypeError("choice needs a list or a tuple, not %s" % type(items).__name__)
    if not items:
        raise ValueError("choice needs at least one item")
    return Choice(items)


def randn(mu: Number = 0, sigma: Number = 1) -> Value:
    """Numbers from the normal distribution with mean mu and standard deviation sigma."""
    mu, sigma = _numbers("randn", mu=mu, sigma=sigma)
    if sigma <= 0:
        raise ValueError("randn: sigma must be positive, not %r" % (sigma,))
    return Computed(NormalDist(mu, sigma).inv_cdf, (Interval(0, 1, open_ends=True),))


# ---- nested spaces ----


def _keys(node: dict) -> List[Any]:
    """The order in which the entries of a dict are visited: sorted, also when types are mixed."""
    try:
        return sorted(node)
    except TypeError:
        return sorted(node, key=lambda k: (type(k).__name__, repr(k)))


def _rebuilt(node: Any, items: List[Any]) -> Any:
    """A list or tuple of the same type with other items; named tuples take them one by one."""
    return type(node)(*items) if hasattr(node, "_fields") else type(node)(items)


def leaves(space: Any, path: Tuple[Any, ...] = ()) -> Iterator[Tuple[Tuple[Any, ...], Value]]:
    """(path, value) of everything in a space that differs between samples, in visiting order."""
    if isinstance(space, Value):
        yield path, space
    elif isinstance(space, dict):
        for key in _keys(space):
            yield from leaves(space[key], path + (key,))
    elif isinstance(space, (list, tuple)):
        for i, item in enumerate(space):
            yield from leaves(item, path + (i,))


def dimensions(space: Any) -> List[Dimension]:
    """The dimensions of a space in visiting order.  A value that stands in two places is two dimensions."""
    return [d for _, value in leaves(space) for d in value.dimensions()]


def sample(space: Any, values: Iterator[Any]) -> Any:
    """The space with `values` in the place of its dimensions; containers keep their types and orders."""
    if isinstance(space, Value):
        return space.compute(values)
    if isinstance(space, dict):
        filled = {key: sample(space[key], values) for key in _keys(space)}
        ordered = {key: filled[key] for key in space}
        return ordered if type(space) is dict else type(space)(ordered)
    if isinstance(space, (list, tuple)):
        return _rebuilt(space, [sample(item, values) for item in space])
    return space


def dotted(path: Tuple[Any, ...]) -> str:
    """A path as people write it: policy.layers.0; the space itself has none and is called value."""
    return ".".join(map(str, path)) or "value"


def lookup(config: Any, path: Tuple[Any, ...]) -> Any:
    """What stands at a path of a sample; None if the function removed it."""
    for key in path:
        try:
            config = config[key]
        except (KeyError, IndexError, TypeError):
            return None
    return config
