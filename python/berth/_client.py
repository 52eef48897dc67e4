"""Jobs from outside: submit, list, wait, read logs, cancel.

Owns: the Python face of the REST interface (docs/api/openapi.yaml), and starting a daemon for this
user when none answers, as ``berth submit`` does.
"""

import http.client
import json
import os
import shutil
import subprocess
import time
import urllib.parse
import uuid
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

from . import _http

_started: List["subprocess.Popen[bytes]"] = []  # daemons we started; kept so that they are reaped quietly
DETAILS = ("runs", "spec", "after", "logged_params", "tags", "metrics", "artifacts")  # of one job, not of lists
FINAL = ("succeeded", "failed", "cancelled", "lost")
START_WAIT_S = 10.0  #: how long a daemon we started may take to answer
PAGE = 1000
SYSTEM_SOCKET = "/var/lib/berth/sock"  #: of the daemon for all users of a machine, where there is one
#: Variables that describe this terminal, not the work; the command line leaves out the same.
NOISE = frozenset(
    "_ SHLVL PWD OLDPWD LINES COLUMNS PS1 PS2 WINDOWID SSH_TTY TMUX TMUX_PANE PROMPT_COMMAND LS_COLORS STY"
    " HISTFILE".split()
)

Command = Union[str, Sequence[str]]
Ref = Union[str, int, "Job"]


