"""What a training script calls: parameters in; metrics, parameters, tags, artifacts, epochs out.

Every function is safe anywhere: outside a job it does nothing (params gives the defaults), says so
once, and goes on.  None of them raises for a bad value, an absent daemon or a full disk.
"""

import atexit
import json
import logging
import os
import shutil
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple, Union

from . import _term
from ._spool import Spool

_log = logging.getLogger("berth")

_spool: Optional[Spool] = None
_warned_outside = False
_not_finite: Set[str] = set()
_kept: Dict[str, str] = {}  # key of an artifact → the name of its copy
_defaults: Dict[str, Any] = {}  # of params(), as they were reported
_retired: List[Spool] = []  # of runs that are over; a thread may still be about to write to one
RETIRED_MAX = 4


def in_job() -> bool:
    """True when the scheduler started this process."""
    return bool(os.environ.get("BERTH_JOB_ID"))


def _get(what: str) -> Optional[Spool]:
    """The spool of this run, or None outside a job (said once)."""
    global _spool, _warned_outside
    if _spool is not None:
        return _spool
    if in_job():
        try:
            _spool = Spool(dict(os.environ))
            return _spool
        except Exception as e:
            what = "%s (%r)" % (what, e)
    if not _warned_outside:
        _warned_outside = True
        try:
            _log.warning(
                "berth.%s: not inside a Berth job, so nothing is reported; run it with `berth run` or"
                " `berth submit` to keep parameters and metrics",
                what,
            )
        except Exception:
            pass
    return None


def _begin() -> Tuple[Any, ...]:
    """Another run begins in this process; the result is what _resume() goes on with."""
    global _spool, _not_finite, _kept, _defaults
    before = (_spool, _not_finite, _kept, _defaults)
    _spool, _not_finite, _kept, _defaults = None, set(), {}, {}
    return before


def _resume(before: Tuple[Any, ...]) -> None:
    """That run is over; reports go where they went before it."""
    global _spool, _not_finite, _kept, _defaults
    if _spool is not None:
        _spool.retire()
        _retired.append(_spool)
    _spool, _not_finite, _kept, _defaults = before
    while len(_retired) > RETIRED_MAX:
        _retired.pop(0).close_file()


def params(**defaults: Any) -> Dict[str, Any]:
    """The parameters of this job, over the given defaults.

    >>> p = params(lr=0.1, depth=3)      # a job with params {lr: 0.01} gives lr=0.01, depth=3

    Defaults that are used are logged as parameters, so that the job can be found by them.
    """
    result = dict(defaults)
    spool = _get("params")
    if spool is None:
        return result
    try:
        text = os.environ.get("BERTH_PARAMS")
        path = os.environ.get("BERTH_PARAMS_FILE")
        if text is None and path:
            with open(path, encoding="utf-8") as f:
                text = f.read()
        value = json.loads(text) if text else {}
        if not isinstance(value, dict):
            raise ValueError("not an object")
        result.update(value)
    except (OSError, ValueError) as e:
        spool.warn_once("params", "the parameters of this job cannot be read (%s); defaults are used", e)
        return result
    try:
        for name, x in defaults.items():
            if name not in value and (name not in _defaults or _defaults[name] is not x):
                _defaults[name] = x
                spool.param(name, x)
    except Exception as e:
        spool.warn_once("param", "a parameter was dropped: %r", e)
    return result


def log(metrics: Optional[Mapping[str, Any]] = None, /, step: Optional[int] = None, **values: Any) -> None:
    """Reports metrics: ``log(loss=0.3, step=10)``, or ``log({"val/loss": 0.3}, step=10)``.

    Without a step each metric counts its own reports, from 0.  A value may be NaN or infinite (the
    first time becomes the tag ``nonfinite.NAME`` = "nan at step 10"), or a text.
    """
    spool = _get("log")
    if spool is None:
        return
    try:
        if metrics:
            values = dict(metrics, **values)
        if step is not None and type(step) is not int:
            step = spool.step(step)
            if step is None:
                return
        for name, value in values.items():
            spool.metric(name, value, step)
            if spool.nonfinite is not None:
                _tell_not_finite(spool)
    except Exception as e:
        spool.warn_once("log", "a metric was dropped: %r", e)


def _tell_not_finite(spool: Spool) -> None:
    name, word, step = spool.nonfinite or ("", "", 0)
    spool.nonfinite = None
    if name not in _not_finite:
        _not_finite.add(name)
        spool.tag("nonfinite." + name, "%s at step %d" % (word, step))


def log_metric(name: str, value: Any, step: Optional[int] = None) -> None:
    """One metric, as :func:`log`, in two or three microseconds."""
    spool = _spool if _spool is not None else _get("log_metric")
    if spool is not None:
        try:
            spool.metric(name, value, step)
        except Exception as e:
            spool.warn_once("log", "a metric was dropped: %r", e)


