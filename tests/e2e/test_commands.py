"""One story per command: the plainest thing each is for.  script/test --quick runs this file as its end-to-end part.

test_every_command_has_a_story fails for a command that `berth help` lists and that has none here.
"""
import atexit
import json
import os
import re
import select
import subprocess
import time

import harness
from atlas_rig import Atlas
from gpu_rig import GpuHome
from harness import Home
from hyper_rig import ROOT, Place, job

_home = None
# Commands that a story below tells under another name than its own.
TOLD_TOGETHER = {"projects": "project", "nodes": "node", "scheduler-state": "run_scheduler",
                 "scheduler-cancel-job": "run_scheduler", "scheduler-get-logs": "run_scheduler",
                 "release": "hold", "import": "export"}


def home():
    """One daemon for the stories that need no more than any."""
    global _home
    if _home is None:
        _home = Home().start("--slots", "4")
        atexit.register(_home.close)
    return _home


def berth(*words, **more):
    return home().berth(*words, **more).stdout


def answer(*words):
    return json.loads(berth(*words, "-o", "json"))


def submit(*words):
    """The number of a new job."""
    return str(answer("show", berth("submit", *words).split()[-1])[0]["number"])


def done(*words):
    """The number of a job that has ended."""
    number = submit(*words)
    home().berth("wait", number, check=False)
    return number


def test_every_command_has_a_story():
    text = subprocess.run([harness.BERTH, "--help"], capture_output=True, text=True).stdout
    commands = re.findall(r"^  ([a-z][a-z-]+)  +[a-z]", text, re.M)
    assert len(commands) >= 25, text
    stories = [n[len("test_"):] for n in globals() if n.startswith("test_")]
    missing = [c for c in commands if TOLD_TOGETHER.get(c, c.replace("-", "_")) not in stories]
    assert not missing, f"no story in {os.path.basename(__file__)} for: {missing}"


def test_cron():
    berth("cron", "add", "nightly", "30 2 * * *", "--", "echo", "from a schedule")
    assert "30 2 * * *" in berth("cron")
    job = berth("cron", "run", "nightly").strip()
    home().berth("wait", job)
    assert berth("logs", job) == "from a schedule\n" and answer("ls", "cron:nightly")[0]["schedule"] == "nightly"
    berth("cron", "rm", "nightly")


def test_hook():
    berth("hook", "add", "mine", "mail:ada", "--on", "failure")
    assert "mail:ada" in berth("hook") and "mail:ada" in berth("hook", "show", "mine")
    berth("hook", "rm", "mine")


def test_run():
    p = home().berth("run", "--", "sh", "-c", "echo said; exit 3", check=False)
    assert p.returncode == 3 and "said\n" in p.stdout, p


def test_submit():
    assert answer("show", done("--param", "lr=0.5", "--", "echo", "{lr}"))[0]["params"] == {"lr": 0.5}


def test_ls():
    number = done("--name", "listed", "--", "true")
    assert [str(j["number"]) for j in answer("ls", "--all", "name:listed")] == [number]


def test_best():
    job = berth("submit", "--name", "good", "--", "python3", "-c", "import berth; berth.log(quality=3); berth.log(quality=1)").strip()
    home().berth("wait", job)
    assert [(j["name"], j["quality.max"]) for j in answer("best", "--maximize", "quality")] == [("good", 3)]


def test_compare():
    a, b = done("--param", "lr=0.5", "--", "true"), done("--param", "lr=1", "--", "true")
    assert json.loads(berth("compare", a, b, "-o", "json"))["params"] == {"lr": [0.5, 1]}


def test_show():
    assert answer("show", done("--", "sh", "-c", "exit 4"))[0]["exit_code"] == 4


def test_logs():
    assert berth("logs", done("--", "echo", "a line")) == "a line\n"


def test_top():
    p = home().berth("top", check=False)  # not on a terminal: it says so
    assert p.returncode != 0 and "terminal" in p.stderr, p


