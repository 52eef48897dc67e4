"""Messages of one process to the scheduler: in order, from one thread, over kept connections.

Rules:

* Heartbeats are posted: they wait in a queue of bounded length and are dropped when it is full or
  when the scheduler is away; a newer one says more.
* Questions and records of epochs are asked: the caller waits until all before them and they
  themselves were answered, or failed.
* A count of epochs that could not be delivered is owed: it is tried again in the background, before
  the next question, and once more at exit.  Counts are cumulative, so only the newest is kept.
* The ranks of one job must get the same answer to "has to stop?".  One that cannot reach a scheduler
  it has just spoken to therefore waits a while for its return instead of assuming "no".
* The first failure is printed, and the return; not each message in between.
"""

import atexit
import collections
import http.client
import json
import os
import threading
import time
from typing import Any, Callable, Deque, Dict, NamedTuple, Optional, Set

QUEUE_MAX = 64  #: heartbeats that wait; more are dropped
TIMEOUT_S = 5.0  #: of a connection and of a reply
PATIENCE_S = 10.0  #: how long a rank among several waits for a scheduler that went away
RETRY_S = 0.25
AWAY_S = 1.0  #: heartbeats are not even tried for this long after a failure
OWED_S = 1.0  #: how often an epoch count that is owed is tried again
EXIT_S = 3.0  #: how long leaving may take for what is still to be sent
EXIT_OWED_S = 10.0  #: and for a count that is owed to the scheduler that started this process

Say = Callable[[str], None]


class Message(NamedTuple):
    method: str
    host: str
    path: str
    body: Optional[Dict[str, Any]] = None
    gpumem: Optional[Callable[[], int]] = None  #: called on the sending thread


class _Task:
    """A message on its way, and its answer: None = not delivered."""

    def __init__(self, message: Message, posted: bool = False, patience_s: float = 0.0) -> None:
        self.message = message
        self.posted = posted  # a heartbeat: nobody waits for it
        self.patience_s = patience_s
        self.answer: Optional[bytes] = None
        self.over = threading.Event()


