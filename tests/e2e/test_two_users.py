"""Two users of a root daemon with --multi-user, a job's token and a page of another site: every row of
two_users.py is asked, and the answer must be the one of the table.  Needs root, to be two users.

  test_two_users.py --show    prints what the program answers instead of comparing it
"""
import atexit
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid

import atlas_rig
import harness
import two_users
from harness import wait_for
from two_users import CALLERS, MARK

A, B = 65534, 65533
SHOW = "--show" in sys.argv
PAGE = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors",
        "User-Agent": "Mozilla/5.0", "Referer": "http://evil.example/"}

# Sends what it reads from standard input: [where, method, path, body, headers] a line; where is a port or a path.
CLIENT = """
import base64, http.client, json, socket, sys
for line in sys.stdin:
    where, method, path, body, headers = json.loads(line)
    c = http.client.HTTPConnection("127.0.0.1", where if isinstance(where, int) else 80, timeout=60)
    try:
        if not isinstance(where, int):
            c.sock = socket.socket(socket.AF_UNIX)
            c.sock.settimeout(60)
            c.sock.connect(where)
        c.request(method, path, body, headers)
        r = c.getresponse()
        print(json.dumps([r.status, r.read().decode("latin1")]), flush=True)
    except (OSError, http.client.HTTPException) as e:
        print(json.dumps([0, repr(e)]), flush=True)
    c.close()
"""


class User:
    """A process of that user, which sends requests."""

    def __init__(self, uid):
        who = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        self.p = subprocess.Popen(who + ["/usr/bin/python3", "-c", CLIENT], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, cwd="/")
        atexit.register(self.close)

    def close(self):
        if self.p.poll() is None:
            self.p.stdin.close()
            self.p.wait(60)

    def ask(self, where, method, path, body=None, headers=None):
        """(status, text)"""
        if body is not None and not isinstance(body, str):
            body = json.dumps(body)
        self.p.stdin.write(json.dumps([where, method, path, body, headers or {}]) + "\n")
        self.p.stdin.flush()
        return tuple(json.loads(self.p.stdout.readline()))


users = {}


def user(uid):
    if os.getuid() != 0:
        raise harness.Skip("needs root to be two users")
    if uid not in users:
        users[uid] = User(uid)
    return users[uid]


def fits(want, status):
    if want == "ok":
        return status not in (401, 403, 421) and 100 <= status < 500
    return status == int(want)


class Table:
    """Asks the rows of one table."""

    def __init__(self, name):
        self.rows, self.wrong = two_users.rows(two_users.TABLES[name]), []

    def check(self, method, path, caller, want, got):
        status, text = got
        if not fits(want, status):
            self.wrong.append(f"{method} {path} by {caller}: {status} instead of {want}: {text[:160]}")
        elif caller == "other" and status == 404 and "{job}" in path and "no job" not in text and "no such job" not in text:
            self.wrong.append(f"{method} {path} by {caller}: not found, but for another reason: {text[:160]}")
        elif caller == "submitter" and method == "GET" and path in two_users.FULL and MARK not in text:
            self.wrong.append(f"{method} {path}: the submitter finds nothing, so the row proves nothing: {text[:160]}")
        elif status < 300 and MARK in text and caller in ("other", "site"):
            self.wrong.append(f"{method} {path} by {caller} shows something of the submitter's: {text[:300]}")

    def run(self, ask):
        """ask(caller, method, path) → (status, text).  The weakest caller comes first."""
        for method, path, answers in sorted(self.rows, key=lambda r: r[1] == "/v1/shutdown"):
            said = {}
            for caller in reversed(CALLERS):
                said[caller] = ask(caller, method, path)
                self.check(method, path, caller, answers[caller], said[caller])
            if SHOW:
                print(f"{method:<6} {path:<38} " + " ".join(f"{said[c][0]}" for c in CALLERS), flush=True)
        assert SHOW or not self.wrong, "\n".join(["answers that the table does not have:"] + self.wrong)


# -- the daemon's own API --

STUDY = {"space": {"x": {"uniform": [0, 1]}}, "objective": {"minimize": "loss"}}


