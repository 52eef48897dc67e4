"""What a training script calls: parameters in, metrics, tags, artifacts and epochs out.

Every function is safe anywhere: outside a job it does nothing (params gives the defaults), says so
once, and goes on.  None of them raises for a bad value, an absent daemon or a full disk.
"""

import atexit
import json
import logging
import math
import os
import shutil
from typing import Any, Dict, Mapping, Optional, Set, Union

from ._spool import Spool

_log = logging.getLogger("berth")

NAME_MAX = 200  #: bytes of a metric, tag or artifact name
TEXT_MAX = 4096  #: bytes of a tag's value or a path; more is cut off

_spool: Optional[Spool] = None
_warned_outside = False
_counts: Dict[str, int] = {}
_not_finite: Set[str] = set()

Number = Union[int, float]


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


def params(**defaults: Any) -> Dict[str, Any]:
    """The parameters of this job, over the given defaults.

    >>> p = params(lr=0.1, depth=3)      # a job with params {lr: 0.01} gives lr=0.01, depth=3
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


def _number(value: Any) -> Optional[Union[Number, str]]:
    """JSON has no NaN and no infinity: they travel as the words nan, inf and -inf."""
    if isinstance(value, (str, bytes)):
        return None
    try:
        if isinstance(value, int) and abs(value) < 2**63:
            return int(value)
        x = float(value)  # bool, numpy scalars, tensors of one element, Decimal, Fraction …
    except Exception:  # whatever the object's __float__ raises
        return None
    if math.isfinite(x):
        return x
    return "nan" if math.isnan(x) else ("inf" if x > 0 else "-inf")


def _name(spool: Spool, kind: str, name: Any) -> Optional[str]:
    text = str(name)
    if text and text.isprintable() and len(text.encode("utf-8", "replace")) <= NAME_MAX:
        return text
    spool.warn_once(
        kind + " name", "a %s needs a name of 1 to %d printable bytes; %.60r was dropped", kind, NAME_MAX, text
    )
    return None


def _text(value: Any) -> str:
    """At most TEXT_MAX bytes of whole characters; halves of surrogates become question marks."""
    return str(value).encode("utf-8", "replace")[:TEXT_MAX].decode("utf-8", "ignore")


def _step(spool: Spool, step: Any) -> Optional[int]:
    try:
        value = int(step)
    except Exception:
        value = 2**63
    if abs(value) < 2**63:
        return value
    spool.warn_once("step", "step must be a whole number; %.60r was dropped", step)
    return None


def log(metrics: Optional[Mapping[str, Any]] = None, /, step: Optional[int] = None, **values: Any) -> None:
    """Reports metrics: ``log(loss=0.3, step=10)``, or ``log({"val/loss": 0.3}, step=10)``.

    Without a step each metric counts its own reports, from 0.  NaN and infinities are no points of
    a curve: the first of a metric becomes the tag ``nonfinite.NAME`` = "nan at step 10".
    """
    spool = _get("log")
    if spool is None:
        return
    try:
        items = dict(metrics or {})
        items.update(values)
        at = None if step is None else _step(spool, step)
        if step is not None and at is None:
            return
        for key, value in items.items():
            name = _name(spool, "metric", key)
            number = _number(value)
            if name is None:
                continue
            if number is None:
                spool.warn_once(
                    "value " + name,
                    "metric %s needs a number, got %s; it was dropped (text goes to berth.tag)",
                    name,
                    type(value).__name__,
                )
                continue
            s = at
            if s is None:
                s = _counts.get(name, 0)
                _counts[name] = s + 1
            spool.append({"k": "m", "n": name, "v": number, "s": s})
            if isinstance(number, str) and name not in _not_finite:
                _not_finite.add(name)
                tag("nonfinite." + name, "%s at step %d" % (number, s))
    except Exception as e:
        spool.warn_once("log", "a metric was dropped: %r", e)


def tag(name: Optional[str] = None, value: Any = "", /, **tags: Any) -> None:
    """Marks this job: ``tag("baseline")``, ``tag("data", "v2")`` or ``tag(data="v2", seed=1)``."""
    spool = _get("tag")
    if spool is None:
        return
    try:
        items = {} if name is None else {name: value}
        items.update(tags)
        for key, x in items.items():
            text = _name(spool, "tag", key)
            if text is not None:
                spool.append({"k": "t", "n": text, "x": _text(x)})
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


def artifact(path: "Union[str, os.PathLike[str]]", name: Optional[str] = None, copy: bool = False) -> str:
    """Records a file of this job; the result is the recorded path.

    The file stays where it is unless ``copy`` asks for a copy in this run's own directory, which
    later runs cannot overwrite.
    """
    full = os.path.abspath(os.fspath(path))
    spool = _get("artifact")
    if spool is None:
        return full
    try:
        text = _name(spool, "artifact", name if name is not None else os.path.basename(full))
        if text is None:
            return full
        if copy:
            target = os.path.join(artifact_dir(), os.path.basename(full))
            try:
                if not (os.path.exists(target) and os.path.samefile(full, target)):
                    shutil.copy2(full, target)
                full = target
            except OSError as e:
                spool.warn_once("copy", "artifact %s was not copied (%s); its own path is recorded", full, e)
        spool.append({"k": "a", "n": text, "x": _text(full)})
    except Exception as e:
        spool.warn_once("artifact", "an artifact was dropped: %r", e)
    return full


def epoch(i: int) -> None:
    """Epoch (or any unit of progress) number `i` is done."""
    spool = _get("epoch")
    if spool is None:
        return
    try:
        s = _step(spool, i)
        if s is not None:
            spool.append({"k": "e", "s": s})
    except Exception as e:
        spool.warn_once("epoch", "an epoch was dropped: %r", e)


def should_stop() -> bool:
    """True once somebody asked this job to end: save what matters and leave the loop.

    Costs nothing: a background thread asks once a second, this returns the last answer.
    """
    spool = _get("should_stop")
    if spool is None:
        return False
    try:
        return spool.stop_requested()
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