def log_params(params: Optional[Mapping[str, Any]] = None, /, **values: Any) -> None:
    """Parameters of this job beside those it was submitted with; the last value of a name wins."""
    spool = _get("log_params")
    if spool is None:
        return
    try:
        for name, value in dict(params or {}, **values).items():
            spool.param(name, value)
    except Exception as e:
        spool.warn_once("param", "a parameter was dropped: %r", e)


def tag(name: Optional[str] = None, value: Any = "", /, **tags: Any) -> None:
    """Marks this job: ``tag("baseline")``, ``tag("data", "v2")`` or ``tag(data="v2", seed=1)``."""
    spool = _get("tag")
    if spool is None:
        return
    try:
        items = {} if name is None else {name: value}
        items.update(tags)
        for key, x in items.items():
            spool.tag(key, x)
    except Exception as e:
        spool.warn_once("tag", "a tag was dropped: %r", e)


def artifact_dir() -> str:
    """A directory of this run for files worth keeping; outside a job ``./artifacts``."""
    base = os.environ.get("BERTH_RUN_DIR") if _get("artifact_dir") is not None else None
    path = os.path.join(base or os.getcwd(), "artifacts")
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as e:
        if _spool is not None:
            _spool.warn_once("artifacts", "cannot make %s (%s)", path, e.strerror)
    return path


def parent_dir() -> Optional[str]:
    """The artifacts of the trial that this one continues (a search with the engine pbt); None: it begins anew."""
    path = os.environ.get("BERTH_PARENT_ARTIFACTS")
    return path if path and os.path.isdir(path) else None


def artifact(path: "Union[str, os.PathLike[str]]", name: Optional[str] = None, copy: bool = False) -> str:
    """Records a file of this job; the result is the recorded path.

    The file stays where it is unless ``copy`` asks for a copy in this run's own directory, which
    later runs cannot overwrite and `berth rm` removes with the job.
    """
    full = os.path.abspath(os.fspath(path))
    spool = _get("artifact")
    if spool is None:
        return full
    try:
        key = spool.name("artifact", name if name is not None else os.path.basename(full))
        if key is None:
            return full
        if copy:
            try:
                full = _keep(key, full)
            except OSError as e:
                spool.warn_once("copy", "artifact %s was not copied (%s); its own path is recorded", full, e)
        spool.artifact(key, full)
    except Exception as e:
        spool.warn_once("artifact", "an artifact was dropped: %r", e)
    return full


def save_artifact(path: "Union[str, os.PathLike[str]]", key: Optional[str] = None) -> str:
    """Copies the file as it is now into this run's own directory and records it under `key`, its
    name unless told.  The same key again replaces it."""
    return artifact(path, key, copy=True)


def _keep(key: str, path: str) -> str:
    """The copy: under its own name, with a number where another key has that."""
    folder = artifact_dir()
    if os.path.dirname(os.path.realpath(path)) == os.path.realpath(folder):
        _kept.setdefault(key, os.path.basename(path))
        return path
    name = _kept.get(key)
    if name is None:
        stem, ending = os.path.splitext(os.path.basename(path))
        name, n = stem + ending, 0
        while name in _kept.values():
            n += 1
            name = "%s_%d%s" % (stem, n, ending)
        _kept[key] = name
    target = os.path.join(folder, name)
    part = "%s.%d.part" % (target, os.getpid())
    try:
        shutil.copy2(path, part)
        os.replace(part, target)  # a reader sees the old one or the new one
    except BaseException:
        try:
            os.unlink(part)
        except OSError:
            pass
        raise
    return target


def epoch(i: int) -> None:
    """Epoch (or any unit of progress) number `i` is done."""
    spool = _get("epoch")
    if spool is None:
        return
    try:
        spool.epoch(i)
    except Exception as e:
        spool.warn_once("epoch", "an epoch was dropped: %r", e)


def should_stop() -> bool:
    """True once somebody asked this job to end: save what matters and leave the loop.

    Costs nothing: a background thread asks once a second, this returns the last answer.  The first
    SIGTERM is such a request too, from the first call on, unless the script handles SIGTERM itself:
    the job then has its grace time to save.
    """
    spool = _get("should_stop")
    if spool is None:
        return False
    try:
        _term.listen(spool.run_dir)
        return spool.stop_requested() or _term.asked()
    except Exception:
        return False


def flush(timeout: float = 5.0) -> bool:
    """Waits until the daemon has all reports so far; False when it did not take them in time.

    Never needed for safety: what is in the spool is read when the run ends.
    """
    spool = _get("flush")
    return spool is None or spool.flush(timeout)


def _at_exit() -> None:
    if _spool is not None:
        try:
            _spool.close()
        except Exception:
            pass


def _after_fork() -> None:
    if _spool is not None:
        _spool.after_fork()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
