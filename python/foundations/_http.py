"""Calls to a scheduler or tracker over HTTP, with nothing but the standard library."""

import http.client
import json
import socket
from urllib.parse import quote, urlsplit

from . import _conf

TIMEOUT_S = 60


class Unreachable(ConnectionError):
    """Nobody answers at the server's address."""


class Refused(RuntimeError):
    """The server answered with an error; `status` is that of HTTP."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def quoted(text):
    return quote(str(text), safe="")


class Server:
    """One server, by its URL.  Safe to use from several threads: each call has its own connection."""

    def __init__(self, url, token=None):
        if "://" not in url:
            url = "http://" + url
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise _conf.ConfigError("'%s' names no server; write http://HOST:PORT" % url)
        self._parts = parts
        self._token = token

    def connection(self, timeout=TIMEOUT_S):
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        return kind(self._parts.hostname, self._parts.port, timeout=timeout)

    def headers(self, more=None):
        head = {"Authorization": "Bearer " + self._token} if self._token else {}
        head.update(more or {})
        return head

    def path(self, path):
        return (self._parts.path or "") + path

    def unreachable(self, why):
        return Unreachable(
            "Cannot currently find Atlas server. Start Atlas server with `atlas-server start`. "
            "(cannot reach %s: %s)" % (self.url, why)
        )

    def open(self, method, path, body=None, headers=None, timeout=TIMEOUT_S):
        """(connection, response); the caller closes the connection."""
        conn = self.connection(timeout)
        try:
            conn.request(method, self.path(path), body=body, headers=self.headers(headers))
            return conn, conn.getresponse()
        except (OSError, http.client.HTTPException, socket.timeout) as e:
            conn.close()
            raise self.unreachable(getattr(e, "strerror", None) or e)
        except BaseException:
            conn.close()
            raise

    def call(self, method, path, body=None, headers=None, timeout=TIMEOUT_S):
        """The body of the reply, as bytes; a status of 400 and more is Refused."""
        head = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, bytearray)) and not hasattr(body, "read"):
            body = json.dumps(body).encode("utf-8")
            head.setdefault("Content-Type", "application/json")
        conn, reply = self.open(method, path, body, head, timeout)
        try:
            data = reply.read()
        except (OSError, http.client.HTTPException) as e:
            raise self.unreachable(e)
        finally:
            conn.close()
        if reply.status >= 400:
            raise refusal(reply.status, data)
        return data

    def json(self, method, path, body=None, timeout=TIMEOUT_S):
        data = self.call(method, path, body, timeout=timeout)
        try:
            return json.loads(data.decode("utf-8")) if data else None
        except ValueError:
            raise Refused(502, "the answer of %s is not JSON" % self.url)


def refusal(status, data):
    message = "the server answered with status %d and no reason" % status
    try:
        error = json.loads(data.decode("utf-8"))["error"]
        message = error["message"] if isinstance(error, dict) else str(error)
    except Exception:
        text = data[:200].decode("utf-8", "replace").strip()
        message = text or message
    return Refused(status, message)
