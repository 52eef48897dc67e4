"""Which checkpoint a restarted script should load.

Lightning starts a new ``version_<k>`` at each attempt and saves inside it, so an attempt that was
stopped before its first save leaves an empty newest version: then the one before counts.
"""

import os
import re
from typing import List, Optional, Tuple

TENSORFLOW_NAMES = ("tf_ckpt", "tf_ckpts")


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


def newest_file(directory: str) -> Optional[str]:
    """The newest checkpoint in a directory, or None."""
    try:
        paths = [os.path.join(directory, name) for name in os.listdir(directory)]
    except OSError:
        return None
    keyed = [(key, path) for key, path in ((_age_key(p), p) for p in paths) if key is not None]
    return max(keyed)[1] if keyed else None


def find_checkpoint(root: str) -> Optional[str]:
    """Under a job's root_dir; None when there is nothing to load."""
    for directory in _versions(root):
        path = newest_file(directory)
        if path is not None:
            return path
    for name in TENSORFLOW_NAMES:
        path = os.path.join(root, name)
        if os.path.exists(path) or os.path.exists(path + ".index"):
            return path
    return None
