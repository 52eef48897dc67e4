"""A home of each kind (Berth's queue, an Atlas server, a Hyperctl batch) at a fixed path, and what a program says of it.

record.py makes the homes with the program of a release and packs them; test_upgrade.py opens them with the
program under test.  Both use this file, so that both put the same questions.

A home holds absolute paths (working directories, configuration files), so recorded homes are always opened
at ROOT.  A lock beside ROOT keeps two tests from using the path at the same time.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from unittest import mock

ROOT = "/tmp/berth-upgrade"
HERE = os.path.dirname(os.path.abspath(__file__))
E2E = os.path.join(HERE, "..", "e2e")
sys.path[:0] = [E2E, os.path.join(E2E, "training")]

# The environment of whoever records must not be recorded: jobs are submitted from this one.
CLEAN_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": ROOT + "/user", "USER": "ada", "LANG": "C.UTF-8",
             "PYTHONDONTWRITEBYTECODE": "1"}

import atlas_rig  # noqa: E402
import fake_gpu  # noqa: E402
import harness  # noqa: E402
import hyper_rig  # noqa: E402
import ssh_rig  # noqa: E402

PYTHON = os.path.normpath(os.path.join(HERE, "..", "..", "python"))
FINAL = ("succeeded", "failed", "cancelled", "lost")
# Sentences for people: a later program may word them better, but may not lose them.
WORDED = {"reason", "detail"}


def wait_for(what, answer, timeout=120):
    """The first answer of the function that is true."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        got = answer()
        if got:
            return got
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {timeout} s")


