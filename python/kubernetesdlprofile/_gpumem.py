"""Device memory of this process and its children, from nvidia-smi.

A fallback: the scheduler's own daemon measures where it can see the processes.  0 means "not
measured", which is also what a container with its own process numbers gets.
"""

import os
import shutil
import time
from typing import Dict, List, Optional, Set

TIMEOUT_S = 5.0
RECENT_S = 10.0  #: a heartbeat takes a value as old as this
FRESH_S = 1.0  #: the record of an epoch one as old as this


def family() -> Set[int]:
    """This process and all below it."""
    children: Dict[int, List[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % entry, encoding="ascii", errors="replace") as f:
                parent = int(f.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(entry))
    found, todo = set(), [os.getpid()]
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo += children.get(pid, [])
    return found


def parse(text: str, pids: Set[int]) -> int:
    """MiB on the fullest device, of these processes."""
    import xml.etree.ElementTree as xml  # here, as subprocess below: most machines need neither

    most = 0
    for gpu in xml.fromstring(text).iter("gpu"):
        used = 0
        for process in gpu.iter("process_info"):
            words = (process.findtext("used_memory") or "").split()
            pid = (process.findtext("pid") or "").strip()
            if pid.isdigit() and int(pid) in pids and words and words[0].isdigit():
                used += int(words[0])
        most = max(most, used)
    return most


class GpuMemory:
    """Asks at most as often as wanted; never raises."""

    def __init__(self) -> None:
        self._program: Optional[str] = shutil.which("nvidia-smi")
        self._value = 0
        self._asked: Optional[float] = None

    def recent(self) -> int:
        return self._get(RECENT_S)

    def fresh(self) -> int:
        return self._get(FRESH_S)

    def _get(self, max_age_s: float) -> int:
        now = time.monotonic()
        if self._program is None or (self._asked is not None and now - self._asked < max_age_s):
            return self._value
        import subprocess

        try:
            out = subprocess.run(
                [self._program, "-q", "-x"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=TIMEOUT_S,
                check=True,
            ).stdout
            self._value = parse(out.decode("utf-8", "replace"), family())
        except (OSError, subprocess.SubprocessError, SyntaxError):  # the last: not XML
            self._value = 0
        self._asked = time.monotonic()
        return self._value
