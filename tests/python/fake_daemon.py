"""A small HTTP server on a unix socket that plays the daemon, with faults on demand."""

import http.server
import json
import os
import socketserver
import threading
import time


def start_when_missed(client, start):
    """Starts a daemon that went away once `client` has noticed; a list that then has one entry."""
    from berth import Unavailable

    call, missed = client.call, []

    def noticing(*args, **options):
        try:
            return call(*args, **options)
        except Unavailable:
            if not missed:
                missed.append(start())
            raise

    client.call = noticing
    return missed


class FakeDaemon:
    """Keeps what it was sent.  `status`, `delay_s` and `hang_up` make it misbehave."""

    def __init__(self, path):
        self.path = path
        self.status = 200  # of every reply
        self.delay_s = 0.0
        self.hang_up = 0  # close the connection after reading so many requests' heads
        self.stop = False
        self.spool = b""
        self.requests = []  # (method, path, headers, body)
        self.routes = {}  # (method, path without query) -> value or function(body) -> (status, value)
        self.server = None
        self.connections = []

    def start(self):
        daemon = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                daemon.connections.append(self.connection)

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True

            def log_message(self, *args):
                pass

            def address_string(self):
                return "unix"

            def reply(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                daemon.requests.append((self.command, self.path, dict(self.headers), body))
                if daemon.hang_up:
                    daemon.hang_up -= 1
                    self.close_connection = True
                    return
                if daemon.delay_s:
                    time.sleep(daemon.delay_s)
                status, value = daemon.answer(self.command, self.path, body)
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = reply

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 64

            def handle_error(self, request, client_address):
                pass

        if os.path.exists(self.path):
            os.unlink(self.path)
        self.server = Server(self.path, Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def answer(self, method, path, body):
        if self.status >= 400:
            return self.status, {"error": {"code": "internal", "message": "told to fail"}}
        plain, _, query = path.partition("?")
        if plain.endswith("/reports"):
            offset = int(dict(p.split("=") for p in query.split("&"))["offset"])
            if offset <= len(self.spool) < offset + len(body):
                self.spool += body[len(self.spool) - offset :]
            return 200, {"offset": len(self.spool)}
        if plain.endswith("/control"):
            return 200, {"stop": self.stop}
        found = self.routes.get((method, plain))
        if found is None:
            return 404, {"error": {"code": "not_found", "message": "no such job %s" % plain}}
        return found(body, query) if callable(found) else (200, found)

    def kill(self):
        """As SIGKILL would: connections break, the socket file stays."""
        self.server.shutdown()
        self.server.server_close()
        for connection in self.connections:
            try:
                connection.shutdown(2)
            except OSError:
                pass
        self.connections = []

    def lines(self):
        return [json.loads(line) for line in self.spool.splitlines()]


def wait_for(condition, seconds=120):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return False
