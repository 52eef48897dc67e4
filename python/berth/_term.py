"""The first SIGTERM of a script that asks should_stop() is a request, not its end.

Owns: the handler of SIGTERM, from the first should_stop() on.  `berth cancel`, a timeout and the end
of a node send SIGTERM; the script then has its grace time to save and leave.

Rules:

* Only a script that asks is spared, and only where SIGTERM has its default action: a handler of the
  script, or one that it sets later, stays in place.  Handlers belong to the main thread, so a script
  that asks from other threads only ends as before.
* A second SIGTERM ends the process.  Those within AGAIN_S of the first are the same request: the
  supervisor tells every process of a job, and launchers (`berth ranks`, torchrun) pass it on.
* Processes that the script starts are not told of a stop by Berth while the script lives: workers of
  a data loader would die under it.  The script ends them, or Berth does after it.
* Processes that the script forks, and those of multiprocessing, die of SIGTERM as before:
  Pool.terminate() relies on it.
* No SIGTERM is lost in a fork.  Python forgets signals that a child gets before it is ready, so the
  signal is held back from before the fork until the child has its default action again.
"""

import os
import signal
import sys
import threading
import time
from typing import Any, Optional

FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
AGAIN_S = 1.0  #: a SIGTERM that comes so long after the first is a second one

_settled = False  # whether the handler is ours was decided
_asked_at: Optional[float] = None  # time.monotonic() of the first SIGTERM
_forking = threading.local()  # .before: the mask of a thread that forks


def listen(run_dir: str) -> None:
    """Puts the handler in place, once, if this process may have it.  The supervisor reads in
    asks_stop which processes end their children, such as data loaders, themselves."""
    global _settled
    if _settled or threading.current_thread() is not threading.main_thread():
        return
    _settled = True
    if not _is_worker() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_term)
        try:
            os.makedirs(run_dir, mode=0o700, exist_ok=True)
            fd = os.open(os.path.join(run_dir, "asks_stop"), FLAGS, 0o600)
            try:
                os.write(fd, b"%d\n" % os.getpid())
            finally:
                os.close(fd)
        except OSError:
            pass  # its children get SIGTERM with it, as before


def asked() -> bool:
    """Did a SIGTERM ask this process to stop?"""
    return _asked_at is not None


def leave() -> None:
    """The run is over, the process goes on: SIGTERM ends it as before."""
    global _settled, _asked_at
    if threading.current_thread() is threading.main_thread():
        if _is_ours():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _settled, _asked_at = False, None


def _is_worker() -> bool:
    """A process that multiprocessing started."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _is_ours() -> bool:
    return signal.getsignal(signal.SIGTERM) is _on_term


def _on_term(signum: int, frame: Any) -> None:
    global _asked_at
    if _asked_at is None:
        _asked_at = time.monotonic()
    elif time.monotonic() - _asked_at >= AGAIN_S:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _before_fork() -> None:
    if _is_ours():
        _forking.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _after_fork() -> None:
    mask = _forking.__dict__.pop("before", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_fork_in_child() -> None:
    global _settled
    if _is_ours():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _settled = True
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
    )