@contextlib.contextmanager
def root():
    """ROOT, empty and ours until the end of the block."""
    with open(ROOT + ".lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        clear()
        try:
            yield ROOT
        finally:
            shutil.rmtree(ROOT, ignore_errors=True)


def clear():
    shutil.rmtree(ROOT, ignore_errors=True)
    os.makedirs(ROOT + "/user")


def placed(path):
    """While this lasts, the temporary directory that a rig asks for is `path`."""
    os.makedirs(path, exist_ok=True)
    return mock.patch("tempfile.mkdtemp", return_value=path)


def digest(data):
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def tree_of(folder, leave_out=()):
    """Relative path → text or digest of every file."""
    found = {}
    for where, dirs, names in os.walk(folder):
        dirs[:] = sorted(d for d in dirs if d not in leave_out)
        for name in sorted(names):
            path = os.path.join(where, name)
            if os.path.isfile(path) and name not in leave_out:
                with open(path, "rb") as f:
                    found[os.path.relpath(path, folder)] = digest(f.read())
    return found


# ---- Berth's own queue ----

class Queue:
    """Berth's home at ROOT/queue/home, with stand-in GPUs, a container engine and an SSH host where they can be had."""

    def __init__(self, engine=None):
        self.state = ROOT + "/queue/gpus"
        os.makedirs(ROOT + "/queue/bin", exist_ok=True)
        fake_gpu.create(self.state, 1, 16000)
        try:
            self.rig = ssh_rig.SshRig()
            self.rig.host("far")
        except ssh_rig.SshMissing as x:
            self.rig, self.no_ssh = None, str(x)
        env = {"BERTH_SSH": self.rig.ssh, "BERTH_FAR": harness.find_program("berth-far")} if self.rig else {}
        self.home = harness.Home(path=ROOT + "/queue", BERTH_NVML_LIBRARY=fake_gpu.library(harness.BUILD),
                                 FAKE_NVML_STATE=self.state, BERTH_PYTHON=PYTHON, **env)
        self.api, self.engine = self.home.api, engine
        for name in ("berth", "run-scheduler"):
            link = ROOT + "/queue/bin/" + name
            if os.path.lexists(link):
                os.unlink(link)
            os.symlink(harness.BERTH, link)

    def start(self):
        engine = ["--engine", self.engine.url] if self.engine else []
        self.home.start("--slots", "8", "--gpu-time-scale", "10000", *engine)
        return self

    def command(self, *words, check=True, **env):
        """A command line as a person types it, in ROOT/work."""
        p = subprocess.run([ROOT + "/queue/bin/" + words[0], *words[1:]], cwd=ROOT + "/work", capture_output=True,
                           text=True, timeout=120, env={**CLEAN_ENV, "BERTH_HOME": self.home.home, **env})
        assert not check or p.returncode == 0, f"{words}: exit {p.returncode}\n{p.stdout}{p.stderr}"
        return p.stdout

    def submit(self, *words):
        """The number of the job that `berth submit` made."""
        return self.job(self.command("berth", "submit", *words).split()[-1])["number"]

    def job(self, ref):
        return self.api("GET", f"/v1/jobs/{ref}")

    def reach(self, ref, *states, timeout=120):
        return wait_for(f"job {ref} {states}", lambda: (j := self.job(ref))["state"] in states and j, timeout)

    def text(self, number):
        """The output of a job; None before its first run."""
        status, _, data = self.home.request("GET", f"/v1/jobs/{number}/logs")
        return data.decode(errors="replace") if status == 200 else None

    def facts(self):
        """Everything that the program knows about this home and that must not be lost."""
        jobs = {}
        listed = {j["number"]: j for j in json.loads(self.command("berth", "ls", "--all", "-o", "json"))}
        for number, row in sorted(listed.items()):
            n = str(number)
            record = json.loads(self.command("berth", "show", n, "-o", "json"))[0]
            for answer in (row, record):
                del answer["gpu"]  # the forecast of the planner, made anew each time
            assert all(record[k] == row[k] for k in row), (row, record)
            series = {name: self.api("GET", f"/v1/jobs/{n}/metrics?name={name}")["metrics"][name] for name in record["metrics"]}
            files = {}
            for item in self.api("GET", f"/v1/jobs/{n}/artifacts")["items"]:
                status, _, data = self.home.request("GET", f"/v1/jobs/{n}/artifact?name={item['name']}")
                assert status == 200, (n, item, status, data)
                files[item["name"]] = digest(data)
            jobs[n] = {"record": record, "series": series, "files": files, "log": self.text(n),
                       "notes": self.api("GET", f"/v1/jobs/{n}/notes")["items"],
                       "events": self.api("GET", f"/v1/jobs/{n}/events")["items"]}
        projects = {p["name"]: p for p in self.api("GET", "/v1/projects")["items"]}
        return {"jobs": jobs, "queues": {q["name"]: q["paused"] for q in self.api("GET", "/v1/queues")["items"]},
                "batches": {str(b["number"]): b for b in self.api("GET", "/v1/batches")["items"]},
                "projects": projects,
                "project_notes": {name: self.api("GET", f"/v1/projects/{name}/notes") for name in projects},
                # The node that is this machine has the machine's name and size: those are not recorded.
                "nodes": {x["name"]: {k: x[k] for k in ("slots", "drained", "reserved", "url")}
                          for x in self.api("GET", "/v1/nodes")["items"] if x["url"]}}

    def stop(self):
        """Ends the daemon and the shepherd; the home stays."""
        self.home.stop()
        leave(self.home.processes)

    def close(self):
        try:
            self.stop()
        finally:
            self.home.log.close()
            if self.rig:
                self.rig.close()


def leave(processes):
    """Waits until what was detached has left; what stays for longer idle times is ended by its pid."""
    end = time.monotonic() + 20
    while processes() and time.monotonic() < end:
        for pid in processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 15)
        time.sleep(0.1)
    assert not processes(), f"still there: {processes()}"


def outcome(job):
    """What a waiting job must have come to, whichever program ran it: nothing of when and as which process."""
    r = job["record"]
    return {"state": r["state"], "exit_code": r["exit_code"], "params": r["params"], "tags": r["tags"], "spec": r["spec"],
            "logged_params": r["logged_params"], "files": job["files"], "epochs": (r["training"] or {}).get("done"),
            "series": {name: [(p["step"], p["value"]) for p in points] for name, points in job["series"].items()},
            "log": [line for line in (job["log"] or "").splitlines() if "endpoint" not in line]}


