"""berth search with real jobs: embedded and with a daemon, paused, killed, resumed; its words; a live view."""
import csv
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import BERTH, wait_for  # noqa: E402

PYTHON = "/usr/bin/python3"
PACKAGE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
# Says that it ran, waits while the file `gate`, or that of the n-th run, is there, reports its result.
TRAIN = """
import os, sys, time
import berth
p = berth.params()
with open("ran", "a") as f:
    f.write("%r\\n" % (p["x"],))
with open("ran") as f:
    mine = "gate-%d" % len(f.readlines())
while os.path.exists("gate") or os.path.exists(mine):
    time.sleep(0.01)
if p.get("fail"):
    sys.exit(3)
berth.log(loss=(p["x"] - 0.3) ** 2 + (p["y"] == "b"))
"""
RANGES = ["--param", "x=uniform:0..1", "--param", "y=a,b", "--minimize", "loss", "--seed", "5"]


class Home(harness.Home):
    def __init__(self):
        super().__init__(BERTH_PYTHON=PACKAGE)
        with open(os.path.join(self.dir, "train.py"), "w") as f:
            f.write(TRAIN)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def words(self, *more, name="s", trials=8):
        return ["search", *RANGES, "--name", name, "--trials", str(trials), "--cwd", self.dir, *more,
                "--", PYTHON, "train.py", "--x", "{x}"]

    def begin(self, *words, **more):
        """A search in the background."""
        return subprocess.Popen([BERTH, *words], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, **more)

    def ran(self):
        try:
            with open(os.path.join(self.dir, "ran")) as f:
                return f.read().split()
        except FileNotFoundError:
            return []

    def gate(self, shut, name="gate"):
        path = os.path.join(self.dir, name)
        if shut:
            open(path, "w").close()
        else:
            os.unlink(path)

    def say(self, *words):
        return self.berth(*words).stdout

    def trials(self, name="s"):
        return json.loads(self.say("search", "trials", name, "-o", "json"))


def facts(trials):
    """What makes a study, without the numbers of jobs."""
    return [(t["number"], t["state"], t["value"], t["params"]) for t in trials]


_uncut = {}


def uncut(trials):
    """The study that nobody interrupted, one trial at a time."""
    if trials not in _uncut:
        with Home() as home:
            home.berth(*home.words(trials=trials))
            _uncut[trials] = facts(home.trials())
            assert [t[1] for t in _uncut[trials]] == ["done"] * trials, _uncut[trials]
    return _uncut[trials]


def test_embedded():
    """Without a daemon, many at once; the same command again finds the finished search."""
    with Home() as home:
        p = home.berth(*home.words("-j", "4", trials=12))
        study = json.loads(home.say("search", "show", "s", "-o", "json"))
        best = study["best"]
        assert study["state"] == "finished" and study["counts"]["done"] == 12, study
        assert f"in trial {best['number']}: x=" in p.stdout and "12 trials (12 now" in p.stdout, p.stdout
        assert "best so far: loss" in p.stderr, p.stderr
        assert best["params"]["y"] == "a" and best["value"] < 0.1, best
        again = home.berth(*home.words("-j", "4", trials=12))
        assert "12 trials (0 now" in again.stdout and "resuming s: 12 trials ended before" in again.stderr, again
        assert len(home.ran()) == 12
        # The same command with a larger limit goes on.
        assert "14 trials (2 now" in home.say(*home.words("-j", "4", trials=14))
        # Another command or another space under this name is refused, and nothing runs.
        for words in (home.words(trials=14)[:-1] + ["{y}"], home.words("--param", "z=1", trials=14)):
            p = home.berth(*words, check=False)
            assert p.returncode != 0 and "there is a search 's' with another" in p.stderr, p
        assert len(home.ran()) == 14


