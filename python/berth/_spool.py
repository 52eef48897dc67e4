"""The spool of one run: reports go to a file first, a background thread tells the daemon.

Owns: the file ``$BERTH_RUN_DIR/spool.jsonl`` as seen from this process, the sender thread, the
answer to "should I stop?".

Needs nothing but the standard library, the module ``_http`` beside it and Python 3.6, so it may be
shipped with a job.  What others may rely on: ``Spool(env)``, ``metric``, ``param``, ``tag``,
``artifact``, ``epoch``, ``end``, ``append``, ``flush``, ``close``, ``after_fork``,
``stop_requested``, ``warn_once``.  ``env`` has BERTH_JOB_ID, BERTH_RUN and BERTH_RUN_DIR; where the
daemon is: BERTH_SOCKET, else BERTH_URL (http or https), with BERTH_JOB_TOKEN.  With neither the
lines are read from the file when the run ends.  The forms of lines are in docs/tracking.md.

Rules:

* A report is one line and one ``write`` on a descriptor opened with O_APPEND, so threads, forked
  children and the ranks of one job share the file without a lock.
* A metric costs the caller two or three microseconds: one formatting, one write into the page cache.
  Nothing is gathered in memory, so a killed process has lost nothing and there is nothing to bound.
* Nothing here blocks the caller beyond that write and nothing raises.  What cannot be kept (disk
  full, no such directory) is dropped, and the first time of each kind is told in the log.
* Sending is a convenience: it makes reports visible while the job runs.  The daemon reads the rest
  of the file itself when the run has ended, so a sender that never got through loses nothing.
* Appending takes no lock of Python's either (queue.SimpleQueue is reentrant), so that a signal
  handler may report.
* Ranks of one job are told apart: all but rank 0 report metrics as ``rank1/loss``, so that two
  values of one step do not become one curve.
* Of all processes of a run one sends, the holder of ``spool.lock``; the others only append.
* ``offset`` counts bytes of the file.  The daemon skips what it has and answers where to go on.
"""

import errno
import fcntl
import http.client
import json
import logging
import math
import os
import queue
import sys
import threading
import time
import urllib.parse
from typing import Any, Dict, Mapping, Optional, Set, Tuple

from . import _http

_log = logging.getLogger("berth")
_Queue = getattr(queue, "SimpleQueue", queue.Queue)  # reentrant where there is one (Python 3.7)
_now = time.time
_os_write = os.write