class Daemon:
    """A daemon of root with what the rows name: jobs, a project, a queue, a hook and a schedule of A."""

    def __init__(self):
        self.a, self.b, self.root = user(A), user(B), user(0)
        self.h = h = harness.Home()
        atexit.register(h.close)
        self.port = harness.free_port()
        os.chmod(h.dir, 0o755)
        os.mkdir(h.home, 0o755)
        with open(os.path.join(h.home, "atlas-home"), "w") as f:  # as atlas-server leaves it in its home
            f.write(os.path.join(h.dir, "foundations") + "\n")
        h.start("--slots", "8", "--gpus", "2", "--multi-user", "--listen", f"127.0.0.1:{self.port}")
        self.n = 0
        self.node = h.api("GET", "/v1/nodes")["items"][0]["name"]
        self.job = self.submit("echo $BERTH_JOB_TOKEN; exec sleep 6000", gpus=1, epochs=5)["number"]
        self.id = self.get(f"/v1/jobs/{self.job}")["id"]
        self.done = self.submit("echo done")["number"]
        self.b_job = self.make(self.b, "/v1/jobs", {"command": ["true"], "cwd": "/", "project": "bmark", "queue": "bmark"})
        self.token = wait_for("the token", self.read_token)
        wait_for("the end of the other job", lambda: self.get(f"/v1/jobs/{self.done}")["state"] == "succeeded")
        self.make(self.a, "/v1/jobs", {"name": MARK, "project": MARK, "command": ["true"], "cwd": "/", "array": 2})
        self.fresh("hook"), self.fresh("schedule")
        self.study = self.fresh("study")
        self.make(self.a, f"/v1/jobs/{self.done}/notes", {"text": MARK})
        self.make(self.a, f"/v1/projects/{MARK}/notes", {"text": MARK})

    def make(self, who, path, body, method="POST"):
        status, text = who.ask(self.h.sock, method, path, body)
        assert status in (200, 201, 202, 204), (path, status, text)
        return json.loads(text) if text else None

    def get(self, path):
        return json.loads(self.a.ask(self.h.sock, "GET", path)[1])

    def submit(self, command, **more):
        return self.make(self.a, "/v1/jobs", {"command": ["sh", "-c", command], "cwd": "/", "name": MARK, "project": MARK,
                                              "queue": MARK, **more})

    def read_token(self):
        status, text = self.a.ask(self.h.sock, "GET", f"/v1/jobs/{self.job}/logs")
        return text.strip() if status == 200 and text.endswith("\n") else None

    def fresh(self, kind):
        """Something new of A's, for requests that use it up."""
        self.n += 1
        name = f"{MARK}-{self.n}"
        if kind == "held":
            return str(self.submit("true", hold=True)["number"])
        if kind == "released":
            return str(self.submit("true", hold=True)["number"])
        if kind == "ended":
            number = self.submit("true")["number"]
            wait_for("the end", lambda: self.get(f"/v1/jobs/{number}")["state"] == "succeeded")
            return str(number)
        if kind == "hook":
            self.make(self.a, "/v1/hooks", {"name": name, "on": ["failure"], "do": "command:true"})
            return name
        if kind == "schedule":
            self.make(self.a, "/v1/schedules", {"name": name, "cron": "0 3 * * *",
                                                "job": {"command": ["true"], "cwd": "/", "queue": MARK}})
            return name
        if kind == "study":
            self.make(self.a, "/v1/studies", {**STUDY, "name": name})
            return name
        raise AssertionError(kind)

    # What a row needs beside its path: the thing that {job} or {name} is, and the body.
    def row(self, method, path):
        key = f"{method} {path}"
        name = {"/v1/hooks/": "hook", "/v1/schedules/": "schedule", "/v1/studies/": "study"}.get(re.sub(r"\{.*", "", path))
        if name:
            path = path.replace("{name}", self.fresh(name))
        path = path.replace("{ref}", self.id).replace("{id}", self.id)
        path = path.replace("/v1/nodes/{name}", "/v1/nodes/" + self.node).replace("{name}", MARK)
        many = {"cancel": "held", "hold": "released", "release": "held", "retry": "ended", "remove": "ended"}
        body = None
        if key.startswith("POST /v1/jobs/") and path.split("/")[-1] in many and "{job}" not in path:
            body = {"jobs": [int(self.fresh(many[path.split("/")[-1]]))]}
        elif "{job}" in path:
            verb = path.split("/")[-1]
            uses = "ended" if method == "DELETE" and path == "/v1/jobs/{job}" else many.get(verb)
            path = path.replace("{job}", self.fresh(uses) if uses else str(self.job))
        body = body or self.body(key)
        if method != "GET":
            path = path.split("?")[0]
        if key == "GET /v1/events":
            path += "?follow=0"
        if key == "POST /v1/queues/{name}/keep":  # of a name that may be kept, the answer has no end
            path = path.replace(MARK, "x" * 300)
        if key == "GET /v1/jobs/{job}/artifact":
            path += "?name=x"
        if key == "POST /v1/jobs/{job}/reports":
            path += "?run=1&offset=0"
        if key == "DELETE /v1/jobs/{job}/tags":
            path += "?name=" + MARK
        return path, body

    def body(self, key):
        key = key if key.startswith("POST") else key.split("?")[0]
        self.n += 1
        job = {"command": ["true"], "cwd": "/"}
        when = {"name": f"n{self.n}", "cron": "0 4 * * *", "job": job}
        return {
            "POST /v1/jobs": job,
            "POST /v1/jobs?after={job}": {**job, "after": [self.job]},
            "POST /v1/hooks?everyone": {"name": f"n{self.n}", "on": ["failure"], "do": "command:true", "everyone": True},
            "POST /v1/backup": {"path": os.path.join(self.h.dir, f"backup-{self.n}")},
            "POST /v1/jobs/{job}/tags": {"name": "x", "value": "y"},
            "POST /v1/jobs/{job}/notes": {"text": "x"},
            "POST /v1/jobs/{job}/reports": '{"k":"m","n":"loss","v":1,"s":1,"t":1}\n',
            "POST /v1/snapshots": "x",
            "POST /v1/snapshots/contents": {"contents": []},
            "POST /v1/outside": {"name": "x"},
            "POST /v1/jobs/{job}/outside_end": {},
            "POST /v1/nodes": {"url": "ssh://nobody@127.0.0.1:1", "name": f"n{self.n}"},
            "POST /v1/hooks": {"name": f"n{self.n}", "on": ["failure"], "do": "command:true"},
            "PUT /v1/hooks/{name}": {"on": ["failure"], "do": "command:true"},
            "POST /v1/studies": {**STUDY, "name": f"n{self.n}"},
            "POST /v1/studies?from=amark-study": {**STUDY, "name": f"n{self.n}", "from": self.study},
            "PATCH /v1/studies/{name}": {"parallel": 2},
            "POST /v1/studies/{name}/ask": {"n": 1},
            "POST /v1/studies/{name}/tell": {"trials": []},
            "POST /v1/studies/{name}/report": {"number": 1, "step": 1, "value": 1},
            "POST /v1/studies/{name}/renew": {"trials": [{"number": 1, "hold": 1}]},
            "POST /v1/studies/{name}/enqueue": {"params": {"x": 0.5}},
            "POST /v1/study-logs/{name}": {"lines": [{"x": 1}]},
            "POST /v1/schedules": when,
            "PUT /v1/schedules/{name}": {k: v for k, v in when.items() if k != "name"},
            "PUT /v1/projects/{name}": {"description": "x"},
            "POST /v1/projects/{name}/notes": {"text": "x"},
        }.get(key)

    def ask(self, caller, method, path):
        path, body = self.row(method, path)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if caller == "token":
            headers["Authorization"] = "Bearer " + self.token
        if caller == "site":
            headers.update(PAGE)
        who = {"submitter": self.a, "other": self.b}.get(caller, self.root)
        return who.ask(self.port if caller in ("token", "site") else self.h.sock, method, path, body, headers)


