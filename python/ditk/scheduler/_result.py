"""What a trial left behind: its result, and the optional side file.

Owns: where results are looked for, and that no pickle is loaded in this process unless the user says so.
"""

import json
import logging
import os
import pickle
import stat
import subprocess
import sys
from typing import Any, Dict, Iterator, List, Tuple

logger = logging.getLogger("ditk.scheduler")
LIMIT = 64 << 20  #: bytes of a result
SIDE_FILES = ("results.txt", "result.txt")
_DECODER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_unpickle.py")


class BadResult(Exception):
    """A result that is there but cannot be taken; `status` says how the trial ended."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def places(folders: List[str]) -> Iterator[str]:
    """Where a result may be, the first choice first."""
    for name in ("result.pkl", "result.json"):
        for folder in folders:
            yield os.path.join(folder, "hpo", name)
            yield os.path.join(folder, name)


def identity(path: str) -> Tuple[int, ...]:
    """Which version of a file is there; () if none."""
    try:
        s = os.stat(path)
    except OSError:
        return ()
    return (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns)


def clear(folder: str) -> None:
    """Removes the result of an earlier trial, which would count as that of the next one."""
    for path in list(places([folder])) + [os.path.join(folder, name) for name in SIDE_FILES]:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def read(path: str, allow_unsafe: bool) -> Any:
    """The decoded result.  Raises BadResult."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        raise BadResult("fail", "cannot open %s: %s" % (path, e.strerror)) from e
    with os.fdopen(fd, "rb") as f:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise BadResult("unsafe result", "%s is no regular file" % path)
        if about.st_size > LIMIT and not allow_unsafe:
            raise BadResult(
                "unsafe result", "%s has %d bytes; a result has at most %d" % (path, about.st_size, LIMIT)
            )
        try:
            if path.endswith(".json"):
                return json.loads(f.read().decode("utf-8"))
            return pickle.load(f) if allow_unsafe else _decoded(f, path)
        except BadResult:
            raise
        except Exception as e:  # noqa: B902 - a broken file, or code of the user's classes
            raise BadResult("fail", "%s cannot be read: %r" % (path, e)) from e


def _decoded(f: Any, path: str) -> Any:
    """The value of a pickle, read by a child that can do nothing else."""
    child = subprocess.run(
        [sys.executable, "-I", "-S", _DECODER],
        stdin=f,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
    )
    try:
        answer = json.loads(child.stdout.decode("utf-8"))
    except ValueError:
        raise BadResult("fail", "%s cannot be read: it takes too much time or memory" % path) from None
    if "unsafe" in answer:
        raise BadResult(
            "unsafe result",
            "%s asks for %s, which is not on the list of harmless types; store numbers, texts, lists and dicts, or"
            " pass allow_unsafe_pickle=True" % (path, answer["unsafe"]),
        )
    if "broken" in answer:
        raise BadResult("fail", "%s is no complete pickle: %s" % (path, answer["broken"]))
    return _revived(answer["value"])


_KINDS = {
    "dict": lambda v: {k: w for k, w in v},
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "bytes": bytes.fromhex,
    "complex": lambda v: complex(*v),
}


def _revived(value: Any) -> Any:
    """Undoes the marks of _unpickle.py."""
    if isinstance(value, list):
        return [_revived(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {k: _revived(v) for k, v in value.items()}
    return _KINDS[value["$"]](_revived(value["v"]))


def side_file(folders: List[str]) -> Dict[str, Any]:
    """{"status": "success"} and what the trial's side file says."""
    said: Dict[str, Any] = {"status": "success"}
    for path in (os.path.join(folder, name) for folder in folders for name in SIDE_FILES):
        try:
            with open(path, encoding="utf-8") as f:
                found = json.load(f)
            if not isinstance(found, dict):
                raise ValueError("it is no JSON object")
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as e:
            logger.warning("%s is ignored: %s", path, e)
            continue
        said.update(found)
        break
    return said
