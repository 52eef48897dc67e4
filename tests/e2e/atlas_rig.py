"""An Atlas server of its own: a home in a temporary directory, ports of its own, jobs sent by hand.

Bundles are made with tarfile and sent as multipart/form-data, as any client does it; nothing here needs
the `foundations` command.
"""
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import uuid

import harness
from harness import free_ports, wait_for

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
FINAL = ("completed", "failed")
RULE = "=" * 120


def bundle(job_id, files, top=None, raw=None, sdk=False):
    """A gzip tar <job_id>/job_source/…; values are text or bytes, `raw` are TarInfo members.  With
    `sdk` the Python module comes along, as clients send it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        for name, data in files.items():
            data = data.encode() if isinstance(data, str) else data
            info = tarfile.TarInfo(f"{top or job_id}/job_source/{name}")
            info.size, info.mtime, info.mode = len(data), 1700000000, 0o644
            tar.addfile(info, io.BytesIO(data))
        for info in raw or ():
            tar.addfile(info)
        if sdk:
            for package in ("foundations", "berth"):
                tar.add(os.path.join(ROOT, "python", package), f"{top or job_id}/{package}")
    return out.getvalue()


def form(job_id, data, field="job_bundle"):
    mark = "----" + uuid.uuid4().hex
    head = (f'--{mark}\r\nContent-Disposition: form-data; name="{field}"; filename="{job_id}.tgz"\r\n'
            "Content-Type: application/gzip\r\n\r\n").encode()
    return head + data + f"\r\n--{mark}--\r\n".encode(), f"multipart/form-data; boundary={mark}"


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__(f"HTTP {status}: {text}")
        self.status, self.text = status, text


class Atlas:
    def __init__(self, workers=1, args=(), user=None, **env):
        self.dir = tempfile.mkdtemp(prefix="berth-atlas-")
        self.home = os.path.join(self.dir, "foundations")
        self.bin = os.path.join(self.dir, "bin")
        os.mkdir(self.bin)
        os.symlink(harness.BERTH, os.path.join(self.bin, "atlas-server"))
        os.symlink(harness.BERTH, os.path.join(self.bin, "foundations"))
        self.ports = free_ports(5)
        self.args, self.user = list(args), {}
        if user is not None:  # a number: the server is that user's
            self.user = {"user": user, "group": user, "extra_groups": []}
            os.chown(self.dir, user, user)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "FOUNDATIONS_"))}
        self.env.update(FOUNDATIONS_HOME=self.home, NUM_WORKERS=str(workers), HOME=self.dir,
                        BERTH_SHEPHERD=os.environ.get("BERTH_SHEPHERD") or harness.find_program("berth-shepherd"),
                        PATH=self.bin + ":/usr/bin:/bin", PYTHONDONTWRITEBYTECODE="1", **env)
        self.server = None

    # -- life --
    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *exc):
        self.close()

    def start(self):
        p = self.ports
        self.log = open(os.path.join(self.dir, "server.log"), "ab")
        self.server = subprocess.Popen(
            ["atlas-server", "start", "--scheduler-port", str(p[0]), "-d", str(p[1]), "--tracker-port", str(p[2]),
             "-a", str(p[3]), "--api-port", str(p[4]), *self.args],
            executable=os.path.join(self.bin, "atlas-server"),
            env=self.env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, **self.user)
        wait_for("the server's answer", self.answers, 60)
        return self

    def answers(self):
        if self.server.poll() is not None:
            raise AssertionError(f"the server ended with {self.server.returncode}:\n{self.text()}")
        try:
            return self.http("GET", "/")
        except OSError:
            return None

    def text(self):
        with open(os.path.join(self.dir, "server.log"), errors="replace") as f:
            return f.read()[-4000:]

    def kill(self):
        self.server.kill()
        self.server.wait()

    def stop(self):
        if self.server and self.server.poll() is None:
            self.server.terminate()
            self.server.wait(120)
        return self.server.returncode if self.server else None

    def processes(self):
        """Whatever still belongs to this home."""
        mark, found = self.home.encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    command = f.read()
                with open(f"/proc/{pid}/environ", "rb") as f:
                    environ = f.read()
            except OSError:
                continue
            if int(pid) != os.getpid() and (mark in command or mark in environ):
                found.append(int(pid))
        return found

    def close(self):
        try:
            self.stop()
        finally:
            for _ in range(3):
                for pid in self.processes():
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                time.sleep(0.05)
            shutil.rmtree(self.dir, ignore_errors=True)

    # -- http --
    def url(self, path, port=0):
        return f"http://127.0.0.1:{self.ports[port]}{path}"

    def http(self, method, path, body=None, headers=None, port=0):
        """The bytes of the answer; Refused for 400 and above."""
        data = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
        req = urllib.request.Request(self.url(path, port), data, headers or {}, method=method)
        try:
            with urllib.request.urlopen(req, timeout=120) as r:
                self.status = r.status
                return r.read()
        except urllib.error.HTTPError as e:
            self.status = e.code
            raise Refused(e.code, e.read().decode(errors="replace")) from None

    def get(self, path, port=0):
        return json.loads(self.http("GET", path, port=port))

    def refused(self, status, method, path, body=None, headers=None):
        try:
            self.http(method, path, body, headers)
        except Refused as e:
            assert e.status == status, (e.status, e.text)
            return e.text
        raise AssertionError(f"{method} {path} was accepted")

    # -- jobs --
    def upload(self, job_id, files, **how):
        body, kind = form(job_id, bundle(job_id, files, **how))
        return self.http("POST", "/job_bundle", body, {"Content-Type": kind})

    def enqueue(self, job_id, command, project="p", gpus=0, **spec):
        return self.http("POST", "/queued_jobs", {"job_id": job_id, "spec": dict(command=list(command), **spec),
                                                  "metadata": {"project_name": project, "username": "ada"},
                                                  "gpu_spec": {"num_gpus": gpus}})

    def submit(self, files, command=("main.py",), sdk=False, **how):
        job_id = str(uuid.uuid4())
        self.upload(job_id, files, sdk=sdk)
        self.enqueue(job_id, command, **how)
        return job_id

    def job(self, job_id):
        return self.get(f"/jobs/{job_id}")

    def wait(self, job_id, *states, timeout=120):
        """Until it has one of these states; the job."""
        states = states or FINAL
        seen = {}

        def look():
            seen.update(self.job(job_id))
            return seen["status"] in states
        try:
            wait_for(f"{job_id} {'/'.join(states)}", look, timeout)
        except AssertionError as e:
            raise AssertionError(f"{e}; it is {seen}\n{self.text()}") from None
        return seen

    # -- files --
    def path(self, *parts):
        return os.path.join(self.home, *parts)

    def archive(self, job_id, *parts):
        return self.path("job_data", "archive", job_id, *parts)

    def read(self, job_id, *parts):
        with open(self.archive(job_id, *parts)) as f:
            return f.read()
