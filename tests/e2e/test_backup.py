"""berth backup and berth restore: complete copies while jobs run, and the way back while they still do."""
import contextlib
import json
import os
import pty
import re
import shutil
import sqlite3
import subprocess

import harness
from harness import Home, wait_for


@contextlib.contextmanager
def home(*serve, start=True):
    h = Home()
    h.copies = os.path.join(h.dir, "copies")
    try:
        if start:
            h.start(*serve)
        yield h
    finally:
        h.close()


def backup(h, *args):
    return json.loads(h.berth("backup", "-o", "json", *args, h.copies).stdout)


def restore(h, *args, source=None):
    return json.loads(h.berth("restore", "-o", "json", *args, source or h.copies).stdout)


def state(h, job):
    return h.api("GET", f"/v1/jobs/{job}")["state"]


def log(h, job, run=1):
    return h.request("GET", f"/v1/jobs/{job}/logs")[2].decode()


def gate(h, name):
    """A file for which jobs wait: (path, function that lets them go on)."""
    path = os.path.join(h.dir, name)
    return path, lambda: open(path, "w").close()


def until(path, then):
    return ["sh", "-c", f"echo begin; while ! test -e {path}; do sleep 0.05; done; {then}"]


def log_file(root, job, run=1):
    """The log of a run, whatever follows its number in the name."""
    found = [os.path.join(root, "runs", "0", n) for n in os.listdir(os.path.join(root, "runs", "0"))
             if n.endswith(".log") and n.startswith(f"{job}.{run}") and not n[len(f"{job}.{run}")].isdigit()]
    assert len(found) == 1, found
    return found[0]


# ---- backup ----

def test_a_backup_is_complete_and_links_what_nobody_writes():
    with home("--slots", "4") as h:
        path, go = gate(h, "go")
        h.submit("sh", "-c", "echo hello; mkdir -p $BERTH_RUN_DIR/artifacts; echo model > $BERTH_RUN_DIR/artifacts/m;"
                             "echo mine > $BERTH_RUN_DIR/mine")
        h.submit(*until(path, "exit 3"))
        wait_for("the first ended", lambda: state(h, 1) == "succeeded")
        wait_for("output of the second", lambda: "begin" in log(h, 2))
        first = backup(h)
        copy = first["path"]
        assert first["linked"] == 2 and not first["left_out"] and not first["warnings"], first
        assert os.stat(copy).st_mode & 0o777 == 0o700
        for name in ("secret", "token", "berth.db", "manifest.jsonl"):
            assert os.stat(os.path.join(copy, name)).st_mode & 0o777 == 0o600, name
        ended, going = log_file(h.home, 1), log_file(h.home, 2)
        assert os.path.samefile(ended, log_file(copy, 1)), "the log of an ended run is linked"
        assert not os.path.samefile(going, log_file(copy, 2)), "the log of a running run is copied"
        mine = ended[:-len(".log")] + "/mine"
        assert not os.path.samefile(mine, log_file(copy, 1)[:-len(".log")] + "/mine"), "what is the user's is copied"
        with open(mine, "w") as f:
            f.write("changed")
        with open(log_file(copy, 1)[:-len(".log")] + "/mine") as f:
            assert f.read() == "mine\n"
        assert not [n for n in os.listdir(copy) if "sock" in n or "lock" in n or n == "log"]
        go()
        wait_for("the second ended", lambda: state(h, 2) == "failed")
        second = backup(h)
        assert second["unchanged"] >= 4 and os.path.samefile(log_file(copy, 1), log_file(second["path"], 1))
        h.berth("rm", "1")
        shutil.rmtree(copy)
        with open(log_file(second["path"], 1)) as f:
            assert f.read() == "hello\n", "each copy is complete without the others"


def test_a_copy_shares_nothing_with_the_home():
    with home() as h:
        h.submit("echo", "hello")
        h.wait_all()
        backup(h)
        independent = backup(h, "--copy")
        assert not independent["linked"], independent
        assert not os.path.samefile(log_file(h.home, 1), log_file(independent["path"], 1))
        again = backup(h, "--copy")
        assert os.path.samefile(log_file(independent["path"], 1), log_file(again["path"], 1))