def test_file():
    with Home() as home:
        path = os.path.join(home.dir, "space.yaml")
        with open(path, "w") as f:
            f.write("space:\n  x: {uniform: [0, 1]}\n  y: [a, b]\n  fail: {const: true, when: {y: b}}\n"
                    f"objective: {{minimize: loss}}\nengine: random\ntrials: 10\nparallel: 2\n"
                    f"command: [{PYTHON}, train.py]\ncwd: .\n")
        home.berth("search", path)
        trials = home.trials("space")
        assert len(trials) == 10, trials
        for t in trials:
            assert t["state"] == ("done" if t["params"]["y"] == "a" else "failed"), t
            assert t["params"].get("fail") == (None if t["params"]["y"] == "a" else True), t
        failed = [t for t in trials if t["state"] == "failed"]
        assert failed and failed[0]["reason"] == f"job {failed[0]['job']} ended as failed", failed
        # A program that never reports: the command says which output to read.
        p = home.berth(*home.words(name="mute", trials=2)[:-3], "false", check=False)
        assert p.returncode == 1 and "no trial has a result" in p.stdout and "berth logs " in p.stderr, p
        with open(path, "w") as f:
            f.write("space: {x: {uniform: [1, 0]}}\nminimize: loss\ncommand: 'true'\n")
        p = home.berth("search", path, "--name", "bad", check=False)
        assert p.returncode != 0 and "x" in p.stderr and p.stderr.count("\n") == 1, p.stderr


def test_words():
    with Home() as home:
        home.start("--slots", "4")
        name = home.say(*home.words("--detach", trials=3)).strip()
        assert name == "s"
        home.berth(*home.words(trials=3))
        rows = list(csv.DictReader(io.StringIO(home.say("search", "export", "s"))))
        assert [r["number"] for r in rows] == ["1", "2", "3"] and {r["state"] for r in rows} == {"done"}, rows
        assert all(abs(float(r["loss"]) - (float(r["x"]) - 0.3) ** 2 - (r["y"] == "b")) < 1e-12 for r in rows), rows
        whole = json.loads(home.say("search", "export", "s", "-o", "json"))
        assert facts(whole["trials"]) == facts(home.trials()) and whole["study"]["name"] == "s"
        table = home.say("search", "trials", "s")
        assert "VALUE" in table and "y=" in table and table.count("\n") == 4, table
        assert [s["name"] for s in json.loads(home.say("search", "ls", "-o", "json"))] == ["s"]
        assert "min loss" in home.say("search", "ls")
        page = home.say("search", "show", "s")
        assert "search s  finished" in page and "minimize loss" in page and 'x: {"uniform":[0,1]}' in page, page
        # What matters, and pictures as characters and as files.
        shares = json.loads(home.say("search", "importance", "s", "-o", "json"))
        assert shares["trials"] == 3 and {p["name"] for p in shares["params"]} == {"x", "y"}, shares
        assert "best so far" in home.say("search", "plot", "s")
        svg = os.path.join(home.dir, "contour.svg")
        home.berth("search", "plot", "s", "contour", "x", "y", "--svg", svg)
        with open(svg) as f:
            assert f.read().startswith("<svg ")
        p = home.berth("search", "plot", "s", "pie", check=False)
        assert p.returncode != 0 and "history|parallel" in p.stderr, p.stderr
        # The best trial again, as a job of its own: its parameters and no effect on the study.
        best = json.loads(home.say("search", "best", "s", "-o", "json"))
        home.berth("search", "best", "s", "--run")
        assert home.ran()[-1] == repr(best["params"]["x"]) and len(home.ran()) == 4
        assert len(home.jobs()) == 4 and home.jobs(sort="-id")[0]["params"] == best["params"]
        # A point by hand, and more trials.
        home.berth("search", "enqueue", "s", "x=0.25", "y=a")
        home.berth("search", "extend", "s", "2")
        home.berth("search", "resume", "s")
        trials = home.trials()
        assert len(trials) >= 5 and trials[3]["params"] == {"x": 0.25, "y": "a"}, trials
        p = home.berth("search", "enqueue", "s", "x=7", "y=a", check=False)
        assert p.returncode != 0 and "x" in p.stderr, p.stderr
        home.berth("search", "rm", "s")
        assert json.loads(home.say("search", "ls", "-o", "json")) == []
        p = home.berth("search", "show", "s", check=False)
        assert p.returncode != 0 and "'s'" in p.stderr, p.stderr


