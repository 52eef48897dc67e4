"""Atlas: the same 20 MB submitted a thousand times in a row, with the real programs.

All CPU that a submission causes is counted: the command, the server, the worker that prepares the
directory, the supervisor, archiving at the end.  Only the job's own Python, measured bare, is taken
off.  Each job writes a file and rewrites another in place with the same size and the old time; every
archive is compared with the directory as it was at the end of its job.

The original's clients know no short cut: their whole bundles are measured too.
"""

import hashlib
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import time
import uuid

from archive import MB, blocks, content
from rig import children_cpu_s, proc_cpu_s

FILES, NOTES = 50, 4096
BAR_CPU_S, BAR_GROWTH_MB = 0.6, 100
PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
MAIN = """import os
job = os.environ["FOUNDATIONS_JOB_ID"]
with open("out.txt", "w") as f:
    f.write(job)
before = os.stat("notes.bin")
with open("notes.bin", "r+b") as f:
    f.write(job.encode())
os.utime("notes.bin", ns=(before.st_atime_ns, before.st_mtime_ns))
"""


class Server:
    """atlas-server with a home and ports of its own, and a directory of 20 MB."""

    def __init__(self, rig):
        self.rig = rig
        self.top = os.path.join(rig.tmp, "submissions")
        self.source = os.path.join(self.top, "source")
        self.home = os.path.join(self.top, "home")
        os.makedirs(self.source)
        content(self.source, FILES)
        with open(os.path.join(self.source, "main.py"), "w", encoding="utf-8") as f:
            f.write(MAIN)
        with open(os.path.join(self.source, "notes.bin"), "wb") as f:
            f.write(b"\0" * NOTES)
        for name in ("atlas-server", "foundations"):
            os.symlink(os.path.abspath(rig.berth), os.path.join(self.top, name))
        self.env = {k: v for k, v in rig.env.items() if not k.startswith(("FOUNDATIONS_", "DISABLE_LOG"))}
        self.env.update(FOUNDATIONS_HOME=self.home, BERTH_PYTHON=PYTHON, NUM_WORKERS="2", PYTHONDONTWRITEBYTECODE="1", PATH="/usr/bin:/bin",
                        BERTH_SHEPHERD=rig.find("berth-shepherd"))
        names = ("scheduler-port", "tracker-port", "api-port", "archive-port", "dashboard-port")
        socks = [socket.create_server(("127.0.0.1", 0)) for _ in names]
        self.ports = {name: s.getsockname()[1] for name, s in zip(names, socks)}
        for s in socks:
            s.close()
        words = [w for name, port in self.ports.items() for w in ("--" + name, str(port))]
        with open(os.path.join(self.top, "log"), "ab") as log:
            self.process = subprocess.Popen([os.path.join(self.top, "atlas-server"), "start", "-t", *words], env=self.env,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(600):
            try:
                self.call("GET", "/")
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("bench: atlas-server did not start")

    def call(self, method, path, body=None, headers=None):
        conn = http.client.HTTPConnection("127.0.0.1", self.ports["scheduler-port"], timeout=120)
        try:
            conn.request(method, path, body, headers or {})
            reply = conn.getresponse()
            data = reply.read()
        finally:
            conn.close()
        if reply.status >= 400:
            raise SystemExit("bench: %s %s: %d %s" % (method, path, reply.status, data[:300]))
        return data

    def submit(self):
        """(job, CPU of the command)."""
        before = children_cpu_s()
        out = subprocess.run([os.path.join(self.top, "foundations"), "submit", "--stream-job-logs", "False", "scheduler", self.source, "main.py"],
                             env=self.env, check=True, stdout=subprocess.PIPE, text=True).stdout
        return out.split("ID '")[1].split("'")[0], children_cpu_s() - before

    def submit_whole(self):
        """As a client of the original does it."""
        job, packed = str(uuid.uuid4()), io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
            tar.add(self.source, job + "/job_source")
        body = ('--x\r\nContent-Disposition: form-data; name="job_bundle"; filename="%s.tgz"\r\n\r\n' % job).encode()
        self.call("POST", "/job_bundle", body + packed.getvalue() + b"\r\n--x--\r\n", {"Content-Type": "multipart/form-data; boundary=x"})
        self.call("POST", "/queued_jobs", json.dumps({
            "job_id": job, "spec": {"command": ["main.py"]}, "metadata": {"project_name": "p", "username": "u"}, "gpu_spec": {"num_gpus": 0}}))
        return job, 0.0

    def wait(self):
        while json.loads(self.call("GET", "/queued_jobs")) or json.loads(self.call("GET", "/running_jobs")):
            time.sleep(1)

    def archives_wrong(self, jobs):
        """How many archives differ from what their jobs left; files that are one inode are read once."""
        want, known, wrong = {}, {}, 0
        for folder, _, names in os.walk(self.source):
            for name in names:
                path = os.path.join(folder, name)
                want[os.path.relpath(path, self.source)] = digest(path, {})
        for job in jobs:
            top = os.path.join(self.home, "job_data", "archive", job, "artifacts")
            mine = dict(want)
            mine["out.txt"] = hashlib.sha256(job.encode()).digest()
            mine["notes.bin"] = hashlib.sha256(job.encode().ljust(NOTES, b"\0")).digest()
            found = {os.path.relpath(os.path.join(folder, n), top): digest(os.path.join(folder, n), known)
                     for folder, _, names in os.walk(top) for n in names}
            wrong += found != mine
        return wrong

    def size(self):
        return blocks(self.home) / MB

    def stop(self):
        """Ends the server and all it started, so that their CPU time is counted."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.rig.end_shepherds()

    def close(self):
        shutil.rmtree(self.top)


def digest(path, known):
    st = os.lstat(path)
    key = st.st_dev, st.st_ino
    if key not in known:
        with open(path, "rb") as f:
            known[key] = hashlib.sha256(f.read()).digest()
    return known[key]


def bare_python(server, repeats):
    """CPU of the job's own Python."""
    folder = os.path.join(server.top, "bare")
    os.makedirs(folder)
    shutil.copy(os.path.join(server.source, "notes.bin"), folder)
    shutil.copy(os.path.join(server.source, "main.py"), folder)
    before = children_cpu_s()
    for _ in range(repeats):
        subprocess.run(["/usr/bin/python3", "main.py"], cwd=folder, check=True, env=dict(server.env, FOUNDATIONS_JOB_ID=str(uuid.uuid4())))
    return (children_cpu_s() - before) / repeats


def tar_peer(server, repeats):
    packed, out = os.path.join(server.top, "peer.tgz"), os.path.join(server.top, "peer")
    before = children_cpu_s()
    for _ in range(repeats):
        os.makedirs(out)
        subprocess.run(["tar", "czf", packed, "-C", server.source, "."], check=True)
        subprocess.run(["tar", "xzf", packed, "-C", out], check=True)
        shutil.rmtree(out)
    return (children_cpu_s() - before) / repeats


def in_a_row(rig, count, submit):
    """(CPU of a submission, of it the command, growth by a thousand in MB, archives that differ, peer)."""
    server = Server(rig)
    try:
        jobs = [submit(server)]
        server.wait()
        first, python, peer = server.size(), bare_python(server, 10), tar_peer(server, 3)
        before = children_cpu_s() + proc_cpu_s(server.process.pid)
        jobs += [submit(server) for _ in range(count)]
        server.wait()
        grown = (server.size() - first) / count * 1000
        wrong = server.archives_wrong([job for job, _ in jobs])
    finally:
        server.stop()
    cpu = (children_cpu_s() - before) / count - python
    server.close()
    return cpu, sum(c for _, c in jobs[1:]) / count, grown, wrong, peer


def measure(rig, table, what, count, submit):
    cpu, command, grown, wrong, peer = in_a_row(rig, count, submit)
    if command:
        table.row(what + "of it the command", "%.3f s" % command)
    table.row(what + "CPU of one", "%.3f s" % cpu, "tar cz, xz: %.3f s" % peer, "%.2f" % (cpu / peer), "≤ %.1f s" % BAR_CPU_S, cpu <= BAR_CPU_S)
    table.at_most(what + "growth by 1000", grown, BAR_GROWTH_MB, "%.0f MB", "cp -r: 20000 MB")
    table.row(what + "archives", "%d differ" % wrong, "", "", "none", wrong == 0)


def run(rig, table):
    count, whole = rig.n(1000, 10), rig.n(50, 3)
    measure(rig, table, "%d x submit, 20 MB: " % count, count, Server.submit)
    measure(rig, table, "%d x whole bundle: " % whole, whole, Server.submit_whole)