def test_a_backup_needs_no_daemon_and_checks_its_place():
    with home() as h:
        h.submit("echo", "hello")
        h.wait_all()
        h.stop()
        assert backup(h)["files"] >= 3
        assert not any("berth" in name for name, _ in h.processes().values() if "shepherd" not in name)
        p = h.berth("backup", os.path.join(h.home, "inside"), check=False)
        assert p.returncode == 2 and "inside of the home" in p.stderr, p.stderr
        assert not os.path.exists(os.path.join(h.home, "inside"))
        p = h.berth("restore", h.dir, check=False)
        assert p.returncode == 66 and "no backup in it" in p.stderr, p.stderr
        os.mkdir(os.path.join(h.copies, ".part-1"))
        backup(h)
        assert not [n for n in os.listdir(h.copies) if n.startswith(".")], "what a crash left is removed"


def test_a_long_backup_says_how_far_it_is():
    """On a terminal, also when the daemon makes the copy."""
    if not harness.build_option("fault_points"):
        raise harness.Skip("this build cannot be slowed down")
    with home(start=False) as h:
        h.env["BERTH_FAULT_BACKUP_FILE_MS"] = "10"
        h.start()
        h.submit("sh", "-c", "mkdir -p $BERTH_RUN_DIR && cd $BERTH_RUN_DIR && for i in $(seq 400); do echo $i > $i; done")
        h.wait_all()
        assert h.api("GET", "/v1/backup") == {"running": False, "files": 0, "bytes": 0}
        ours, theirs = pty.openpty()
        p = subprocess.Popen([harness.BERTH, "backup", h.copies], env=h.env, stdout=subprocess.PIPE, stderr=theirs, text=True)
        os.close(theirs)
        seen = ""
        with contextlib.suppress(OSError):  # the terminal is gone with the command
            while True:
                seen += os.read(ours, 4096).decode()
        os.close(ours)
        out = p.communicate()[0]
        assert p.returncode == 0 and "unchanged" in out, out
        counts = [int(n) for n in re.findall(r"Backup: (\d+) files, ", seen)]
        assert counts and 0 < max(counts) <= 420 and counts == sorted(counts), repr(seen)
        assert "still waiting" not in seen and seen.endswith("\r\033[K"), repr(seen)


# ---- restore ----

def test_restore_continues_running_jobs():
    """Jobs of the backup that still run end with their own exit codes; nothing answers for another job."""
    with home("--slots", "8") as h:
        a, go_a = gate(h, "a")
        b, go_b = gate(h, "b")
        h.submit("echo", "one")                                    # 1: ended before
        h.submit(*until(a, "echo two; exit 22"))                   # 2: runs until after the restore
        h.submit(*until(b, "echo three; exit 33"))                 # 3: ends between backup and restore
        h.submit("sh", "-c", "echo four >> runs-of-4; exit 44", cwd=h.dir, hold=True)   # 4: waits in the backup, runs since
        h.submit("sh", "-c", "echo never", hold=True)              # 5: waits, and still does
        wait_for("one", lambda: state(h, 1) == "succeeded")
        wait_for("two and three", lambda: all("begin" in log(h, n) for n in (2, 3)))
        backup(h)
        go_b()
        h.api("POST", "/v1/jobs/4/release")
        wait_for("three and four", lambda: state(h, 3) == "failed" and state(h, 4) == "failed")
        h.submit("sh", "-c", "echo six; exit 66")                  # 6, 7: newer
        h.submit(*until(a, "echo seven; exit 77"))
        wait_for("six and seven", lambda: state(h, 6) == "failed" and "begin" in log(h, 7))
        h.berth("rm", "1")
        p = h.berth("restore", h.copies, check=False)
        assert p.returncode == 75 and "--stop" in p.stderr, p.stderr
        dry = restore(h, "--dry-run")
        assert dry["newer_jobs"] == 2 and not os.path.exists(dry["set_aside_in"]), dry
        told = restore(h, "--stop")
        assert [x["job"] for x in told["newer"]] == [6, 7] and told["next_job"] == 8, told
        assert {(x["job"], x["known"]) for x in told["running"]} == {(2, True), (7, False)}, told
        assert told["returned_jobs"] == 1 and not told["missing"] and not told["altered"], told
        text = h.berth("restore", "--dry-run", h.copies).stdout
        assert "still running, and not known to the backup" in text and "(process " in text, text
        h.start("--slots", "8")
        assert state(h, 1) == "succeeded" and log(h, 1) == "one\n", "what was removed is back"
        assert state(h, 2) == "running", "it continues"
        assert (state(h, 3), log(h, 3)) == ("failed", "begin\nthree\n")
        assert h.api("GET", "/v1/jobs/3")["exit_code"] == 33
        assert h.api("GET", "/v1/jobs/4")["exit_code"] == 44
        assert state(h, 5) == "held"
        go_a()
        wait_for("two", lambda: state(h, 2) == "failed")
        assert h.api("GET", "/v1/jobs/2")["exit_code"] == 22 and log(h, 2) == "begin\ntwo\n"
        new = h.submit("sh", "-c", "echo eight; exit 88")
        wait_for("eight", lambda: h.jobs() and state(h, 8) == "failed")
        assert h.api("GET", "/v1/jobs/8")["exit_code"] == 88 and log(h, 8) == "eight\n", new
        with open(os.path.join(h.dir, "runs-of-4")) as f:
            assert f.read() == "four\n", "nothing ran twice"
        aside = told["set_aside_in"]
        with open(log_file(aside, 6)) as f:
            assert f.read() == "six\n"
        with contextlib.closing(sqlite3.connect(os.path.join(aside, "berth.db"))) as db:
            assert db.execute("SELECT count(*) FROM job").fetchone() == (6,)
        assert "no fault found" in h.berth("doctor", check=False).stdout


