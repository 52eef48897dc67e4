"""Metrics: points per second from 50 jobs at once, none lost across two kills, a million points in 1 200 buckets,
and what a point costs the training process."""

import os
import shutil
import tempfile
import threading
import time

from berth import _http
from rig import Daemon

JOBS, PER_JOB, PIECE = 50, 20000, 512 * 1024
BAR_RATE, BAR_BUCKETS_MS, BAR_CALL_US = 100000, 50.0, 5.0


def spool(points, seed):
    """Lines as the library writes them."""
    line = '{"k":"m","n":"%s","v":%r,"s":%d,"t":%d}\n'
    names = ("loss", "acc", "lr")
    return "".join(line % (names[i % 3], (seed + i) / 7.0, i // 3, 1731700000000 + i) for i in range(points)).encode()


def pieces(data):
    """Whole lines, at most PIECE bytes at once."""
    at = 0
    while at < len(data):
        end = min(at + PIECE, len(data))
        end = data.rfind(b"\n", at, end) + 1
        yield at, data[at:end]
        at = end


class Sender(threading.Thread):
    """A job with a connection of its own; what was not answered is sent again."""

    def __init__(self, daemon, made, data):
        super().__init__(daemon=True)
        self.sock, self.made, self.data = daemon.sock, made, data

    def run(self):
        path = "/v1/jobs/%d/reports?run=1&offset=%%d" % self.made["number"]
        conn = None
        for at, piece in pieces(self.data):
            while True:
                try:
                    conn = conn or _http.UnixConnection(self.sock, timeout=60)
                    status, _ = _http.exchange(conn, "POST", path % at, piece, _http.bearer(self.made["token"]))
                    if status == 200:
                        break
                except OSError:
                    conn = None
                time.sleep(0.02)


def send_all(daemon, jobs, count, kills=0):
    """(seconds, longest answer to somebody else in ms)."""
    spools = [spool(count, i) for i in range(len(jobs))]
    senders = [Sender(daemon, made, data) for made, data in zip(jobs, spools)]
    began, slowest = time.monotonic(), 0.0
    for s in senders:
        s.start()
    for _ in range(kills):
        time.sleep(0.3)
        daemon.kill()
        daemon.start()
    while any(s.is_alive() for s in senders):
        asked = time.monotonic()
        daemon.call("GET", "/healthz")
        slowest = max(slowest, time.monotonic() - asked)
        time.sleep(0.01)
    return time.monotonic() - began, slowest * 1000


def guests(daemon, count):
    """Runs that need no process."""
    return [daemon.call("POST", "/v1/outside", {"name": "bench"}) for _ in range(count)]


def kept(daemon, jobs):
    return sum(m["points"] for j in jobs for m in daemon.call("GET", "/v1/jobs/%d" % j["number"])["metrics"].values())


def ingestion(rig, table):
    per_job = rig.n(PER_JOB, 1000)
    total, best, answer = JOBS * per_job, 0.0, 1e9
    daemon = Daemon(rig, "metrics")
    for _ in range(rig.repeats):
        jobs = guests(daemon, JOBS)
        seconds, slowest = send_all(daemon, jobs, per_job)
        best, answer = max(best, total / seconds), min(answer, slowest)
        if kept(daemon, jobs) != total:
            raise SystemExit("bench: points are missing")
    table.row("points per second from %d jobs" % JOBS, "%.0f" % best, "", "", "≥ %d" % BAR_RATE, best >= BAR_RATE)
    table.row("an answer to others meanwhile, the longest", "%.1f ms" % answer)
    jobs = guests(daemon, JOBS)
    send_all(daemon, jobs, per_job, kills=2)
    got = kept(daemon, jobs)
    table.row("points kept across two kills", "%d" % got, "%d were sent" % total, "", "all", got == total)
    size = os.path.getsize(os.path.join(daemon.home, "berth.db"))
    table.row("bytes on disk per point", "%.1f" % (size / (total * (rig.repeats + 1))), "a line has 60")
    daemon.close()


def buckets(rig, table):
    count = rig.n(1000000, 50000)
    daemon = Daemon(rig, "buckets")
    made = guests(daemon, 1)[0]
    line = '{"k":"m","n":"loss","v":%r,"s":%d,"t":%d}\n'
    data = "".join(line % (i / 7.0, i, 1731700000000 + i) for i in range(count)).encode()
    sender = Sender(daemon, made, data)
    sender.run()
    best = 1e9
    for _ in range(max(5, rig.repeats)):
        began = time.perf_counter()
        got = daemon.call("GET", "/v1/jobs/%d/metrics?name=loss&buckets=1200" % made["number"])["metrics"]["loss"]
        best = min(best, (time.perf_counter() - began) * 1000)
    if sum(got["count"]) != count or got["value"] != (count - 1) / 7.0:
        raise SystemExit("bench: the buckets do not hold all points")
    table.at_most("%d points in 1 200 buckets" % count, best, BAR_BUCKETS_MS, "%.1f ms")
    daemon.close()


def call_cost(rig, table):
    """CPU time of the calling thread, no daemon anywhere; beside a bare write of as many bytes."""
    from berth._spool import Spool

    folder = tempfile.mkdtemp(dir=rig.tmp)
    s = Spool({"BERTH_JOB_ID": "bench", "BERTH_RUN": "1.1", "BERTH_RUN_DIR": folder, "BERTH_SOCKET": folder + "/none"})
    s.metric("loss", 0.5, 0)
    fd = os.open(folder + "/bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    line, calls = b"x" * 62 + b"\n", rig.n(100000, 10000)
    ours = bare = 1e9
    for _ in range(max(3, rig.repeats)):
        began = time.thread_time()
        for i in range(calls):
            s.metric("loss", i / 7.0, i)
        ours = min(ours, (time.thread_time() - began) / calls * 1e6)
        began = time.thread_time()
        for _ in range(calls):
            os.write(fd, line)
        bare = min(bare, (time.thread_time() - began) / calls * 1e6)
    os.close(fd)
    shutil.rmtree(folder)
    table.row("a metric in the training process", "%.2f µs" % ours, "bare write %.2f µs" % bare, "%.1f" % (ours / bare),
              "≤ %.0f µs" % BAR_CALL_US, ours <= BAR_CALL_US)


def run(rig, table):
    call_cost(rig, table)
    ingestion(rig, table)
    buckets(rig, table)
