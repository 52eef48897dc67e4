"""The status table: six lists of numbers, printed when one of them has changed.

Owns: a thread that prints the newest state.  Scheduling never waits for it.
"""

import logging
import threading
import time
from typing import Callable, List, Optional, Sequence, Tuple

from .. import _table

logger = logging.getLogger("ditk.scheduler")
ROWS = ("task_defined", "task_running", "task_waiting", "task_finished", "task_success", "task_abnormal")
PAUSE_S = 0.05  #: between two tables, so that thousands of short trials do not drown everything else
Lists = Tuple[Tuple[int, ...], ...]


def render(lists: Sequence[Sequence[int]], brackets: bool) -> str:
    """The table; `brackets`: [0, 1, 2] instead of 0,1,2."""
    cells = [str(list(ids)) if brackets else ",".join(map(str, ids)) for ids in lists]
    return _table.grid(["status", "instances"], [[name, cell] for name, cell in zip(ROWS, cells)])


class Printer:
    def __init__(self, snapshot: Callable[[], Lists], brackets: bool) -> None:
        self._snapshot = snapshot
        self._brackets = brackets
        self._last: Optional[Lists] = None
        self._changed = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ditk-table", daemon=True)
        self._thread.start()

    def changed(self) -> None:
        self._changed.set()

    def end(self) -> None:
        """Prints the last state and returns."""
        self._ended.set()
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._changed.wait()
            self._changed.clear()
            self._print()
            self._ended.wait(PAUSE_S)
        self._print()

    def _print(self) -> None:
        lists = self._snapshot()
        if lists == self._last or not any(lists):
            return
        self._last = lists
        if logger.isEnabledFor(logging.INFO):
            logger.info("Status at %s:", time.strftime("%H:%M:%S"))
            logger.info("\n%s", render(lists, self._brackets))
