"""How the module speaks: the lines of the command line, from Python.

Lines about a submission go to stdout, as those of the ``foundations`` command do.  What is told
about the running script itself (it is not tracked, a report was dropped) goes to stderr, so that a
script's output stays its own.  ``logs/system.log`` in the home gets all of them.
"""

import os
import sys
import threading
import time

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

_level = "INFO"
_lock = threading.Lock()
_told = set()


def set_level(name):
    """The effective log_level of this process; unknown names change nothing."""
    global _level
    name = {"WARN": "WARNING", "CRITICAL": "ERROR"}.get(name, name)
    if name in LEVELS:
        _level = name


def _stamp():
    now = time.time()
    return "%s,%03d" % (time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)), now * 1000 % 1000)


def _keep(level, text, logger):
    try:
        from . import _conf

        path = os.path.join(_conf.home(), "logs", "system.log")
        line = "%s - %s - %s - %s\n" % (_stamp(), logger, level, text)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(fd, line.encode("utf-8", "replace"))
        finally:
            os.close(fd)
    except Exception:
        pass  # the log is a convenience


def say(level, text, to=None, logger="foundations"):
    """One line, if the level is one that is shown."""
    _keep(level, text, logger)
    if LEVELS.index(level) < LEVELS.index(_level):
        return
    if _level == "INFO":
        line = "Foundations %s: %s\n" % (level, text)
    else:
        line = "%s - %s - %s - %s\n" % (_stamp(), logger, level, text)
    try:
        with _lock:
            out = to if to is not None else sys.stdout
            out.write(line)
            out.flush()
    except Exception:
        pass  # a closed stream is no reason to end a training


def info(text):
    say("INFO", text)


def error(text):
    say("ERROR", text)


def warning(text):
    say("WARNING", text)


def notice(text):
    """A warning about the running script itself."""
    say("WARNING", text, sys.stderr)


def notice_once(key, text):
    if key not in _told:
        _told.add(key)
        notice(text)


def raw(data):
    """Bytes of a job's log, as they are."""
    with _lock:
        sys.stdout.flush()
        out = getattr(sys.stdout, "buffer", None)
        if out is not None:
            out.write(data)
            out.flush()
        else:  # a notebook or a test that collects text
            sys.stdout.write(data.decode("utf-8", "replace"))
            sys.stdout.flush()
