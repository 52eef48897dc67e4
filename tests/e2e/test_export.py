"""berth export and berth import: finished jobs of a project move to another home, once."""
import contextlib
import gzip
import io
import json
import os
import tarfile

import harness
from harness import Home


@contextlib.contextmanager
def home(start=True):
    h = Home()
    try:
        if start:
            h.start("--slots", "4")
        yield h
    finally:
        h.close()


def fill(h):
    """Two projects, a batch, metrics, tags, notes, artifacts, a job that failed and one that has not finished."""
    train = ("import berth, os; os.makedirs(os.environ['BERTH_RUN_DIR'] + '/artifacts', exist_ok=True);"
             "open(os.environ['BERTH_RUN_DIR'] + '/artifacts/model', 'w').write('weights');"
             "[berth.log(loss=1 / (i + 3), word='w%d' % i) for i in range(500)]; print('trained')")
    h.submit("sh", "-c", "echo first; exit 7", project="vision", name="first", env={"MY_KEY": "hidden", "PATH": os.environ["PATH"]})
    h.submit("echo", "elsewhere", project="speech")
    h.submit("python3", "-c", train, project="vision", env={"PATH": os.environ["PATH"]})
    h.submit("echo", "{index}", project="vision", array=3)
    h.wait_all()
    h.berth("tag", "1", "best=yes")
    h.berth("note", "1", "a remark")
    h.submit("sleep", "1000", project="vision", hold=True)


def export(h, *words, check=True):
    p = h.berth("export", "-o", "json", *words, check=check)
    return json.loads(p.stdout) if check else p


def bring(h, *words, check=True):
    p = h.berth("import", "-o", "json", *words, check=check)
    return json.loads(p.stdout) if check else p


def facts(h, number):
    job = h.api("GET", f"/v1/jobs/{number}")
    points = h.api("GET", f"/v1/jobs/{number}/metrics")
    return ({k: job[k] for k in ("id", "name", "state", "exit_code", "reason", "params", "tags", "metrics", "created",
                                 "started", "ended", "attempt", "index", "batch_name", "logged_params")},
            h.request("GET", f"/v1/jobs/{number}/logs")[2], points)


def test_a_project_moves_with_all_it_has():
    with home() as h, home() as other:
        fill(h)
        other.submit("echo", "mine")
        other.wait_all()
        file = os.path.join(h.dir, "vision.tgz")
        assert export(h, "vision", file) == {"file": file, "jobs": 5, "unfinished": 1}
        p = export(h, "vision", file, check=False)
        assert p.returncode == 75 and "exists" in p.stderr, p.stderr
        p = export(h, "nothing", file + "2", check=False)
        assert p.returncode == 66 and "no project 'nothing'" in p.stderr, p.stderr
        p = bring(other, file, check=False)
        assert p.returncode == 75 and "--stop" in p.stderr, p.stderr
        told = bring(other, "--stop", file)
        assert told == {"file": file, "jobs": 5, "present": 0, "first": 2}, told
        assert bring(other, file)["jobs"] == 0
        other.start("--slots", "4")
        mine = {j["id"]: j["number"] for j in other.jobs(project="vision")}
        theirs = {j["id"]: j["number"] for j in h.jobs(project="vision") if j["state"] != "held"}
        assert set(mine) == set(theirs)
        for job, number in theirs.items():
            a, b = facts(h, number), facts(other, mine[job])
            assert a[:2] == b[:2], (a[:2], b[:2])
            assert a[2] == b[2], f"metrics of job {number}"
        trained = other.api("GET", f"/v1/jobs/{mine[h.api('GET', '/v1/jobs/3')['id']]}")
        assert trained["metrics"]["loss"], trained
        found = [os.path.join(d, n) for d, _, names in os.walk(os.path.join(other.home, "runs")) for n in names if n == "model"]
        assert len(found) == 1 and open(found[0]).read() == "weights"
        first = other.api("GET", "/v1/jobs/2")
        assert "hidden" not in json.dumps(first) and first["user"], first
        assert "a remark" in other.berth("note", "2").stdout
        assert "no fault found" in other.berth("doctor", check=False).stdout
        assert not [n for n in os.listdir(h.home) + os.listdir(other.home) if n.startswith((".export", ".import"))]
        new = other.submit("echo", "next")["number"]
        assert new == 1 + max(mine.values()), (new, mine)