def test_restore_without_the_present_database():
    """The database is lost: locks and journals tell what has happened since the backup."""
    with home("--slots", "8") as h:
        a, go_a = gate(h, "a")
        h.submit(*until(a, "exit 11"))
        h.submit("sh", "-c", "echo two >> runs-of-2; exit 22", cwd=h.dir, hold=True)
        h.submit(*until(a, "exit 33"), hold=True)
        wait_for("one", lambda: "begin" in log(h, 1))
        backup(h)
        for job in (2, 3):
            h.api("POST", f"/v1/jobs/{job}/release")
        wait_for("two and three", lambda: state(h, 2) == "failed" and "begin" in log(h, 3))
        h.submit("echo", "four")
        wait_for("four", lambda: state(h, 4) == "succeeded")
        h.kill()
        for name in ("berth.db", "berth.db-wal", "berth.db-shm"):
            os.unlink(os.path.join(h.home, name))
        with open(os.path.join(h.home, "berth.db"), "w") as f:
            f.write("no database\n" * 1000)
        told = restore(h)
        assert told["next_job"] == 5 and told["present_database"], told
        h.start("--slots", "8")
        wait_for("two", lambda: state(h, 2) == "failed")
        assert h.api("GET", "/v1/jobs/2")["exit_code"] == 22
        go_a()
        wait_for("one and three", lambda: state(h, 1) == "failed" and state(h, 3) == "failed")
        assert [h.api("GET", f"/v1/jobs/{n}")["exit_code"] for n in (1, 3)] == [11, 33]
        with open(os.path.join(h.dir, "runs-of-2")) as f:
            assert f.read() == "two\n", "nothing ran twice"
        h.submit("echo", "five")
        wait_for("five", lambda: state(h, 5) == "succeeded")
        assert log(h, 5) == "five\n"
        assert "no fault found" in h.berth("doctor", check=False).stdout


def test_restore_of_a_database_alone():
    """New jobs do not get the numbers, outcomes and outputs of those that came after the backup."""
    with home() as h:
        h.submit("echo", "one")
        h.wait_all()
        file = os.path.join(h.dir, "copy.db")
        h.berth("backup", file)
        h.submit("sh", "-c", "echo old; exit 44")
        h.wait_all()
        told = restore(h, "--stop", source=file)
        assert told["next_job"] == 3 and [x["job"] for x in told["newer"]] == [2], told
        h.start()
        assert h.submit("sh", "-c", "echo new; exit 5")["number"] == 3
        h.wait_all()
        assert h.api("GET", "/v1/jobs/3")["exit_code"] == 5 and log(h, 3) == "new\n"
        assert log(h, 1) == "one\n"
        assert "no fault found" in h.berth("doctor", check=False).stdout


def test_restores_within_one_second():
    """What each replaced is set aside in a directory of its own."""
    with home() as h:
        h.submit("echo", "one")
        h.wait_all()
        file = os.path.join(h.dir, "copy.db")
        h.berth("backup", file)
        h.stop()
        told = [restore(h, source=file)["set_aside_in"] for _ in range(6)]
        assert len(set(told)) == len(told) and all(os.path.exists(os.path.join(d, "berth.db")) for d in told), told
        h.start()
        assert log(h, 1) == "one\n"