LINE_MAX = 64 * 1024  #: a longer report is refused
CHUNK_MAX = 512 * 1024  #: bytes per request
SEND_GAP_S = 0.25  #: reports that come closer together share a request
IDLE_S = 1.0  #: how often the sender looks for lines of its sister processes
STOP_POLL_S = 1.0  #: how old the answer of should_stop may be
RETRY_MIN_S, RETRY_MAX_S = 0.5, 30.0
TIMEOUT_S = 5.0
EXIT_WAIT_S = 0.2
NAME_MAX = 200  #: bytes of the name of a metric, parameter, tag or artifact
TEXT_MAX = 4096  #: bytes of a tag's value or a path; more is cut off
POINT_TEXT_MAX = 1000  #: bytes of a metric that is a text
PARAM_MAX = 32 * 1024  #: bytes of the JSON of a parameter
RANK_VARIABLES = (  #: of launchers (berth, torchrun, Lightning; Open MPI, MPICH), with their sizes
    ("RANK", "WORLD_SIZE"),
    ("LOCAL_RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
HEARTBEAT_S = 20.0  #: how often a run that the daemon did not start says that it lives


def text_of(value: Any, limit: int = TEXT_MAX) -> str:
    """At most `limit` bytes of whole characters; halves of surrogates become question marks."""
    return str(value).encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def number_of(value: Any) -> Any:
    """A number as it is written: JSON has no NaN and no infinity, they travel as words.  None: it is
    no number."""
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


def rank_of() -> int:
    """The number of this process among the ranks of its job; 0 where it is alone.  Variables count
    only beside a size: a RANK alone may come from the submitter's own surroundings."""
    try:
        torch = sys.modules.get("torch.distributed")
        if torch is not None and torch.is_available() and torch.is_initialized():
            return int(torch.get_rank())
        for rank, size in RANK_VARIABLES:
            if rank in os.environ and int(os.environ.get(size) or 1) > 1:
                return int(os.environ[rank])
    except Exception:
        pass
    return 0


def misfit_of(value: Any) -> str:
    """Why a value is no metric."""
    kind = type(value).__name__
    try:
        shape = getattr(value, "shape", None)
        if shape is None and isinstance(value, (bytes, bytearray)):
            raise TypeError
        many = "of %d values" % len(value) if shape is None else "of shape %s" % (tuple(shape),)
    except Exception:
        return "it needs a number or a text, got %s" % kind
    return "it needs one number, got a %s %s; log its mean, or each value under its own name" % (kind, many)


class Spool:
    """Reports of one run, from one process."""

    def __init__(self, env: Mapping[str, str]) -> None:
        # By number where it is known: the daemon then need not look it up.
        self._job = env.get("BERTH_JOB_NUMBER") or env["BERTH_JOB_ID"]
        self._run = env.get("BERTH_RUN", "0.1").rpartition(".")[2] or "1"
        self._socket = env.get("BERTH_SOCKET", "")
        self._url = env.get("BERTH_URL", "")
        self._heartbeat = bool(env.get("BERTH_OUTSIDE"))
        self._token = env.get("BERTH_JOB_TOKEN", "")
        self.run_dir = env.get("BERTH_RUN_DIR", "")
        self._path = os.path.join(self.run_dir, "spool.jsonl") if self.run_dir else ""
        self._fd = -1
        self._torn = False
        self._offset = 0
        self._told: Set[str] = set()
        self._refused = False
        self._stop = False
        self._want_stop = False
        self._heads: Dict[str, str] = {}  # of the lines of each metric
        self._curves: Dict[str, str] = {}  # name of a metric → that of this rank's curve
        self._steps: Dict[str, int] = {}
        self.nonfinite: Optional[Tuple[str, str, int]] = None  #: the last such point: name, word, step
        self._reset_threads()

    def _reset_threads(self) -> None:
        self._lock = threading.Lock()
        self._calls: "queue.Queue[bool]" = _Queue()  # True = at once, for flush()
        self._called = False  # a call waits in the queue; one is enough
        self._round = threading.Condition()
        self._asked = self._answered = 0  # rounds of sending: wanted by flush(), done
        self._closing = False
        self._retired = False
        self._thread: Optional[threading.Thread] = None
        self._conn: Optional[http.client.HTTPConnection] = None
        self._lock_fd = -1
        self._read_fd = -1

    def after_fork(self) -> None:
        """In a forked child: the thread is gone, its locks may be held by nobody, its connection
        and its place as the sender belong to the parent."""
        conn, lock_fd, read_fd = self._conn, self._lock_fd, self._read_fd
        self._reset_threads()
        self._heads, self._curves = {}, {}  # it may become another rank
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

    def metric(self, name: str, value: Any, step: Optional[int] = None) -> bool:
        """One point.  A number, or a text of which the daemon keeps the last ones; without a step the
        points of a metric are counted, from 0.  True when it is in the file."""
        head = self._heads.get(name)
        if head is None or type(value) is not float or value - value != 0.0:
            return self._any_metric(name, value, step)
        if step is None:
            step = self._steps.get(name, 0)
            self._steps[name] = step + 1
        elif type(step) is not int:
            return self._any_metric(name, value, step)
        line = f'{head}{value!r},"s":{step},"t":{int(_now() * 1000)}}}\n'.encode()
        try:
            if self._torn or _os_write(self._fd, line) != len(line):
                self._torn = True
                return self._write(line)
        except OSError:  # not open yet, disk full
            return self._write(line)
        if not self._called:
            self._notify()
        return True

    def _any_metric(self, name: Any, value: Any, step: Any) -> bool:
        text = self._curve(name)
        if text is None:
            return False
        number = number_of(value)
        if number is None and isinstance(value, str):
            number = text_of(value, POINT_TEXT_MAX)
        if number is None:
            self.warn_once("value " + text, "metric %s was dropped: %s", text, misfit_of(value))
            return False
        if step is None:
            step = self._steps.get(text, 0)
            self._steps[text] = step + 1
        else:
            step = self.step(step)
            if step is None:
                return False
        if number in ("nan", "inf", "-inf") and not isinstance(value, str):
            self.nonfinite = (text, number, step)
        if isinstance(name, str) and len(self._heads) < 10000:
            self._heads[name] = json.dumps({"k": "m", "n": text}, separators=(",", ":"))[:-1] + ',"v":'
        return self.append({"k": "m", "n": text, "v": number, "s": step})

    def _curve(self, name: Any) -> Optional[str]:
        known = self._curves.get(name) if isinstance(name, str) else None
        if known is not None:
            return known
        rank = rank_of()
        text = self.name("metric", name if rank == 0 or not str(name) else "rank%d/%s" % (rank, name))
        if text is not None and isinstance(name, str) and len(self._curves) < 10000:
            self._curves[name] = text
        return text

    def param(self, name: Any, value: Any) -> bool:
        """A parameter, whatever JSON can say; the last value wins."""
        text = self.name("parameter", name)
        if text is None:
            return False
        try:
            if len(json.dumps(value, allow_nan=False)) > PARAM_MAX:
                raise ValueError("it is longer than %d bytes" % PARAM_MAX)
        except (TypeError, ValueError, RecursionError):
            number = number_of(value)  # of numpy, a tensor of one element
            value = text_of(value) if number is None else number
        return self.append({"k": "p", "n": text, "x": value})

    def tag(self, name: Any, value: Any = "") -> bool:
        """A tag; the last value wins."""
        text = self.name("tag", name)
        return text is not None and self.append({"k": "t", "n": text, "x": text_of(value)})

    def artifact(self, name: Any, path: Any) -> bool:
        """A file of this run, by its path."""
        text = self.name("artifact", name)
        return text is not None and self.append({"k": "a", "n": text, "x": text_of(path)})

    def epoch(self, i: Any) -> bool:
        """Epoch (or any unit of progress) number `i` is done."""
        number = self.step(i)
        return number is not None and self.append({"k": "e", "s": number})

    def end(self, exit_code: int, why: str = "") -> bool:
        """The end of a run that the daemon did not start."""
        return self.append({"k": "x", "v": int(exit_code), "x": text_of(why)})

    def name(self, kind: str, name: Any) -> Optional[str]:
        """The name if it may be one, else None, said once."""
        text = str(name)
        if text and text.isprintable() and len(text.encode("utf-8", "replace")) <= NAME_MAX:
            return text
        self.warn_once(
            kind + " name", "a %s needs a name of 1 to %d printable bytes; %.60r was dropped", kind, NAME_MAX, text
        )
        return None

    def step(self, step: Any) -> Optional[int]:
        """A whole number of 64 bits, or None, said once."""
        try:
            value = int(step)
        except Exception:
            value = 2**63
        if abs(value) < 2**63:
            return value
        self.warn_once("step", "step must be a whole number; %.60r was dropped", step)
        return None

    def append(self, record: Dict[str, Any]) -> bool:
        """One report.  True when it is in the file."""
        record["t"] = int(_now() * 1000)
        line = json.dumps(record, separators=(",", ":"), allow_nan=False).encode("utf-8") + b"\n"
        if len(line) > LINE_MAX:
            self.warn_once("long", "a report of %d bytes was dropped, at most %d", len(line), LINE_MAX)
            return False
        return self._write(line)

    def _write(self, line: bytes) -> bool:
        try:
            if self._fd < 0:
                self._open()
            # After a short write the next line starts on a line of its own.
            data = b"\n" + line if self._torn else line
            n = _os_write(self._fd, data)
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
            os.makedirs(self.run_dir, mode=0o700, exist_ok=True)
            self._fd = os.open(self._path, flags, 0o600)

    def stop_requested(self) -> bool:
        """The last answer known; a first call starts asking in the background."""
        if not self._want_stop:
            self._want_stop = True
            self._notify()
        elif self._thread is None:
            self._notify()  # a forked child that asks before it reports
        return self._stop

    def beat(self) -> None:
        """Starts the sender now, so that a run without reports is heard of too."""
        self._notify()

    def _notify(self) -> None:
        if self._thread is None and not self._closing:
            self._start_thread()
        if not self._called:
            self._called = True
            self._calls.put(False)

    def _start_thread(self) -> None:
        if not (self._socket or self._url) or not self._lock.acquire(blocking=False):
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

    def retire(self) -> None:
        """The run is over and the process goes on: the thread gives back what it holds and ends."""
        self._closing = self._retired = True
        self._calls.put(True)

    def close_file(self) -> None:
        """For a spool that nobody uses any more."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    # ---- sending: the background thread ----

    def _work(self) -> None:
        delay, next_poll = 0.0, 0.0
        while not self._retired:
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
                    next_poll = time.monotonic() + (STOP_POLL_S if self._want_stop else HEARTBEAT_S)
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
        self._drop_connection()
        for fd in (self._lock_fd, self._read_fd):
            if fd >= 0:
                os.close(fd)
        self._lock_fd = self._read_fd = -1

    def _polls(self) -> bool:
        return (self._want_stop and not self._stop) or self._heartbeat

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
            fd = os.open(os.path.join(self.run_dir, "spool.lock"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
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

    def _connect(self) -> http.client.HTTPConnection:
        """The socket where there is one (a container may not have it), else the address."""
        if self._socket and (not self._url or os.path.exists(self._socket)):
            return _http.UnixConnection(self._socket, timeout=TIMEOUT_S)
        url = urllib.parse.urlsplit(self._url)
        make = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        return make(url.hostname or "localhost", url.port, timeout=TIMEOUT_S)

    def _exchange(self, method: str, path: str, body: Optional[bytes], kind: Optional[str]) -> Any:
        headers = _http.bearer(self._token)
        if kind:
            headers["Content-Type"] = kind
        fresh = self._conn is None
        if self._conn is None:
            self._conn = self._connect()
        try:
            return _http.exchange(self._conn, method, path, body, headers)
        except (ConnectionError, BrokenPipeError):
            if fresh:
                raise
            # A kept connection the daemon has closed meanwhile (idle, or restarted): once anew.
            self._drop_connection()
            self._conn = self._connect()
            return _http.exchange(self._conn, method, path, body, headers)

    def _drop_connection(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None