def test_watch():
    with subprocess.Popen([harness.BERTH, "watch"], env=home().env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as p:
        printed, end = b"", time.monotonic() + 60
        try:
            while b"seen" not in printed:  # a change is heard once the stream is open
                assert time.monotonic() < end, printed
                done("--name", "seen", "--", "true")
                if select.select([p.stdout], [], [], 0.05)[0]:
                    printed += os.read(p.stdout.fileno(), 65536)
        finally:
            p.terminate()


def test_explain():
    berth("queue", "pause", "slow")
    number = submit("--queue", "slow", "--", "true")
    assert "paused" in berth("explain", number)
    berth("queue", "resume", "slow")


def test_simulate():
    folder = os.path.join(ROOT, "examples", "simulate")
    out = berth("simulate", os.path.join(folder, "trace.csv"), "--table", os.path.join(folder, "table.json"), "--gpus", "8",
                "--count", "20", "--policy", "berth")
    assert "berth" in out, out


def test_tune():
    space = [{"name": "x", "type": "float", "low": 0, "high": 1}, {"name": "k", "type": "cat", "choices": ["a", "b"]}]
    lines = [{"op": "create", "seed": 1, "n_trials": 4, "space": space}, {"op": "ask"},
             {"op": "tell", "id": 1, "value": 0.5}, {"op": "close"}]
    p = subprocess.run([harness.BERTH, "tune"], input="\n".join(map(json.dumps, lines)), capture_output=True, text=True, timeout=60)
    answers = [json.loads(line) for line in p.stdout.splitlines()]
    assert p.returncode == 0 and [a.get("ok") for a in answers] == [True, None, True], p
    assert 0 <= answers[1]["params"]["x"] <= 1 and answers[1]["params"]["k"] in ("a", "b"), answers


def test_search():
    """The jobs report nothing, so each trial fails, and the command says where to look."""
    p = home().berth("search", "--param", "k=a,b", "--minimize", "loss", "--name", "look", "--", "echo", "{k}", check=False)
    assert p.returncode == 1 and "no trial has a result" in p.stdout and "berth logs " in p.stderr, p
    trials = json.loads(berth("search", "trials", "look", "-o", "json"))
    assert sorted(t["params"]["k"] for t in trials) == ["a", "b"] and {t["state"] for t in trials} == {"failed"}, trials
    assert sorted(berth("logs", str(t["job"])) for t in trials) == ["a\n", "b\n"]
    assert "look" in berth("search", "ls")
    berth("search", "rm", "look")


def test_wait():
    number = submit("--", "sh", "-c", "exit 6")
    assert home().berth("wait", number, check=False).returncode != 0
    assert home().berth("wait", done("--", "true")).returncode == 0


def test_cancel():
    number = submit("--", "sleep", "600")
    berth("cancel", number)
    home().berth("wait", number, check=False)
    assert answer("show", number)[0]["state"] == "cancelled"


def test_retry():
    number = done("--", "sh", "-c", "exit 1")
    berth("retry", number)
    home().berth("wait", number, check=False)
    assert len(answer("show", number)[0]["runs"]) == 2


def test_hold():
    number = submit("--hold", "--", "true")
    assert answer("show", number)[0]["state"] == "held"
    berth("release", number)
    home().berth("wait", number)
    assert answer("show", number)[0]["state"] == "succeeded"


def test_rm():
    number = done("--", "true")
    berth("rm", number)
    assert home().berth("show", number, check=False).returncode != 0


def test_snapshot():
    here = os.path.join(home().dir, "code")
    os.makedirs(here)
    with open(os.path.join(here, "train.py"), "w") as f:
        f.write("x = 1\n")
    number = done(f"--snapshot={here}", "--", "cat", "train.py")
    assert berth("logs", number) == "x = 1\n"
    berth("snapshot", "get", number, os.path.join(home().dir, "back"))
    assert os.listdir(os.path.join(home().dir, "back")) == ["train.py"]


def test_queue():
    berth("queue", "pause", "night")
    assert {q["name"]: q["paused"] for q in answer("queue", "list")}["night"] is True
    berth("queue", "resume", "night")


def test_tag():
    number = done("--", "true")
    berth("tag", number, "data=v2")
    assert answer("show", number)[0]["tags"] == {"data": "v2"}


def test_note():
    number = done("--", "true")
    berth("note", number, "a remark")
    assert "a remark" in berth("note", number) and "a remark" in berth("show", number)


def test_project():
    done("--project", "vision", "--", "true")
    assert "vision" in [p["name"] for p in answer("projects")]
    assert "vision" in berth("project", "show", "vision")


def test_node():
    name = answer("nodes")[0]["name"]
    berth("node", "drain", name)
    assert answer("nodes")[0]["drained"] is True
    berth("node", "undrain", name)


def test_run_scheduler():
    harness.need_dialect("gpu")
    with GpuHome() as h:
        first = h.train("first", epochs=2)
        assert h.finish(first, 2)["state"] == "finished" and "epoch 1" in h.output(first)
        second = h.train("second", epochs=500)
        h.command("scheduler-cancel-job", second)
        h.wait_state(second, "cancelled")


def test_serve():
    h = Home().start()
    try:
        assert h.api("GET", "/healthz") is not None and h.stop() == 0
    finally:
        h.close()


def test_doctor():
    p = home().berth("doctor", check=False)
    assert p.returncode in (0, 1) and home().home in p.stdout, p


def test_backup():
    path = os.path.join(home().dir, "copy.db")
    berth("backup", path)
    assert os.path.getsize(path) > 0
    copies = os.path.join(home().dir, "copies")
    assert answer("backup", copies)["path"].startswith(copies + "/")


def test_restore():
    copies, other = os.path.join(home().dir, "to-restore"), os.path.join(home().dir, "other")
    berth("backup", copies)
    assert f"restored {other}" in berth("restore", "--to", other, copies)
    assert os.path.getsize(os.path.join(other, "berth.db")) > 0


def test_export():
    """And import, which takes the file into a home that nobody serves."""
    berth("run", "--project", "to-move", "--", "true")
    file, other = os.path.join(home().dir, "moved.tgz"), os.path.join(home().dir, "moved")
    assert answer("export", "to-move", file)["jobs"] == 1
    assert answer("import", "--home", other, file)["jobs"] == 1


def test_stop():
    other = Home().start()
    try:
        assert f"(pid {other.daemon.pid}) has ended" in other.berth("stop").stderr
        assert other.daemon.wait(120) == 0
    finally:
        other.close()


def test_python():
    assert os.path.isfile(os.path.join(berth("python", "path").strip(), "berth", "__init__.py"))


def test_help():
    assert "Usage: berth submit" in berth("help", "submit")


def test_schema():
    assert "command" in json.loads(berth("schema", "job"))["properties"]


def test_version():
    assert re.match(r"berth \d+\.\d+\.\d+", berth("version"))


def test_completion():
    assert "berth" in berth("completion", "bash")


def test_hyperctl():
    harness.need_dialect("hyperctl")
    with Place() as at:
        at.ok("run", "-c", at.batch("b", [job("one", "echo one")]))
        assert at.read("b", "one", "stdout") == "one\n"


def test_atlas_server():
    harness.need_dialect("atlas")
    with Atlas() as a:
        made = a.submit({"main.py": "print('hello')\n"})
        assert a.wait(made)["status"] == "completed" and "hello" in a.job(made)["logs"]


if __name__ == "__main__":
    harness.main(__name__)
