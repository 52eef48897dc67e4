"""What end-to-end tests share: a temporary home, a daemon in it, its API, and TAP output.

The programs under test come from BERTH_BUILD (a Meson build directory).  Everything a test starts is
ended by pid; a home that is left with live processes is a failure of the test that made it.
"""
import fcntl
import glob
import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

from ports import free_port, free_ports  # noqa: F401 - for those who use us

BUILD = os.environ.get("BERTH_BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build"))
BUILD = os.path.abspath(BUILD)


def find_program(name):
    """A program of the build, wherever its room puts it."""
    for root, _, files in os.walk(BUILD):
        if name in files and os.access(os.path.join(root, name), os.X_OK):
            return os.path.join(root, name)
    raise SystemExit(f"{name} is not in {BUILD}; build first")


def quota_rules(below, when):
    """An environment in which programs obey a quota: while the file `when` exists nothing can be written below a directory."""
    return {"LD_PRELOAD": find_program("libquota.so"), "QUOTA_WHEN": when, "QUOTA_DIR": below,
            "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}


def build_option(name):
    """What an option of the build was set to."""
    with open(os.path.join(BUILD, "meson-info", "intro-buildoptions.json")) as f:
        return next((o["value"] for o in json.load(f) if o["name"] == name), None)


BERTH = os.environ.get("BERTH") or find_program("berth")


PATIENCE_S = 120  # of everything that waits for a condition: long, since a loaded machine is no failure


def wait_for(what, fn, timeout=PATIENCE_S):
    """Until fn() is true; what fn() returned."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        value = fn()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {timeout} s")


class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path, timeout=120):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class ApiError(Exception):
    def __init__(self, status, body):
        super().__init__(f"HTTP {status}: {body}")
        self.status, self.body = status, body


class Home:
    """A BERTH_HOME of its own, with the daemon that serves it."""

    def __init__(self, path=None, **env):
        self.dir = path or tempfile.mkdtemp(prefix="berth-e2e-")
        self.home = os.path.join(self.dir, "home")
        self.sock = os.path.join(self.home, "sock")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_")}
        self.env.update(BERTH_HOME=self.home, NO_COLOR="1", **env)
        shepherd = os.environ.get("BERTH_SHEPHERD")
        self.env["BERTH_SHEPHERD"] = shepherd or find_program("berth-shepherd")
        self.daemon = None
        self.conn = None
        self.log = open(os.path.join(self.dir, "daemon.log"), "ab")

    # -- daemon --
    def start(self, *args, wait=True):
        self.daemon = subprocess.Popen([BERTH, "serve", *args], env=self.env, stdin=subprocess.DEVNULL,
                                       stdout=self.log, stderr=self.log)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout=120):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.daemon.poll() is not None:
                raise RuntimeError(f"daemon ended with {self.daemon.returncode}:\n{self.log_text()}")
            try:
                self.api("GET", "/healthz")
                return
            except (OSError, http.client.HTTPException):
                self.disconnect()
                time.sleep(0.01)
        raise RuntimeError(f"daemon did not answer in {timeout} s:\n{self.log_text()}")

    def kill(self):
        self.daemon.kill()
        self.daemon.wait()
        self.disconnect()

    def stop(self):
        self.disconnect()
        if self.daemon and self.daemon.poll() is None:
            self.daemon.terminate()
            try:
                self.daemon.wait(120)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
                raise RuntimeError("daemon did not end within 120 s of SIGTERM")
        return self.daemon.returncode if self.daemon else None

    def log_text(self):
        with open(os.path.join(self.dir, "daemon.log"), errors="replace") as f:
            return f.read()[-4000:]

    # -- api --
    def disconnect(self):
        if self.conn:
            self.conn.close()
        self.conn = None

    def request(self, method, path, body=None, headers=None):
        """(status, headers, bytes) over the kept connection."""
        if self.conn is None:
            self.conn = UnixHTTP(self.sock)
        data = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
        try:
            self.conn.request(method, path, data, headers or {})
            reply = self.conn.getresponse()
            return reply.status, reply.headers, reply.read()
        except (OSError, http.client.HTTPException):
            self.disconnect()
            raise

    def api(self, method, path, body=None, headers=None):
        status, _, data = self.request(method, path, body, headers)
        if status >= 400:
            raise ApiError(status, data.decode(errors="replace"))
        return json.loads(data) if data else None

    def submit(self, *command, **spec):
        spec.setdefault("cwd", "/")
        return self.api("POST", "/v1/jobs", dict(command=list(command), **spec))

    def jobs(self, **query):
        """All pages."""
        from urllib.parse import urlencode
        items, cursor = [], None
        while True:
            q = dict(query, limit=1000, **({"cursor": cursor} if cursor else {}))
            page = self.api("GET", "/v1/jobs?" + urlencode(q))
            items += page["items"]
            cursor = page["next"]
            if not cursor:
                return items

    def wait_all(self, timeout=120):
        """Until nothing is active."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            s = self.api("GET", "/v1/jobs/summary")
            if not any(s.get(k) for k in ("queued", "starting", "running", "stopping")):
                return s
            time.sleep(0.03)
        raise AssertionError(f"jobs are still active after {timeout} s: {s}")

    def run_path(self, job, run=1, suffix=""):
        """The directory of a run, or with ".log" or ".err" its output, once it is there."""
        name = os.path.join(self.home, "runs", str(job // 1000), f"{job}.{run}-????????{suffix}")
        found = wait_for(name, lambda: glob.glob(name))
        assert len(found) == 1, found
        return found[0]

    # -- command line --
    def berth(self, *args, check=True, timeout=120, input=None, **env):
        p = subprocess.run([BERTH, *args], env={**self.env, **env}, capture_output=True, text=True,
                           timeout=timeout, input=input)
        if check and p.returncode != 0:
            raise AssertionError(f"berth {' '.join(args)}: exit {p.returncode}\n{p.stdout}{p.stderr}")
        return p

    # -- processes --
    def processes(self):
        """pid → (name, parent) of everything that belongs to this home, our own children excepted."""
        found = {}
        mark = f"BERTH_HOME={self.home}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    environ = f.read().split(b"\0")
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    cmd = f.read()
                with open(f"/proc/{pid}/stat") as f:
                    stat = f.read()
            except OSError:
                continue
            state, parent = stat.rsplit(")", 1)[1].split()[:2]
            if state != "Z" and (mark in environ or self.home.encode() in cmd):
                found[int(pid)] = (cmd.split(b"\0")[0].decode(errors="replace"), int(parent))
        found.pop(os.getpid(), None)
        return found

    def shepherd_pid(self):
        """Whoever holds the lock of the home's shepherd, or None."""
        try:
            with open(os.path.join(self.home, "shepherd", "lock"), "r+b") as f:
                ask = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
                kind, _, _, _, pid = struct.unpack("hhqqi4x", fcntl.fcntl(f, fcntl.F_GETLK, ask))
        except FileNotFoundError:
            return None
        return None if kind == fcntl.F_UNLCK else pid

    def close(self):
        """Ends everything that belongs to this home."""
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
            self.log.close()
            shutil.rmtree(self.dir, ignore_errors=True)


class Skip(Exception):
    """raise Skip("why"): the reason is printed."""


def need_dialect(name):
    """BERTH_DIALECTS lists the dialects of the build; without the variable the build has all of them."""
    built = os.environ.get("BERTH_DIALECTS")
    if built is not None and name not in built.split(","):
        raise Skip(f"the build does not contain the dialect {name}")


def need_mounts():
    """Nothing can be mounted where the root is a mere directory of another tree, as in a bare chroot."""
    with open("/proc/self/mountinfo") as f:
        if not any(line.split()[4] == "/" for line in f):
            raise Skip("/ is no mount point (a bare chroot), so nothing can be mounted for a run")


def main(module_name):
    """Runs every test_* function of the module in order and prints TAP."""
    tests = [(n, f) for n, f in vars(sys.modules[module_name]).items()
             if n.startswith("test_") and callable(f)]
    if len(sys.argv) > 1:
        tests = [(n, f) for n, f in tests if any(a in n for a in sys.argv[1:])]
    print(f"1..{len(tests)}", flush=True)
    bad = 0
    for i, (name, fn) in enumerate(tests, 1):
        began = time.monotonic()
        try:
            fn()
            print(f"ok {i} - {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except Skip as e:
            print(f"ok {i} - {name} # SKIP {e}", flush=True)
        except BaseException as e:  # noqa: BLE001 - a test must not end the others
            bad += 1
            print(f"not ok {i} - {name}", flush=True)
            for line in traceback.format_exc().splitlines():
                print("# " + line, flush=True)
            if isinstance(e, KeyboardInterrupt):
                raise
    sys.exit(1 if bad else 0)
