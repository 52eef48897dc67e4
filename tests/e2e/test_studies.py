"""Studies with the real daemon: cut and continued, trials that are jobs, many clients at once, bad results."""
import contextlib
import json
import math
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import wait_for  # noqa: E402

PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
SPACE = {"x": {"uniform": [-5, 10]}, "y": {"uniform": [0, 15]}, "k": {"int": [1, 9]}, "o": ["a", "b", "c"]}
# Reports what its parameters are worth.
SQUARE = ["/usr/bin/python3", "-c", "import sys; sys.path.insert(0, sys.argv[1]); import berth; berth.log(loss=(float(sys.argv[2]) - 3) ** 2)",
          os.path.abspath(PYTHON), "{x}"]


class Home(harness.Home):
    def __enter__(self):
        self.start("--slots", "4")
        return self

    def __exit__(self, *error):
        self.close()

    def study(self, name="s", **more):
        return self.api("POST", "/v1/studies", {"name": name, "space": SPACE, "objective": {"minimize": "loss"}, **more})

    def get(self, name="s"):
        return self.api("GET", f"/v1/studies/{name}")

    def trials(self, name="s"):
        return self.api("GET", f"/v1/studies/{name}/trials?limit=10000")["items"]

    def again(self):
        self.kill()
        self.start("--slots", "4")

    def finished(self, name="s"):
        wait_for("the end of the study", lambda: self.get(name)["state"] == "finished")
        return self.get(name)


def worth(p):
    return (p["x"] - 2) ** 2 + (p["y"] - 9) ** 2 / 4 + abs(p["k"] - 4) + {"a": 3, "b": 0, "c": 1}[p["o"]]


def result(i, t, two):
    if i % 9 == 4:
        return {"number": t["number"], "failed": True}
    value = worth(t["params"])
    return {"number": t["number"], "values": [value, t["params"]["x"]]} if two else {"number": t["number"], "value": value}


def play(home, name, rounds, cut, two=False):
    """Four in flight, results in an order that is always the same; the daemon is killed before some of the rounds."""
    flying = home.api("POST", f"/v1/studies/{name}/ask", {"n": 4})["trials"]
    for i in range(rounds):
        if i in cut:
            home.again()
        t = flying.pop((i * 7) % 4)
        flying += home.api("POST", f"/v1/studies/{name}/tell", {"trials": [result(i, t, two)], "ask": 1})["trials"]
    return [(t["number"], t["state"], t.get("values", t["value"]), t["params"]) for t in home.trials(name)]


def test_a_cut_study_equals_the_uncut_one():
    with Home() as home:
        for engine in ("auto", "gp", "tpe", "cmaes", "random", "sobol", "grid"):
            home.study("whole-" + engine, engine=engine, seed=11, trials=200)
            home.study("cut-" + engine, engine=engine, seed=11, trials=200)
            whole = play(home, "whole-" + engine, 90, ())
            assert play(home, "cut-" + engine, 90, (3, 30, 77)) == whole, engine
            assert len({str(t[3]) for t in whole}) == len(whole), engine


TWO = [{"minimize": "loss"}, {"maximize": "x"}]


def front(trials):
    """Numbers of the trials that no other one dominates, by comparing all pairs."""
    done = [(t["number"], t["values"][0], -t["values"][1]) for t in trials if t["state"] == "done"]
    return [a[0] for a in done if not any(b[1] <= a[1] and b[2] <= a[2] and b[1:] != a[1:] for b in done)]


def test_several_objectives_cut_and_uncut():
    """Every engine that serves several objectives; the front is the one of all pairs, also after the last kill."""
    with Home() as home:
        for engine in ("auto", "motpe", "nsga2", "random", "sobol", "grid"):
            space = {**SPACE, "x": {"int": [-5, 10]}, "y": {"int": [0, 15]}} if engine == "grid" else SPACE
            for name in ("whole-", "cut-"):
                home.study(name + engine, engine=engine, seed=11, objective=TWO, space=space)
            whole = play(home, "whole-" + engine, 40, (), True)
            assert play(home, "cut-" + engine, 40, (3, 25, 38), True) == whole, engine
            home.again()
            end = home.get("cut-" + engine)
            assert [f["number"] for f in end["front"]] == front(home.trials("cut-" + engine)), (engine, end["front"])
            assert end["best"] is None and all(f["values"][1] == f["params"]["x"] for f in end["front"])