TWO = "import berth; x = berth.params()['x']; berth.log(loss=x); berth.log(acc=x if x < 4 else 8 - x)"


def test_several_objectives():
    """A front in place of the best: at the end, on the page, in tables and pictures; any of its trials can run again."""
    with Home() as home:
        home.start("--slots", "4")
        words = ["search", "--param", "x=int:0..6", "--minimize", "loss", "--maximize", "acc", "--engine", "grid", "--name", "two",
                 "--cwd", home.dir]
        job = ["--", PYTHON, "-c", TWO]
        p = home.berth(*words, "--stop", "asha", *job, check=False)
        assert p.returncode != 0 and "leave stop out" in p.stderr, p.stderr
        p = home.berth(*words, "-j", "2", *job)
        assert "a front of 5 trials" in p.stdout and ": loss 4, acc 4: x=4" in p.stdout, p.stdout
        front = json.loads(home.say("search", "best", "two", "-o", "json"))
        assert sorted(f["values"] for f in front) == [[x, x] for x in range(5)], front
        assert home.say("search", "best", "two").count("\n") == 5
        page = home.say("search", "show", "two")
        assert "minimize loss, maximize acc" in page and ": loss 0, acc 0: x=0" in page, page
        table = home.say("search", "ls")
        assert "min loss, max acc" in table and "a front of 5 trials" in table, table
        assert "6, 2" in home.say("search", "trials", "two")
        rows = list(csv.DictReader(io.StringIO(home.say("search", "export", "two"))))
        assert {(r["x"], r["loss"], r["acc"]) for r in rows} >= {("5", "5.0", "3.0"), ("2", "2.0", "2.0")}, rows
        assert "acc" in home.say("search", "plot", "two", "pareto")
        svg = os.path.join(home.dir, "pareto.svg")
        home.berth("search", "plot", "two", "pareto", "acc", "loss", "--svg", svg)
        with open(svg) as f:
            assert f.read().startswith("<svg ")
        assert "acc" in home.say("search", "plot", "two", "history", "acc")
        p = home.berth("search", "plot", "two", "pareto", "nothing", check=False)
        assert p.returncode != 0 and "'nothing'" in p.stderr, p.stderr
        for wrong in ([], ["99"]):
            p = home.berth("search", "best", "two", *wrong, "--run", check=False)
            assert p.returncode != 0 and "front" in p.stderr, p.stderr
        home.berth("search", "best", "two", str(front[2]["number"]), "--run")
        assert home.jobs(sort="-id")[0]["params"] == front[2]["params"]
        home.berth(*words, "-j", "2", *job)  # the same search again is over already
        assert len(home.trials("two")) == 7


def test_stop_and_resume():
    with Home() as home:
        home.start("--slots", "4")
        home.gate(True)
        home.say(*home.words("-j", "2", "--detach"))
        wait_for("two trials", lambda: len(home.ran()) == 2)
        home.berth("search", "stop", "s")
        home.gate(False)
        wait_for("their ends", lambda: [t["state"] for t in home.trials()] == ["done", "done"])
        assert json.loads(home.say("search", "show", "s", "-o", "json"))["state"] == "paused"
        home.berth("search", "resume", "s")
        assert [t["state"] for t in home.trials()] == ["done"] * 8 and len(home.ran()) == 8
        home.gate(True)
        home.berth("search", "extend", "s", "4")
        wait_for("two more", lambda: len(home.ran()) == 10)
        p = home.berth("search", "rm", "s", check=False)
        assert p.returncode != 0 and "--force" in p.stderr, p.stderr
        home.berth("search", "stop", "s", "--force")
        home.wait_all()
        assert len(home.ran()) == 10


