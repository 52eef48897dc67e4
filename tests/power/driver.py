"""A day of a daemon, small, for the recorder: driver.py DIR

What the daemon acknowledged is written to DIR/notes, a line of JSON each, in the order in which it was
heard; test_power.py holds disks after a power cut to it.
"""

import gzip
import io
import json
import os
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import harness  # noqa: E402
from harness import wait_for  # noqa: E402


class Day:
    def __init__(self, where):
        self.h = harness.Home(where)
        self.notes = os.open(os.path.join(where, "notes"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, **what):
        os.write(self.notes, json.dumps(what).encode() + b"\n")

    def submit(self, *command, **spec):
        got = self.h.submit(*command, **spec)
        self.note(job=got["number"], id=got["id"], name=spec.get("name"))
        return got["number"]

    def finished(self, *jobs):
        for n in jobs:
            row = wait_for(f"the end of {n}", lambda: (j := self.h.api("GET", f"/v1/jobs/{n}"))["ended"] and j)
            self.note(job=n, state=row["state"], exit_code=row["exit_code"], runs=len(row["runs"]))

    def act(self, verb, n, state):
        self.h.api("POST", f"/v1/jobs/{n}/{verb}")
        self.note(job=n, state=state)

    def started(self, n):
        return wait_for(f"the start of {n}", lambda: (j := self.h.api("GET", f"/v1/jobs/{n}"))["state"] == "running" and j)

    # -- beyond the job table --

    def keys(self):
        """A daemon has answered, so its keys may be in somebody's hands."""
        for name in ("token", "secret"):
            with open(os.path.join(self.h.home, name), "rb") as f:
                self.note(file=f"home/{name}", hex=f.read().hex())

    def report(self, n, at, steps):
        """Points, a parameter and a tag of a running job; the offset behind them."""
        lines = [{"k": "m", "n": "loss", "v": 1 / (s + 1), "s": s, "t": 1731700000000 + s} for s in steps]
        lines += [{"k": "p", "n": f"p{steps[0]}", "v": steps[0]}, {"k": "t", "n": f"t{steps[0]}", "x": "yes"}]
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        self.h.api("POST", f"/v1/jobs/{n}/reports?run=1&offset={at}", body, {"Content-Type": "application/x-ndjson"})
        self.note(job=n, points=steps[-1] + 1, param=f"p{steps[0]}", tag=f"t{steps[0]}")
        return at + len(body)

    def snapshot(self, text):
        """Sends a directory, and submits a job that starts in it."""
        files = {"train.py": text, "data/same": "the same every time" * 100}
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w") as tar:
            for name, content in files.items():
                info = tarfile.TarInfo("snapshot/" + name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content.encode()))
        got = self.h.api("POST", "/v1/snapshots", gzip.compress(plain.getvalue()), {"Content-Type": "application/gzip"})
        self.note(snapshot=got["id"], files=files)
        made = self.h.submit("true", queue="parked", snapshot=got["id"])
        self.note(job=made["number"], id=made["id"], files=files)

    def orphans(self, where):
        """Jobs that end while no daemon is there to hear of it."""
        gate = os.path.join(where, "gate")
        jobs = {self.submit("sh", "-c", f"until [ -e {gate} ]; do sleep 0.01; done; exit {code}"): code for code in (4, 5)}
        supervisors = []
        for n in jobs:
            pid = self.started(n)["runs"][-1]["pid"]
            with open(f"/proc/{pid}/stat") as f:
                supervisors.append(f.read().rsplit(")", 1)[1].split()[1])
        self.h.kill()
        with open(gate, "w"):
            pass
        wait_for("the end of the supervisors", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in supervisors))
        for n, code in jobs.items():
            self.note(job=n, state="failed", exit_code=code, journal=True)
        os.unlink(gate)

    def backup(self, name, jobs):
        self.h.berth("backup", os.path.join(self.h.dir, name))
        self.note(backup=name, jobs=jobs)


def one_round(day, rounds):
    """The job table: ends, cancels, holds, a batch, a retry, a removal."""
    ended = [day.submit("sh", "-c", f"exit {i}", name=f"r{rounds}e{i}") for i in range(3)]
    parked = [day.submit("true", queue="parked", name=f"r{rounds}p{i}") for i in range(4)]
    batch = day.h.api("POST", "/v1/jobs", [{"command": ["true"], "cwd": "/", "name": f"r{rounds}b{i}"} for i in range(5)])
    members = range(batch["first"], batch["first"] + 5)
    for n in members:
        day.note(job=n)
    day.act("cancel", parked[0], "cancelled")
    day.act("hold", parked[1], "held")
    day.act("hold", parked[2], "held")
    day.act("release", parked[2], "queued")
    day.finished(*ended, *members)
    day.act("retry", ended[2], None)
    day.finished(ended[2])
    day.h.api("DELETE", f"/v1/jobs/{ended[0]}")
    day.note(job=ended[0], gone=True)
    return parked


def main():
    where = sys.argv[1]
    day = Day(where)
    h = day.h
    h.start("--slots", "4")
    day.keys()
    h.api("POST", "/v1/queues/parked/pause")
    day.note(queue="parked", paused=True)
    tracked, at = day.submit("sleep", "1000"), 0
    day.started(tracked)
    for rounds in range(3):
        parked = one_round(day, rounds)
        at = day.report(tracked, at, range(rounds * 10, rounds * 10 + 10))
        day.snapshot(f"print({rounds})")
        if rounds == 0:
            day.orphans(where)
        else:
            day.backup(f"backup{rounds}", parked)
            assert h.stop() == 0
        h.start("--slots", "4")
    h.api("POST", f"/v1/jobs/{tracked}/cancel")
    day.finished(tracked)
    day.note(end=True)
    h.close()


if __name__ == "__main__":
    main()
