"""The spool of one run: reports go to a file first, a background thread tells the daemon.

Owns: the file ``$BERTH_RUN_DIR/spool.jsonl`` as seen from this process, the sender thread, the
answer to "should I stop?".

Rules:

* A report is one line and one ``write`` on a descriptor opened with O_APPEND, so threads, forked
  children and the ranks of one job share the file without a lock.
* Nothing here blocks the caller beyond that write and nothing raises.  What cannot be kept (disk
  full, no such directory) is dropped, and the first time of each kind is told in the log.
* Sending is a convenience: it makes reports visible while the job runs.  The daemon reads the rest
  of the file itself when the run has ended, so a sender that never got through loses nothing.
* Appending takes no lock of Python's either (queue.SimpleQueue is reentrant), so that a signal
  handler may report.
* Of all processes of a run one sends, the holder of ``spool.lock``; the others only append.
* ``offset`` counts bytes of the file.  The daemon skips what it has and answers where to go on.
"""

import errno
import fcntl
import json
import logging
import os
import queue
import threading
import time
from typing import Any, Dict, Optional, Set

from . import _http

_log = logging.getLogger("berth")

LINE_MAX = 64 * 1024  #: a longer report is refused
CHUNK_MAX = 256 * 1024  #: bytes per request
SEND_GAP_S = 0.25  #: reports that come closer together share a request
IDLE_S = 1.0  #: how often the sender looks for lines of its sister processes
STOP_POLL_S = 1.0  #: how old the answer of should_stop may be
RETRY_MIN_S, RETRY_MAX_S = 0.5, 30.0
TIMEOUT_S = 5.0
EXIT_WAIT_S = 0.2


