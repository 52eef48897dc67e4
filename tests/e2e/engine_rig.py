"""Real container engines for tests: Debian's dockerd and podman, each on a socket and below a directory of
its own, with images made of this machine's busybox and Python.  No registry is needed.

    with Engine("docker") as g: …; g.url names it, g.restart() and g.kill() do what they say.
"""
import http.client
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from urllib.parse import quote

from harness import Skip, UnixHTTP, need_mounts

APPLETS = ("sh echo cat sleep ls id env dd head tail yes printf touch mkdir rm stat true false kill seq "
           "httpd wget pwd hostname wc sync usleep").split()
PYTHON = "python3.11"
LEFT_OUT = ("test", "idlelib", "lib2to3", "ensurepip", "tkinter", "turtledemo", "pydoc_data", "__pycache__",
            "distutils", "unittest")
CONTAINERS_CONF = """[engine]
runtime = "runc"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
"""
BUSYBOX, PYTHON_IMAGE = "berth-test/busybox:latest", "berth-test/python:latest"
_serial = itertools.count()


# ---- images ----

def libraries(path):
    """What the loader needs for a program or library: paths."""
    out = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    return {w for line in out.splitlines() for w in line.split() if w.startswith("/")}


class Tree:
    """A root file system as a tar in memory."""

    def __init__(self):
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w")
        self.have = set()

    def add(self, path, target=None):
        target = (target or path).lstrip("/")
        if target not in self.have:
            self.have.add(target)
            self.tar.add(os.path.realpath(path), target, recursive=False)

    def link(self, name, to):
        info = tarfile.TarInfo(name.lstrip("/"))
        info.type, info.linkname = tarfile.SYMTYPE, to
        self.tar.addfile(info)

    def text(self, name, text, mode=0o644):
        info = tarfile.TarInfo(name.lstrip("/"))
        info.size, info.mode = len(text.encode()), mode
        self.tar.addfile(info, io.BytesIO(text.encode()))

    def directory(self, name, mode=0o755):
        info = tarfile.TarInfo(name.lstrip("/"))
        info.type, info.mode = tarfile.DIRTYPE, mode
        self.tar.addfile(info)

    def done(self):
        self.tar.close()
        return self.bytes.getvalue()


def busybox_tree(tree=None):
    busybox = shutil.which("busybox")
    if not busybox:
        raise Skip("busybox is not installed")
    tree = tree or Tree()
    tree.directory("tmp", 0o1777)
    tree.text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    tree.add(busybox, "bin/busybox")
    for lib in libraries(busybox):
        tree.add(lib)
    for name in APPLETS:
        tree.link("bin/" + name, "busybox")
    return tree


def python_tree():
    program, stdlib = "/usr/bin/" + PYTHON, "/usr/lib/" + PYTHON
    if not os.path.exists(program):
        raise Skip(f"{program} is not there to make an image of")
    tree = busybox_tree()
    tree.add(program)
    needed = libraries(program)
    for root, dirs, files in os.walk(stdlib):
        dirs[:] = [d for d in dirs if d not in LEFT_OUT and not d.startswith("config-")]
        for name in files:
            tree.add(os.path.join(root, name))
            if name.endswith(".so"):
                needed |= libraries(os.path.join(root, name))
    for lib in needed:
        tree.add(lib)
    for name in ("python3", "python"):
        tree.link("usr/bin/" + name, PYTHON)
    return tree


# ---- engines ----

