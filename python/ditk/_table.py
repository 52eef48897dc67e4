"""Tables of characters, in the two forms that the toolkit prints.

A column is as wide as its longest cell, and at least two wider than its heading.
"""

import numbers
from typing import Any, List, Sequence

PAD = 2


def grid(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Texts at the left, a rule between all rows, a double one below the headings."""
    widths = _widths(headings, rows)
    rule = "+%s+" % "+".join("-" * (w + 2) for w in widths)
    lines = [rule, _line(headings, widths), rule.replace("-", "=")]
    for row in rows:
        lines += [_line(row, widths), rule]
    return "\n".join(lines)


def ranks(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Values: columns of numbers at the right with their points below each other, others at the left."""
    columns = [_column([row[i] for row in rows]) for i in range(len(headings))]
    cells = [[column[0][r] for column in columns] for r in range(len(rows))]
    widths = _widths(headings, cells)
    right = [column[1] for column in columns]
    middle = "+".join("-" * (w + 2) for w in widths)
    lines = ["+%s+" % middle, _line(headings, widths, right), "|%s|" % middle]
    lines += [_line(row, widths, right) for row in cells]
    return "\n".join(lines + ["+%s+" % middle])


def _widths(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> List[int]:
    return [max([len(h) + PAD] + [len(row[i]) for row in rows]) for i, h in enumerate(headings)]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool] = ()) -> str:
    flags = list(right) or [False] * len(cells)
    return "| %s |" % " | ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, flags))


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _column(values: List[Any]) -> Any:
    """(cells, numeric?): numbers have at most six digits if any is a fraction, and blanks behind them so that
    their points meet."""
    if not values or not all(_is_number(v) for v in values):
        return ["" if v is None else str(v) for v in values], False
    fractions = not all(isinstance(v, numbers.Integral) for v in values)
    texts = ["%g" % v if fractions else str(v) for v in values]
    behind = [_behind_point(t) for t in texts]
    return [t + " " * (max(behind) - b) for t, b in zip(texts, behind)], True


def _behind_point(text: str) -> int:
    """How many characters follow the point or the exponent's e; -1 without either."""
    at = text.rfind(".") if "." in text else text.lower().rfind("e")
    return len(text) - at - 1 if at >= 0 else -1
