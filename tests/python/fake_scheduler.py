"""A small HTTP server on loopback that plays the scheduler towards kubernetesdlprofile."""

import http.server
import json
import threading
import time


class FakeScheduler:
    """Keeps what it was asked, in order.  `status`, `delay_s` and `hang_up` make it misbehave."""

    def __init__(self, port=0):
        self.answers = []  # of the next questions; then `stop`
        self.stop = b"0"
        self.status = 200
        self.delay_s = 0.0
        self.hang_up = 0  # close so many connections instead of replying
        self.requests = []  # (method, path, headers, body)
        self.connections = set()
        scheduler = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args):
                pass

            def setup(self):
                super().setup()
                scheduler.connections.add(self.connection)

            def reply(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if scheduler.hang_up:
                    scheduler.hang_up -= 1
                    self.close_connection = True
                    return
                scheduler.requests.append((self.command, self.path, dict(self.headers), body))
                if scheduler.delay_s:
                    time.sleep(scheduler.delay_s)
                data = b"ok"
                if self.path.startswith("/has_to_stop/"):
                    data = scheduler.answers.pop(0) if scheduler.answers else scheduler.stop
                self.send_response(scheduler.status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = reply

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.endpoint = "127.0.0.1:%d" % self.port
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        """As if killed: connections break."""
        self.server.shutdown()
        self.server.server_close()
        for connection in self.connections:
            try:
                connection.shutdown(2)
            except OSError:
                pass

    def bodies(self, path):
        return [json.loads(body) for method, p, _, body in self.requests if method == "POST" and p == path]

    def told(self):
        """The requests in the words of the protocol: 'stop?', 'beat 4', 'record 5', 'done 1'."""
        words = []
        for method, path, _, body in self.requests:
            kind = path.split("/")[1]
            value = json.loads(body) if body else {}
            if method == "GET" and kind == "has_to_stop":
                words.append("stop?")
            elif kind == "profiling":
                words.append("%s %d" % ("record" if "epochDur" in value else "beat", value["iternum"]))
            elif kind == "end_epoch":
                words.append("done %d" % value["done"])
            else:
                words.append(kind)
        return words