def losses(old, new, path=""):
    """Where `new` lacks or contradicts something that `old` says; what `new` says in addition is no loss."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = [f"{path}.{k} is gone" for k in old if k not in new]
        for k in old.keys() & new.keys():
            if k in WORDED:
                found += [] if bool(old[k]) == bool(new[k]) else [f"{path}.{k} was {old[k]!r}, is {new[k]!r}"]
            else:
                found += losses(old[k], new[k], f"{path}.{k}")
        return found
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)) and len(old) == len(new):
        return [x for i, (a, b) in enumerate(zip(old, new)) for x in losses(a, b, f"{path}[{i}]")]
    return [] if old == new else [f"{path} was {old!r}, is {new!r}"]


# ---- an Atlas server ----

class AtlasHome(atlas_rig.Atlas):
    """FOUNDATIONS_HOME at ROOT/atlas/foundations; one worker, so one job runs at a time."""

    def __init__(self):
        shutil.rmtree(ROOT + "/atlas/bin", ignore_errors=True)
        with placed(ROOT + "/atlas"):
            super().__init__(BERTH_PYTHON=PYTHON)

    def facts(self):
        """The jobs as Atlas's clients see them, the queue in order, and the archives on disk."""
        env = {**self.env, "BERTH_HOME": self.path("database")}
        out = subprocess.run([harness.BERTH, "ls", "--all", "-o", "json"], env=env, capture_output=True, text=True, timeout=60)
        rows = json.loads(out.stdout)
        queue = self.get("/queued_jobs")
        projects = sorted({r["project"] for r in rows})
        asked = {"Host": f"localhost:{self.ports[4]}"}  # links to artifacts name the host of the request
        tracked = {p: json.loads(self.http("GET", f"/api/v2beta/projects/{p}/job_listing", headers=asked, port=4))["jobs"]
                   for p in projects}
        for artifact in (x for jobs in tracked.values() for job in jobs for x in job["artifacts"]):
            artifact["uri"] = artifact["uri"].replace(f":{self.ports[3]}/", ":PORT/")  # another one at each start
        ended = {**self.get("/completed_jobs"), **self.get("/failed_jobs")}
        return {"rows": {str(r["number"]): r for r in rows}, "queue": [queue[str(i)]["job_id"] for i in range(len(queue))],
                "ended": {job: dict(end, logs=self.job(job)["logs"]) for job, end in ended.items()},
                "tracked": {p: {j["job_id"]: j for j in jobs} for p, jobs in tracked.items()},
                "archives": tree_of(self.path("job_data", "archive"))}

    def stop(self):
        super().stop()
        leave(self.processes)


# ---- a Hyperctl batch ----

class HyperHome(hyper_rig.Place):
    """A user's home at ROOT/hyper/home with a batch in it."""

    def __init__(self):
        shutil.rmtree(ROOT + "/hyper/bin", ignore_errors=True)
        with placed(ROOT + "/hyper"):
            super().__init__()

    def facts(self, batch):
        """The batch directory as users' scripts read it."""
        return tree_of(self.path(batch), leave_out=(".hyperctl", "server.pid"))


# ---- opening what was recorded ----

def unpack(archive):
    """The homes as they were packed, at ROOT."""
    clear()
    with tarfile.open(archive) as tar:
        tar.extractall(ROOT)


def play(archive, engine):
    """Opens every home with the program under test, asks, lets what waits run, and asks again."""
    unpack(archive)
    before, after = {}, {}
    q = Queue(engine)
    try:
        q.start()
        before["queue"] = q.facts()
        if not q.rig:
            q.command("berth", "cancel", "name:waits-far")
        if not engine:
            q.command("berth", "cancel", "name:waits-inside")
        for queue in ("default", "night"):
            q.command("berth", "queue", "resume", queue)
        q.home.wait_all(240)
        done = q.facts()["jobs"]
        waited = [n for n, j in before["queue"]["jobs"].items() if j["record"]["state"] == "queued"]
        after["queue"] = {n: outcome(done[n]) for n in waited}
        before["queue_again"] = {n: done[n] for n in done if n not in waited}
    finally:
        q.close()
    a = AtlasHome()
    try:
        a.start()
        wait_for("the end of Atlas's queue", lambda: not a.get("/queued_jobs") and not a.get("/running_jobs"))
        after["atlas"] = a.facts()
    finally:
        a.stop()
    h = HyperHome()
    try:
        before["hyper"] = h.facts("grid")
        h.ok("run", "-c", ROOT + "/hyper/grid.json")
        after["hyper"] = h.facts("grid")
        with open(ROOT + "/hyper/ran") as f:
            assert f.read() == "three\n", "the job that ran when its scheduler was killed ran again"
    finally:
        leave(h.survivors)
    return {"before": before, "after": after}