class BerthError(Exception):
    """The daemon said no, or did not answer.  `code` is one word, `status` the HTTP status or 0."""

    def __init__(self, message: str, code: str = "internal", status: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class NotFound(BerthError):
    """No such job."""


class Denied(BerthError):
    """Not yours, or no valid token."""


class Unavailable(BerthError):
    """Nobody answers, or the daemon cannot do it right now; the same call may succeed later."""


def _error(status: int, body: bytes) -> BerthError:
    answer = _http.parse_json(body)
    error = answer.get("error") if isinstance(answer, dict) else None
    error = error if isinstance(error, dict) else {}
    message = error.get("message") or "the daemon answered with status %d" % status
    kind = {404: NotFound, 401: Denied, 403: Denied, 429: Unavailable, 503: Unavailable, 507: Unavailable}
    return kind.get(status, BerthError)(message, error.get("code", "internal"), status)


def default_home() -> str:
    """``$BERTH_HOME``, else the XDG data directory, as the command line decides."""
    home = os.environ.get("BERTH_HOME")
    if home:
        return home
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(data, "berth")


class Client:
    """A connection to one daemon.

    ``Client()`` talks to the daemon the command line would: that of ``$BERTH_URL`` (with
    ``$BERTH_TOKEN``), of ``$BERTH_HOME``, or this user's own, which is started if none runs.
    ``Client(home=…)`` talks to that of another home, ``Client(url="http://host:port", token=…)`` to
    one on TCP.  Not for use by several threads at once: make one each.
    """

    def __init__(
        self,
        home: Optional[str] = None,
        url: Optional[str] = None,
        token: Optional[str] = None,
        timeout: float = 60.0,
        autostart: Optional[bool] = None,
    ) -> None:
        chosen = home is not None or bool(os.environ.get("BERTH_HOME"))
        if url is None and home is None:
            url = os.environ.get("BERTH_URL") or None
        self._try_system = url is None and not chosen
        self.home = os.path.abspath(home or default_home())
        self._socket = os.path.join(self.home, "sock")
        if url is not None and url.startswith("unix:"):
            self._socket, url, autostart = url[5:], None, bool(autostart)
        self._url = urllib.parse.urlsplit(url) if url else None
        self._token = token or (os.environ.get("BERTH_TOKEN") if self._url else None)
        self._timeout = timeout
        self._autostart = autostart if autostart is not None else self._url is None
        self._conn: Optional[http.client.HTTPConnection] = None

    # ---- transport ----

    def _connection(self, timeout: Optional[float]) -> http.client.HTTPConnection:
        if self._url is None:
            return _http.UnixConnection(self._socket, timeout=timeout)
        make = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        return make(self._url.hostname or "localhost", self._url.port, timeout=timeout)

    def _away(self, e: OSError) -> Unavailable:
        where = self._url.geturl() if self._url else self._socket
        return Unavailable(
            "no daemon answers at %s (%s); start one with `berth serve`" % (where, e.strerror or e), "unavailable"
        )

    def _connected(self, timeout: Optional[float]) -> http.client.HTTPConnection:
        """A fresh connection that is open.  When nobody listens: the machine's daemon if this user
        has chosen none, else a daemon is started."""
        conn = self._connection(timeout)
        try:
            conn.connect()
        except (FileNotFoundError, ConnectionRefusedError) as e:
            if self._try_system and _listens(SYSTEM_SOCKET):
                self._socket = SYSTEM_SOCKET
            elif self._autostart:
                start_daemon(self.home)
            else:
                raise self._away(e) from e
            conn = self._connection(timeout)
            conn.connect()
        return conn

    def call(self, method: str, path: str, body: Any = None, headers: Optional[Mapping[str, str]] = None) -> Any:
        """One request to the REST interface; the decoded reply.  Raises BerthError."""
        all_headers = {"Accept": "application/json", **_http.bearer(self._token), **(headers or {})}
        data: Optional[bytes] = None
        if body is not None:
            data = _dumps(body)
            all_headers["Content-Type"] = "application/json"
        for attempt in (0, 1):
            fresh = self._conn is None
            try:
                if self._conn is None:
                    self._conn = self._connected(self._timeout)
                status, reply = _http.exchange(self._conn, method, path, data, all_headers)
                break
            except OSError as e:
                self._conn = None
                # A kept connection may have been closed by the daemon; nothing that changes state
                # is sent twice without a key that makes it harmless.
                safe = method == "GET" or "Idempotency-Key" in all_headers
                if attempt or fresh or not safe or not isinstance(e, ConnectionError):
                    raise self._away(e) from e
        if status >= 400:
            raise _error(status, reply)
        return _http.parse_json(reply)

    def stream(self, path: str) -> Iterator[bytes]:
        """Pieces of a reply as they arrive, on a connection of its own."""
        try:
            conn = self._connected(None)
        except OSError as e:
            raise self._away(e) from e
        try:
            conn.request("GET", path, headers=_http.bearer(self._token))
            reply = conn.getresponse()
            if reply.status >= 400:
                raise _error(reply.status, reply.read())
            while True:
                piece = reply.read1(65536)
                if not piece:
                    return
                yield piece
        except (OSError, http.client.HTTPException) as e:
            raise Unavailable("the daemon went away while it was read from: %s" % e, "unavailable") from e
        finally:
            conn.close()

    def close(self) -> None:
        """Closes the connection; the next call opens one again."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- jobs ----

    def submit(
        self,
        command: Command,
        *,
        name: Optional[str] = None,
        params: Optional[Mapping[str, Any]] = None,
        project: Optional[str] = None,
        queue: Optional[str] = None,
        cpus: Optional[float] = None,
        mem: Union[None, int, str] = None,
        gpus: Optional[int] = None,
        timeout: Union[None, int, float, str] = None,
        grace: Union[None, int, float, str] = None,
        priority: Optional[int] = None,
        retries: Optional[int] = None,
        backoff: Union[None, int, float, str] = None,
        after: Union[None, Ref, Iterable[Ref]] = None,
        env: Optional[Mapping[str, str]] = None,
        secrets: Optional[Iterable[str]] = None,
        cwd: Optional[str] = None,
        split_output: Optional[bool] = None,
        hold: Optional[bool] = None,
        key: Optional[str] = None,
    ) -> "Job":
        """Submits one job and returns it once it is safely on disk.

        `command` is a list of words, or one line for the shell.  `mem` takes "4G", times take
        seconds or "2h".  A repeated `key` gives the same job instead of a second one.  `secrets` names
        variables, of `env` or of this process, that are stored encrypted and never shown, besides those
        whose names look like secrets; "!NAME" is no secret.
        """
        spec = _spec(
            command,
            name,
            project,
            queue,
            cpus,
            mem,
            gpus,
            timeout,
            grace,
            priority,
            retries,
            backoff,
            env,
            secrets,
            cwd,
            split_output,
        )
        if params:
            spec["params"] = dict(params)
        if hold:
            spec["hold"] = True
        if after is not None:
            spec["after"] = _refs(after)
        answer = self._submit(spec, key)
        return Job(self, answer)

    def sweep(
        self,
        command: Command,
        params: Union[Mapping[str, Any], Sequence[Mapping[str, Any]], None] = None,
        *,
        array: Optional[int] = None,
        slots: Optional[int] = None,
        key: Optional[str] = None,
        **options: Any,
    ) -> "Batch":
        """Submits many jobs in one request, all or none.

        ``params={"lr": [0.1, 0.01], "depth": [3, 5]}`` gives every combination; a list of mappings
        gives one job each; ``array=1000`` gives that many with ``{index}``.  At most `slots` of them
        run at once.  Other options as in submit.
        """
        known = ("name", "project", "queue", "cpus", "mem", "gpus", "timeout", "grace", "priority", "retries")
        known += ("backoff", "env", "secrets", "cwd", "split_output")
        for option in options:
            if option not in known:
                raise TypeError("sweep() got an unexpected keyword argument %r" % option)
        body = _spec(command, *(options.get(k) for k in known))
        if isinstance(params, Mapping):
            body["params"] = {
                k: list(v) if isinstance(v, Iterable) and not isinstance(v, (str, bytes, Mapping)) else [v]
                for k, v in params.items()
            }
        elif params is not None:
            body["jobs"] = [{"params": dict(p)} for p in params]
        if array is not None:
            body["array"] = array
        if slots is not None:
            body["slots"] = slots
        return Batch(self, self._submit(body, key))

    def _submit(self, body: Any, key: Optional[str]) -> Any:
        return self.call("POST", "/v1/jobs", body, {"Idempotency-Key": key or uuid.uuid4().hex})

    def jobs(
        self,
        filter: Optional[str] = None,
        *,
        project: Optional[str] = None,
        state: Union[None, str, Sequence[str]] = None,
        user: Optional[str] = None,
        queue: Optional[str] = None,
        batch: Optional[str] = None,
        sort: Optional[str] = None,
        columns: Union[None, str, Sequence[str]] = None,
        limit: Optional[int] = None,
    ) -> List["Job"]:
        """Jobs that match, e.g. ``jobs("state:failed and lr<0.1", sort="-created", limit=10)``.

        `columns` names parameters and figures of metrics, ``["lr", "acc.max"]``: each job has their
        values in its dictionary `columns`, None for those it lacks.  `sort` takes such names, too.
        """
        query: Dict[str, Any] = {
            "filter": filter,
            "project": project,
            "state": state if state is None or isinstance(state, str) else ",".join(state),
            "user": user,
            "queue": queue,
            "batch": batch,
            "sort": sort,
            "columns": columns if columns is None or isinstance(columns, str) else ",".join(columns),
        }
        found: List[Job] = []
        cursor: Optional[str] = None
        while limit is None or len(found) < limit:
            query["limit"] = PAGE if limit is None else min(PAGE, limit - len(found))
            query["cursor"] = cursor
            page = self.call("GET", "/v1/jobs" + _query(query))
            found.extend(Job(self, item) for item in page["items"])
            cursor = page.get("next")
            if not cursor:
                break
        return found

    def job(self, ref: Ref) -> "Job":
        """The job with this number, id or unique beginning of an id."""
        return Job(self, self.call("GET", "/v1/jobs/" + _ref(ref)))


class Job:
    """A job as the daemon last described it: `state`, `exit_code`, `params` and the other members
    of the JSON object are attributes.  refresh() asks again."""

    def __init__(self, client: Client, data: Mapping[str, Any]) -> None:
        self._client = client
        self._data = dict(data)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_data"][name]
        except KeyError:
            pass
        known = self.__dict__.get("_data", {"created": 0})
        if name.startswith("_") or ("created" in known and (name not in DETAILS or name in known)):
            raise AttributeError("a job has no %r" % name)
        self.refresh()  # lists leave the details out, submit answers with the first few members only
        return self.__getattr__(name)

    def __repr__(self) -> str:
        return "<berth.Job %s %s %s>" % (self._data.get("number"), self._data.get("name"), self._data.get("state"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def columns(self) -> Dict[str, Any]:
        """Values of the columns that Client.jobs was asked for, by their names."""
        found = self._data.get("columns", {})
        return {k: float(v) if v in ("nan", "inf", "-inf") else v for k, v in found.items()}

    @property
    def data(self) -> Dict[str, Any]:
        """The whole JSON object."""
        return dict(self._data)

    @property
    def done(self) -> bool:
        """Has it ended, as of the last refresh?"""
        return self.state in FINAL

    def _path(self, rest: str = "") -> str:
        return "/v1/jobs/%s%s" % (self._data["id"], rest)

    def refresh(self) -> "Job":
        """Asks the daemon again."""
        self._data = dict(self._client.call("GET", self._path()))
        return self

    def wait(self, timeout: Optional[float] = None) -> "Job":
        """Returns when the job has ended; after `timeout` seconds raises TimeoutError.

        A daemon that is away meanwhile is waited for: the job goes on without it.
        """
        _wait(self._update, timeout, "job %s" % self._data.get("number"))
        return self

    def _update(self) -> bool:
        self.refresh()
        return self.done

    def logs(self, stream: str = "out", run: Optional[int] = None) -> str:
        """What its last run (or `run`) printed so far; "" before it runs.  stream "err" exists with
        split_output."""
        try:
            return b"".join(self._client.stream(self._log_path(stream, run, False))).decode("utf-8", "replace")
        except NotFound:
            if run is not None or self.refresh().done:
                raise
            return ""

    def follow(self, stream: str = "out", run: Optional[int] = None) -> Iterator[str]:
        """Lines of output as they are written, until the run ends."""
        rest = b""
        for piece in self._client.stream(self._log_path(stream, run, True)):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")
        if rest:
            yield rest.decode("utf-8", "replace")

    def _log_path(self, stream: str, run: Optional[int], follow: bool) -> str:
        return self._path("/logs") + _query({"stream": stream, "run": run, "follow": 1 if follow else None})

    def cancel(self) -> "Job":
        """Asks it to stop; fine if it has ended already."""
        self._client.call("POST", self._path("/cancel"))
        return self.refresh()

    def hold(self) -> "Job":
        """Keeps it from starting until release(); an error if it does not wait any more."""
        self._client.call("POST", self._path("/hold"))
        return self.refresh()

    def release(self) -> "Job":
        """Lets it start after hold(); fine if it is not held."""
        self._client.call("POST", self._path("/release"))
        return self.refresh()

    def retry(self) -> "Job":
        """Another attempt of a job that has ended."""
        self._client.call("POST", self._path("/retry"))
        return self.refresh()

    def remove(self) -> None:
        """Deletes a job that has ended, with its files."""
        self._client.call("DELETE", self._path())

    def explain(self) -> str:
        """Why it waits and what would let it start."""
        answer = self._client.call("GET", self._path("/explain"))
        return " ".join(t for t in (answer.get("text"), answer.get("remedy")) if t)

    def series(self) -> Any:
        """Everything its metrics reported, as the REST interface gives it."""
        return self._client.call("GET", self._path("/metrics"))


class Batch:
    """Jobs that were submitted together."""

    def __init__(self, client: Client, data: Mapping[str, Any]) -> None:
        self._client = client
        self.id: Optional[str] = data.get("batch")
        self.first: int = data["first"] if "first" in data else data["number"]
        self.count: int = data.get("count", 1)

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return "<berth.Batch %s, jobs %d to %d>" % (self.id, self.first, self.first + self.count - 1)

    def jobs(self, filter: Optional[str] = None) -> List[Job]:
        """Its jobs, in order of submission."""
        if self.id is None:
            return [self._client.job(self.first + i) for i in range(self.count)]
        return self._client.jobs(filter, batch=self.id, sort="id")

    def counts(self) -> Dict[str, int]:
        """How many are in each state."""
        if self.id is None:
            states = [j.state for j in self.jobs()]
            return {s: states.count(s) for s in set(states)}
        answer = self._client.call("GET", "/v1/jobs/summary" + _query({"batch": self.id}))
        return {k: v for k, v in answer.items() if k != "total"}

    def wait(self, timeout: Optional[float] = None) -> List[Job]:
        """Returns its jobs when all have ended; after `timeout` seconds raises TimeoutError."""
        _wait(lambda: sum(n for s, n in self.counts().items() if s not in FINAL) == 0, timeout, repr(self))
        return self.jobs()

    def cancel(self) -> None:
        """Cancels what has not ended."""
        if self.id is None:
            self._client.call("POST", "/v1/jobs/cancel", {"jobs": list(range(self.first, self.first + self.count))})
        else:
            self._client.call("POST", "/v1/jobs/cancel", {"batch": self.id})


# ---- helpers ----


def _wait(done: Callable[[], bool], timeout: Optional[float], what: str) -> None:
    until = None if timeout is None else time.monotonic() + timeout
    pause = 0.01
    while True:
        try:
            if done():
                return
        except Unavailable:
            if until is None and pause >= 0.5:
                pause = 2.0
        now = time.monotonic()
        if until is not None and now >= until:
            raise TimeoutError("%s has not ended within %g seconds" % (what, timeout))
        time.sleep(pause if until is None else max(0.0, min(pause, until - now)))
        pause = min(pause * 1.5, 0.5)


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("utf-8")


def _query(members: Mapping[str, Any]) -> str:
    text = urllib.parse.urlencode({k: v for k, v in members.items() if v is not None})
    return "?" + text if text else ""


def _ref(ref: Ref) -> str:
    return ref.id if isinstance(ref, Job) else urllib.parse.quote(str(ref), safe="")


def _refs(after: Union[Ref, Iterable[Ref]]) -> List[str]:
    if isinstance(after, (str, int, Job)):
        after = [after]
    return [r.id if isinstance(r, Job) else str(r) for r in after]


def _captured_env(extra: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """This process's environment without what describes its terminal or the job it may be."""
    env = {k: v for k, v in os.environ.items() if k not in NOISE and not k.startswith(("BERTH_", "BASH_FUNC_"))}
    env.update({str(k): str(v) for k, v in (extra or {}).items()})
    return env


def _time(value: Union[None, int, float, str]) -> Optional[str]:
    return value if value is None or isinstance(value, str) else "%dms" % round(value * 1000)


def _spec(
    command: Command,
    name: Optional[str],
    project: Optional[str],
    queue: Optional[str],
    cpus: Optional[float],
    mem: Union[None, int, str],
    gpus: Optional[int],
    timeout: Union[None, int, float, str],
    grace: Union[None, int, float, str],
    priority: Optional[int],
    retries: Optional[int],
    backoff: Union[None, int, float, str],
    env: Optional[Mapping[str, str]],
    secrets: Optional[Iterable[str]],
    cwd: Optional[str],
    split_output: Optional[bool],
) -> Dict[str, Any]:
    spec: Dict[str, Any] = {
        "name": name,
        "command": command if isinstance(command, str) else [os.fspath(w) for w in command],
        "project": project,
        "queue": queue,
        "cwd": os.path.abspath(cwd) if cwd else os.getcwd(),
        "env": _captured_env(env),
        "secrets": list(secrets) if secrets else None,
        "timeout": _time(timeout),
        "grace": _time(grace),
        "priority": priority,
        "retries": retries,
        "backoff": _time(backoff),
        "split_output": split_output,
    }
    need = {k: v for k, v in (("cpus", cpus), ("mem", mem), ("gpus", gpus)) if v is not None}
    if need:
        spec["resources"] = need
    return {k: v for k, v in spec.items() if v is not None}


def _listens(path: str) -> bool:
    try:
        _http.connect_unix(path, 1.0).close()
        return True
    except OSError:
        return False


def _program() -> Optional[str]:
    """The berth program: $BERTH_PROGRAM, on the PATH, or beside this package's source tree."""
    here = os.path.dirname(os.path.abspath(__file__))
    built = os.path.join(here, "..", "..", "build", "src", "cli", "berth")
    for candidate in (os.environ.get("BERTH_PROGRAM"), shutil.which("berth"), built):
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    return None


def start_daemon(home: str, *options: str) -> "subprocess.Popen[bytes]":
    """Starts a daemon for `home`, with options of ``berth serve``, and waits until it answers.  Raises Unavailable."""
    program = _program()
    if program is None:
        raise Unavailable(
            "no daemon answers at %s and the program `berth` is not on the PATH to start one; install it or set"
            " BERTH_PROGRAM" % os.path.join(home, "sock"),
            "unavailable",
        )
    env = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_") or k.startswith("BERTH_LOG")}
    env["BERTH_HOME"] = home
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        with open(os.path.join(home, "log"), "ab") as log:
            child = subprocess.Popen(
                [program, "serve", "--auto", *options],
                env=env,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as e:
        raise Unavailable("cannot start a daemon for %s: %s" % (home, e), "unavailable") from e
    _started.append(child)
    until = time.monotonic() + START_WAIT_S
    while time.monotonic() < until:
        if _listens(os.path.join(home, "sock")):
            return child
        if child.poll() not in (None, 0):
            break
        time.sleep(0.01)
    raise Unavailable(
        "the daemon for %s did not start; %s/log says why" % (home, home), "unavailable"
    )


_default: Optional[Client] = None
_default_where: Any = None


def _client() -> Client:
    """The client behind the module's functions; a new one when the home changed."""
    global _default, _default_where
    where = (os.environ.get("BERTH_URL"), default_home())
    if _default is None or _default_where != where:
        _default, _default_where = Client(), where
    return _default


def submit(command: Command, **options: Any) -> Job:
    """Submits one job to this user's daemon; see Client.submit."""
    return _client().submit(command, **options)


def sweep(command: Command, params: Any = None, **options: Any) -> Batch:
    """Submits many jobs to this user's daemon; see Client.sweep."""
    return _client().sweep(command, params, **options)


def jobs(filter: Optional[str] = None, **options: Any) -> List[Job]:
    """Lists jobs of this user's daemon; see Client.jobs."""
    return _client().jobs(filter, **options)


def job(ref: Ref) -> Job:
    """One job of this user's daemon, by number, id or unique beginning of an id."""
    return _client().job(ref)
