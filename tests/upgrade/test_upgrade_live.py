"""An earlier program is replaced by this one while its jobs run: no job is lost, none runs twice, outcomes are right.

The earlier daemon is stopped or killed.  Its supervisors, which this program did not start, go on; jobs end under
them while no daemon runs, and after this one took over.
"""
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
import harness  # noqa: E402
import hyper_rig  # noqa: E402
import old_program  # noqa: E402
from harness import wait_for  # noqa: E402

FINAL = ("succeeded", "failed", "cancelled", "lost")
ARRAY, SHORT = 4, 60
TRACKED = """
import os, time, berth
berth.log(loss=0.5, step=0)
open("ran", "a").write("tracked\\n")
while not os.path.exists("gate"): time.sleep(0.02)
berth.log(loss=0.25, step=1)
"""


class Place(harness.Home):
    """A home that one program serves, then another."""

    def __init__(self):
        super().__init__(PYTHONDONTWRITEBYTECODE="1")
        self.program = None

    def use(self, program, *args):
        self.program = program
        self.env.update(BERTH_SHEPHERD=program.shepherd, BERTH_PYTHON=program.python)
        self.daemon = subprocess.Popen([program.berth, "serve", "--slots", "16", *args], env=self.env,
                                       stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.wait_ready()
        return self

    def command(self, *words):
        p = subprocess.run([self.program.berth, *words], env=self.env, cwd=self.dir, capture_output=True, text=True, timeout=120)
        assert p.returncode == 0, f"{words}: exit {p.returncode}\n{p.stdout}{p.stderr}"
        return p.stdout

    def put(self, name, *words):
        """Submits a job, or several, of this name."""
        self.command("submit", "--name", name, *words)

    def named(self, name):
        return sorted((j for j in self.jobs() if j["name"] == name), key=lambda j: j["number"])

    def reach(self, name, *states, n=1):
        return wait_for(f"{name} {states}", lambda: (j := self.named(name)) and len(j) == n and
                        all(x["state"] in states for x in j) and j)

    def open(self, gate):
        with open(os.path.join(self.dir, gate), "w"):
            pass

    def ran(self):
        """How often each job began: it writes its name at once."""
        with contextlib.suppress(FileNotFoundError):
            with open(os.path.join(self.dir, "ran")) as f:
                words = f.read().split()
                return {w: words.count(w) for w in set(words)}
        return {}

    def output(self, number, **query):
        status, _, data = self.request("GET", f"/v1/jobs/{number}/logs" + "".join(f"?{k}={v}" for k, v in query.items()))
        assert status == 200, (number, status, data)
        return data.decode()


def waits(name, then="exit 0", gate="gate"):
    """A command that notes that it began, prints, waits until the file `gate` is there, prints and ends."""
    return ["--", "sh", "-c", f"echo {name} >> ran; echo begins; until [ -e {gate} ]; do sleep 0.02; done; echo ends; {then}"]


def fill(home):
    """Jobs of every kind that can be under way, and some that wait."""
    home.put("plain", *waits("plain", "exit 3"))
    home.put("between", *waits("between", "exit 7", "gate-between"))
    home.put("split", "--split-output", *waits("split", "echo trouble >&2"))
    home.put("limited", "--timeout", "10m", "--mem", "1G", *waits("limited", "kill -USR1 $$"))
    home.put("again", "--retries", "2", "--backoff", "10ms", *waits("again", "[ $BERTH_ATTEMPT = 2 ] || exit 5"))
    home.put("stopped", *waits("stopped", gate="never"))
    home.put("array", "--array", str(ARRAY), "--", "sh", "-c",
             "echo array{index} >> ran; until [ -e gate ]; do sleep 0.02; done; echo number {index}; exit {index}")
    home.put("tracked", "--", sys.executable, "-c", TRACKED)
    begun = {"plain", "between", "split", "limited", "again", "stopped", "tracked"} | {f"array{i}" for i in range(ARRAY)}
    wait_for("the start of the jobs", lambda: begun <= set(home.ran()))
    home.put("after", "--after", str(home.reach("split", "running")[0]["number"]), *waits("after"))
    home.put("short", "--array", str(SHORT), "--", "sh", "-c", "echo short{index} >> ran; echo {index}")
    wait_for("the first short jobs", lambda: "short5" in home.ran())  # others are on their way to the host


def check(home):
    """Every job ended once, as its command says."""
    def one(name, *states):
        return home.reach(name, *states)[0]

    job = one("plain", *FINAL)
    assert (job["state"], job["exit_code"]) == ("failed", 3), job
    assert home.output(job["number"]) == "begins\nends\n"
    job = one("between", *FINAL)
    assert (job["state"], job["exit_code"]) == ("failed", 7), job
    job = one("split", *FINAL)
    assert job["state"] == "succeeded" and home.output(job["number"], stream="err") == "trouble\n", job
    job = one("limited", *FINAL)
    assert job["state"] == "failed" and "USR1" in job["reason"], job
    job = one("again", *FINAL)
    assert job["state"] == "succeeded", job
    assert one("stopped", *FINAL)["state"] == "cancelled"
    for i, job in enumerate(home.reach("array", *FINAL, n=ARRAY)):
        assert job["exit_code"] == i and home.output(job["number"]) == f"number {i}\n", job
    job = one("tracked", *FINAL)
    points = home.api("GET", f"/v1/jobs/{job['number']}/metrics?name=loss")["metrics"]["loss"]
    assert job["state"] == "succeeded" and [(p["step"], p["value"]) for p in points] == [(0, 0.5), (1, 0.25)], (job, points)
    assert one("after", *FINAL)["state"] == "succeeded"
    for i, job in enumerate(home.reach("short", *FINAL, n=SHORT)):
        assert job["state"] == "succeeded" and home.output(job["number"]) == f"{i}\n", job
    twice = {k: n for k, n in home.ran().items() if n != (2 if k == "again" else 1)}
    assert not twice, f"began more than once: {twice}"


def upgrade(end):
    """The story; `end` ends the daemon of the earlier program."""
    was, new = old_program.old(), old_program.this()
    home = Place()
    try:
        fill(home.use(was))
        end(home)
        home.open("gate-between")
        wait_for("the end of a job while no daemon runs", lambda: ended_alone(home))
        home.use(new)
        for name in ("plain", "split", "limited", "again", "stopped", "tracked"):
            job = home.named(name)[0]
            assert job["state"] == "running", job
        home.put("first", "--", "sh", "-c", "echo new program")  # starts while the old supervisors are there
        assert home.reach("first", *FINAL)[0]["state"] == "succeeded"
        home.command("cancel", str(home.named("stopped")[0]["number"]))
        home.open("gate")
        check(home)
        home.kill()  # what was taken over is durable
        home.use(new)
        check(home)
        shepherd_replaced(home, new)
    finally:
        home.close()


def ended_alone(home):
    """Whether the supervisor of `between` has left: nothing else of the home tells it without a daemon."""
    return not any(b"gate-between" in command(pid) for pid in home.processes())


def command(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read()
    return b""


def shepherd_replaced(home, new):
    """An idle shepherd of the earlier program leaves when asked to, and the next one is of this program."""
    pid = home.shepherd_pid()
    if pid and os.readlink(f"/proc/{pid}/exe") != os.path.realpath(new.shepherd):
        os.kill(pid, signal.SIGTERM)
        wait_for("the end of the earlier shepherd", lambda: home.shepherd_pid() != pid)
    home.put("last", "--", "echo", "done")
    assert home.reach("last", *FINAL)[0]["state"] == "succeeded"
    exe = os.readlink(f"/proc/{home.shepherd_pid()}/exe")
    assert exe == os.path.realpath(new.shepherd), exe


def test_replaced_after_a_stop():
    upgrade(lambda home: home.stop())


def test_replaced_after_a_kill():
    upgrade(lambda home: home.kill())


def test_a_hyperctl_batch_goes_on_under_this_program():
    harness.need_dialect("hyperctl")
    was, new = old_program.old(), old_program.this()
    with hyper_rig.Place() as at:
        def use(program):
            link = os.path.join(at.bin, "hyperctl")
            os.unlink(link)
            os.symlink(program.berth, link)
            at.env.update(BERTH_SHEPHERD=program.shepherd, BERTH_PYTHON=program.python)

        gate = os.path.join(at.dir, "gate")
        held = f"echo ran >> {at.dir}/ran; until [ -e {gate} ]; do sleep 0.02; done; echo held"
        port = harness.free_port()
        config = at.batch("grid", [hyper_rig.job("one", "echo one"), hyper_rig.job("held", held), hyper_rig.job("two", "echo two")],
                          server={"port": port})
        use(was)
        p = at.start(config)
        wait_for("the job that waits", lambda: os.path.exists(os.path.join(at.dir, "ran")))
        p.kill()
        p.wait()
        use(new)
        p = at.start(config)
        # Commands read the files of a batch that nobody serves, so only the port tells.
        wait_for("the job is taken over", lambda: hyper_rig.status(port, "held") == "running")
        with open(gate, "w"):
            pass
        p.communicate(timeout=120)
        names = sorted(os.listdir(at.path("grid")))
        assert {"one.succeed", "held.succeed", "two.succeed"} <= set(names), names
        with open(os.path.join(at.dir, "ran")) as f:
            assert f.read() == "ran\n", "the job that ran when its scheduler was killed ran again"


def refused(home, program):
    """What a program says to a home that is newer than itself; it must change nothing."""
    path = os.path.join(home.home, "berth.db")
    with open(path, "rb") as f:
        before = f.read()
    p = subprocess.run([program.berth, "serve"], env=dict(home.env, BERTH_SHEPHERD=program.shepherd), capture_output=True,
                       text=True, timeout=120)
    assert p.returncode not in (0, None), p
    assert "newer berth" in p.stderr and path in p.stderr and "upgrade berth" in p.stderr, p.stderr
    with open(path, "rb") as f:
        assert f.read() == before, "the database was changed"


def test_a_newer_home_is_refused():
    """By this program, and by the earlier one: in a sentence, with the home left as it was."""
    new = old_program.this()
    home = Place()
    try:
        home.use(new)
        home.stop()
        with contextlib.closing(sqlite3.connect(os.path.join(home.home, "berth.db"))) as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            db.execute(f"PRAGMA user_version={version + 1}")
            db.commit()
        refused(home, new)
        refused(home, old_program.old())
    finally:
        home.close()


def test_the_earlier_program_refuses_a_home_of_this_one():
    """The schema grew since: nobody goes back by accident."""
    was, new = old_program.old(), old_program.this()
    home = Place()
    try:
        home.use(new)
        home.stop()
        with contextlib.closing(sqlite3.connect(os.path.join(home.home, "berth.db"))) as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
        theirs = Place()
        try:
            theirs.use(was)
            theirs.stop()
            with contextlib.closing(sqlite3.connect(os.path.join(theirs.home, "berth.db"))) as db:
                earlier = db.execute("PRAGMA user_version").fetchone()[0]
        finally:
            theirs.close()
        if version == earlier:
            raise harness.Skip(f"both programs have schema {version}")
        refused(home, was)
    finally:
        home.close()


if __name__ == "__main__":
    harness.main(__name__)