class Wire:
    def __init__(self, token: str, say: Say, several_ranks: bool = False) -> None:
        self._headers = {"Authorization": "Bearer " + token} if token else {}
        self._say = say
        self._several_ranks = several_ranks
        self._reset()
        atexit.register(self.close)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._tasks: Deque[_Task] = collections.deque()
        self._posted = 0  # heartbeats among them
        self._busy = False
        self._thread: Optional[threading.Thread] = None
        self._connections: Dict[str, http.client.HTTPConnection] = {}
        self._owed: Optional[Message] = None
        self._away: Dict[str, float] = {}  # host -> when it was last tried in vain
        self._known: Set[str] = set()  # hosts that answered, and were not waited for in vain since
        self._dropped = False

    # A model that holds this object may be copied or saved; what is on its way stays behind.
    def __getstate__(self) -> Dict[str, Any]:
        return {"headers": self._headers, "say": self._say, "several": self._several_ranks}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self._headers, self._say, self._several_ranks = state["headers"], state["say"], state["several"]
        self._reset()
        atexit.register(self.close)

    # ---- called by the training code ----

    def post(self, message: Message) -> None:
        """Queues a heartbeat."""
        self._check_fork()
        with self._changed:
            if self._posted < QUEUE_MAX:
                self._posted += 1
                self._put(_Task(message, posted=True))
            elif not self._dropped:
                self._dropped = True
                self._say("the scheduler is slower than the heartbeats; some are left out")

    def ask(self, message: Message) -> Optional[bytes]:
        """The body of the reply, or None."""
        self._check_fork()
        task = _Task(message, patience_s=PATIENCE_S if self._several_ranks else 0.0)
        with self._changed:
            if self._owed is not None:
                self._put(_Task(self._owed))
            self._put(task)
        return self._wait(task)

    def tell(self, message: Message) -> None:
        """Sends a record; dropped when the scheduler is away."""
        self._check_fork()
        task = _Task(message)
        with self._changed:
            self._put(task)
        self._wait(task)

    def tell_done(self, message: Message) -> None:
        """Sends a count of epochs; owed until it was answered."""
        self._check_fork()
        task = _Task(message)
        with self._changed:
            self._owed = message
            self._put(task)
        self._wait(task)

    def close(self) -> None:
        """At exit: waits until nothing is left to send, but not long, and not for a scheduler that
        never answered.  A token proves that there is one: it may just be restarting, and without
        the last count it would take the training for unfinished."""
        owes = self._owed is not None and bool(self._headers)
        if os.getpid() != self._pid or self._thread is None or not (self._known or owes):
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._tasks and not self._busy and self._owed is None,
                                   EXIT_OWED_S if owes else EXIT_S)

    def _check_fork(self) -> None:
        """In a forked child the thread is gone and the connections are its parent's."""
        if os.getpid() != self._pid:
            self._reset()

    def _put(self, task: _Task) -> None:
        self._tasks.append(task)
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="kubernetesdlprofile", daemon=True)
            try:
                thread.start()
                self._thread = thread
            except RuntimeError:  # no more threads, or the interpreter ends: _wait sends by itself
                pass
        self._changed.notify_all()

    def _wait(self, task: _Task) -> Optional[bytes]:
        while self._thread is None and self._tasks:
            self._do(self._tasks.popleft())
        task.over.wait()
        return task.answer

    # ---- the sending thread ----

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._tasks, OWED_S if self._owed is not None else None)
                task = self._tasks.popleft() if self._tasks else None
                self._busy = True
            try:
                if task is not None:
                    self._do(task)
                elif self._owed is not None:
                    self._send(self._owed)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _do(self, task: _Task) -> None:
        try:
            if task.posted:
                with self._changed:
                    self._posted -= 1
                if time.monotonic() - self._away.get(task.message.host, -AWAY_S) < AWAY_S:
                    return
            self._try(task)
        except Exception as e:  # a fault in here must not become the training's problem
            self._say("%s could not be sent (%r)" % (task.message.path, e))
        finally:
            task.over.set()

    def _try(self, task: _Task) -> None:
        host = task.message.host
        until = time.monotonic() + (task.patience_s if host in self._known else 0.0)
        while True:
            task.answer = self._send(task.message)
            if task.answer is not None:
                return
            if time.monotonic() >= until:
                break
            time.sleep(RETRY_S)
        if task.patience_s:
            self._known.discard(host)

    def _send(self, message: Message) -> Optional[bytes]:
        """One try.  Any answer of the scheduler, even a refusal, is an answer."""
        body = message.body
        if body is not None and message.gpumem is not None:
            body = dict(body, gpumem=message.gpumem())
        data = json.dumps(body, allow_nan=False).encode("ascii") if body is not None else None
        try:
            status, text = self._exchange(message, data)
            if status >= 500:
                raise ConnectionError("it answered %d" % status)
        except (OSError, http.client.HTTPException) as e:
            self._failed(message.host, e)
            return None
        self._came_back(message.host)
        if self._owed is message:
            self._owed = None
        if status >= 400:
            why = text[:120].decode("utf-8", "replace").strip()
            self._say("the scheduler refused %s: %d %s" % (message.path, status, why))
            return b""
        return text

    def _exchange(self, message: Message, data: Optional[bytes]) -> Any:
        """(status, body).  A kept connection may have been closed meanwhile: once anew."""
        headers = dict(self._headers)
        if data is not None:
            headers["Content-Type"] = "application/json"
        for kept in (message.host in self._connections, False):
            connection = self._connections.get(message.host)
            if connection is None:
                connection = http.client.HTTPConnection(message.host, timeout=TIMEOUT_S)
                self._connections[message.host] = connection
            try:
                connection.request(message.method, message.path, data, headers)
                reply = connection.getresponse()
                return reply.status, reply.read()
            except (OSError, http.client.HTTPException) as e:
                connection.close()
                del self._connections[message.host]
                if not kept or isinstance(e, TimeoutError):
                    raise
        raise ConnectionError("no connection")

    def _failed(self, host: str, why: Exception) -> None:
        if host not in self._away:
            self._say("the scheduler at %s does not answer (%s); training goes on" % (host, why or type(why).__name__))
        self._away[host] = time.monotonic()

    def _came_back(self, host: str) -> None:
        if self._away.pop(host, None) is not None:
            self._say("the scheduler at %s answers again" % host)
        self._known.add(host)
