"""Reading results back: parameters and metrics as columns, lists in their order, the best jobs."""
import contextlib
import csv
import io
import json
import os
import sys

import harness
from harness import Home

SCRIPT = """
import berth, math
p = berth.params()
for i in range(4):
    berth.log(step=i, acc=p["lr"] * (i if i < 3 else 1), loss=math.nan if p["lr"] > 1 else 1 - p["lr"])
"""


@contextlib.contextmanager
def daemon():
    h = Home()
    try:
        yield h.start("--slots", "2")
    finally:
        h.close()


def sweep(h):
    with open(os.path.join(h.dir, "train.py"), "w") as f:
        f.write(SCRIPT)
    path = os.path.join(h.dir, "sweep.json")
    with open(path, "w") as f:
        json.dump({"name": "sweep", "command": f"{sys.executable} {h.dir}/train.py",
                   "params": {"lr": [0.1, 2.0, 0.3], "opt": [{"name": "adam"}]}}, f)
    return path


def rows(h, *args):
    p = h.berth("ls", *args, "-o", "csv")
    assert p.returncode == 0, p.stderr
    return list(csv.DictReader(io.StringIO(p.stdout)))


def test_columns_and_orders():
    with daemon() as h:
        p = h.berth("run", sweep(h), "--maximize", "acc")
        assert p.returncode == 0, p.stderr
        best = p.stdout[p.stdout.index("Best"):].splitlines()
        assert best[1].split() == ["JOB", "NAME", "STATE", "acc.max", "acc.max_step", "acc.last", "PARAMS"], best
        assert best[2].split()[3:6] == ["4", "2", "2"] and "lr=2" in best[2], best
        got = rows(h, "--columns", "lr,opt.name,acc.max,acc.max_step,loss,loss.mean", "--sort", "-acc.max")
        assert [r["lr"] for r in got] == ["2.0", "0.3", "0.1"], got
        assert got[0]["acc.max"] == "4.0" and got[0]["acc.max_step"] == "2" and got[0]["opt.name"] == "adam", got
        assert got[0]["loss"] == "nan" and float(got[1]["loss.mean"]) == 0.7, got
        # NaN comes last in either direction.
        assert [r["lr"] for r in rows(h, "-c", "lr", "-s", "loss")] == ["0.3", "0.1", "2.0"]
        assert [r["lr"] for r in rows(h, "-c", "lr", "-s", "-loss")] == ["0.1", "0.3", "2.0"]
        assert [r["lr"] for r in rows(h, "-c", "lr", "-s", "lr", "acc.max>0.5")] == ["0.3", "2.0"]
        table = h.berth("ls", "-c", "duration,lr", "-s", "lr").stdout.splitlines()
        assert table[0].split() == ["JOB", "TIME", "lr"], table
        p = h.berth("best", "--minimize", "loss", "-n", "1", "-o", "json")
        assert [(j["params"]["lr"], j["loss.min"]) for j in json.loads(p.stdout)] == [(0.3, 0.7)], p.stdout
        page = h.api("GET", "/v1/jobs?columns=lr,acc.mean,nothing&sort=-acc.mean&limit=2")
        assert [j["columns"] for j in page["items"]] == [
            {"lr": 2.0, "acc.mean": 2.0, "nothing": None}, {"lr": 0.3, "acc.mean": 0.3, "nothing": None}], page
        page = h.api("GET", "/v1/jobs?columns=lr&sort=-acc.mean&limit=2&cursor=" + page["next"])
        assert [j["columns"] for j in page["items"]] == [{"lr": 0.1}] and page["next"] is None, page


def test_mistakes():
    with daemon() as h:
        for args, words in ((("ls", "--columns", ","), "name at least one column"), (("ls", "--sort", "sped"), "cannot sort by 'sped'"),
                            (("ls", "--columns", '"a'), "closing quote"), (("best",), "--maximize"),
                            (("best", "--maximize", "a", "--minimize", "b"), "one metric"),
                            (("best", "-m", "a", "--sort", "id"), "--sort")):
            p = h.berth(*args, check=False)
            assert p.returncode == 2 and words in p.stderr and p.stderr.count("\n") == 1, (args, p.returncode, p.stderr)


if __name__ == "__main__":
    harness.main("__main__")