class Spool:
    """Reports of one run, from one process."""

    def __init__(self, env: Dict[str, str]) -> None:
        self._job = env["BERTH_JOB_ID"]
        self._run = env.get("BERTH_RUN", "0.1").rpartition(".")[2] or "1"
        self._socket = env.get("BERTH_SOCKET", "")
        self._token = env.get("BERTH_JOB_TOKEN", "")
        self._dir = env.get("BERTH_RUN_DIR", "")
        self._path = os.path.join(self._dir, "spool.jsonl") if self._dir else ""
        self._fd = -1
        self._torn = False
        self._offset = 0
        self._told: Set[str] = set()
        self._refused = False
        self._stop = False
        self._want_stop = False
        self._reset_threads()

    def _reset_threads(self) -> None:
        self._lock = threading.Lock()
        self._calls: "queue.SimpleQueue[bool]" = queue.SimpleQueue()  # True = at once, for flush()
        self._called = False  # a call waits in the queue; one is enough
        self._round = threading.Condition()
        self._asked = self._answered = 0  # rounds of sending: wanted by flush(), done
        self._closing = False
        self._thread: Optional[threading.Thread] = None
        self._conn: Optional[_http.UnixConnection] = None
        self._lock_fd = -1
        self._read_fd = -1

    def after_fork(self) -> None:
        """In a forked child: the thread is gone, its locks may be held by nobody, its connection
        and its place as the sender belong to the parent."""
        conn, lock_fd, read_fd = self._conn, self._lock_fd, self._read_fd
        self._reset_threads()
        try:
            if conn is not None and conn.sock is not None:
                conn.sock.close()
            for fd in (lock_fd, read_fd):
                if fd >= 0:
                    os.close(fd)
        except OSError:
            pass

    def warn_once(self, key: str, text: str, *args: Any) -> None:
        """Tells a problem the first time only; a training loop must not be drowned."""
        if key in self._told:
            return
        self._told.add(key)
        try:
            _log.warning("berth: " + text, *args)
        except Exception:  # a user's log handler may raise
            pass

    # ---- appending: called by the training code ----

    def append(self, record: Dict[str, Any]) -> bool:
        """One report.  True when it is in the file."""
        record["t"] = int(time.time() * 1000)
        line = json.dumps(record, separators=(",", ":"), allow_nan=False).encode("utf-8") + b"\n"
        if len(line) > LINE_MAX:
            self.warn_once("long", "a report of %d bytes was dropped, at most %d", len(line), LINE_MAX)
            return False
        try:
            if self._fd < 0:
                self._open()
            # After a short write the next line starts on a line of its own.
            data = b"\n" + line if self._torn else line
            n = os.write(self._fd, data)
            self._torn = n < len(data)
            if self._torn:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as e:
            self.warn_once(
                "write",
                "reports cannot be written to %s (%s); they are dropped until that is possible",
                self._path or "$BERTH_RUN_DIR (not set)",
                e.strerror,
            )
            return False
        self._notify()
        return True

    def _open(self) -> None:
        if not self._path:
            raise OSError(errno.ENOENT, "no run directory")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._fd = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            os.makedirs(self._dir, mode=0o700, exist_ok=True)
            self._fd = os.open(self._path, flags, 0o600)

    def stop_requested(self) -> bool:
        """The last answer known; a first call starts asking in the background."""
        if not self._want_stop:
            self._want_stop = True
            self._notify()
        elif self._thread is None:
            self._notify()  # a forked child that asks before it reports
        return self._stop

    def _notify(self) -> None:
        if self._thread is None and not self._closing:
            self._start_thread()
        if not self._called:
            self._called = True
            self._calls.put(False)

    def _start_thread(self) -> None:
        if not self._socket or not self._lock.acquire(blocking=False):
            return
        try:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="berth-reports", daemon=True)
                thread.start()
                self._thread = thread
        except RuntimeError as e:  # no more threads, or the interpreter is ending
            self.warn_once("thread", "no background thread (%s); reports are in %s", e, self._path)
        finally:
            self._lock.release()

    def flush(self, timeout: float) -> bool:
        """Waits until everything written so far was sent, or for `timeout` seconds."""
        if self._thread is None:
            return self._fd < 0
        try:
            size = os.fstat(self._fd).st_size if self._fd >= 0 else 0
        except OSError:
            size = 0
        with self._round:
            self._asked += 1
            mine = self._asked
            self._calls.put(True)
            self._round.wait_for(lambda: self._answered >= mine, timeout)
        return self._offset >= size

    def close(self) -> None:
        """At exit: one last try, bounded; the daemon reads the rest."""
        self._closing = True
        self.flush(EXIT_WAIT_S)

    # ---- sending: the background thread ----

    def _work(self) -> None:
        delay, next_poll = 0.0, 0.0
        while True:
            if self._asked != self._answered:
                pass  # flush() waits
            elif delay:
                self._pause(delay, False)
            elif not self._called:
                self._pause(next_poll - time.monotonic() if self._polls() else IDLE_S, True)
            self._called = False
            asked = self._asked
            try:
                self._send_all()
                if self._polls() and time.monotonic() >= next_poll:
                    self._ask_stop()
                    next_poll = time.monotonic() + STOP_POLL_S
                delay = 0.0
            except OSError:
                self._drop_connection()
                delay = min(max(delay * 2, RETRY_MIN_S), RETRY_MAX_S)
            except Exception as e:  # a bug here must not become the training's problem
                self.warn_once("bug", "reports are no longer sent (%r); they are in %s", e, self._path)
                return
            finally:
                with self._round:
                    self._answered = asked
                    self._round.notify_all()
            if not delay:
                self._pause(SEND_GAP_S, False)

    def _polls(self) -> bool:
        return self._want_stop and not self._stop

    def _pause(self, seconds: float, for_calls: bool) -> None:
        """Waits; cut short by flush(), and by reports when `for_calls`."""
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return
            try:
                if self._calls.get(timeout=left) or for_calls:
                    return
            except queue.Empty:
                return

    def _may_send(self) -> bool:
        """Is this process the sender of its run?  Decided by who holds spool.lock."""
        if self._lock_fd >= 0:
            return True
        try:
            fd = os.open(os.path.join(self._dir, "spool.lock"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return True  # no lock to be had; the daemon skips what it has seen
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            os.close(fd)
            return e.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        self._lock_fd = fd
        return True

    def _send_all(self) -> None:
        """Sends what the file has beyond the offset, if this process is the one that sends."""
        if self._read_fd < 0:
            try:
                self._read_fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return
        while not self._refused and os.fstat(self._read_fd).st_size > self._offset and self._may_send():
            chunk = os.pread(self._read_fd, CHUNK_MAX, self._offset)
            chunk = chunk[: chunk.rfind(b"\n") + 1]
            if not chunk:
                return
            before = self._offset
            self._offset = self._post(chunk)
            if self._offset <= before:
                raise ConnectionError("the daemon took nothing")

    def _post(self, chunk: bytes) -> int:
        path = "/v1/jobs/%s/reports?run=%s&offset=%d" % (self._job, self._run, self._offset)
        status, body = self._exchange("POST", path, chunk, "application/x-ndjson")
        if status >= 500 or status == 429:
            raise ConnectionError("the daemon answered %d" % status)
        if status >= 400:
            # Refused for good (the run is over, the token is not ours): the file stays as it is.
            self._refused = True
            error = (_http.parse_json(body) or {}).get("error") or {}
            self.warn_once(
                "refused", "the daemon refused reports: %s", error.get("message", "status %d" % status)
            )
            return self._offset + len(chunk)
        answer = _http.parse_json(body)
        offset = answer.get("offset") if isinstance(answer, dict) else None
        return offset if isinstance(offset, int) else self._offset + len(chunk)

    def _ask_stop(self) -> None:
        status, body = self._exchange("GET", "/v1/jobs/%s/control" % self._job, None, None)
        if status >= 500:
            raise ConnectionError("the daemon answered %d" % status)
        answer = _http.parse_json(body)
        if status < 300 and isinstance(answer, dict) and answer.get("stop") is True:
            self._stop = True

    def _exchange(self, method: str, path: str, body: Optional[bytes], kind: Optional[str]) -> Any:
        headers = _http.bearer(self._token)
        if kind:
            headers["Content-Type"] = kind
        fresh = self._conn is None
        if self._conn is None:
            self._conn = _http.UnixConnection(self._socket, timeout=TIMEOUT_S)
        try:
            return _http.exchange(self._conn, method, path, body, headers)
        except (ConnectionError, BrokenPipeError):
            if fresh:
                raise
            # A kept connection the daemon has closed meanwhile (idle, or restarted): once anew.
            self._drop_connection()
            self._conn = _http.UnixConnection(self._socket, timeout=TIMEOUT_S)
            return _http.exchange(self._conn, method, path, body, headers)

    def _drop_connection(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None