daemon = None


def the_daemon():
    global daemon
    daemon = daemon or Daemon()
    return daemon


def test_gpu_scheduler():
    harness.need_dialect("gpu")
    d = the_daemon()
    Table("src/dialect/gpu/part.c").run(d.ask)


def test_gpu_library():
    """On loopback the kernel says whose process asks; a token opens its own job."""
    harness.need_dialect("gpu")
    d = the_daemon()
    port = int(open(os.path.join(d.h.home, "library-port")).read())

    def ask(caller, method, path):
        path = path.replace("{job}", d.id).replace("{config}", "c")
        headers = {"Content-Type": "application/json"}
        if caller == "token":
            headers["Authorization"] = "Bearer " + d.token
        if caller == "site":
            headers.update(PAGE)
        who = {"submitter": d.a, "other": d.b}.get(caller, d.root)
        return who.ask(port, method, path, '{"done": 1}' if method == "POST" else None, headers)

    Table("src/dialect/gpu/library.c").run(ask)


def test_atlas():
    """An atlas-server of A."""
    harness.need_dialect("atlas")
    a, b, root = user(A), user(B), user(0)
    if subprocess.run(["test", "-x", harness.BERTH], user=A, group=A).returncode:
        raise harness.Skip("the programs are in a directory that other users cannot enter")
    rig = atlas_rig.Atlas(user=A)
    os.chmod(rig.dir, 0o755)
    atexit.register(rig.close)
    rig.start()
    bundle, kind = atlas_rig.form("x", b"x" * 100)
    bundle = bundle.decode(), kind

    def ask(caller, method, path):
        port = rig.ports[3] if path == "/{file...}" else rig.ports[0]
        path = path.replace("{file...}", "x/y").replace("{project}", MARK)
        path = re.sub(r"\{\w+\}", str(uuid.uuid4()), path)
        body, kind = ("{}", "application/json") if path != "/job_bundle" else bundle
        headers = {"Content-Type": kind} if method != "GET" else {}
        if caller == "token":
            headers["Authorization"] = "Bearer of-another-server"
        if caller == "site":
            headers.update(PAGE)
        who = {"submitter": a, "other": b, "token": b}.get(caller, root)
        return who.ask(port, method, path, body if method != "GET" else None, headers)

    Table("src/dialect/atlas/dialect.c").run(ask)
    Table("src/dialect/atlas/tracker.c").run(ask)
    # What no table has is not found, for who may ask.
    for who, want in ((root, 404), (a, 404)):
        for port in rig.ports:
            status, text = who.ask(port, "GET", "/nowhere/at/all")
            assert status == want, (port, status, text)
    # B's command says why it could do nothing.
    home = os.path.join(rig.dir, "b")
    os.makedirs(os.path.join(home, "config", "submission"))
    with open(os.path.join(home, "config", "submission", "scheduler.config.yaml"), "w") as f:
        f.write(f"scheduler_url: http://localhost:{rig.ports[0]}\n")
    for where, _, _ in os.walk(home):
        os.chown(where, B, B)
    p = subprocess.run(["foundations", "clear-queue", "scheduler"], executable=os.path.join(rig.bin, "foundations"),
                       env={**rig.env, "FOUNDATIONS_HOME": home, "HOME": home}, cwd="/", user=B, group=B, extra_groups=[],
                       capture_output=True, text=True, timeout=120)
    said = p.stdout + p.stderr
    assert p.returncode != 0 and "belongs to another user" in said and "Removed" not in said, (p.returncode, said)
    rig.close()


