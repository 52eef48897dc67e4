"""Expressions over the outcome of a trial: R is what the function returned, M its metrics, C its sample.

Owns: building an expression with Python's operators, and its value for one outcome.
"""

import operator
import statistics
import types
from typing import Any, Callable, Mapping

#: What an expression is evaluated with: ``config``, ``return`` and ``metrics`` of one trial.
Outcome = Mapping[str, Any]


class Expression:
    """A computation that waits for an outcome.  Every operator gives a new expression."""

    def __init__(self, evaluate: Callable[[Outcome], Any], text: str) -> None:
        self.__dict__["_evaluate"] = evaluate
        self.__dict__["_text"] = text

    def __repr__(self) -> str:
        return self._text

    def __getattr__(self, name: str) -> "Expression":
        if name.startswith("__"):  # copy, pickle and the like ask for these; they are no part of a result
            raise AttributeError(name)
        return Expression(lambda o: getattr(self._evaluate(o), name), "%s.%s" % (self._text, name))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("an expression cannot be changed; %s is only read" % self._text)

    def __getitem__(self, key: Any) -> "Expression":
        return Expression(lambda o: self._evaluate(o)[_argument(key, o)], "%s[%r]" % (self._text, key))

    def __call__(self, *args: Any, **kwargs: Any) -> "Expression":
        def call(o: Outcome) -> Any:
            named = {k: _argument(v, o) for k, v in kwargs.items()}
            return self._evaluate(o)(*[_argument(a, o) for a in args], **named)

        return Expression(call, "%s(…)" % self._text)

    def __bool__(self) -> bool:
        raise TypeError("%s has no value before a trial has ended; write & | ~ instead of and, or, not" % self._text)

    # Python would otherwise count 0, 1, 2, … through __getitem__ for ever.
    __iter__ = None  # type: ignore[assignment]
    __contains__ = None  # type: ignore[assignment]
    __hash__ = object.__hash__

    # ---- logic: like `and`, `or`, `not`, so the right side is left alone when the left side decides ----

    def __and__(self, other: Any) -> "Expression":
        return Expression(lambda o: self._evaluate(o) and evaluate(other, o), "(%s & %r)" % (self._text, other))

    def __rand__(self, other: Any) -> "Expression":
        return Expression(lambda o: evaluate(other, o) and self._evaluate(o), "(%r & %s)" % (other, self._text))

    def __or__(self, other: Any) -> "Expression":
        return Expression(lambda o: self._evaluate(o) or evaluate(other, o), "(%s | %r)" % (self._text, other))

    def __ror__(self, other: Any) -> "Expression":
        return Expression(lambda o: evaluate(other, o) or self._evaluate(o), "(%r | %s)" % (other, self._text))

    def __invert__(self) -> "Expression":
        return Expression(lambda o: not self._evaluate(o), "~%s" % self._text)

    # ---- functions of the value ----

    def abs(self) -> "Expression":
        return self._applied(abs, "abs")

    def len(self) -> "Expression":
        return self._applied(len, "len")

    def sum(self) -> "Expression":
        return self._applied(sum, "sum")

    def mean(self) -> "Expression":
        return self._applied(statistics.mean, "mean")

    def stdev(self) -> "Expression":
        """The standard deviation of a sample (divided by n - 1)."""
        return self._applied(statistics.stdev, "stdev")

    def is_(self, other: Any) -> "Expression":
        return Expression(lambda o: self._evaluate(o) is _argument(other, o), "%s.is_(%r)" % (self._text, other))

    def isinstance_(self, kind: Any) -> "Expression":
        return self._applied(lambda v: isinstance(v, kind), "isinstance_")

    def _applied(self, function: Callable[[Any], Any], name: str) -> "Expression":
        return Expression(lambda o: function(self._evaluate(o)), "%s.%s()" % (self._text, name))


def _binary(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[[Expression, Any], Expression]:
    def method(self: Expression, other: Any) -> Expression:
        return Expression(
            lambda o: function(self._evaluate(o), evaluate(other, o)), "(%s %s %r)" % (self._text, symbol, other)
        )

    return method


def _reflected(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[[Expression, Any], Expression]:
    def method(self: Expression, other: Any) -> Expression:
        return Expression(
            lambda o: function(evaluate(other, o), self._evaluate(o)), "(%r %s %s)" % (other, symbol, self._text)
        )

    return method


def _unary(symbol: str, function: Callable[[Any], Any]) -> Callable[[Expression], Expression]:
    return lambda self: Expression(lambda o: function(self._evaluate(o)), "%s%s" % (symbol, self._text))


#: Method name → symbol and function, of the operators that have a reflected form, also for spaces.
ARITHMETIC = {
    "add": ("+", operator.add),
    "sub": ("-", operator.sub),
    "mul": ("*", operator.mul),
    "truediv": ("/", operator.truediv),
    "floordiv": ("//", operator.floordiv),
    "mod": ("%", operator.mod),
    "pow": ("**", operator.pow),
}
SIGNS = {"neg": ("-", operator.neg), "pos": ("+", operator.pos)}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

for _name, (_symbol, _function) in ARITHMETIC.items():
    setattr(Expression, "__%s__" % _name, _binary(_symbol, _function))
    setattr(Expression, "__r%s__" % _name, _reflected(_symbol, _function))
for _name, (_symbol, _function) in SIGNS.items():
    setattr(Expression, "__%s__" % _name, _unary(_symbol, _function))
for _name, _symbol in _COMPARISONS.items():
    setattr(Expression, "__%s__" % _name, _binary(_symbol, getattr(operator, _name)))


def _argument(value: Any, outcome: Outcome) -> Any:
    """The value of a key or an argument: only expressions are computed, so functions can be passed."""
    return value._evaluate(outcome) if isinstance(value, Expression) else value


def evaluate(value: Any, outcome: Outcome) -> Any:
    """The value of an expression, of a plain function of the outcome, or a constant as it is."""
    if isinstance(value, Expression):
        return value._evaluate(outcome)
    if isinstance(value, (types.FunctionType, types.MethodType)):
        return value(dict(outcome))
    return value


R = Expression(lambda o: o["return"], "R")
M = Expression(lambda o: o["metrics"], "M")
C = Expression(lambda o: o["config"], "C")
