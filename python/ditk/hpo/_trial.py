"""One sample: its attempts, and how it ended.

Owns: calling the function with as many arguments as it takes, repeating failed attempts, the time of the
attempt that succeeded.
"""

import inspect
import time
from typing import Any, Callable, Dict, Optional

Notify = Callable[..., None]


class Skip(Exception):
    """Raise it in the function to drop a sample without another attempt."""


class Trial:
    """A sample with its id (from 1) and, once it has ended, its outcome.

    `state` is "running", "ok", "failed" or "skipped"; `error` is the exception of the last attempt.
    """

    def __init__(self, number: int, config: Any) -> None:
        self.number = number
        self.config = config
        self.state = "running"
        self.attempts = 0
        self.ret: Any = None
        self.metrics: Dict[str, float] = {}
        self.error: Optional[BaseException] = None

    def outcome(self) -> Dict[str, Any]:
        return {"config": self.config, "return": self.ret, "metrics": self.metrics}

    def run(self, function: Callable[..., Any], max_retries: int, notify: Notify) -> None:
        """Attempts until one succeeds, the sample is skipped or `max_retries` attempts have failed."""
        while self.state == "running":
            self.attempts += 1
            notify("try_", self, self.attempts, max_retries)
            began = time.monotonic()
            try:
                self.ret = function(self.config, self.number)
            except Skip as e:
                self.state, self.error = "skipped", e
                notify("try_skip", self, e)
            except BaseException as e:  # noqa: B902 - also KeyboardInterrupt: the function raised it, no keyboard did
                self.error = e
                final = getattr(e, "aborts_search", False) or getattr(e, "ends_search", False)
                if self.attempts >= max_retries or final:
                    self.state = "failed"
                notify("try_fail", self, e, self.attempts, max_retries)
            else:
                self.metrics = {"time": time.monotonic() - began}
                self.state, self.error = "ok", None
                notify("try_ok", self, self.ret, self.metrics)
            notify("try_complete", self, self.attempts)


def fitting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function called with only as many of the given arguments as its signature has room for."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return lambda *args: function(*args[:1])
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return function
    room = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    return lambda *args: function(*args[:room])