def test_atlas_of_a_daemon_with_several_users():
    """The jobs of Atlas are the owner's: other users, and their jobs' tokens, get nothing."""
    harness.need_dialect("atlas")
    d = the_daemon()
    for table in (two_users.ATLAS, two_users.TRACKER):
        for method, path, answers in two_users.rows(table):
            if answers["other"] != "403" or path == "/{file...}":
                continue  # for everybody, or on the port of archives only
            path = re.sub(r"\{[\w.]+\}", d.id, path)
            body = "{}" if method != "GET" else None
            for who in (d.a, d.b):
                status, text = who.ask(d.h.sock, method, path, body)
                assert status == 403, (method, path, status, text)
            status, text = d.root.ask(d.port, method, path, body, {"Authorization": "Bearer " + d.token})
            assert status == 403, (method, path, status, text)
            status, text = d.root.ask(d.h.sock, method, path, body)
            assert fits("ok", status), (method, path, status, text)


def test_hyperctl():
    """A batch of A on loopback."""
    harness.need_dialect("hyperctl")
    a, b, root = user(A), user(B), user(0)
    if subprocess.run(["test", "-x", harness.BERTH], user=A, group=A).returncode:
        raise harness.Skip("the programs are in a directory that other users cannot enter")
    where = tempfile.mkdtemp(prefix="berth-two-")
    atexit.register(shutil.rmtree, where, ignore_errors=True)
    os.chown(where, A, A)
    os.symlink(harness.BERTH, os.path.join(where, "hyperctl"))
    port = harness.free_port()
    with open(os.path.join(where, "batch.json"), "w") as f:
        json.dump({"name": "two", "server": {"port": port}, "scheduler": {"exit_on_finish": False},
                   "jobs": [{"name": MARK, "params": {}, "command": "sleep 6000"}]}, f)
    env = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_")}
    env.update(HOME=where, BERTH_HOME=os.path.join(where, "berth"), PATH=where + ":/usr/bin:/bin",
               BERTH_SHEPHERD=harness.find_program("berth-shepherd"))
    p = subprocess.Popen(["hyperctl", "run", "-c", os.path.join(where, "batch.json")], env=env, cwd=where, user=A, group=A,
                         extra_groups=[], executable=os.path.join(where, "hyperctl"),
                         stdout=open(os.path.join(where, "out"), "w"), stderr=subprocess.STDOUT)

    def ask(caller, method, path):
        path = path.replace("{name...}", f"{MARK}/nothing").replace("{name}", MARK)
        if caller == "token":
            path = "/" + "0" * 32 + path
        who = {"submitter": a, "other": b, "token": b}.get(caller, root)
        return who.ask(port, method, path, "{}" if method != "GET" else None, PAGE if caller == "site" else {})

    try:
        wait_for("the job", lambda: "running" in a.ask(port, "GET", f"/api/job/{MARK}")[1])
        Table("src/dialect/hyperctl/routes.c").run(ask)
        assert MARK in a.ask(port, "GET", "/api/job")[1]
        assert b.ask(port, "POST", f"/api/job/{MARK}/kill", "{}")[0] == 403
        wait_for("the job, which runs on", lambda: "running" in a.ask(port, "GET", f"/api/job/{MARK}")[1])
    finally:
        p.terminate()
        p.wait(120)


def test_api():
    Table("src/api/routes.c").run(the_daemon().ask)


if __name__ == "__main__":
    sys.argv = [a for a in sys.argv if a != "--show"]
    harness.main(__name__)
