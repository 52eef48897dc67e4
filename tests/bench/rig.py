"""What the measurements share: daemons in homes of their own, CPU and memory of processes, the table.

This process makes itself the reaper of all it starts, directly or not, so that the CPU time of
daemons, shepherds, supervisors and jobs is counted once they have been ended and waited for.
"""

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

from berth import _http

PR_SET_CHILD_SUBREAPER = 36


class Table:
    """Rows `what | ours | peer | ratio | bar | ok`, printed as they come."""

    def __init__(self):
        self.rows = []
        self.missed = 0
        print("%-46s | %-16s | %-28s | %-6s | %-10s | ok" % ("what", "ours", "peer", "ratio", "bar"))
        print("-" * 47 + "|" + "-" * 18 + "|" + "-" * 30 + "|" + "-" * 8 + "|" + "-" * 12 + "|----", flush=True)

    def row(self, what, ours, peer="", ratio="", bar="", ok=None):
        mark = "" if ok is None else ("yes" if ok else "NO")
        self.missed += ok is False
        self.rows.append({"what": what, "ours": ours, "peer": peer, "ratio": ratio, "bar": bar, "ok": ok})
        print("%-46s | %-16s | %-28s | %-6s | %-10s | %s" % (what, ours, peer, ratio, bar, mark), flush=True)

    def at_most(self, what, value, limit, fmt, peer=""):
        """A figure with an absolute bar."""
        self.row(what, fmt % value, peer, "", "≤ " + fmt % limit, value <= limit)

    def note(self, text):
        print("%-46s | %s" % ("", text), flush=True)

    def finish(self):
        held = sum(1 for r in self.rows if r["ok"])
        print("\n%d bars held, %d missed, %d figures without a bar" % (held, self.missed, len(self.rows) - held - self.missed))


def children_cpu_s():
    u = resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime


def proc_cpu_s(pid):
    """User and system seconds of a live process, all threads."""
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def proc_memory(pid, key):
    """VmRSS or VmHWM in bytes."""
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise KeyError(key)


def children_of(parent):
    """(pid, name) of every process whose parent is `parent`."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError):
            with open("/proc/%s/stat" % entry) as f:
                text = f.read()
            name = text[text.index("(") + 1 : text.rindex(")")]
            if int(text.rpartition(")")[2].split()[1]) == parent:
                found.append((int(entry), name))
    return found


class Daemon:
    """`berth serve` on a home of its own."""

    def __init__(self, rig, name, *options):
        self.rig, self.options = rig, options
        self.home = os.path.join(rig.tmp, name)
        self.env = dict(rig.env, BERTH_HOME=self.home)
        self.sock = os.path.join(self.home, "sock")
        self.process = None
        self.conn = None
        self.start()

    def start(self):
        """Seconds until it answered."""
        os.makedirs(self.home, exist_ok=True)
        began = time.monotonic()
        with open(os.path.join(self.rig.tmp, "daemon.log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.rig.berth, "serve", *self.options], env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        while True:
            try:
                self.conn = _http.UnixConnection(self.sock, timeout=120)
                status, _ = _http.exchange(self.conn, "GET", "/healthz")
                if status == 200:
                    return time.monotonic() - began
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() - began > 60:
                with open(os.path.join(self.rig.tmp, "daemon.log"), errors="replace") as f:
                    sys.exit("bench: the daemon did not start:\n" + f.read()[-2000:])
            time.sleep(0.001)

    @property
    def pid(self):
        return self.process.pid

    def call(self, method, path, body=None, headers=None):
        """The decoded reply; ends the run on an error, which no figure may hide."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        all_headers = {"Content-Type": "application/json", **(headers or {})} if data is not None else headers
        status, reply = _http.exchange(self.conn, method, path, data, all_headers)
        if status >= 400:
            sys.exit("bench: %s %s: %d %s" % (method, path, status, reply[:300]))
        return _http.parse_json(reply)

    def submit(self, **spec):
        spec.setdefault("cwd", self.rig.tmp)
        spec.setdefault("env", {"PATH": os.environ["PATH"]})
        return self.call("POST", "/v1/jobs", spec)

    def count(self, *states):
        """How many jobs are in these states; all jobs without any."""
        counts = self.call("GET", "/v1/jobs/summary")
        return sum(counts.get(s, 0) for s in states) if states else counts["total"]

    def wait_drained(self, limit_s=600):
        until = time.monotonic() + limit_s
        while self.count("queued", "starting", "running", "stopping"):
            if time.monotonic() > until:
                sys.exit("bench: jobs still wait after %d s" % limit_s)
            time.sleep(0.02)

    def pause(self, queue):
        self.call("POST", "/v1/queues/%s/pause" % queue)

    def kill(self, signo=signal.SIGKILL):
        self.process.send_signal(signo)
        self.process.wait()

    def close(self, remove=True):
        if self.process.poll() is None:
            self.kill(signal.SIGTERM)
        self.rig.end_shepherds()
        if remove:
            shutil.rmtree(self.home, ignore_errors=True)


class Rig:
    """Programs, scratch space and the processes left behind."""

    def __init__(self, build, tmp, repeats, quick):
        self.build, self.tmp, self.repeats, self.quick = build, tmp, repeats, quick
        self.berth = self.find("berth")
        self.spawn_loop = self.find("spawn_loop")
        self.latency = self.find("latency")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "TS_"))}
        self.env.update(NO_COLOR="1", TMPDIR=tmp)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            sys.exit("bench: cannot become the reaper of its descendants")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def find(self, name):
        for folder, _, names in os.walk(self.build):
            path = os.path.join(folder, name)
            if name in names and os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        sys.exit("bench: %s is not in %s; script/bench builds it" % (name, self.build))

    def n(self, full, quick):
        return quick if self.quick else full

    def end_shepherds(self):
        """Ends what outlived its daemon, and waits, so that its CPU time is counted."""
        for _ in range(1000):
            left = [p for p, name in children_of(os.getpid()) if name.startswith("berth-shep")]
            if not left:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.reap()
            time.sleep(0.005)
        self.reap()

    def reap(self):
        """Collects orphans that came to us; not the daemons, whose owner waits for them."""
        for pid, name in children_of(os.getpid()):
            if name == "berth":
                continue
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def limit(self, count, in_flight, program="/bin/true"):
        """(programs per second, CPU ms per program) of the bare loop."""
        out = subprocess.run(
            [self.spawn_loop, str(count), str(in_flight), program], check=True, capture_output=True, text=True
        ).stdout.split()
        return float(out[0]), float(out[1])

    def close(self):
        """Names of the processes that are still there: some section did not end what it had started."""
        self.end_shepherds()
        return [name for _, name in children_of(os.getpid())]


def installed(table, *programs):
    """Is this peer there?  Says so when not."""
    for p in programs:
        if shutil.which(p) is None:
            table.note("%s is not installed: left out" % p)
            return False
    return True
