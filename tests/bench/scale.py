"""Many jobs: bulk submit, first page, filter, cancel all; restart with long queues; one freed slot."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import time

from rig import Daemon, proc_memory

MB = 1 << 20


def timed(fn):
    began = time.monotonic()
    result = fn()
    return time.monotonic() - began, result


def bulk(rig, table):
    """100 000 jobs in one request, as a list of specs, each with parameters of its own.

    The same 33 MB everywhere: with the PATH of whoever measures, memory would tell how long that is.
    """
    count = rig.n(100000, 5000)
    env = {"PATH": ":".join("/opt/toolset-%02d/bin" % i for i in range(10)) + ":/usr/bin:/bin"}
    body = json.dumps(
        [{"command": ["/bin/true"], "cwd": "/", "env": env, "queue": "bulk", "params": {"lr": i / count, "i": i}} for i in range(count)]
    ).encode()
    best = {}
    for turn in range(rig.repeats):
        daemon = Daemon(rig, "bulk-%d" % turn)
        daemon.pause("bulk")
        figures = {}
        figures["submit"], _ = timed(lambda: daemon.call("POST", "/v1/jobs", body))
        figures["memory"] = proc_memory(daemon.pid, "VmHWM")
        assert daemon.count("queued") == count
        pages = ("/v1/jobs?limit=100", "/v1/jobs?limit=100&filter=lr%3C0.5", "/v1/jobs?limit=100&state=queued&sort=name")
        for name, path in zip(("page", "filter", "sorted"), pages):
            figures[name] = min(timed(lambda: daemon.call("GET", path))[0] for _ in range(5))
        figures["cancel"], _ = timed(lambda: daemon.call("POST", "/v1/jobs/cancel", {"state": "queued"}))
        assert daemon.count("cancelled") == count
        daemon.close()
        for k, v in figures.items():
            best[k] = min(v, best.get(k, v))
    table.at_most("bulk submit, %d specs, one request" % count, best["submit"], 1.5, "%.2f s", "Slurm 372 s")
    table.at_most("  peak memory of the daemon", best["memory"] / MB, 60, "%.1f MB", "Slurm 362 MB")
    table.at_most("  first page of the list", best["page"] * 1000, 20, "%.1f ms", "Slurm 1450 ms, all")
    table.at_most("  first page of a filter on a parameter", best["filter"] * 1000, 20, "%.1f ms")
    table.row("  first page sorted by name", "%.1f ms" % (best["sorted"] * 1000))
    table.at_most("  cancel all", best["cancel"], 2.0, "%.2f s", "Slurm 48 s")


def array(rig, table):
    count = rig.n(100000, 5000)
    daemon = Daemon(rig, "array")
    daemon.pause("bulk")
    took, _ = timed(lambda: daemon.submit(command=["/bin/true"], queue="bulk", array=count))
    table.at_most("array of %d, one request" % count, took, 1.5, "%.2f s", "HyperQueue 0.14 s, in memory")
    table.row("  memory of the daemon", "%.1f MB" % (proc_memory(daemon.pid, "VmHWM") / MB), "HyperQueue 71 MB")
    daemon.close()


def plan_us(daemon):
    """The longest planning pass so far in µs, from /metrics; None when it is not told."""
    from berth import _http

    _, body = _http.exchange(daemon.conn, "GET", "/metrics")
    m = re.search(rb"^berth_plan_microseconds_max (\d+)", body, re.M)
    return int(m.group(1)) if m else None


def restart(rig, table, count, bar_s):
    daemon = Daemon(rig, "restart-%d" % count, "--slots", "2")
    daemon.pause("bulk")
    daemon.submit(command=["/bin/true"], queue="bulk", array=count)
    best = None
    for _ in range(rig.repeats):
        daemon.kill()
        took = daemon.start()
        best = took if best is None else min(best, took)
    assert daemon.count("queued") == count
    table.at_most("restart after kill -9, %d queued" % count, best, bar_s, "%.3f s", "Slurm 2.4 s with 100 000")
    table.row("  memory of the daemon", "%.1f MB" % (proc_memory(daemon.pid, "VmRSS") / MB))
    # One slot is freed at a time; each time the planner picks from the whole queue.
    daemon.call("POST", "/v1/queues/bulk/resume")
    until = time.monotonic() + 3
    while time.monotonic() < until and daemon.count("succeeded") < 200:
        time.sleep(0.05)
    daemon.pause("bulk")
    longest = plan_us(daemon)
    if longest is not None:
        table.at_most("  planning pass of a freed slot, longest", longest / 1000, 1.0, "%.3f ms")
    daemon.close()


def add_runs(daemon):
    """A run for every job, as if they had been cancelled while they ran: half of the database of a real home."""
    daemon.kill(signal.SIGTERM)
    with contextlib.closing(sqlite3.connect(os.path.join(daemon.home, "berth.db"))) as db:
        db.execute("UPDATE job SET attempt = 1")
        db.execute("INSERT INTO run(job, run, why, placed_ms, started_ms, ended_ms, pid, journal, gpus, node)"
                   " SELECT seq, 1, 1, created_ms, created_ms, ended_ms, 1000, 1, 0, 'local' FROM job")
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    daemon.start()


def forget(path):
    """The kernel drops what it has of the file, as a reboot does; root is not needed."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def restart_finished(rig, table, count, bar_s):
    """A home full of finished jobs: its start includes the bounded check of the database."""
    daemon = Daemon(rig, "finished-%d" % count, "--slots", "2")
    daemon.pause("bulk")
    daemon.submit(command=["/bin/true"], queue="bulk", array=count)
    daemon.call("POST", "/v1/jobs/cancel", {"state": "queued"})
    assert daemon.count("cancelled") == count
    add_runs(daemon)
    best = {}
    for cold in [False, True] * rig.repeats:
        daemon.kill()
        if cold:
            forget(os.path.join(daemon.home, "berth.db"))
        took = daemon.start()
        best[cold] = min(best.get(cold, took), took)
    assert daemon.count("cancelled") == count
    table.at_most("restart after kill -9, %d finished, with its check" % count, best[False], bar_s, "%.3f s")
    table.at_most("  the same, the database not in memory", best[True], bar_s, "%.3f s")
    daemon.close()


def run(rig, table):
    bulk(rig, table)
    array(rig, table)
    restart(rig, table, rig.n(100000, 5000), 0.5)
    restart(rig, table, rig.n(1000000, 20000), 3.0)
    restart_finished(rig, table, rig.n(1000000, 20000), 3.0)