# Reports its parameter five times; 100 waits until it is asked to stop, so it ends in no other way.
STEPS = """
import sys, time
import berth
x = berth.params()["x"]
for step in range(1, 6):
    berth.log(step=step, loss=x)
while x == 100 and not berth.should_stop():
    time.sleep(0.01)
"""


def test_bad_trials_are_stopped():
    """--stop: the trial that is worse than the median of the others is asked to stop, and counts as pruned."""
    with Home() as home:
        with open(os.path.join(home.dir, "steps.py"), "w") as f:
            f.write(STEPS)
        words = ["search", "--param", "x=ordinal:1,2,3,100", "--engine", "grid", "--minimize", "loss", "--cwd", home.dir]
        rule = json.dumps({"median": {"warmup": 1, "startup": 3}})
        p = home.berth(*words, "--name", "steps", "--stop", rule, "--", PYTHON, "steps.py")
        trials = home.trials("steps")
        assert [(t["params"]["x"], t["state"]) for t in trials] == [(1, "done"), (2, "done"), (3, "done"), (100, "pruned")], trials
        assert trials[3]["value"] == 100 and "stopped by median at step" in trials[3]["reason"], trials[3]
        assert "in trial 1: x=1" in p.stdout, p.stdout
        study = json.loads(home.say("search", "show", "steps", "-o", "json"))
        assert study["stop"] == json.loads(rule) and study["best"]["value"] == 1, study
        for rule, word in (("magic", "magic"), ('{"median": {"warmup": -1}}', "warmup"), ("{", "stop")):
            p = home.berth(*words, "--name", "bad", "--stop", rule, "--", "true", check=False)
            assert p.returncode != 0 and word in p.stderr and p.stderr.count("\n") == 1, p.stderr
        assert [s["name"] for s in json.loads(home.say("search", "ls", "-o", "json"))] == ["steps"]


def test_a_search_begins_with_another():
    """--from: the results of another search count, its trials do not count against the limit."""
    with Home() as home:
        home.berth(*home.words(trials=6))
        home.berth(*home.words("--from", "s", name="t", trials=2))
        first, then = home.trials("s"), home.trials("t")
        assert facts(then)[:6] == facts(first) and [t["job"] for t in then[:6]] == [None] * 6, then
        assert len(then) == 8 and all(t["job"] for t in then[6:]) and len(home.ran()) == 8, then
        values = [t["value"] for t in then]
        assert json.loads(home.say("search", "best", "t", "-o", "json"))["value"] == min(values), values
        p = home.berth(*home.words("--from", "nobody", name="u"), check=False)
        assert p.returncode != 0 and "'nobody'" in p.stderr and p.stderr.count("\n") == 1, p.stderr
        assert len(home.ran()) == 8


def test_constraints():
    """--constraint: no trial breaks one, and a text that says nothing is refused."""
    with Home() as home:
        ranges = ["--param", "a=int:1..9", "--param", "b=int:1..9", "--engine", "random", "--minimize", "loss", "--trials", "12"]
        both = ["--constraint", "a + b <= 6", "--constraint", "a > b"]
        home.berth("search", *ranges, *both, "--name", "both", "-j", "4", "--", "true", check=False)
        points = [t["params"] for t in home.trials("both")]
        every = [(a, b) for a in range(1, 10) for b in range(1, 10) if a + b <= 6 and a > b]
        assert sorted((p["a"], p["b"]) for p in points) == every, points  # 6 points: none twice
        for text in ("a +", "a + c <= 1", "a"):
            p = home.berth("search", *ranges, "--constraint", text, "--name", "bad", "--", "true", check=False)
            assert p.returncode != 0 and "constraint" in p.stderr and p.stderr.count("\n") == 1, (text, p.stderr)


def test_interrupted():
    """Ctrl-C pauses: what runs ends under a daemon and counts; the same command resumes."""
    with Home() as home:
        home.gate(True)
        search = home.begin(*home.words(trials=6))
        wait_for("a trial", lambda: len(home.ran()) == 1)
        search.send_signal(signal.SIGINT)
        out, err = search.communicate(timeout=harness.PATIENCE_S)
        assert search.returncode == 130, (out, err)
        assert "paused; 1 running trial ends" in err and "berth search resume s" in err, err
        home.gate(False)
        wait_for("its end", lambda: [t["state"] for t in home.trials()] == ["done"])
        home.berth(*home.words(trials=6))
        assert facts(home.trials()) == uncut(6)
        assert len(home.ran()) == 6


