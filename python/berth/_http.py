"""HTTP over a unix socket: a few lines over http.client.

Owns: how bytes travel to the daemon.  Does not own: what they mean (_client.py, _spool.py).
"""

import http.client
import json
import os
import socket
import time
from typing import Any, BinaryIO, Dict, Mapping, Optional, Tuple

#: sun_path of Linux holds 108 bytes with the closing NUL.
SUN_PATH_MAX = 107
LINE_MAX = 65536  #: the longest line of a reply's header


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
    """http.client over a unix socket.

    send_and_read() does the same as request() and getresponse() in a third of the time: http.client reads
    the header of a reply as that of a mail, and a search makes thousands of requests.
    """

    def __init__(self, path: str, timeout: Optional[float] = 30.0) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path
        self._reader: Optional[BinaryIO] = None

    def connect(self) -> None:
        self.sock = connect_unix(self._path, self.timeout)

    def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        super().close()

    def send_and_read(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str]
    ) -> Tuple[int, bytes]:
        if self.sock is None:
            self.connect()
        if self._reader is None:
            self._reader = self.sock.makefile("rb")
        lines = ["%s %s HTTP/1.1" % (method, path), "Host: localhost"]
        lines += ["%s: %s" % header for header in headers.items()]
        if body is not None or method in ("POST", "PUT", "PATCH"):
            lines.append("Content-Length: %d" % len(body or b""))
        head = "\r\n".join(lines)
        if len(head.splitlines()) != len(lines) or path.split() != [path]:
            raise ValueError("a request has a line break or a blank in its path or in a header: %r" % path)
        self.sock.sendall(head.encode("latin-1") + b"\r\n\r\n" + (body or b""))
        status, fields = _read_head(self._reader)
        while status < 200:
            status, fields = _read_head(self._reader)
        reply = _read_body(self._reader, status, fields)
        if fields.get(b"connection") == b"close":
            self.close()
        return status, reply


def _cut_off() -> ConnectionError:
    return ConnectionError("the daemon closed the connection in the middle of a reply")


def _read_head(reader: BinaryIO) -> Tuple[int, Dict[bytes, bytes]]:
    words = reader.readline(LINE_MAX).split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise ConnectionError("the daemon's reply was cut off or is not HTTP")
    fields: Dict[bytes, bytes] = {}
    while True:
        line = reader.readline(LINE_MAX)
        if not line.endswith(b"\n"):
            raise _cut_off()
        name, colon, value = line.partition(b":")
        if not colon:
            return int(words[1]), fields
        fields[name.lower()] = value.strip().lower()


def _number(text: bytes, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        raise ConnectionError("the daemon's reply has a length that is no number: %r" % text) from None


def _read_body(reader: BinaryIO, status: int, fields: Dict[bytes, bytes]) -> bytes:
    if status in (204, 304):
        return b""
    if fields.get(b"transfer-encoding") == b"chunked":
        pieces = []
        while True:
            size = _number(reader.readline(LINE_MAX).split(b";")[0].strip(), 16)
            piece = reader.read(size + 2)
            if len(piece) != size + 2:
                raise _cut_off()
            if not size:
                return b"".join(pieces)
            pieces.append(piece[:-2])
    if b"content-length" not in fields:
        fields[b"connection"] = b"close"  # its end is that of the connection
        return reader.read()
    size = _number(fields[b"content-length"], 10)
    body = reader.read(size)
    if len(body) != size:
        raise _cut_off()
    return body


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
        if isinstance(conn, UnixConnection):
            return conn.send_and_read(method, path, body, headers or {})
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
