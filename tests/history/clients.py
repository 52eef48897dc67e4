"""One history: clients use a daemon at the same time, faults happen, everything is recorded.

What each client asks for, in which order, and after how many operations which fault comes, follows from the
seed alone; how they meet is up to the machine.
"""

import contextlib
import http.client
import json
import os
import random
import signal
import threading
import time
import urllib.parse

import checker
import harness
from harness import wait_for
from model import Job, Op

CLIENTS, OPS, JOBS = 4, 26, 3  # JOBS: submissions of one client
PATIENCE_S = 60  # of a client that waits for an answer; then it does not know
# What a fault kills, or what the next daemon does: slow and failing commits, and a loop that hears late of them.
KILLS, STARTS = ("daemon", "shepherd", "both"), {
    "slow": {"BERTH_FAULT_COMMIT_MS": "20"},
    "failing": {"BERTH_FAULT_COMMIT_FAILS": "5"},
    "late": {"BERTH_FAULT_PUBLISH_MS": "20"},
}
KINDS = ("get",) * 5 + ("list",) * 3 + ("events",) * 2 + ("cancel", "retry", "hold", "release", "remove") * 2


class Plan:
    """Everything that is decided before anything happens."""

    def __init__(self, seed, n_faults=2):
        rng = random.Random(seed)
        names = [f"c{c}j{j}" for c in range(CLIENTS) for j in range(JOBS)]
        self.commands = {name: self.command(rng) for name in names}
        self.clients = [self.client(rng, c, names) for c in range(CLIENTS)]
        total = CLIENTS * OPS
        self.faults = sorted((rng.randrange(total // 8, total * 7 // 8), rng.choice((*KILLS, *STARTS))) for _ in range(n_faults))

    @staticmethod
    def command(rng):
        """(seconds, exit code): None = until it is stopped."""
        return rng.choice([(0, 0), (0, 0), (0, 3), (0.03, 0), (0.03, 7), (0.1, 0), (1000, None)])

    @staticmethod
    def client(rng, c, names):
        """[(kind, job, how)…]; how: "cut" = the connection is cut before the answer."""
        ops = []
        for i in range(OPS):
            if i % (OPS // JOBS) == 0 and i // (OPS // JOBS) < JOBS:
                kind, name = "submit", f"c{c}j{i // (OPS // JOBS)}"
            elif rng.random() < 0.05:
                kind, name = "submit", rng.choice(names)  # again, with the same key
            else:
                kind, name = rng.choice(KINDS), rng.choice(names)
            ops.append((kind, name, "cut" if rng.random() < 0.08 else ""))
        return ops


class Daemon:
    """A daemon that can be killed and started again under its clients."""

    def __init__(self, slots=2, **env):
        self.h = harness.Home(**env)
        self.base = dict(self.h.env)
        self.args = ("--slots", str(slots))
        self.up = threading.Event()
        self.start()

    def start(self, **env):
        self.h.env = {**self.base, **env}
        self.h.start(*self.args)
        self.up.set()

    def kill(self):
        self.up.clear()
        self.h.kill()

    def kill_shepherd(self):
        pid = self.h.shepherd_pid()
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def fault(self, kind):
        if kind == "shepherd":
            self.kill_shepherd()
            return
        self.kill()
        if kind == "both":
            self.kill_shepherd()
        self.start(**STARTS.get(kind, {}))

    def close(self):
        """All jobs have ended, so only the daemon and its shepherd are left."""
        self.kill()
        self.kill_shepherd()
        self.h.close()


class Client:
    """Asks one thing at a time and writes down what it heard."""

    def __init__(self, name, run):
        self.name, self.run, self.conn = name, run, None

    def drop(self):
        if self.conn:
            self.conn.close()
        self.conn = None

    def ask(self, method, path, body=None, headers=None, how=""):
        """(begin, end or None, status, parsed body).  Status None: it was certainly not done, or nobody knows."""
        self.run.daemon.up.wait(PATIENCE_S)
        begin = time.monotonic_ns()
        try:
            if not self.conn:
                self.conn = harness.UnixHTTP(self.run.daemon.h.sock, PATIENCE_S)
                self.conn.connect()
        except OSError:
            self.drop()
            return begin, begin, None, None
        try:
            self.conn.request(method, path, json.dumps(body).encode() if body else None, headers or {})
            if how == "cut":
                self.drop()
                return begin, None, None, None
            reply = self.conn.getresponse()
            data = reply.read()
            return begin, time.monotonic_ns(), reply.status, json.loads(data) if data else None
        except (OSError, http.client.HTTPException):
            self.drop()
            return begin, None, None, None

    def act(self, kind, name, how=""):
        headers, body = {}, None
        if kind == "submit":
            method, path, body, headers = "POST", "/v1/jobs", self.run.spec(name), {"Idempotency-Key": name}
        else:
            number = self.run.history.numbers.get(name)
            if not number:
                return
            method, path = ("DELETE", f"/v1/jobs/{number}") if kind == "remove" else ("POST", f"/v1/jobs/{number}/{kind}")
        begin, end, status, got = self.ask(method, path, body, headers, how)
        if end is not None and (status is None or status in (503, 507)):
            if status is None or kind in ("submit", "remove"):
                return  # refused: it must not have happened, so nothing may show it
            end = None  # not recorded yet
        value = None
        if end is not None:
            value = status if status in (404, 409) else "already" if got and got.get("already") else "done"
            assert status in (200, 201, 204, 404, 409), (kind, status, got)
        with self.run.lock:
            self.run.history.ops[name].append(Op(self.name, kind, begin, end, value))
            if kind == "submit" and value == "done":
                self.run.learn(name, got["number"])

    def get(self, name):
        number = self.run.history.numbers.get(name)
        if not number:
            return None
        begin, end, status, got = self.ask("GET", f"/v1/jobs/{number}")
        if status is None:
            return None
        assert status in (200, 404), (status, got)
        with self.run.lock:
            value = 404 if status == 404 else Job(got["state"], got["attempt"], got["exit_code"])
            self.run.history.ops[name].append(Op(self.name, "get", begin, end, value))
            if status == 200:
                self.run.history.runs.append((begin, end, name, {r["run"]: (r["state"], r["exit_code"]) for r in got["runs"]}))
        return got

    def list(self):
        begin, end, status, got = self.ask("GET", "/v1/jobs?limit=1000")
        if status is None:
            return None
        assert status == 200 and not got["next"], (status, got)
        with self.run.lock:
            for j in got["items"]:
                self.run.learn(j["name"], j["number"])
            self.run.history.lists.append((self.name, begin, end, {j["name"]: Job(j["state"], j["attempt"], j["exit_code"]) for j in got["items"]}))
        return got["items"]

    def events(self):
        begin, end, status, got = self.ask("GET", "/v1/events?follow=0&after=0&limit=10000")
        if status is None:
            return
        assert status == 200 and not got["more"], (status, got)
        with self.run.lock:
            self.run.history.pages.append((self.name, begin, end, got["items"]))

    def work(self, plan):
        for kind, name, how in plan:
            if kind == "get":
                self.get(name)
            elif kind in ("list", "events"):
                getattr(self, kind)()
            else:
                self.act(kind, name, how)
            self.run.count()
        self.drop()


class Follower:
    """Reads the stream of events and goes on behind the last one it heard."""

    def __init__(self, run):
        self.run, self.heard, self.done = run, [], False

    def follow(self):
        while not self.done:
            self.run.daemon.up.wait(PATIENCE_S)
            conn = harness.UnixHTTP(self.run.daemon.h.sock, PATIENCE_S)
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                conn.request("GET", "/v1/events?" + urllib.parse.urlencode({"after": self.heard[-1]["seq"] if self.heard else 0}))
                self.read(conn.getresponse())
            conn.close()

    def read(self, reply):
        while not self.done and (line := reply.readline()):
            if line.startswith(b"data:"):
                self.heard.append(json.loads(line[5:]))


class Run:
    """The run of one seed; self.history is what came of it."""

    def __init__(self, seed, n_faults=2, **env):
        self.plan = Plan(seed, n_faults)
        self.lock, self.counted, self.n = threading.Lock(), threading.Condition(), 0
        self.history = checker.History(plans={name: code for name, (_, code) in self.plan.commands.items()})
        self.failures = []
        self.daemon = Daemon(**env)
        self.marks = os.path.join(self.daemon.h.dir, "marks")

    def spec(self, name):
        seconds, code = self.plan.commands[name]
        rest = f"sleep {seconds}; exit {code}" if seconds and code is not None else f"exit {code}" if code is not None else f"exec sleep {seconds}"
        return {"command": ["/bin/sh", "-c", f"echo $BERTH_RUN >> {self.marks}; {rest}"], "name": name, "cwd": "/"}

    def learn(self, name, number):
        assert self.history.numbers.setdefault(name, number) == number, f"{name} is job {number} and job {self.history.numbers[name]}"

    def count(self):
        with self.counted:
            self.n += 1
            self.counted.notify_all()

    def guarded(self, fn, *args):
        try:
            fn(*args)
        except BaseException as e:  # noqa: BLE001 - told by record()
            self.failures.append(repr(e))
            with self.counted:
                self.n += CLIENTS * OPS  # nobody waits for what will not come
                self.counted.notify_all()

    def break_things(self):
        for after, kind in self.plan.faults:
            with self.counted:
                self.counted.wait_for(lambda after=after: self.n >= after)
            self.daemon.fault(kind)

    def settle(self):
        """Ends every job, then looks at all of them once more."""
        last = Client("last", self)

        def ended():
            rows = last.list()
            for j in rows or ():
                if j["state"] in ("queued", "held", "starting", "running"):
                    last.act("cancel", j["name"])
            return rows is not None and all(j["ended"] for j in rows)

        wait_for("the end of all jobs", ended)
        for name in self.plan.commands:
            last.get(name)
        last.list()
        last.events()
        last.drop()

    def record(self):
        follower = Follower(self)
        threads = [threading.Thread(target=self.guarded, args=(Client(f"client {i}", self).work, ops)) for i, ops in enumerate(self.plan.clients)]
        threads.append(threading.Thread(target=self.guarded, args=(self.break_things,)))
        following = threading.Thread(target=self.guarded, args=(follower.follow,))
        try:
            for t in [*threads, following]:
                t.start()
            for t in threads:
                t.join()
            self.guarded(self.settle)
            newest = max((e["seq"] for page in self.history.pages for e in page[3]), default=0)
            self.guarded(wait_for, "the follower hears everything",
                         lambda: not newest or (follower.heard and follower.heard[-1]["seq"] >= newest) or not following.is_alive())
            if os.path.exists(self.marks):
                with open(self.marks) as f:
                    self.history.marks = f.read().split()
        finally:
            follower.done = True
            self.daemon.close()
            following.join()
        self.history.streams.append(follower.heard)
        return self.failures + checker.check(self.history)
