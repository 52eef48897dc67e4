"""Reading back: 100 000 jobs with 50 parameters and 150 metrics each, sorted and filtered by any of them."""

import contextlib
import json
import os
import random
import signal
import sqlite3

from rig import Daemon, proc_memory
from scale import timed

MB = 1 << 20
PARAMS, METRICS = 50, 150
# What a row of the table of metrics says: one point of each, as a job with one report has it.
SERIES = (
    "INSERT INTO series(job, name, n, numbers, step_min, step_max, at_min, at_max, min, max, run, step, at_ms, value,"
    " low_step, high_step, first, sum, counted) VALUES(?1, ?2, 1, 1, 0, 0, 1, 1, ?3, ?3, 1, 0, 1, ?3, 0, 0, ?3, ?3, 1)"
)


def fill(rig, daemon, count):
    """Submits the jobs; metrics go straight to the tables, since the reports of as many jobs would take hours."""
    rnd = random.Random(1)
    for first in range(0, count, 10000):
        specs = [
            {"command": ["/bin/true"], "cwd": "/", "queue": "bulk", "params": {"p%02d" % k: rnd.random() for k in range(PARAMS)}}
            for _ in range(min(10000, count - first))
        ]
        daemon.call("POST", "/v1/jobs", json.dumps(specs).encode())
    daemon.kill(signal.SIGTERM)
    with contextlib.closing(sqlite3.connect(os.path.join(daemon.home, "berth.db"))) as db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute("DROP INDEX series_read")
        for k in range(METRICS):
            db.executemany(SERIES, ((job, "m%03d" % k, rnd.random()) for job in range(1, count + 1)))
        db.execute("CREATE INDEX series_read ON series(name, job, value, counted, min, max, first, sum)")
        db.commit()
    daemon.start()


def run(rig, table):
    count = rig.n(100000, 2000)
    daemon = Daemon(rig, "reading", "--slots", "1")
    daemon.pause("bulk")
    fill(rig, daemon, count)
    columns = ",".join(["p%02d" % k for k in range(5)] + ["m%03d.max" % k for k in range(15)])
    pages = {
        "sorted by a metric": ("/v1/jobs?limit=50&sort=-m0%02d.max", 30),
        "the same, of one state": ("/v1/jobs?limit=50&state=queued&sort=m0%02d", 30),
        "filtered by a metric": ("/v1/jobs?limit=50&filter=m0%02d%%3E0.99", 30),
        "both": ("/v1/jobs?limit=50&sort=-m0%02d.mean&filter=m001%%3C0.5", 30),
        "sorted, with 20 columns": ("/v1/jobs?limit=50&sort=-m0%02d&columns=" + columns, 30),
        "sorted by a parameter": ("/v1/jobs?limit=50&sort=p%02d", None),
    }
    daemon.call("GET", "/v1/jobs?limit=1&sort=m000")  # the names of parameters are collected once
    for what, (path, bar) in pages.items():
        best = min(timed(lambda k=k: daemon.call("GET", path % k))[0] for k in range(10, 10 + 3 * rig.repeats)) * 1000
        what = "%d jobs x %d, %s" % (count, PARAMS + METRICS, what)
        if bar:
            table.at_most(what, best, bar, "%.1f ms")
        else:
            table.row(what, "%.1f ms" % best)
    table.at_most("  memory of the daemon", proc_memory(daemon.pid, "VmHWM") / MB, 80, "%.1f MB")
    daemon.close()
