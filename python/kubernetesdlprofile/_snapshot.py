"""Which checkpoint a restarted script should load.

Lightning starts a new ``version_<k>`` at each attempt and saves inside it, so an attempt that was
stopped before its first save leaves an empty newest version: then the one before counts.  Without a
logger it saves in ``checkpoints``.

A run that was killed while it saved leaves a file that is not whole.  Such a file is never offered:
the one before it is.  Zip files, which PyTorch and Keras write, end with a record that is written
last; of any other file only a size that still changes can be noticed.
"""

import os
import re
import time
import zipfile
from typing import Callable, List, Optional, Tuple

TENSORFLOW_NAMES = ("tf_ckpt", "tf_ckpts")
ZIP_BEGIN = b"PK\x03\x04"
RECENT_S = 2.0  #: a file that was written within this time may still grow
SETTLE_S = 0.25  #: how long such a file is watched

Say = Callable[[str], None]


def _versions(root: str) -> List[str]:
    """Directories version_<k>, highest k first."""
    logs = os.path.join(root, "lightning_logs")
    try:
        names = os.listdir(logs)
    except OSError:
        return []
    found = []
    for name in names:
        match = re.fullmatch(r"version_(\d+)", name)
        if match:
            found.append((int(match.group(1)), os.path.join(logs, name, "checkpoints")))
    return [path for _, path in sorted(found, reverse=True)]


def _age_key(path: str) -> Optional[Tuple[bool, int, List[int]]]:
    """Sorts checkpoints: by their name, by time, by the numbers in the name.  None: not one."""
    try:
        facts = os.stat(path)
        name = os.path.basename(path)
        if name.startswith(".") or (os.path.isdir(path) and not os.listdir(path)) or not facts.st_size:
            return None
    except OSError:
        return None
    numbers = [int(n) for n in re.findall(r"\d+", name)]
    return name.endswith(".ckpt"), facts.st_mtime_ns, numbers


def _still_changes(path: str) -> bool:
    before = os.stat(path)
    if abs(time.time() - before.st_mtime) > RECENT_S:
        return False
    time.sleep(SETTLE_S)
    after = os.stat(path)
    return (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)


def is_whole(path: str) -> bool:
    """Was this checkpoint written to its end, as far as can be seen without its framework?"""
    try:
        if os.path.isdir(path):
            return True
        with open(path, "rb") as f:
            is_zip = f.read(len(ZIP_BEGIN)) == ZIP_BEGIN
        if not is_zip:
            return not _still_changes(path)
        with zipfile.ZipFile(path):  # reads the record at the end and the list of contents before it
            return True
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return False


def newest_file(directory: str, say: Optional[Say] = None) -> Optional[str]:
    """The newest whole checkpoint in a directory, or None."""
    try:
        paths = [os.path.join(directory, name) for name in os.listdir(directory)]
    except OSError:
        return None
    keyed = [(key, path) for key, path in ((_age_key(p), p) for p in paths) if key is not None]
    for _, path in sorted(keyed, reverse=True):
        if is_whole(path):
            return path
        if say is not None:
            say("%s is not whole: it was being written when the run before ended; an older one is used" % path)
    return None


def is_empty(root: str) -> bool:
    """Is there no file anywhere below?"""
    return not any(files for _, _, files in os.walk(root))


def find_checkpoint(root: str, say: Optional[Say] = None) -> Optional[str]:
    """Under a job's root_dir; None when there is nothing to load."""
    for directory in _versions(root) + [os.path.join(root, "checkpoints")]:
        path = newest_file(directory, say)
        if path is not None:
            return path
    for name in TENSORFLOW_NAMES:
        path = os.path.join(root, name)
        if os.path.exists(path) or os.path.exists(path + ".index"):
            return path
    return None
