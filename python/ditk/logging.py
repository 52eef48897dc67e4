"""The standard logging module, and one call that sets up a terminal handler.

``from ditk import logging`` gives every name of the standard module; ``try_init_root(logging.INFO)`` makes the
root logger print lines ``[MM-DD HH:MM:SS][file:line][LEVEL] message`` to standard error.
"""

import logging as _logging
import re as _re
from logging import *  # noqa: F401,F403
from typing import Any

_root = _logging.getLogger()
# Bound methods: the place in a log line is that of the caller, and nothing is set up behind its back.
debug, info, warning, error = _root.debug, _root.info, _root.warning, _root.error
critical, exception, log = _root.critical, _root.exception, _root.log

#: Words of which markup consists; [0, 1] and [loss] are none.
_STYLE = (
    "bold|dim|italic|underline|blink|reverse|strike|not|on|default|"
    "(?:bright_)?(?:black|red|green|yellow|blue|magenta|cyan|white)|#[0-9a-fA-F]{6}"
)
_MARKUP = _re.compile(r"\[/?(?:(?:%s)(?: (?:%s))*)?(?<!\[)\]" % (_STYLE, _STYLE))


def __getattr__(name: str) -> Any:
    return getattr(_logging, name)


class _Plain(_logging.Formatter):
    """One line per message, without markup such as [bold red]…[/]."""

    def __init__(self) -> None:
        super().__init__(
            "[%(asctime)s][%(filename)s:%(lineno)d][%(levelname)s] %(message)s", datefmt="%m-%d %H:%M:%S"
        )

    def formatMessage(self, record: _logging.LogRecord) -> str:
        record.message = _MARKUP.sub("", record.message)
        return super().formatMessage(record)


def try_init_root(level: int = _logging.INFO) -> _logging.Logger:
    """Makes the root logger print to standard error from `level` on, unless it has handlers already."""
    if not _root.handlers:
        handler = _logging.StreamHandler()
        handler.setFormatter(_Plain())
        _root.addHandler(handler)
        _root.setLevel(level)
    return _root