def test_restore_into_a_new_home():
    with home() as h, home(start=False) as other:
        h.submit("sh", "-c", "echo hello; mkdir -p $BERTH_RUN_DIR/artifacts; echo m > $BERTH_RUN_DIR/artifacts/m")
        h.wait_all()
        h.berth("tag", "1", "best=yes")
        copy = backup(h)["path"]
        told = json.loads(h.berth("restore", "-o", "json", "--to", other.home, copy).stdout)
        assert told["jobs"] == 1 and not told["set_aside"] and told["present_database"] is None, told
        other.start()
        assert log(other, 1) == "hello\n"
        assert other.api("GET", "/v1/jobs/1")["id"] == h.api("GET", "/v1/jobs/1")["id"]
        for name in ("secret", "token"):
            with open(os.path.join(h.home, name), "rb") as f, open(os.path.join(other.home, name), "rb") as g:
                assert f.read() == g.read() and os.fstat(g.fileno()).st_mode & 0o777 == 0o600


def test_restore_follows_no_link_of_a_user():
    """A user may put a link where a directory of a run was: nothing is written, renamed or read behind it."""
    with home() as h:
        h.submit("sh", "-c", "mkdir -p $BERTH_RUN_DIR/artifacts/d; echo m > $BERTH_RUN_DIR/artifacts/d/m")
        h.wait_all()
        backup(h)
        outside = os.path.join(h.dir, "outside")
        os.makedirs(os.path.join(outside, "d"))
        with open(os.path.join(outside, "d", "m"), "w") as f:
            f.write("not yours\n")
        artifacts = log_file(h.home, 1)[:-len(".log")] + "/artifacts"
        shutil.move(artifacts, artifacts + ".moved")
        os.symlink(outside, artifacts)
        told = restore(h, "--stop")
        assert told["set_aside"] >= 2 and told["restored"] == 1, told
        with open(os.path.join(outside, "d", "m")) as f:
            assert f.read() == "not yours\n" and os.listdir(outside) == ["d"]
        assert not os.path.islink(artifacts)
        with open(os.path.join(artifacts, "d", "m")) as f:
            assert f.read() == "m\n"


def test_files_of_users_keep_their_owners():
    """A daemon of root backs up what belongs to all users, and nobody else may ask for it."""
    if os.getuid():
        raise harness.Skip("only root can run jobs of several users")
    with home("--multi-user") as h:
        os.chmod(h.dir, 0o755)

        def as_other(*words):
            return subprocess.run([harness.BERTH, *words], env=dict(h.env, HOME="/"), text=True, capture_output=True,
                                  timeout=120, user=54321, group=54321, extra_groups=[], cwd="/")
        p = as_other("submit", "--wait", "--", "sh", "-c", "mkdir -p $BERTH_RUN_DIR/artifacts; echo m > $BERTH_RUN_DIR/artifacts/m")
        assert p.returncode == 0, p.stderr
        p = as_other("backup", os.path.join(h.dir, "stolen"))
        assert p.returncode != 0 and not os.path.exists(os.path.join(h.dir, "stolen")), p
        copy = backup(h)["path"]
        assert os.stat(h.copies).st_mode & 0o777 == 0o700
        h.berth("rm", "1")
        wait_for("the files are gone", lambda: not os.listdir(os.path.join(h.home, "runs", "0")))
        restore(h, "--stop")
        for root in (copy, h.home):
            log_path = log_file(root, 1)
            for path in (log_path, log_path[:-4], log_path[:-4] + "/artifacts/m"):
                assert os.stat(path).st_uid == 54321, path
            assert os.stat(log_path).st_mode & 0o777 == 0o600
        h.start("--multi-user")
        assert as_other("logs", "1").returncode == 0