class Engine:
    def __init__(self, kind, live_restore=True):
        if os.getuid() != 0:
            raise Skip("a container engine of our own needs root")
        need_mounts()
        program = {"docker": "dockerd", "podman": "podman"}[kind]
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")
        self.kind, self.live_restore = kind, live_restore
        self.dir = tempfile.mkdtemp(prefix="berth-engine-")
        self.sock = os.path.join(self.dir, "engine.sock")
        self.url = "unix://" + self.sock
        self.proc = self.runtime = None
        number = (os.getpid() * 7 + next(_serial)) % 250
        self.bridge, self.subnet = f"bt{os.getpid() % 100000}x{number}", f"10.231.{number}"
        with open(os.path.join(self.dir, "containers.conf"), "w") as f:
            f.write(CONTAINERS_CONF)
        try:
            if kind == "docker":
                self.make_bridge()
                self.start_runtime()
            self.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def make_bridge(self):
        for args in (["link", "add", self.bridge, "type", "bridge"],
                     ["addr", "add", self.subnet + ".1/24", "dev", self.bridge], ["link", "set", self.bridge, "up"]):
            subprocess.run(["ip", *args], check=True, capture_output=True)

    def command(self):
        d = self.dir
        if self.kind == "docker":
            return (["dockerd", "--host", self.url, "--data-root", d + "/data", "--exec-root", d + "/exec",
                     "--pidfile", d + "/pid", "--bridge", self.bridge, "--containerd", d + "/containerd.sock"]
                    + (["--live-restore"] if self.live_restore else []))
        return ["podman", "--root", d + "/data", "--runroot", d + "/run", "--tmpdir", d + "/tmp",
                "--network-config-dir", d + "/networks", "system", "service", "--time=0", self.url]

    def start_runtime(self):
        """A containerd that outlives dockerd, as on every machine with systemd."""
        d = self.dir
        with open(os.path.join(d, "log"), "ab") as log:
            self.runtime = subprocess.Popen(["containerd", "--address", d + "/containerd.sock", "--root", d + "/root",
                                             "--state", d + "/state"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def start(self):
        log = open(os.path.join(self.dir, "log"), "ab")
        env = dict(os.environ, CONTAINERS_CONF=os.path.join(self.dir, "containers.conf"))
        self.proc = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env,
                                     cwd=self.dir)  # Podman's monitor leaves files where it is started
        log.close()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.proc.poll() is not None:
                raise Skip(f"{self.kind} does not run here: " + self.log()[-300:].replace("\n", " "))
            try:
                self.call("GET", "/_ping")
                return
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
        raise RuntimeError(f"{self.kind} did not answer:\n{self.log()}")

    def log(self):
        with open(os.path.join(self.dir, "log"), errors="replace") as f:
            return f.read()[-3000:]

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def stop(self):
        if self.proc and self.proc.poll() is None:
            self.proc.terminate()
            try:
                self.proc.wait(120)
            except subprocess.TimeoutExpired:
                self.kill()

    def close(self):
        if self.proc and self.proc.poll() is None:
            try:
                for c in self.containers():
                    self.call("DELETE", f"/containers/{c['Id']}?force=1&v=1")
            except (OSError, http.client.HTTPException, AssertionError) as e:
                print(f"# leaving: {e}", file=sys.stderr)
        self.stop()
        if self.runtime:
            self.runtime.terminate()
            self.runtime.wait()
        if self.kind == "docker":
            subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)
        self.unmount()
        shutil.rmtree(self.dir, ignore_errors=True)

    def unmount(self):
        with open("/proc/self/mounts") as f:
            mounts = [line.split()[1] for line in f if self.dir in line]
        for path in sorted(mounts, reverse=True):
            subprocess.run(["umount", "-l", path], capture_output=True)

    # -- its interface --
    def call(self, method, path, body=None, headers=None):
        conn = UnixHTTP(self.sock, timeout=120)
        try:
            data = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
            conn.request(method, path, data, headers or {"Content-Type": "application/json"})
            reply = conn.getresponse()
            text = reply.read()
        finally:
            conn.close()
        assert reply.status < 400 or reply.status == 404, f"{method} {path}: {reply.status} {text[:300]}"
        try:
            return json.loads(text) if text else None
        except ValueError:
            return text

    def load(self, name, tree, changes=()):
        repo, tag = name.rsplit(":", 1)
        more = "".join("&changes=" + quote(c) for c in changes)
        self.call("POST", f"/images/create?fromSrc=-&repo={quote(repo, safe='')}&tag={tag}{more}", tree.done(),
                  {"Content-Type": "application/x-tar"})
        return name

    def containers(self):
        return self.call("GET", "/containers/json?all=1")
