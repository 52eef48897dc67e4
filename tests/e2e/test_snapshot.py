"""Jobs that start in a copy of a directory: berth submit --snapshot, berth snapshot get, the end of both."""
import json
import os
import shutil
import subprocess
import threading
import time

import harness
from harness import Home, wait_for


class Dir:
    """A home with a daemon, and a directory to be submitted."""

    def __init__(self, *serve, **env):
        self.h = Home(**env)
        self.h.env["XDG_CACHE_HOME"] = os.path.join(self.h.dir, "cache")
        self.dir = os.path.join(self.h.dir, "work")
        os.mkdir(self.dir)
        self.h.start(*serve)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.h.close()

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)

    def berth(self, *args, cwd=None, check=True, **env):
        p = subprocess.run([harness.BERTH, *args], cwd=cwd or self.dir, env={**self.h.env, **env}, text=True,
                           capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
        if check:
            assert p.returncode == 0, (args, p.stdout, p.stderr)
        return p

    def submit(self, *args, **more):
        return self.berth("submit", *args, **more).stdout.strip()

    def output(self, job):
        self.berth("wait", str(job), check=False)
        return self.berth("logs", str(job)).stdout

    def blobs(self):
        found = []
        for root, _, files in os.walk(os.path.join(self.h.home, "snapshots")):
            found += [f for f in files if "/blobs/" in root + "/"]
        return found


def test_edits_after_submitting_change_nothing():
    with Dir() as d:
        d.write("train.sh", "cat lr; ls -a; pwd\n")
        d.write("lr", "0.1\n")
        d.write(".git/config", "history\n")
        d.write(".berthignore", "*.ckpt\n")
        d.write("old.ckpt", "large\n")
        d.write("bin/tool", "#!/bin/sh\necho tool\n", 0o755)
        d.h.api("POST", "/v1/queues/default/pause")
        job = d.submit("--snapshot", "--", "sh", "-c", "sh train.sh; bin/tool; echo changed > lr; echo out > result")
        d.write("lr", "9\n")
        os.unlink(os.path.join(d.dir, "bin/tool"))
        d.h.api("POST", "/v1/queues/default/resume")
        lines = d.output(job).split("\n")
        assert lines[0] == "0.1" and "tool" in lines, lines
        assert ".git" not in lines and "old.ckpt" not in lines and ".berthignore" in lines, lines
        with open(os.path.join(d.dir, "lr")) as f:
            assert f.read() == "9\n", "the job has a copy of its own"
        # What the run wrote or changed stays beside its log, until the job is removed; the rest goes.
        work = os.path.join(d.h.run_path(1), "work")
        assert sorted(os.listdir(work)) == ["lr", "result"], os.listdir(work)
        shown = d.berth("show", job).stdout
        snapshot = d.h.api("GET", f"/v1/jobs/{job}")["snapshot"]
        assert f"snapshot    {snapshot['id']}, {snapshot['entries']} entries" in shown, shown
        # The exact code comes back, also the mode of its files.
        back = os.path.join(d.h.dir, "back")
        d.berth("snapshot", "get", job, back)
        with open(os.path.join(back, "lr")) as f:
            assert f.read() == "0.1\n"
        assert os.access(os.path.join(back, "bin/tool"), os.X_OK)
        p = d.berth("snapshot", "get", job, back, check=False)
        assert p.returncode != 0 and "back" in p.stderr, p.stderr
        assert not os.path.exists(os.path.join(back, ".git"))


def test_contents_are_kept_and_sent_once():
    with Dir() as d:
        for i in range(20):
            d.write(f"data{i}", f"{i}\n" * 5000)
        a = d.submit("--snapshot", "--", "true")
        before = set(d.blobs())
        b = d.submit("--snapshot", "--array", "3", "--", "true")
        assert set(d.blobs()) == before, "an equal directory adds nothing"
        first = d.h.api("GET", f"/v1/jobs/{a}")["snapshot"]["id"]
        jobs = d.h.jobs()
        assert len(jobs) == 4 and len({d.h.api("GET", f"/v1/jobs/{j['number']}")["snapshot"]["id"] for j in jobs}) == 1
        d.write("data0", "new\n" * 5000)
        c = d.submit("--snapshot", "--", "true")
        assert d.h.api("GET", f"/v1/jobs/{c}")["snapshot"]["id"] != first
        assert len(set(d.blobs()) - before) == 2, "one content and one directory are new"
        d.h.wait_all()
        # Contents go with the last job that names them.
        d.berth("rm", a)
        d.berth("rm", c)
        wait_for("the contents of the last directory are gone", lambda: set(d.blobs()) == before, 60)
        for n in (2, 3, 4):
            d.berth("rm", str(n))
        wait_for("all contents are gone", lambda: not d.blobs(), 60)
        assert b


def test_a_removal_spares_what_is_being_submitted():
    """Commits are slow: the removal is followed by a sweep while the job with a snapshot is on its way to disk."""
    with Dir(BERTH_FAULT_COMMIT_MS="500") as d:
        d.write("train.py", "print(1)")
        for _ in range(3):
            old = d.h.submit("true")["number"]
            d.h.wait_all()
            removal = threading.Thread(target=d.h.api, args=("DELETE", f"/v1/jobs/{old}"))
            removal.start()
            job = d.submit("--snapshot", "--", "cat", "train.py")
            removal.join()
            assert d.output(job) == "print(1)", d.berth("show", job).stdout
            d.h.api("DELETE", f"/v1/jobs/{job}")  # its snapshot goes with it
            wait_for("the contents are gone", lambda: not d.blobs(), 60)


def test_directories_and_files():
    with Dir() as d:
        d.write("top", "top\n")
        d.write("sub/here", "here\n")
        job = d.submit("--snapshot=..", "--", "sh", "-c", "cat here ../top", cwd=os.path.join(d.dir, "sub"))
        assert d.output(job) == "here\ntop\n"
        with open(os.path.join(d.h.dir, "job.yaml"), "w") as f:
            f.write("command: cat top\nsnapshot: true\ncwd: %s\nparams: {lr: [1, 2]}\n" % d.dir)
        d.submit("--file", os.path.join(d.h.dir, "job.yaml"))
        d.h.wait_all()
        assert d.output(3) == "top\n"
        assert d.berth("run", "--snapshot", "--", "cat", "top").stdout == "top\n"
        # Through the API a snapshot is named by its id; an unknown one is refused.
        known = d.h.api("GET", "/v1/jobs/1")["snapshot"]["id"]
        job = d.h.submit("cat", "top", snapshot=known)
        assert d.output(job["number"]) == "top\n"
        try:
            d.h.submit("true", snapshot="0" * 24)
            raise AssertionError("accepted")
        except harness.ApiError as e:
            assert e.status == 400 and "no snapshot" in e.body, e.body
        p = d.berth("snapshot", "get", "99", os.path.join(d.h.dir, "none"), check=False)
        assert p.returncode != 0 and "99" in p.stderr, p.stderr
        job = d.submit("--", "true")
        p = d.berth("snapshot", "get", job, os.path.join(d.h.dir, "none"), check=False)
        assert "has no snapshot" in p.stderr and not os.path.exists(os.path.join(d.h.dir, "none")), p.stderr
        p = d.berth("submit", "--snapshot=/no/such/place", "--", "true", check=False)
        assert p.returncode != 0 and "/no/such/place" in p.stderr, p.stderr


def test_schedules_keep_their_snapshot():
    with Dir() as d:
        d.write("code", "first\n")
        d.berth("cron", "add", "yearly", "0 0 1 1 *", "--snapshot", "--", "cat", "code")
        d.write("code", "second\n")
        for _ in range(2):
            d.berth("cron", "run", "yearly")
        d.h.wait_all()
        numbers = [j["number"] for j in d.h.jobs()]
        assert len(numbers) == 2 and all(d.output(n) == "first\n" for n in numbers)
        # Removing all of its jobs leaves the snapshot of a schedule: it will submit again.
        for n in numbers:
            d.berth("rm", str(n))
        d.berth("cron", "run", "yearly")
        d.h.wait_all()
        assert d.output(d.h.jobs()[0]["number"]) == "first\n"


def test_too_large():
    with Dir() as d:
        d.write("code.py", "x\n")
        os.mkdir(os.path.join(d.dir, "data"))
        with open(os.path.join(d.dir, "data", "huge"), "wb") as f:
            f.truncate(5 << 30)
        p = d.berth("submit", "--snapshot", "--", "true", check=False)
        assert p.returncode != 0 and "data has 5.0G" in p.stderr and ".berthignore" in p.stderr, p.stderr
        d.write(".berthignore", "/data/\n")
        assert d.output(d.submit("--snapshot", "--", "ls")) == "code.py\n"
        assert not d.h.api("GET", "/v1/jobs")["items"][1:]


def test_retries_start_fresh():
    with Dir() as d:
        d.write("count", "0\n")
        job = d.submit("--snapshot", "--retries", "1", "--backoff", "0s", "--", "sh", "-c",
                       "cat count; echo more >> count; exit 3")
        assert d.output(job) == "0\n"
        assert d.berth("logs", job, "--run", "1").stdout == "0\n"
        for run in (1, 2):
            assert os.listdir(os.path.join(d.h.run_path(1, run), "work")) == ["count"]


def test_kill_during_the_end_step():
    # With fault points the daemon sleeps before the step, so that it is killed there.
    with Dir(BERTH_FAULT_END_STEP_MS="1500") as d:
        d.write("code", "x\n")
        job = d.submit("--snapshot", "--", "sh", "-c", "echo made > result; echo done")
        work = os.path.join(d.h.run_path(1), "work")
        for _ in range(2):
            wait_for("the result", lambda: os.path.exists(os.path.join(work, "result")))
            wait_for("its last line", lambda: "done" in d.berth("logs", job).stdout)
            d.h.kill()
            d.h.start()
        wait_for("the end", lambda: d.h.api("GET", f"/v1/jobs/{job}")["state"] == "succeeded")
        assert os.listdir(work) == ["result"]
        ends = [e for e in d.h.api("GET", f"/v1/jobs/{job}/events")["items"] if "succeeded" in json.dumps(e)]
        assert len(ends) == 1, ends


def test_users_have_stores_of_their_own():
    if os.getuid() != 0:
        print("# skipped: needs root")
        return
    with Dir("--multi-user") as d:
        other = 12345
        os.chmod(d.h.dir, 0o755)
        shutil.chown(d.dir, other, other)
        d.write("secret", "mine\n", 0o600)
        shutil.chown(os.path.join(d.dir, "secret"), other, other)

        def as_other(*args):
            return subprocess.run([harness.BERTH, *args], cwd=d.dir, env={**d.h.env, "HOME": d.dir}, text=True,
                                  capture_output=True, timeout=120, user=other, group=other, extra_groups=[])
        p = as_other("submit", "--snapshot", "--", "sh", "-c", "cat secret; echo x > made; id -u")
        assert p.returncode == 0, p.stderr
        assert d.output(1) == f"mine\n{other}\n"
        wait_for("the end", lambda: d.h.api("GET", "/v1/jobs/1")["state"] == "succeeded")
        store = os.path.join(d.h.home, "snapshots", str(other))
        st = os.stat(store)
        assert st.st_uid == other and st.st_mode & 0o777 == 0o700
        for root, dirs, files in os.walk(store):
            for name in dirs + files:
                assert os.lstat(os.path.join(root, name)).st_uid == other, name
        assert os.listdir(os.path.join(d.h.run_path(1), "work")) == ["made"]
        third = subprocess.run([harness.BERTH, "snapshot", "get", "1", os.path.join("/tmp", "x-%d" % os.getpid())],
                               env=d.h.env, text=True, capture_output=True, timeout=120, user=54321, group=54321,
                               extra_groups=[], cwd="/")
        assert third.returncode != 0, third.stdout
        p = as_other("snapshot", "get", "1", os.path.join(d.dir, "again"))
        assert p.returncode == 0, p.stderr
        p = as_other("rm", "1")
        assert p.returncode == 0, p.stderr
        wait_for("the contents are gone", lambda: not d.blobs(), 60)


if __name__ == "__main__":
    harness.main(__name__)
