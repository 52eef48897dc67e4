"""An Optuna storage in the daemon: durable, and shared by all processes that name it.

Optuna writes its journal, line by line, and makes studies and trials of it again by reading; this module
appends to a log of the daemon (``/v1/study-logs``) and reads from it.  What the lines mean is Optuna's own.
"""

import json
import os
import threading
import time
import urllib.parse
import uuid
import warnings
from typing import Any, Callable, Dict, List, Optional

import optuna
from optuna.storages import JournalStorage

from .._client import Client, Unavailable
from .._study import PATIENCE_S

try:  # since Optuna 4.0
    from optuna.storages.journal import BaseJournalBackend as _Backend
except ImportError:
    from optuna.storages._journal.base import BaseJournalLogStorage as _Backend  # type: ignore[no-redef]


class BerthJournal(_Backend):  # type: ignore[misc, valid-type]
    """The lines of one log.  All processes see the same lines in the same order."""

    def __init__(self, name: str = "optuna", client: Optional[Client] = None) -> None:
        self.name = name
        self._given = client
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._client = self._given or Client()
        self._seen = 0  # lines that Optuna has read
        self._ahead: List[Dict[str, Any]] = []  # lines from there on, which an append was answered with

    def __getstate__(self) -> Dict[str, Any]:
        return {"name": self.name, "home": self._client.home}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.name = state["name"]
        self._given = Client(home=state["home"])
        self._reset()

    def _open(self) -> Client:
        if self._pid != os.getpid():  # after a fork the connection is the parent's
            home, lock = self._client.home, self._lock
            self._given = Client(home=home)
            self._reset()
            self._lock = lock
        return self._client

    def _path(self, query: str = "") -> str:
        return "/v1/study-logs/" + urllib.parse.quote(self.name, safe="") + query

    def _patiently(self, call: Callable[[bool], Any]) -> Any:
        """`call(broken)`, again and again while a daemon that went away is waited for."""
        until, pause, broken = time.monotonic() + PATIENCE_S, 0.02, False
        while True:
            try:
                return call(broken)
            except Unavailable:
                broken = True
                if time.monotonic() >= until:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    # ---- what Optuna calls ----

    def append_logs(self, logs: List[Dict[str, Any]]) -> None:
        """Adds lines; they are on disk when this returns."""
        # As text, since a value may be NaN, which Optuna's JSON has and the daemon's has not.
        mark = uuid.uuid4().hex
        lines = [{"id": mark, "log": json.dumps(log)} for log in logs]
        with self._lock:
            client = self._open()

            def append(broken: bool) -> List[Dict[str, Any]]:
                # Whether a request that broke was carried out is seen in the log.
                found = self._pages(self._seen) if broken else []
                if any(line["id"] == mark for line in found):
                    return found
                answer = client.call("POST", self._path(), {"lines": lines, "after": self._seen})
                return answer["items"] if answer["next"] is None else self._pages(self._seen)

            self._ahead = self._patiently(append)

    def read_logs(self, log_number_from: int) -> List[Dict[str, Any]]:
        """The lines from this number on, which counts from 0."""
        with self._lock:
            self._open()
            ahead, self._ahead = self._ahead, []
            if log_number_from != self._seen or not ahead:
                ahead = self._patiently(lambda broken: self._pages(log_number_from))
            self._seen = log_number_from + len(ahead)
        return [json.loads(line["log"]) for line in ahead]

    def _pages(self, after: int) -> List[Dict[str, Any]]:
        found: List[Dict[str, Any]] = []
        position: Optional[int] = after
        while position is not None:
            page = self._client.call("GET", self._path("?after=%d" % position))
            found += page["items"]
            position = page["next"]
        return found


class BerthStorage(JournalStorage):  # type: ignore[misc]
    """A storage for ``optuna.create_study(storage=…)``: the daemon of this user keeps the studies.

    `name` is that of the storage, as the path of a file would be; all processes that give the same one share
    its studies.  Any sampler and pruner of Optuna works on it, also with several objectives.
    """

    def __init__(self, name: str = "optuna", *, client: Optional[Client] = None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # in Optuna 3
            super().__init__(BerthJournal(name, client))

    def __repr__(self) -> str:
        return "<BerthStorage %s>" % self._backend.name
