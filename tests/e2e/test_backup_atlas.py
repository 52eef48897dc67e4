"""berth backup and berth restore of a home that an Atlas server uses: archives and bundles belong to it."""
import json
import os
import shutil
import subprocess

import harness
from harness import BERTH, wait_for

harness.need_dialect("atlas")
from atlas_rig import Atlas  # noqa: E402

WRITES = "open('result.txt', 'w').write('seven')\nprint('done')\n"


def berth(a, *words, check=True):
    p = subprocess.run([BERTH, *words], env={**a.env, "BERTH_HOME": a.path("database")}, capture_output=True, text=True,
                       timeout=240)
    assert not check or p.returncode == 0, f"{words}: exit {p.returncode}\n{p.stdout}{p.stderr}"
    return p


def backup(a, *words):
    return json.loads(berth(a, "backup", "-o", "json", *words, os.path.join(a.dir, "copies")).stdout)


def restore(a, *words):
    return json.loads(berth(a, "restore", "-o", "json", *words, os.path.join(a.dir, "copies")).stdout)


def tree(root):
    """Relative path → bytes of every file."""
    found = {}
    for where, _, names in os.walk(root):
        for name in names:
            path = os.path.join(where, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, root)] = f.read()
    return found


def test_archives_and_bundles_come_back():
    with Atlas(workers=1) as a:
        gate = os.path.join(a.dir, "gate")
        waits = f"import os, time\nwhile not os.path.exists({gate!r}):\n    time.sleep(0.05)\nprint('through')\n"
        ended = a.submit({"main.py": WRITES, "data/input.txt": "six"})
        a.wait(ended, "completed")
        running = a.submit({"main.py": waits})
        a.wait(running, "running")
        waiting = a.submit({"main.py": WRITES})
        archive = a.path("job_data", "archive", ended)
        was = tree(archive)
        assert was["artifacts/result.txt"] == b"seven" and was["artifacts/data/input.txt"] == b"six", was

        first = backup(a)
        beside = os.path.join(first["path"], "beside", "atlas")
        assert not first["warnings"], first
        assert tree(os.path.join(beside, "job_data", "archive", ended)) == was
        result = os.path.join("job_data", "archive", ended, "artifacts", "result.txt")
        assert os.path.samefile(a.path(result), os.path.join(beside, result)), "nobody writes it any more: a link"
        assert not os.path.exists(os.path.join(beside, "job_bundle_store_dir", "contents", "tmp"))
        second = backup(a)
        assert second["unchanged"] >= len(was), second
        assert os.path.samefile(os.path.join(beside, result), os.path.join(second["path"], "beside", "atlas", result))

        a.stop()
        shutil.rmtree(a.path("job_data", "archive"))
        shutil.rmtree(a.path("job_bundle_store_dir"))
        told = restore(a)
        assert told["restored"] >= len(was) and not told["missing"] and not told["warnings"], told
        assert tree(archive) == was
        a.start()
        open(gate, "w").close()
        assert "through" in a.wait(running, "completed")["logs"]
        assert "done" in a.wait(waiting, "completed")["logs"], "the bundle of a waiting job came back too"
        assert tree(archive) == was


def test_a_newer_file_of_an_archive_is_kept():
    """Beside the home nothing tells whether a job still writes: what was written since the backup stays."""
    with Atlas() as a:
        job = a.submit({"main.py": WRITES})
        a.wait(job, "completed")
        kept = a.path("job_data", "archive", job, "user_artifacts", "notes.txt")
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        with open(kept, "w") as f:
            f.write("first")
        copy = backup(a)["path"]
        assert not os.path.samefile(kept, os.path.join(copy, "beside", "atlas", os.path.relpath(kept, a.home)))
        older = os.stat(kept).st_mtime_ns
        with open(kept, "w") as f:
            f.write("second")
        os.utime(kept, ns=(older + 10 ** 9, older + 10 ** 9))
        lost = a.path("job_data", "archive", job, "artifacts", "result.txt")
        os.unlink(lost)
        a.stop()
        told = restore(a)
        with open(kept) as f:
            assert f.read() == "second" and told["kept"] >= 1, told
        with open(lost) as f:
            assert f.read() == "seven"


def test_another_place():
    """Without a daemon; the archives go beside the new home, and only where it is a home of Atlas."""
    with Atlas() as a, Atlas() as other:
        job = a.submit({"main.py": WRITES})
        a.wait(job, "completed")
        was = tree(a.path("job_data", "archive", job))
        a.stop()
        backup(a, "--copy")
        p = berth(a, "backup", a.path("job_data", "archive", "inside"), check=False)
        assert p.returncode == 2 and "inside of" in p.stderr, p.stderr
        told = restore(a, "--to", os.path.join(a.dir, "elsewhere"))
        assert any("beside/atlas is not restored" in w for w in told["warnings"]), told
        assert not os.path.exists(os.path.join(a.dir, "job_data")), "nothing is put beside a home of another kind"
        other.stop()
        shutil.rmtree(other.home)
        told = restore(a, "--to", other.path("database"))
        assert not told["warnings"], told
        assert tree(other.path("job_data", "archive", job)) == was
        other.start()
        assert wait_for("the job in its new place", lambda: other.get("/completed_jobs"))[job]["status"] == "completed"
        assert other.http("GET", f"/{job}/artifacts/result.txt", port=3) == b"seven"


if __name__ == "__main__":
    harness.main(__name__)