def test_two_users_after_a_restore():
    """A whole home of root's is lost and restored: each user has their own files and jobs back, and sees nothing of the
    other's, neither through the daemon nor on the disk, in the home and in the copy."""
    if os.getuid():
        raise harness.Skip("only root can run jobs of several users")
    ann, ben = 54321, 54322
    with home("--multi-user") as h:
        os.chmod(h.dir, 0o755)
        os.makedirs(h.copies, 0o700)

        def run_as(user, *words):
            return subprocess.run(words, env=dict(h.env, HOME="/"), text=True, capture_output=True, timeout=120, user=user,
                                  group=user, extra_groups=[], cwd="/")

        def berth_as(user, *words):
            return run_as(user, harness.BERTH, *words)

        def submit_as(user, word):
            p = berth_as(user, "submit", "--wait", "--", "sh", "-c", f"echo {word}; mkdir -p $BERTH_RUN_DIR/artifacts;"
                         f" echo {word} > $BERTH_RUN_DIR/artifacts/m; echo {word} > $BERTH_RUN_DIR/own; chmod 0600 $BERTH_RUN_DIR/own")
            assert p.returncode == 0, p.stderr

        submit_as(ann, "anns")
        submit_as(ben, "bens")
        path, go = gate(h, "go")
        p = berth_as(ann, "submit", "--", *until(path, "exit 4"))  # runs through all of it
        assert p.returncode == 0, p.stderr
        wait_for("job 3 runs", lambda: state(h, 3) == "running" and "begin" in log(h, 3))
        copy = backup(h)["path"]
        h.stop()
        for n in (1, 2):  # their files are gone; the running job and the shepherd go on
            shutil.rmtree(log_file(h.home, n)[:-4])
            os.unlink(log_file(h.home, n))
        os.unlink(os.path.join(h.home, "berth.db"))
        told = restore(h)
        assert told["jobs"] == 3 and [(r["job"], r["known"]) for r in told["running"]] == [(3, True)], told
        h.start("--multi-user")
        owners = {1: ann, 2: ben, 3: ann}
        for root in (copy, h.home):
            for n, owner in owners.items():
                file = log_file(root, n)
                assert os.stat(file).st_uid == owner and os.stat(file).st_mode & 0o777 == 0o600, (root, n, os.stat(file))
                if n == 3:
                    continue
                folder = file[:-4]
                assert os.stat(folder).st_mode & 0o777 == 0o700, (folder, oct(os.stat(folder).st_mode))
                for where, dirs, files in os.walk(folder):
                    for name in [".", *dirs, *files]:
                        assert os.lstat(os.path.join(where, name)).st_uid == owner, (where, name)
                other = ben if owner == ann else ann
                for words in (["cat", file], ["ls", folder], ["cat", folder + "/own"], ["cat", folder + "/artifacts/m"],
                              ["ls", os.path.dirname(file)], ["cat", root + "/secret"], ["cat", root + "/berth.db"]):
                    p = run_as(other, *words)
                    assert p.returncode and not p.stdout, (words, p)
        assert berth_as(ann, "logs", "1").stdout == "anns\n" and berth_as(ben, "logs", "2").stdout == "bens\n"
        for user, number, word in ((ann, 2, "bens"), (ben, 1, "anns")):
            for words in (["logs", str(number)], ["show", str(number)], ["cancel", str(number)]):
                p = berth_as(user, *words)
                assert p.returncode and word not in p.stdout, (words, p)
            listed = json.loads(berth_as(user, "ls", "--all", "-o", "json").stdout)
            assert sorted(j["number"] for j in listed) == [n for n, u in owners.items() if u == user], listed
        go()
        wait_for("job 3 has ended", lambda: state(h, 3) == "failed")
        assert h.api("GET", "/v1/jobs/3")["exit_code"] == 4


def test_restore_says_what_is_missing_and_what_was_written_to():
    with home() as h:
        h.submit("echo", "one")
        h.submit("echo", "two")
        h.wait_all()
        copy = backup(h)["path"]
        os.unlink(log_file(copy, 1))
        with open(log_file(h.home, 2), "a") as f:  # a link: the backup has it too
            f.write("more\n")
        told = restore(h, "--dry-run")
        assert told["missing"] == 1 and told["altered"] == 1, told
        assert any("1.1" in w and "missing" in w for w in told["warnings"]), told
        with open(os.path.join(copy, "berth.db"), "r+b") as f:
            f.seek(4096)
            f.write(b"\xff" * 8192)
        h.stop()
        p = h.berth("restore", h.copies, check=False)
        assert p.returncode == 70 and "damaged" in p.stderr, p.stderr
        h.start()
        assert state(h, 1) == "succeeded", "a damaged backup replaces nothing"


if __name__ == "__main__":
    harness.main(__name__)
