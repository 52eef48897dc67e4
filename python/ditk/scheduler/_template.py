"""The user's program as a template: where a sample is written into it, and which fields it has.

Owns: the entry line, the generated assignments, literals, and what can be known of `main_config` without running
the program (_fields.py).
"""

import json
import logging
import math
import numbers
import os
import re
from typing import Any, Iterator, List, Set, Tuple

from ._errors import WrongSample
from ._fields import main_fields

logger = logging.getLogger("ditk.scheduler")
_ENTRY = re.compile(r"""if\s+__name__\s*(?:==|is)\s*(['"])__main__\1\s*:""")


class Template:
    """A program that creates `main_config` and begins its work at ``if __name__ == "__main__":``."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        with open(self.path, encoding="utf-8") as f:  # universal newlines: trials get \n
            self._lines = f.read().split("\n")
        self._entry = next((i for i, line in enumerate(self._lines) if _ENTRY.match(line)), -1)
        if self._entry < 0:
            raise ValueError(
                '%s has no line `if __name__ == "__main__":`, before which the values of a sample are written'
                % self.path
            )
        if not any(line.startswith("main_config") for line in self._lines):
            raise ValueError("%s has no line that begins with main_config, the dict that a sample changes" % self.path)
        try:
            self._fields = main_fields("\n".join(self._lines), self._entry + 1)
        except SyntaxError as e:
            raise ValueError("%s is no Python program: %s (line %s)" % (self.path, e.msg, e.lineno)) from e
        self._warned: Set[Tuple[Any, ...]] = set()

    def check(self, sample: Any) -> None:
        """Raises WrongSample if main_config lacks a dict that the sample goes into."""
        for path, value in _leaves(sample):
            missing = self._fields.missing(path)
            if missing is None:
                continue
            place, near = missing
            if len(place) < len(path):
                raise WrongSample(
                    "main_config of %s has no dict at %s, and the sample changes %s%s"
                    % (self.path, _subscripts(place), _subscripts(path), "; did you mean %r?" % near if near else "")
                )
            if path != ("exp_name",) and path not in self._warned:
                self._warned.add(path)
                hint = "; did you mean %r?" % near if near else ""
                logger.warning("main_config of %s has no %s: it is added%s", self.path, _subscripts(path), hint)

    def program(self, sample: Any, task_name: str) -> str:
        """The program with the sample in it.  Raises WrongSample for a value that cannot be written."""
        lines = []
        for path, value in _leaves(sample):
            try:
                lines.append("main_config%s = %s" % (_subscripts(path), literal(value)))
            except TypeError as e:
                raise WrongSample("main_config%s: %s" % (_subscripts(path), e)) from None
        if "exp_name" not in sample:
            lines.append('main_config["exp_name"] = %s' % literal(task_name))
        return "\n".join(self._lines[: self._entry] + lines + self._lines[self._entry :])


def _leaves(sample: Any, path: Tuple[Any, ...] = ()) -> Iterator[Tuple[Tuple[Any, ...], Any]]:
    """(path, value) of everything but plain dicts, in their order."""
    for key, value in sample.items():
        if type(value) is dict:
            yield from _leaves(value, path + (key,))
        else:
            yield path + (key,), value


def _subscripts(path: Tuple[Any, ...]) -> str:
    return "".join("[%s]" % literal(key) for key in path)


def literal(value: Any) -> str:
    """The value as Python source.  Raises TypeError for one that has no such form."""
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, str):
        return _text(str(value))
    if isinstance(value, numbers.Integral):  # also those of NumPy
        return repr(int(value))
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        return repr(float(value)) if math.isfinite(value) else 'float("%s")' % float(value)
    if type(value) in (bytes, complex):
        return repr(value)
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (literal(k), literal(v)) for k, v in value.items())
    items: List[str] = [literal(v) for v in value] if type(value) in (list, tuple, set) else []
    if type(value) is list:
        return "[%s]" % ", ".join(items)
    if type(value) is tuple:
        return "(%s%s)" % (", ".join(items), "," if len(items) == 1 else "")
    if type(value) is set:
        return "{%s}" % ", ".join(items) if items else "set()"
    raise TypeError(
        "a value of type %s cannot be written into a program; numbers, texts, lists, tuples and dicts can"
        % type(value).__name__
    )


def _text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair
        return ascii(text)
    return json.dumps(text, ensure_ascii=False)
