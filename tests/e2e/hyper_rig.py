"""What the tests of hyperctl share: a user with a directory of their own, batch files, questions to a port.

No daemon runs unless a test starts one.
"""
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import harness
from harness import BERTH, free_port

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
EXAMPLES = os.path.join(ROOT, "examples", "hyperctl")


class Place:
    """A user: a home, batches in it, hyperctl on the path."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="hyperctl-e2e-")
        self.home = os.path.join(self.dir, "home")
        self.base = os.path.join(self.home, "hyperctl-batches-data-dir")
        self.bin = os.path.join(self.dir, "bin")
        os.makedirs(self.home, exist_ok=True)
        os.makedirs(self.bin)
        os.symlink(BERTH, os.path.join(self.bin, "hyperctl"))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "HYPERCTL_"))}
        self.env.update(HOME=self.home, BERTH_HOME=os.path.join(self.dir, "berth"), PATH=self.bin + ":" + os.environ["PATH"],
                        PYTHONDONTWRITEBYTECODE="1", BERTH_PYTHON=os.path.join(ROOT, "python"))
        self.env["BERTH_SHEPHERD"] = harness.find_program("berth-shepherd")
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.started:
            if p.poll() is None:
                p.kill()
                p.wait()
        self.sweep()
        shutil.rmtree(self.dir, ignore_errors=True)

    def survivors(self):
        """pids of everything that was started below this place and still lives."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    environ = f.read()
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    cmd = f.read()
                with open(f"/proc/{pid}/stat") as f:
                    state = f.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if state != "Z" and int(pid) != os.getpid() and (self.dir.encode() in environ or self.dir.encode() in cmd):
                found.append(int(pid))
        return found

    def sweep(self):
        for pid in self.survivors():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def write(self, name, content):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def call(self, *args, timeout=120, cwd=None, **env):
        return subprocess.run(["hyperctl", *args], env={**self.env, **env}, cwd=cwd or self.dir, capture_output=True, text=True,
                              timeout=timeout)

    def ok(self, *args, **more):
        p = self.call(*args, **more)
        assert p.returncode == 0, (args, p.returncode, p.stdout, p.stderr)
        return p.stdout

    def fails(self, *args, status=1, **more):
        p = self.call(*args, **more)
        assert p.returncode == status, (args, p.returncode, p.stdout, p.stderr)
        return p.stderr

    def batch(self, name, jobs, **more):
        more.setdefault("server", {"port": free_port()})
        return self.write(name + ".json", dict(name=name, jobs=jobs, **more))

    def start(self, config, *args):
        p = subprocess.Popen(["hyperctl", "run", "-c", config, *args], env=self.env, cwd=self.dir, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        self.started.append(p)
        return p

    def path(self, *parts):
        return os.path.join(self.base, *parts)

    def read(self, *parts):
        with open(self.path(*parts)) as f:
            return f.read()

    def exists(self, *parts):
        return os.path.exists(self.path(*parts))

    def wait_for(self, *parts, timeout=120):
        end = time.monotonic() + timeout
        while not self.exists(*parts):
            assert time.monotonic() < end, f"{parts} does not appear"
            time.sleep(0.01)


def ask(port, method, path, token=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    c.request(method, path)
    r = c.getresponse()
    return r.status, r.getheader("Content-Type"), r.read().decode()


def status(port, name):
    """What the scheduler of a batch says of a job; None when nobody serves its port."""
    try:
        return json.loads(ask(port, "GET", "/hyperctl/api/job/" + name)[2])["data"]["status"]
    except OSError:
        return None


def job(name, command="true", **more):
    return dict(name=name, params=more.pop("params", {}), command=command, **more)


def tree(root):
    found = {}
    for where, dirs, files in os.walk(root):
        dirs[:] = [d for d in dirs if d != ".hyperctl"]
        for name in files:
            path = os.path.join(where, name)
            with open(path) as f:
                text = f.read()
            if name.endswith(".json") and name != "config.json" and "/" not in os.path.relpath(path, root):
                text = sorted(json.loads(text))
            found[os.path.relpath(path, root)] = None if name in ("server.pid", "config.json") else text
    return found


def live_batch(at):
    port = free_port()
    config = at.batch("live", [job("long", "sleep 600", params={"x": [1, 2.5, "é", None], "e": {}}), job("b"), job("c")],
                      server={"port": port}, scheduler={"exit_on_finish": False})
    p = at.start(config)
    for what in (("long.running",), ("long", "stdout"), ("long", "stderr")):
        at.wait_for("live", *what)
    return p, port
