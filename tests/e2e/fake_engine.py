"""A stand-in for a container engine: what a real one cannot show without a registry or a GPU.

It answers the few paths the runner asks for, keeps what it was asked, and "runs" containers by ending them
at once with status 0.
"""
import http.server
import json
import os
import shutil
import socketserver
import tempfile
import threading
import time
from urllib.parse import unquote, urlsplit


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def address_string(self):
        return "unix"

    def reply(self, status, body=None):
        data = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if data:
            self.wfile.write(data)

    def stream(self, status, kind):
        """Raw bytes up to the end of the connection."""
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.flush()

    def handle_one(self, method):
        g = self.server.engine
        at = urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        g.requests.append((method, at.path, at.query))
        g.answer(self, method, unquote(at.path), at.query, body)

    def do_GET(self):
        self.handle_one("GET")

    def do_POST(self):
        self.handle_one("POST")

    def do_DELETE(self):
        self.handle_one("DELETE")


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class FakeEngine:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="berth-fake-engine-")
        self.sock = os.path.join(self.dir, "engine.sock")
        self.url = "unix://" + self.sock
        self.images, self.created, self.requests, self.layers = set(), [], [], {}
        self.pull_error, self.rootless, self.no_init = None, False, False
        self.ended = threading.Event()
        self.server = Server(self.sock, Handler)
        self.server.engine = self
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def asked(self, method, path):
        return [q for m, p, q in self.requests if (m, p) == (method, path)]

    def answer(self, r, method, path, query, body):
        if path == "/version":
            r.reply(200, {"Version": "99", "Components": [{"Name": "Engine"}]})
        elif path == "/info":
            r.reply(200, {"SecurityOptions": ["name=rootless"] if self.rootless else []})
        elif path.startswith("/images/") and path.endswith("/json") and path != "/images/json":
            name = path[len("/images/"):-len("/json")]
            known = name in self.images
            r.reply(200 if known else 404, {"Config": {"Env": []}} if known else {"message": "No such image: " + name})
        elif path == "/images/create":
            self.pull(r, query)
        elif path == "/containers/json":
            r.reply(200, [])
        elif path == "/containers/create":
            self.created.append(body)
            r.reply(201, {"Id": "c1", "Warnings": []})
        elif path.startswith("/networks/"):
            r.reply(404, {"message": "no such network"})
        elif path.endswith("/attach"):
            r.stream(200, "application/vnd.docker.raw-stream")
            self.ended.wait(30)
        elif path.endswith("/start"):
            if self.no_init and self.created[-1]["HostConfig"]["Init"]:
                r.reply(500, {"message": 'exec: "docker-init": executable file not found in $PATH'})
                return
            self.ended.set()
            r.reply(204)
        elif path.endswith("/wait"):
            self.ended.wait(30)
            r.reply(200, {"StatusCode": 0, "Error": None})
        elif path.endswith("/json"):
            r.reply(200, {"State": {"OOMKilled": False, "ExitCode": 0}})
        else:
            r.reply(204)

    def pull(self, r, query):
        r.stream(200, "application/json")

        def say(**line):
            r.wfile.write(json.dumps(line).encode() + b"\r\n")
            r.wfile.flush()

        args = dict(pair.split("=") for pair in query.split("&"))
        say(status="Pulling from " + unquote(args["fromImage"]), id=args["tag"])
        if self.pull_error:
            say(errorDetail={"message": self.pull_error}, error=self.pull_error)
            return
        for layer in self.layers:
            say(status="Pulling fs layer", progressDetail={}, id=layer)
        for part in range(1, 9):
            for layer, size in self.layers.items():
                say(status="Downloading", progressDetail={"current": size * part // 8, "total": size}, id=layer)
            time.sleep(0.5)
        for layer in self.layers:
            say(status="Pull complete", progressDetail={}, id=layer)
        self.images.add(unquote(args["fromImage"]) + ":" + args["tag"])