def test_an_import_can_name_the_project_and_fills_an_empty_home():
    with home() as h, home(start=False) as other:
        h.submit("echo", "one", project="a")
        h.submit("echo", "two", project="b")
        h.wait_all()
        file = os.path.join(h.dir, "both.tgz")
        assert export(h, "a", "b", file)["jobs"] == 2
        assert bring(other, "--project", "old", file)["jobs"] == 2
        other.start()
        assert {j["project"] for j in other.jobs()} == {"old"}
        assert other.berth("logs", "1").stdout == "one\n"


def edited(file, edit, extra=None):
    """The file with its lines changed."""
    out = io.BytesIO()
    with tarfile.open(file) as old, tarfile.open(fileobj=out, mode="w:gz") as new:
        for m in old.getmembers():
            data = old.extractfile(m).read() if m.isfile() else None
            if m.name.endswith("export.jsonl"):
                lines = [json.loads(x) for x in data.decode().splitlines()]
                data = "".join(json.dumps(x) + "\n" for x in edit(lines)).encode()
                m.size = len(data)
            new.addfile(m, io.BytesIO(data) if data is not None else None)
        if extra:
            new.addfile(*extra)
    path = file + ".bad"
    with open(path, "wb") as f:
        f.write(out.getvalue())
    return path


def change(kind, **values):
    return lambda lines: [dict(x, **values) if x.get("is") == kind else x for x in lines]


def test_a_hostile_file_is_refused_as_a_whole():
    with home() as h, home() as other:
        h.submit("echo", "one", project="a")
        h.submit("sh", "-c", "exit 3", project="a")
        h.wait_all()
        file = os.path.join(h.dir, "a.tgz")
        export(h, "a", file)
        other.stop()
        link = tarfile.TarInfo("berth-export/../../x")
        bad = [
            (change("job", state="queued"), "has not finished"),
            (change("job", id="x"), "no id"),
            (change("job", number=0), "out of range"),
            (change("job", spec=99), "not in the file"),
            (change("job", priority="high"), "refuses"),
            (change("job", series=[{"name": "x", "blocks": [{"n": 3, "data": "ff"}]}]), "cannot be read"),
            (change("spec", body={"command": 3}), "a spec cannot be read"),
            (change("spec", key=0), "key"),
            (lambda lines: lines[1:], "format"),
            (lambda lines: [dict(lines[0], version=2)] + lines[1:], "newer"),
            (lambda lines: lines + [{"is": "virus"}], "unknown kind"),
        ]
        for edit, says in bad:
            p = bring(other, edited(file, edit), check=False)
            assert p.returncode in (2, 75) and says in p.stderr and p.stderr.count("\n") == 1, (says, p.stderr)
        p = bring(other, edited(file, lambda x: x, (link, io.BytesIO())), check=False)
        assert p.returncode != 0 and not os.path.exists(os.path.join(other.home, "x")), p.stderr
        with open(file + ".cut", "wb") as f, open(file, "rb") as g:
            f.write(g.read()[:-20])
        assert bring(other, file + ".cut", check=False).returncode != 0
        with gzip.open(file + ".gz", "wb") as f:
            f.write(b"no tar")
        assert bring(other, file + ".gz", check=False).returncode != 0
        other.start()
        assert not other.jobs() and "no fault found" in other.berth("doctor", check=False).stdout


if __name__ == "__main__":
    harness.main(__name__)
