"""Nothing is lost: random life with SIGKILL of the daemon, the shepherd, or both, 200 times.

Afterwards every acknowledged job is there with exactly one final outcome and the right exit code, no
command ran twice at once or twice under one run, and no process is left behind.  NOTHING_LOST_SEED
repeats a run, NOTHING_LOST_ROUNDS shortens it.
"""
import collections
import http.client
import os
import random
import signal
import sys
import time

import harness
from harness import ApiError, Home

ROUNDS = int(os.environ.get("NOTHING_LOST_ROUNDS", 200))
SEED = int(os.environ.get("NOTHING_LOST_SEED", time.time_ns() % 1000000))
PROBE = harness.find_program("e2e-probe")
FINAL = ("succeeded", "failed", "cancelled", "lost")


class Chaos:
    def __init__(self):
        self.rng = random.Random(SEED)
        self.h = Home()
        self.evidence = os.path.join(self.h.dir, "evidence")
        os.mkdir(self.evidence)
        self.expected = {}       # job → exit code, of everything acknowledged
        self.retried = collections.Counter()
        self.kills = collections.Counter()

    def submit(self):
        code = self.rng.choice((0, 0, 0, 3, 7))
        ms = self.rng.choice((0, 0, 1, 5, 20, 100))
        spec = {"retries": self.rng.choice((0, 0, 0, 1)), "backoff": "10ms"}
        try:
            j = self.h.submit(PROBE, self.evidence, str(ms), str(code), **spec)
            self.expected[j["number"]] = code
        except (OSError, http.client.HTTPException):
            pass  # not acknowledged: it may or may not be there

    def act(self):
        if not self.expected:
            return
        job = self.rng.choice(list(self.expected))
        verb = self.rng.choice(("cancel", "retry"))
        try:
            self.h.api("POST", f"/v1/jobs/{job}/{verb}")
            if verb == "retry":
                self.retried[job] += 1
        except ApiError as e:
            if e.status != 409:
                raise
        except (OSError, http.client.HTTPException):
            if verb == "retry":
                self.retried[job] += 1  # it may have been heard

    def strike(self):
        victim = self.rng.choice(("daemon", "daemon", "shepherd", "both"))
        self.kills[victim] += 1
        if victim in ("shepherd", "both"):
            pid = self.h.shepherd_pid()
            if pid:
                os.kill(pid, signal.SIGKILL)
        if victim in ("daemon", "both"):
            self.h.kill()
            time.sleep(self.rng.random() * 0.03)
            self.h.start("--slots", "6")

    def round(self):
        for _ in range(self.rng.randrange(1, 8)):
            self.submit() if self.rng.random() < 0.7 else self.act()
            if self.rng.random() < 0.2:
                time.sleep(self.rng.random() * 0.02)
        self.strike()

    def lines(self, name):
        try:
            with open(os.path.join(self.evidence, name)) as f:
                return f.read().split()
        except FileNotFoundError:
            return []

    def check(self):
        jobs = {j["number"]: j for j in self.h.jobs()}
        missing = set(self.expected) - set(jobs)
        assert not missing, f"acknowledged and gone: {sorted(missing)}"
        for n, code in self.expected.items():
            j = jobs[n]
            assert j["state"] in FINAL, j
            assert j["state"] != "lost", j
            if j["state"] != "cancelled":
                assert j["exit_code"] == code, (j, code)
                assert j["state"] == ("succeeded" if code == 0 else "failed"), j
        assert not self.lines("twice-at-once"), f"ran twice at once: {self.lines('twice-at-once')}"
        again = [r for r, k in collections.Counter(self.lines("starts")).items() if k > 1]
        assert not again, f"the same run started twice: {again}"
        self.check_ends()

    def check_ends(self):
        ends = collections.Counter()
        after = 0
        while True:
            page = self.h.api("GET", f"/v1/events?follow=0&after={after}")
            items = page["items"]
            if not items:
                break
            for ev in items:
                after = ev["seq"]
                if ev["kind"].startswith("job.") and ev["kind"][4:] in FINAL:
                    for n in range(ev["job"], ev["last"] + 1):
                        ends[n] += 1
        for n in self.expected:
            assert 1 <= ends[n] <= 1 + self.retried[n], (n, ends[n], self.retried[n])


def test_nothing_lost():
    c = Chaos()
    print(f"# seed {SEED}, {ROUNDS} rounds", flush=True)
    try:
        c.h.start("--slots", "6")
        for _ in range(ROUNDS):
            c.round()
        c.h.wait_all(120)
        c.check()
        c.h.stop()
        time.sleep(0.3)
        left = {p: v for p, v in c.h.processes().items() if "berth-shepherd" not in v[0]}
        assert not left, f"left behind: {left}"
        print(f"# {len(c.expected)} jobs, {len(c.lines('starts'))} runs, killed {dict(c.kills)}",
              flush=True)
    finally:
        c.h.close()


if __name__ == "__main__":
    harness.main(__name__)
    sys.exit(0)
