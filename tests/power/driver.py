"""A day of a daemon, small, for the recorder: driver.py DIR

What the daemon acknowledged is written to DIR/notes, a line of JSON each, in the order in which it was
heard; test_power.py holds disks after a power cut to it.
"""

import json
import os
import sys

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


def main():
    day = Day(sys.argv[1])
    h = day.h
    h.start("--slots", "2")
    h.api("POST", "/v1/queues/parked/pause")
    day.note(queue="parked", paused=True)
    for rounds in range(3):
        ended = [day.submit("sh", "-c", f"exit {i}", name=f"r{rounds}e{i}") for i in range(3)]
        parked = [day.submit("true", queue="parked", name=f"r{rounds}p{i}") for i in range(4)]
        batch = h.api("POST", "/v1/jobs", [{"command": ["true"], "cwd": "/", "name": f"r{rounds}b{i}"} for i in range(5)])
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
        h.api("DELETE", f"/v1/jobs/{ended[0]}")
        day.note(job=ended[0], gone=True)
        if rounds == 0:
            h.kill()
        else:
            assert h.stop() == 0
        h.start("--slots", "2")
    day.note(end=True)
    h.close()


if __name__ == "__main__":
    main()
