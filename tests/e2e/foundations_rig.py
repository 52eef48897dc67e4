"""An Atlas server of its own for a test: home, ports, the foundations command, and waiting."""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from harness import BERTH, find_program, free_ports

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PYTHON = os.path.join(SOURCE, "python")
RULE = "=" * 120
SUBMITTED = re.compile(r"Job submitted with ID '([0-9a-f-]{36})'\.")


def wait_for(what, timeout=120, step=0.05, why=""):
    end = time.monotonic() + timeout
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < end, f"waited {timeout} s in vain {why}"
        time.sleep(step)


class Atlas:
    """One server with its home, and a directory `work` to call foundations from."""

    def __init__(self, **env):
        self.dir = tempfile.mkdtemp(prefix="berth-atlas-")
        self.home = os.path.join(self.dir, "home")
        self.work = os.path.join(self.dir, "work")
        self.bin = os.path.join(self.dir, "bin")
        for d in (self.work, self.bin):
            os.mkdir(d)
        for name in ("foundations", "atlas-server"):
            os.symlink(BERTH, os.path.join(self.bin, name))
        drop = ("BERTH_", "FOUNDATIONS_", "DISABLE_LOG")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
        self.env.update(
            FOUNDATIONS_HOME=self.home, BERTH_PYTHON=PYTHON, BERTH_SHEPHERD=find_program("berth-shepherd"),
            PATH=self.bin + ":" + self.env["PATH"], PYTHONDONTWRITEBYTECODE="1", NO_COLOR="1", **env)
        names = ("scheduler-port", "tracker-port", "api-port", "archive-port", "dashboard-port")
        self.ports = dict(zip(names, free_ports(len(names))))
        self.url = f"http://localhost:{self.ports['scheduler-port']}"
        self.server = None

    # -- server --
    def start(self, *args, ready=None):
        words = [w for name, port in self.ports.items() for w in ("--" + name, str(port))]
        self.log = open(os.path.join(self.dir, "server.log"), "ab")
        self.server = subprocess.Popen([os.path.join(self.bin, "atlas-server"), "start", *words, *args], env=self.env,
                                       stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        wait_for(lambda: self.answers(ready), 60, why="for the server: " + self.server_log())
        return self

    def answers(self, ready=None):
        assert self.server.poll() is None, f"atlas-server ended with {self.server.returncode}:\n{self.server_log()}"
        try:
            return ready() if ready else self.request("GET", "/")[0] == 200
        except OSError:
            return False

    def server_log(self):
        with open(os.path.join(self.dir, "server.log"), errors="replace") as f:
            return f.read()[-3000:]

    def stop(self):
        if self.server and self.server.poll() is None:
            self.server.terminate()
            self.server.wait(120)

    def kill(self):
        self.server.kill()
        self.server.wait()

    def close(self):
        try:
            self.stop()
        finally:
            mark = f"FOUNDATIONS_HOME={self.home}".encode()
            for _ in range(3):
                for pid in filter(str.isdigit, os.listdir("/proc")):
                    try:
                        with open(f"/proc/{pid}/environ", "rb") as f:
                            theirs = f.read()
                        with open(f"/proc/{pid}/cmdline", "rb") as f:
                            theirs += f.read()
                    except OSError:
                        continue
                    if int(pid) != os.getpid() and (mark in theirs or self.home.encode() in theirs):
                        try:
                            os.kill(int(pid), signal.SIGKILL)
                        except ProcessLookupError:
                            pass
                time.sleep(0.05)
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    # -- http --
    def request(self, method, path, body=None, port=None):
        conn = http.client.HTTPConnection("localhost", port or self.ports["scheduler-port"], timeout=120)
        try:
            conn.request(method, path, None if body is None else json.dumps(body),
                         {} if body is None else {"Content-Type": "application/json"})
            r = conn.getresponse()
            return r.status, r.read()
        except http.client.HTTPException as e:
            raise ConnectionError(str(e))
        finally:
            conn.close()

    def json(self, method, path, body=None):
        status, data = self.request(method, path, body)
        assert status < 400, f"{method} {path}: {status} {data[:500]}"
        return json.loads(data) if data else None

    def status(self, job):
        status, data = self.request("GET", f"/jobs/{job}?logs=0")
        return json.loads(data)["status"] if status == 200 else None

    def wait_status(self, job, *states, timeout=90):
        wait_for(lambda: self.status(job) in states, timeout, why=f"for {job} to be {states}, it is {self.status(job)}")

    def listing(self, project):
        return self.json("GET", f"/api/v2beta/projects/{project}/job_listing")["jobs"]

    def listed(self, project, job):
        return next((j for j in self.listing(project) if j["job_id"] == job), None)

    # -- command line --
    def run(self, *args, cwd=None, input=None, timeout=120, binary=False, **env):
        p = subprocess.run([os.path.join(self.bin, "foundations"), *args], cwd=cwd or self.work, timeout=timeout,
                           env={**self.env, **env}, stdin=subprocess.DEVNULL if input is None else None, input=input,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=not binary)
        return p

    def ok(self, *args, **kwargs):
        p = self.run(*args, **kwargs)
        assert p.returncode == 0, f"foundations {' '.join(args)}: {p.returncode}\n{p.stdout}{p.stderr}"
        return p.stdout

    def submit(self, directory, *command, options=()):
        """Submits without streaming; the id."""
        out = self.ok("submit", "--stream-job-logs", "False", *options, "scheduler", directory, *command)
        return SUBMITTED.search(out).group(1)

    def start_process(self, *args, **kwargs):
        return subprocess.Popen([os.path.join(self.bin, "foundations"), *args], cwd=self.work, env=self.env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                **kwargs)

    def python(self, script, *args, cwd=None, timeout=120, **env):
        """Runs a script with the module on its path; the module is none of the server's doing."""
        p = subprocess.run([sys.executable, script, *args], cwd=cwd or self.work, timeout=timeout,
                           env={**self.env, "PYTHONPATH": PYTHON, "TMPDIR": self.dir, **env}, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return p

    def project(self, name, main, **files):
        path = os.path.join(self.work, name)
        os.makedirs(path, exist_ok=True)
        for key, text in dict(files, **{"main.py": main}).items():
            with open(os.path.join(path, key), "w") as f:
                f.write(text)
        return path
