"""HTTP over a unix socket: a few lines over http.client.

Owns: how bytes travel to the daemon.  Does not own: what they mean (_client.py, _spool.py).
"""

import http.client
import json
import os
import socket
import time
from typing import Any, Dict, Optional, Tuple

#: sun_path of Linux holds 108 bytes with the closing NUL.
SUN_PATH_MAX = 107


def connect_unix(path: str, timeout: Optional[float]) -> socket.socket:
    """A connected stream socket.  Longer paths than the kernel takes go through /proc/self/fd."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | getattr(socket, "SOCK_CLOEXEC", 0))
    dir_fd = -1
    try:
        sock.settimeout(timeout)
        target = path
        if len(os.fsencode(path)) > SUN_PATH_MAX:
            dir_fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
            target = "/proc/self/fd/%d/%s" % (dir_fd, os.path.basename(path))
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                sock.connect(target)
                return sock
            except BlockingIOError:  # so many connect at once that the queue of the socket is full
                if until is not None and time.monotonic() >= until:
                    raise
                time.sleep(0.005)
    except BaseException:
        sock.close()
        raise
    finally:
        if dir_fd >= 0:
            os.close(dir_fd)


class UnixConnection(http.client.HTTPConnection):
    """http.client over a unix socket."""

    def __init__(self, path: str, timeout: Optional[float] = 30.0) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = connect_unix(self._path, self.timeout)


def bearer(token: Optional[str]) -> Dict[str, str]:
    """The header that shows a token, or nothing."""
    return {"Authorization": "Bearer " + token} if token else {}


def exchange(
    conn: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Optional[bytes] = None,
    headers: Optional[Dict[str, str]] = None,
) -> Tuple[int, bytes]:
    """One request and its whole reply; (status, body).  Transport failures are OSError."""
    try:
        conn.request(method, path, body=body, headers=headers or {})
        reply = conn.getresponse()
        return reply.status, reply.read()
    except http.client.HTTPException as e:
        conn.close()
        raise ConnectionError("the daemon's reply was cut off or is not HTTP: %r" % (e,)) from e
    except BaseException:
        conn.close()
        raise


def parse_json(body: bytes) -> Any:
    """The value, or None when it is not JSON."""
    try:
        return json.loads(body.decode("utf-8")) if body else None
    except (ValueError, UnicodeDecodeError):
        return None
