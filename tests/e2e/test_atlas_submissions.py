"""One directory submitted again and again: what is sent, what is archived, and what must never be mixed up.

tests/bench/submissions.py does it a thousand times with 20 MB.
"""
import http.client
import http.server
import json
import os
import random
import re
import socketserver
import threading

import harness
from foundations_rig import Atlas

# Rewrites a file with the same size and puts its old time back: only the change time tells.
MAIN = """import os
job = os.environ["FOUNDATIONS_JOB_ID"]
with open("out.txt", "w") as f:
    f.write(job)
for name in ("same_size.bin", "deep/mapped.bin"):
    before = os.stat(name)
    with open(name, "r+b") as f:
        if name.startswith("deep"):
            import mmap
            with mmap.mmap(f.fileno(), 0) as m:
                m[:36] = job.encode()
        else:
            f.write(job.encode())
    os.utime(name, ns=(before.st_atime_ns, before.st_mtime_ns))
os.remove("goes.txt")
"""
SDK = """import foundations, sys
print(foundations.submit(scheduler_config="scheduler", job_directory=sys.argv[1], command=["main.py"]).job_name())
"""

shared = None


def atlas():
    global shared
    if shared is None:
        shared = Atlas(NUM_WORKERS="2").start()
    return shared


def make_tree(a, name, seed):
    top, chance = os.path.join(a.work, name), random.Random(seed)
    os.makedirs(os.path.join(top, "deep"))
    for path, data in (("main.py", MAIN.encode()), ("goes.txt", b"x" * 5000), ("weights.bin", chance.randbytes(900_000)),
                       ("same_size.bin", chance.randbytes(20_000)), ("deep/mapped.bin", chance.randbytes(20_000)),
                       ("deep/text.csv", b"1,2,3\r\n" * 40_000), ("empty", b"")):
        with open(os.path.join(top, path), "wb") as f:
            f.write(data)
    os.symlink("weights.bin", os.path.join(top, "link"))
    return top


def tree(top):
    """path -> content, or the target of a link."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                found[os.path.relpath(path, top)] = os.readlink(path)
            else:
                with open(path, "rb") as f:
                    found[os.path.relpath(path, top)] = f.read()
    return found


def check_archive(a, top, job):
    a.wait_status(job, "completed")
    want, name = tree(top), job.encode()
    want["out.txt"] = name
    for path in ("same_size.bin", "deep/mapped.bin"):
        want[path] = name + want[path][len(name):]
    del want["goes.txt"]
    have = tree(os.path.join(a.home, "job_data", "archive", job, "artifacts"))
    assert sorted(have) == sorted(want), (sorted(have), sorted(want))
    wrong = [p for p in want if have[p] != want[p]]
    assert not wrong, f"job {job}: {wrong} are not what the job left"


def client_log(a):
    with open(os.path.join(a.home, "logs", "system.log"), errors="replace") as f:
        return f.read()


def test_every_archive_is_what_its_job_left():
    a = atlas()
    top = make_tree(a, "again", 1)
    script = os.path.join(a.work, "sdk.py")
    with open(script, "w") as f:
        f.write(SDK)
    jobs = [a.submit(top, "main.py") for _ in range(6)]
    assert re.search(r"the scheduler has 0 of \d+ contents", client_log(a)), client_log(a)[-2000:]
    assert re.search(r"the scheduler has (\d+) of \1 contents", client_log(a)), "the same directory is sent again"
    for _ in range(2):
        p = a.python(script, top)
        assert p.returncode == 0, p.stdout + p.stderr
        jobs.append(p.stdout.split()[-1])
    for job in jobs:
        check_archive(a, top, job)


def test_what_changes_between_two_submissions_is_sent():
    a = atlas()
    top = make_tree(a, "changing", 2)
    check_archive(a, top, a.submit(top, "main.py"))
    path = os.path.join(top, "weights.bin")
    before = os.stat(path)
    with open(path, "r+b") as f:
        f.write(b"other weights")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    check_archive(a, top, a.submit(top, "main.py"))


class Forgetful(http.server.BaseHTTPRequestHandler):
    """Before a server: claims that it has everything, as one that removes it right after the question."""
    port, refused = 0, []

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            pieces = []
            while True:
                size = int(self.rfile.readline(), 16)
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
                if not size:
                    break
            body = b"".join(pieces)
        if self.path == "/job_bundle/contents":
            return self.answer(200, b'{"missing": []}')
        conn = http.client.HTTPConnection("localhost", self.port, timeout=120)
        conn.request(self.command, self.path, body, {"Content-Type": self.headers.get("Content-Type") or "application/json"})
        reply = conn.getresponse()
        data = reply.read()
        conn.close()
        if reply.status == 409:
            self.refused.append(json.loads(data)["error"]["message"])
        return self.answer(reply.status, data)

    def answer(self, status, data):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = forward

    def log_message(self, *args):
        pass


class Threading(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


def test_a_content_that_is_gone_again_is_sent_after_all():
    a = atlas()
    top = make_tree(a, "forgotten", 3)
    Forgetful.port = a.ports["scheduler-port"]
    with Threading(("127.0.0.1", 0), Forgetful) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        config = os.path.join(a.home, "config", "submission", "forgetful.config.yaml")
        with open(config, "w") as f:
            f.write("job_deployment_env: local_docker_scheduler_plugin\nscheduler_url: http://127.0.0.1:%d\n" % proxy.server_address[1])
        out = a.ok("submit", "--stream-job-logs", "False", "forgetful", top, "main.py")
        job = re.search(r"ID '([0-9a-f-]{36})'", out).group(1)
        assert len(Forgetful.refused) == 1 and "send the whole bundle" in Forgetful.refused[0], Forgetful.refused
        check_archive(a, top, job)
        other = make_tree(a, "forgotten-too", 4)
        script = os.path.join(a.work, "sdk-forgetful.py")
        with open(script, "w") as f:
            f.write(SDK.replace('"scheduler"', '"forgetful"'))
        p = a.python(script, other)
        assert p.returncode == 0, p.stdout + p.stderr
        assert len(Forgetful.refused) == 2, Forgetful.refused
        check_archive(a, other, p.stdout.split()[-1])
        proxy.shutdown()


def test_questions_that_make_no_sense():
    a = atlas()
    for body in ({}, {"contents": "x"}, {"contents": ["../../etc/passwd"]}, {"contents": [7]}, {"contents": ["A" * 64]}):
        status, data = a.request("POST", "/job_bundle/contents", body)
        assert status == 400, (body, status, data)
    assert a.json("POST", "/job_bundle/contents", {"contents": []}) == {"missing": []}
    assert a.json("POST", "/job_bundle/contents", {"contents": ["a" * 64]}) == {"missing": ["a" * 64]}


if __name__ == "__main__":
    try:
        harness.main(__name__)
    finally:
        if shared is not None:
            shared.close()
