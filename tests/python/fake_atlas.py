"""A small HTTP server that plays an Atlas scheduler and tracker, for tests of the Python module."""

import http.server
import io
import json
import re
import socketserver
import tarfile
import threading
import time
from urllib.parse import parse_qs, unquote, urlsplit


class FakeAtlas:
    """Keeps what it was sent.  A test moves jobs along by hand: run(), end()."""

    def __init__(self):
        self.bundles = {}  # id → bytes of the tgz
        self.jobs = {}  # id → {"status", "log", "spec", "metadata", "gpu_spec"}
        self.listings = {}  # project → list of jobs as the tracker tells them
        self.asked = 0  # how often for one job
        self.requests = []  # (method, path)
        self.outsiders = []  # bodies of POST /v1/outside
        self.reported = b""  # lines of the spool of the last of them
        self.files_of = {}  # id → {path: bytes} that were put
        self.refuse = {}  # path beginning → (status, message)
        self.changed = threading.Condition()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                fake.answer(self)

            do_POST = do_DELETE = do_PUT = do_GET

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # clients that hang up are part of the tests

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    # ---- what a test does ----

    def run(self, job_id, text=b""):
        with self.changed:
            self.jobs[job_id]["status"] = "running"
            self.jobs[job_id]["log"] += text
            self.changed.notify_all()

    def end(self, job_id, status="completed", text=b""):
        with self.changed:
            self.jobs[job_id]["log"] += text
            self.jobs[job_id]["status"] = status
            self.changed.notify_all()

    def wait_job(self, timeout=120):
        with self.changed:
            assert self.changed.wait_for(lambda: self.jobs, timeout), "no job was submitted"
            return next(iter(self.jobs))

    def files(self, job_id):
        """{name: bytes, or the target of a link} of a bundle."""
        with tarfile.open(fileobj=io.BytesIO(self.bundles[job_id]), mode="r:gz") as tar:
            return {
                m.name: tar.extractfile(m).read() if m.isfile() else m.linkname if m.issym() else None
                for m in tar.getmembers()
            }

    # ---- what a client sees ----

    def body(self, h):
        if h.headers.get("Transfer-Encoding") == "chunked":
            data = bytearray()
            while True:
                n = int(h.rfile.readline().strip() or b"0", 16)
                piece = h.rfile.read(n)
                h.rfile.readline()
                if n == 0:
                    return bytes(data)
                if len(piece) < n:
                    return None
                data += piece
        return h.rfile.read(int(h.headers.get("Content-Length") or 0))

    def reply(self, h, status, value=b"", kind="application/json"):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        h.send_response(status)
        h.send_header("Content-Type", kind)
        h.send_header("Content-Length", str(len(data)))
        h.end_headers()
        h.wfile.write(data)

    def fail(self, h, status, message):
        self.reply(h, status, {"error": {"code": "x", "message": message}})

    def answer(self, h):
        parts = urlsplit(h.path)
        query = {k: v[0] for k, v in parse_qs(parts.query).items()}
        body = self.body(h)
        self.requests.append((h.command, h.path))
        for start, (status, message) in self.refuse.items():
            if parts.path.startswith(start):
                return self.fail(h, status, message)
        for method, pattern, fn in self.ROUTES:
            m = re.match(pattern + "$", parts.path)
            if m and method == h.command:
                return fn(self, h, body, query, *[unquote(g) for g in m.groups()])
        self.fail(h, 404, "no such path")

    def greet(self, h, body, query):
        self.reply(h, 200, b"hello", "text/plain")

    def put_bundle(self, h, body, query):
        boundary = re.search("boundary=(.*)", h.headers["Content-Type"]).group(1).encode()
        head, _, rest = body.partition(b"\r\n\r\n")
        name = re.search(rb'name="job_bundle"; filename="(.*)\.tgz"', head).group(1).decode()
        with self.changed:
            self.bundles[name] = rest[: rest.rindex(b"\r\n--" + boundary + b"--")]
        self.reply(h, 200, {})

    def drop_bundle(self, h, body, query, job_id):
        with self.changed:
            gone = self.bundles.pop(job_id, None)
        self.reply(h, 204 if gone else 404)

    def enqueue(self, h, body, query):
        job = json.loads(body.decode())
        with self.changed:
            self.jobs[job["job_id"]] = dict(job, status="queued", log=b"")
            self.changed.notify_all()
        self.reply(h, 201, job["job_id"])

    def job(self, h, body, query, job_id):
        with self.changed:
            job = self.jobs.get(job_id)
            self.asked += 1
            self.changed.notify_all()
        if job is None:
            return self.fail(h, 404, "there is no such job")
        self.reply(h, 200, {"job_id": job_id, "status": job["status"], "logs": None, "spec": job["spec"],
                            "reason": job.get("reason")})

    def logs(self, h, body, query, job_id):
        if job_id not in self.jobs:
            return self.fail(h, 404, "there is no such job")
        at = int(query.get("offset", 0))
        h.send_response(200)
        h.send_header("Transfer-Encoding", "chunked")
        h.end_headers()
        while True:
            with self.changed:
                job = self.jobs.get(job_id) or {"log": b"", "status": "failed"}
                data, status = job["log"][at:], job["status"]
                waits = query.get("follow") == "1" and not job.get("reason")
                if not data and status not in ("completed", "failed") and waits:
                    self.changed.wait(0.2)
                    continue
            if not data:
                break
            at += len(data)
            h.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        h.wfile.write(b"0\r\n\r\n")

    def listing(self, h, body, query, project):
        if project not in self.listings:
            return self.fail(h, 404, "there is no such project")
        jobs = [j for j in self.listings[project] if query.get("job_id", j["job_id"]) == j["job_id"]]
        self.reply(h, 200, {"name": project, "jobs": jobs})

    def outside(self, h, body, query):
        told = json.loads(body.decode())
        with self.changed:
            self.outsiders.append(told)
        self.reply(h, 201, {"id": told["id"], "number": 7, "run": 1, "token": "t", "run_dir": "/nonexistent/run"})

    def reports(self, h, body, query, number):
        with self.changed:
            self.reported += body[max(0, len(self.reported) - int(query["offset"])):]
            self.reply(h, 200, {"offset": len(self.reported)})

    def control(self, h, body, query, number):
        self.reply(h, 200, {"stop": False})

    def put_file(self, h, body, query, job_id, path):
        with self.changed:
            self.files_of.setdefault(job_id, {})[path] = body
        self.reply(h, 201, {})

    def get_file(self, h, body, query, job_id, path):
        kept = self.files_of.get(job_id, {})
        if path.endswith("/"):
            found = [{"path": k[len(path):], "size": len(v), "mtime": 1.0} for k, v in kept.items() if k.startswith(path)]
            return self.reply(h, 200, found)
        if path not in kept:
            return self.fail(h, 404, "there is no such file")
        self.reply(h, 200, kept[path], "application/octet-stream")

    ROUTES = (
        ("POST", "/v1/outside", outside),
        ("POST", "/v1/jobs/([^/]+)/reports", reports),
        ("GET", "/v1/jobs/([^/]+)/control", control),
        ("PUT", "/api/v2beta/jobs/([^/]+)/files/(.+)", put_file),
        ("GET", "/api/v2beta/jobs/([^/]+)/files/(.+)", get_file),
        ("GET", "/", greet),
        ("POST", "/job_bundle", put_bundle),
        ("DELETE", "/job_bundle/([^/]+)", drop_bundle),
        ("POST", "/queued_jobs", enqueue),
        ("GET", "/jobs/([^/]+)", job),
        ("GET", "/jobs/([^/]+)/logs", logs),
        ("GET", "/api/v2beta/projects/([^/]+)/job_listing", listing),
    )


def wait_for(what, timeout=120):
    end = time.monotonic() + timeout
    while not what():
        assert time.monotonic() < end, "waited for nothing"
        time.sleep(0.01)