def test_jobs_with_several_objectives():
    script = "import sys; sys.path.insert(0, sys.argv[1]); import berth; x = int(sys.argv[2]); berth.log(loss=x); x == 3 or berth.log(acc=[5, 1, 7, 0][x])"
    with Home() as home:
        home.study(space={"x": {"int": [0, 3]}}, engine="grid", parallel=2, objective=[{"minimize": "loss"}, {"maximize": "acc"}],
                   job={"command": ["/usr/bin/python3", "-c", script, os.path.abspath(PYTHON), "{x}"], "cwd": "/"})
        end = home.finished()
        assert [f["values"] for f in end["front"]] == [[0, 5], [2, 7]] or [f["values"] for f in end["front"]] == [[2, 7], [0, 5]], end
        failed = [t for t in home.trials() if t["state"] == "failed"]
        assert len(failed) == 1 and "no metric acc" in failed[0]["reason"], failed


def exchange(http, path, body):
    http.request("POST", path, json.dumps(body).encode())
    reply = http.getresponse()
    data = reply.read()
    assert reply.status == 200, data
    return json.loads(data)["trials"]


def test_grid_gives_every_point_once_to_many_clients():
    with Home() as home:
        home.study(engine="grid", space={"a": {"int": [1, 12]}, "b": ["x", "y"], "c": {"ordinal": [1, 2, 4, 8]}})
        seen, errors, lock = [], [], threading.Lock()

        def client():
            try:
                http = harness.UnixHTTP(home.sock)
                mine = exchange(http, "/v1/studies/s/ask", {"n": 1})
                while mine:
                    with lock:
                        seen.extend(mine)
                    results = [{"number": t["number"], "value": t["params"]["a"]} for t in mine]
                    mine = exchange(http, "/v1/studies/s/tell", {"trials": results, "ask": 1})
            except Exception as e:  # noqa: BLE001 (a thread's own report)
                errors.append(e)

        threads = [threading.Thread(target=client) for _ in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not errors, errors[:3]
        points = {(t["params"]["a"], t["params"]["b"], t["params"]["c"]) for t in seen}
        assert len(seen) == len(points) == 96, (len(seen), len(points))
        assert home.get()["state"] == "finished" and home.get()["best"]["value"] == 1


def test_grid_of_jobs_runs_every_point_once():
    """1, 4 and 16 at once, and kill -9 of the daemon in the middle: each point is one job that ran once."""
    every = sorted((a, b) for a in range(1, 9) for b in ("x", "y", "z"))
    for workers in (1, 4, 16):
        with Home() as home:
            ran = os.path.join(home.dir, "ran")
            job = {"command": ["/bin/sh", "-c", 'echo "$1 $2" >>ran', "sh", "{a}", "{b}"], "cwd": home.dir}

            def lines(ran=ran):
                with contextlib.suppress(FileNotFoundError), open(ran) as f:
                    return [tuple(line.split()) for line in f]
                return []

            home.study(space={"a": {"int": [1, 8]}, "b": ["x", "y", "z"]}, engine="grid", parallel=workers, job=job)
            for share in (6, 14):
                wait_for("some trials", lambda share=share: len(lines()) >= share)
                home.again()
            home.finished()
            assert sorted((int(a), b) for a, b in lines()) == every, (workers, lines())
            assert sorted((t["params"]["a"], t["params"]["b"]) for t in home.trials()) == every, workers
            assert len(home.jobs()) == len(every)


def test_random_never_repeats_a_point():
    """A finite space, many asked at once, the daemon killed in between: all points, each once, then no more."""
    with Home() as home:
        home.study(space={"a": {"int": [1, 30]}, "b": ["x", "y"], "c": {"ordinal": [1, 2, 4]}}, engine="random")
        seen = []
        for n in (1, 50, 3, 100, 20, 10000):
            answer = home.api("POST", "/v1/studies/s/ask", {"n": n})
            seen += [json.dumps(t["params"], sort_keys=True) for t in answer["trials"]]
            home.again()
        assert len(seen) == len(set(seen)) == 180 and answer["exhausted"], len(seen)
        assert home.api("POST", "/v1/studies/s/ask", {"n": 1})["trials"] == []


# One of many programs on a study: says which trials it had.
WORKER = """
import sys
sys.path.insert(0, sys.argv[1])
import berth
study = berth.Study("s", {"x": {"uniform": [0, 1]}, "k": {"int": [1, 9]}}, minimize="loss", client=berth.Client(home=sys.argv[2], autostart=False))
study.optimize(lambda t: print(t.number, repr(t["x"]), t["k"]) or t["x"], int(sys.argv[3]))
"""


def test_many_programs_on_one_study():
    """Every trial is given to one program, and no two are alike; tests/bench/studies.py has 64 of them."""
    with Home() as home:
        words = ["/usr/bin/python3", "-c", WORKER, os.path.abspath(PYTHON), home.home, "8"]
        programs = [subprocess.Popen(words, env=home.env, stdout=subprocess.PIPE, text=True) for _ in range(16)]
        lines = [line.split() for p in programs for line in p.communicate()[0].splitlines()]
        assert [p.returncode for p in programs] == [0] * 16
        points = {(x, k) for _, x, k in lines}
        assert sorted(int(n) for n, _, _ in lines) == list(range(1, 129)) and len(points) == 128, sorted(lines)
        recorded = home.trials()
        assert {(t["number"], repr(t["value"])) for t in recorded} == {(int(n), x) for n, x, _ in lines}, recorded
        assert home.get()["counts"]["done"] == 128


def test_trials_are_jobs_and_survive_the_daemon():
    with Home() as home:
        home.study(space={"x": {"uniform": [0, 10]}}, trials=24, parallel=4, engine="tpe", job={"command": SQUARE, "cwd": "/"})
        for done in (5, 12):
            wait_for(f"{done} results", lambda done=done: home.get()["counts"]["done"] >= done)
            home.again()
        end = home.finished()
        assert end["counts"] == {"asked": 24, "running": 0, "done": 24, "failed": 0, "pruned": 0, "waiting": 0}, end
        trials = home.trials()
        assert [t["number"] for t in trials] == list(range(1, 25))
        assert len({t["job"] for t in trials}) == 24 and len(home.api("GET", "/v1/jobs?limit=100")["items"]) == 24, "a trial ran twice"
        for t in trials:
            assert math.isclose(t["value"], (t["params"]["x"] - 3) ** 2), t
        assert end["best"]["value"] == min(t["value"] for t in trials)
        job = home.api("GET", f"/v1/jobs/{end['best']['job']}")
        assert job["params"] == end["best"]["params"] and job["name"] == f"s-{end['best']['number']}"


def test_a_client_names_the_job_of_its_trial():
    """A client that submits jobs itself says which one ran the trial; that is kept."""
    with Home() as home:
        home.study()
        home.api("POST", "/v1/studies/s/ask", {"n": 2})
        home.api("POST", "/v1/studies/s/tell", {"trials": [{"number": 2, "value": 1.5, "job": 7}, {"number": 1, "failed": True}]})
        for _ in range(2):
            assert [t["job"] for t in home.trials()] == [None, 7] and home.get()["best"]["job"] == 7, home.trials()
            home.again()
        home.api("POST", "/v1/studies/s/ask", {"n": 1})
        for job in (0, "x", 1.5):
            body = {"trials": [{"number": 3, "value": 1, "job": job}]}
            assert home.request("POST", "/v1/studies/s/tell", body)[0] == 400, job
        home.study("two", objective=TWO)
        home.api("POST", "/v1/studies/two/ask", {"n": 1, "lease": 600})
        home.api("POST", "/v1/studies/two/tell", {"trials": [{"number": 1, "hold": 1, "values": [1.5, 2], "job": 8}]})
        for _ in range(2):
            told, end = home.trials("two"), home.get("two")
            assert [(t["job"], t["values"], t["hold"]) for t in told] == [(8, [1.5, 2], 1)], told
            assert [(f["job"], f["values"]) for f in end["front"]] == [(8, [1.5, 2])], end
            home.again()


def test_results_that_are_none():
    """What fails, reports nothing or NaN is a failed trial with its reason; the study goes on."""
    script = "import sys; sys.path.insert(0, sys.argv[1]); import berth; x = int(sys.argv[2]); " \
             "berth.log(loss=[1.0, float('nan'), float('inf')][x]) if x < 3 else None; sys.exit(x == 4)"
    with Home() as home:
        home.study(space={"x": {"int": [0, 4]}}, engine="grid", parallel=2,
                   job={"command": ["/usr/bin/python3", "-c", script, os.path.abspath(PYTHON), "{x}"], "cwd": "/"})
        end = home.finished()
        by = {t["params"]["x"]: t for t in home.trials()}
        assert [by[x]["state"] for x in range(5)] == ["done", "failed", "failed", "failed", "failed"], by
        assert "finite" in by[1]["reason"] and "finite" in by[2]["reason"] and "no metric loss" in by[3]["reason"], by
        assert "failed" in by[4]["reason"] and end["best"]["params"] == {"x": 0}, by


def test_paused_extended_enqueued_and_removed():
    with Home() as home:
        job = {"command": SQUARE, "cwd": "/"}
        home.study(space={"x": {"uniform": [0, 10]}}, trials=3, engine="random", job=job)
        home.finished()
        home.api("PATCH", "/v1/studies/s", {"trials": 5})
        assert home.finished()["counts"]["done"] == 5
        assert home.api("POST", "/v1/studies/s/enqueue", {"params": {"x": 3.0}})["number"] == 6
        wait_for("the best point", lambda: (home.get()["best"] or {}).get("value") == 0)
        home.api("PATCH", "/v1/studies/s", {"paused": True, "trials": None})
        home.again()
        assert home.get()["state"] == "paused" and home.get()["counts"]["asked"] == 6
        home.study("held", space={"x": {"uniform": [0, 10]}}, trials=2, job={"command": ["sleep", "600"], "cwd": "/"})
        status, _, _ = home.request("DELETE", "/v1/studies/held")
        assert status == 409
        wait_for("its job", lambda: home.trials("held"))
        running = home.trials("held")[0]["job"]
        home.api("DELETE", "/v1/studies/held?force=true")
        wait_for("the end of its job", lambda: home.api("GET", f"/v1/jobs/{running}")["state"] == "cancelled")
        assert [s["name"] for s in home.api("GET", "/v1/studies")["items"]] == ["s"]


def test_a_job_that_cannot_be_submitted_pauses_the_study():
    with Home() as home:
        home.study(space={"x": {"uniform": [0, 10]}}, trials=2, job={"command": SQUARE, "cwd": "/", "notify": ["failure=absent"]})
        wait_for("the pause", lambda: home.get()["state"] == "paused")
        assert "absent" in home.get()["reason"], home.get()


# Reports an epoch at a time and asks whether to stop; every seventh trial is good.
CURVE = """
import sys, time
sys.path.insert(0, sys.argv[1])
import berth
x = int(sys.argv[2])
for epoch in range(1, 10):
    berth.log(loss=10.0 + x - epoch * 0.01 if x % 7 else 1.0 / epoch, step=epoch)
    while not berth.flush():
        pass
    if berth.should_stop():
        sys.exit(0)
"""


def test_trials_are_pruned():
    """A trial that is stopped early is pruned with what it had reached, also across a kill of the daemon."""
    with Home() as home:
        home.study(space={"x": {"int": [0, 27]}}, engine="grid", parallel=4, stop={"median": {"warmup": 2, "startup": 4}},
                   job={"command": ["/usr/bin/python3", "-c", CURVE, os.path.abspath(PYTHON), "{x}"], "cwd": "/"})
        wait_for("the first pruned trial", lambda: home.get()["counts"]["pruned"] >= 1)
        home.again()
        end = home.finished()
        by = {t["params"]["x"]: t for t in home.trials()}
        assert end["counts"]["failed"] == 0 and end["counts"]["pruned"] + end["counts"]["done"] == 28, end
        assert all(by[x]["state"] == "done" for x in (0, 7, 14, 21)), by
        assert end["best"]["params"]["x"] % 7 == 0 and math.isclose(end["best"]["value"], 1 / 9), end
        pruned = [t for t in by.values() if t["state"] == "pruned"]
        assert len(pruned) >= 5 and all("stopped by median" in t["reason"] and t["value"] > 9 for t in pruned), pruned


def test_a_lease_survives_the_daemon():
    """Nobody renews the trial: the next client gets it after the kill, and after a second one its result alone counts."""
    with Home() as home:
        home.study(engine="tpe", trials=1)
        first = home.api("POST", "/v1/studies/s/ask", {"n": 1, "lease": 1})["trials"][0]
        home.again()
        wait_for("the end of the lease on disk", lambda: home.trials()[0]["state"] == "waiting")
        home.again()
        assert home.get()["counts"] == {"asked": 1, "running": 0, "done": 0, "failed": 0, "pruned": 0, "waiting": 1}
        second = home.api("POST", "/v1/studies/s/ask", {"n": 1, "lease": 600})["trials"][0]
        assert second == {**first, "hold": 2}, (first, second)
        home.again()
        status, _, reply = home.request("POST", "/v1/studies/s/tell", {"trials": [{"number": 1, "hold": 1, "value": 1}]})
        assert status == 409 and "another client" in str(reply), reply
        assert home.api("POST", "/v1/studies/s/renew", {"trials": [{"number": 1, "hold": 2}]}) == {"lost": []}
        home.api("POST", "/v1/studies/s/tell", {"trials": [{"number": 1, "hold": 2, "value": 2}]})
        assert home.get()["state"] == "finished" and home.get()["best"]["value"] == 2


def test_events():
    """Each thing is said once: also across kills, and for a grid, whose end the engine finds anew."""
    with Home() as home:
        def said(name):
            return [(e["kind"][6:], e["data"].get("number")) for e in home.api("GET", "/v1/events?follow=0&limit=1000")["items"]
                    if e["kind"].startswith("study.") and e["data"]["study"] == name]

        home.study(space={"x": {"int": [1, 3]}}, engine="grid", job={"command": SQUARE, "cwd": "/"})
        home.finished()
        wait_for("the end", lambda: said("s")[-1] == ("ended", None))
        bests = [n for kind, n in said("s") if kind == "best"]
        assert said("s") == [("created", None), *(("best", n) for n in bests), ("ended", None)] and bests[-1] == home.get()["best"]["number"], said("s")
        told = said("s")
        home.again()
        home.study("t", space={"x": {"uniform": [0, 1]}}, trials=1)
        number = home.api("POST", "/v1/studies/t/ask", {"n": 1})["trials"][0]["number"]
        home.api("PATCH", "/v1/studies/t", {"paused": True})
        home.again()
        home.api("PATCH", "/v1/studies/t", {"paused": False})
        home.api("POST", "/v1/studies/t/tell", {"trials": [{"number": number, "value": 4.5}]})
        assert home.get()["state"] == "finished" and said("s") == told, "an end is said once"
        home.api("PATCH", "/v1/studies/t", {"trials": 2})
        home.api("DELETE", "/v1/studies/t")
        assert said("t") == [("created", None), ("paused", None), ("resumed", None), ("best", 1), ("ended", None), ("resumed", None),
                             ("removed", None)], said("t")
        best = [e for e in home.api("GET", "/v1/events?follow=0&limit=1000")["items"] if e["kind"] == "study.best"][-1]
        assert best["job"] is None and (best["data"]["value"], best["data"]["job"]) == (4.5, None), best


# Goes on from the number that its parent has saved, and gains the more, the nearer lr is to 0.7.
MEMBER = """
import os, sys
sys.path.insert(0, sys.argv[1])
import berth
before = 0.0
if berth.parent_dir():
    with open(os.path.join(berth.parent_dir(), "state")) as f:
        before = float(f.read())
assert (berth.parent_dir() is None) == ("BERTH_PARENT_TRIAL" not in os.environ)
if os.environ["BERTH_TRIAL"] == "6":
    sys.exit(3)
now = before + 1 - abs(float(sys.argv[2]) - 0.7)
with open(os.path.join(berth.artifact_dir(), "state"), "w") as f:
    f.write(repr(now))
berth.log(score=now)
"""


def test_population_based_training():
    """Every trial goes on from its parent's checkpoint, also across kills of the daemon; a failed one is nobody's parent."""
    with Home() as home:
        job = {"command": ["/usr/bin/python3", "-c", MEMBER, os.path.abspath(PYTHON), "{lr}"], "cwd": "/"}
        pbt = {"space": {"lr": {"uniform": [0, 1]}}, "objective": {"maximize": "score"}, "engine": "pbt", "seed": 1, "trials": 32}
        for change, word in (({"parallel": 5}, "population"), ({"stop": "asha"}, "leave stop out"), ({"pbt": {"populations": 3}}, "did you mean population"),
                             ({"objective": TWO}, "objective"), ({"engine": "tpe"}, "engine: pbt")):
            status, _, reply = home.request("POST", "/v1/studies", {"name": "bad", "pbt": {"population": 4}, **pbt, **change})
            assert status == 400 and word in str(reply), reply
        home.study(**pbt, pbt={"population": 4}, parallel=4, job=job)
        for done in (7, 19):
            wait_for(f"{done} results", lambda done=done: home.get()["counts"]["done"] >= done)
            home.again()
        end = home.finished()
        trials = {t["number"]: t for t in home.trials()}
        assert end["counts"]["done"] == 31 and trials[6]["state"] == "failed", end
        assert [t.get("parent") for t in trials.values()][:4] == [None] * 4
        for t in trials.values():
            parent = trials.get(t.get("parent"))
            assert parent is None or parent["state"] == "done", t
            before = parent["value"] if parent else 0
            assert t["state"] == "failed" or math.isclose(t["value"], before + 1 - abs(t["params"]["lr"] - 0.7)), (t, parent)
        assert sum(t.get("parent") is None for t in trials.values()) <= 5, "members begin anew once"
        copied = [t for t in trials.values() if t.get("parent") and t["params"] != trials[t["parent"]]["params"]]
        assert copied and end["best"]["value"] > 4, end
        home.study("asked", **pbt, pbt={"population": 2})
        asked = home.api("POST", "/v1/studies/asked/ask", {"n": 3})
        assert len(asked["trials"]) == 2 and not asked["exhausted"], asked
        told = home.api("POST", "/v1/studies/asked/tell", {"trials": [{"number": 1, "value": 3}], "ask": 1})
        assert told["trials"][0]["parent"] == 1, told


def test_warm_start():
    with Home() as home:
        home.study("old", engine="tpe", seed=3)
        play(home, "old", 20, ())
        done = [t for t in home.trials("old") if t["state"] == "done"]
        new = home.study("new", engine="tpe", seed=4, trials=5, **{"from": "old"})
        assert new["counts"]["done"] == len(done) and new["best"]["value"] == min(t["value"] for t in done)
        home.again()
        asked = home.api("POST", "/v1/studies/new/ask", {"n": 9})
        assert len(asked["trials"]) == 5 and asked["exhausted"], "the results of the other study do not count as trials"


if __name__ == "__main__":
    harness.main("__main__")