def cut(kill):
    """A search of 8 trials that is cut while its 2nd, 4th and 6th trial runs: each runs once, and all of it equals
    the uncut study."""
    with Home() as home:
        kill.begin(home)
        for n in (2, 4, 6):
            home.gate(True, "gate-%d" % n)
        for n in (2, 4, 6):
            search = home.begin(*home.words())
            wait_for("run %d" % n, lambda: len(home.ran()) == n)
            kill.now(home, search)
            home.gate(False, "gate-%d" % n)
        home.berth(*home.words())
        assert facts(home.trials()) == uncut(8), (home.trials(), uncut(8))
        ran = home.ran()
        assert len(ran) == len(set(ran)) == 8, ran


class KillSearch:
    """kill -9 of the command that is its own scheduler."""

    @staticmethod
    def begin(home):
        pass

    @staticmethod
    def now(home, search):
        search.kill()
        search.communicate()


class KillDaemon:
    """kill -9 of the daemon, and of the command that looks on; another daemon takes over."""

    @staticmethod
    def begin(home):
        home.start("--slots", "4")

    @staticmethod
    def now(home, search):
        search.kill()
        search.communicate()
        home.kill()
        home.start("--slots", "4")


def test_killed_scheduler():
    cut(KillSearch)


def test_killed_daemon():
    cut(KillDaemon)


def test_daemon_dies_and_the_search_goes_on():
    """The command takes over when the daemon dies under it."""
    with Home() as home:
        home.start("--slots", "4")
        home.gate(True)
        search = home.begin(*home.words())
        wait_for("a trial", lambda: len(home.ran()) == 1)
        home.kill()
        home.gate(False)
        out, err = search.communicate(timeout=harness.PATIENCE_S)
        assert search.returncode == 0, (out, err)
        assert facts(home.trials()) == uncut(8)
        assert len(home.ran()) == 8


def test_live_view():
    """On a terminal: the bar, the best and the curve in place, the result at the end."""
    with Home() as home:
        master, slave = pty.openpty()
        env = {**home.env, "COLUMNS": "100", "LINES": "30"}
        search = subprocess.Popen([BERTH, *home.words(trials=5)], env=env, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        seen = b""
        while search.poll() is None or select.select([master], [], [], 0)[0]:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    piece = os.read(master, 65536)
                except OSError:  # the other end is closed
                    break
                seen += piece
        text = seen.decode()
        assert search.wait() == 0, text
        for part in ("\033[J", "/5, 1 running", " left", "  best loss ", "▁", "berth search best s --run", "5 trials (5 now"):
            assert part in text, (part, text)
        os.close(master)


def test_example():
    """examples/search: the search beats the grid, and its file is one that berth search takes."""
    if subprocess.run([PYTHON, "-c", "import sklearn"], capture_output=True).returncode:
        raise harness.Skip("scikit-learn is not installed")
    example = os.path.join(PACKAGE, "..", "examples", "search")
    with Home() as home:
        home.start("--slots", "2")
        p = subprocess.run([PYTHON, os.path.join(example, "compare.py")], env={**home.env, "PYTHONPATH": PACKAGE},
                           capture_output=True, text=True)
        assert p.returncode == 0 and "the search is better by" in p.stdout, (p.stdout, p.stderr)
        home.berth("search", os.path.join(example, "space.yaml"), "--trials", "3", timeout=harness.PATIENCE_S * 2,
                   PATH="/usr/bin:" + home.env["PATH"])
        study = json.loads(home.say("search", "show", "svr", "-o", "json"))
        assert study["counts"]["done"] == 3 and 50 < study["best"]["value"] < 90, study


if __name__ == "__main__":
    harness.main(__name__)
