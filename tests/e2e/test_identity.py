"""A job is its id, not its number: a home whose database was put back never answers for another job."""
import glob
import os
import shutil
import sqlite3

import harness
from harness import Home, wait_for
from test_ssh_node import Far


def copy_database(h, to):
    """As docs/guide.md says: with the daemon running."""
    source, copy = sqlite3.connect(os.path.join(h.home, "berth.db")), sqlite3.connect(to)
    with copy:
        source.backup(copy)
    source.close()
    copy.close()


def put_back(h, copy):
    """With the daemon stopped."""
    for name in ("berth.db", "berth.db-wal", "berth.db-shm"):
        path = os.path.join(h.home, name)
        if os.path.exists(path):
            os.unlink(path)
    shutil.copy(copy, os.path.join(h.home, "berth.db"))


def ended(h, number):
    return wait_for(f"the end of job {number}", lambda: (j := h.api("GET", f"/v1/jobs/{number}"))["state"] in
                    ("succeeded", "failed", "cancelled", "lost") and j)


def output(h, number):
    """None before it has run."""
    status, _, text = h.request("GET", f"/v1/jobs/{number}/logs")
    return text.decode() if status == 200 else None


def sh(h, script, **spec):
    return h.submit("sh", "-c", script, **spec)["number"]


class Restored(Home):
    """A home with three finished jobs, and a copy of its database from then."""

    def __enter__(self):
        self.start()
        self.copy = os.path.join(self.dir, "copy.db")
        for n in (1, 2, 3):
            assert sh(self, f"echo kept {n}") == n
        self.wait_all()
        copy_database(self, self.copy)
        return self

    def __exit__(self, *_):
        self.close()

    def restore(self):
        self.stop()
        put_back(self, self.copy)
        self.start()


def test_new_jobs_have_their_own_outcome_and_output():
    with Restored() as h:
        assert sh(h, "echo old four; exit 44") == 4
        assert sh(h, "echo old five >&2; exit 5", split_output=True, params={"secret": "of the old job"}) == 5
        assert ended(h, 4)["exit_code"] == 44 and ended(h, 5)["exit_code"] == 5
        h.restore()
        assert [output(h, n) for n in (1, 2, 3)] == [f"kept {n}\n" for n in (1, 2, 3)]
        assert sh(h, "echo new four; exit 7") == 4
        assert sh(h, "echo new five; cat $BERTH_RUN_DIR/params.json || true") == 5
        assert ended(h, 4)["exit_code"] == 7 and output(h, 4) == "new four\n"
        assert ended(h, 5)["exit_code"] == 0 and "of the old job" not in output(h, 5), output(h, 5)
        assert output(h, 5).startswith("new five\n"), output(h, 5)
        status, _, text = h.request("GET", "/v1/jobs/5/logs?stream=err")
        assert status == 404, (status, text)
        # What the forgotten jobs printed is still there, for whoever looks for it.
        logs = [open(p).read() for p in glob.glob(os.path.join(h.home, "runs/0/4.1*.log"))]
        assert sorted(logs) == ["new four\n", "old four\n"], logs
        h.stop()
        h.start()  # and all of it stays so
        assert h.api("GET", "/v1/jobs/4")["exit_code"] == 7 and output(h, 4) == "new four\n"


def test_starts_that_were_under_way_are_not_those_of_new_jobs():
    """The database knows job 4 as starting; its run ended after the copy was made, and so did that of a new job 5."""
    with Restored() as h:
        four = sh(h, "echo waiting; read x < /dev/null; while [ ! -e go ]; do sleep 0.02; done; exit 44", cwd=h.dir)
        wait_for("output of job 4", lambda: output(h, four) == "waiting\n")
        copy_database(h, h.copy)
        assert sh(h, "exit 55") == 5
        assert ended(h, 5)["exit_code"] == 55
        open(os.path.join(h.dir, "go"), "w").close()
        assert ended(h, 4)["exit_code"] == 44
        h.restore()
        assert ended(h, 4)["exit_code"] == 44, "it is the same job: its outcome is right"
        assert sh(h, "exit 6") == 5
        assert ended(h, 5)["exit_code"] == 6


def test_a_run_of_a_forgotten_job_is_reported_and_left_alone():
    with Restored() as h:
        assert sh(h, "echo old; while [ ! -e go ]; do sleep 0.02; done; echo old ends; exit 44", cwd=h.dir) == 4
        pid = wait_for("job 4 runs", lambda: h.api("GET", "/v1/jobs/4")["runs"][-1:])[0]["pid"]
        pid = wait_for("its pid", lambda: h.api("GET", "/v1/jobs/4")["runs"][0]["pid"])
        h.restore()
        assert sh(h, "echo new; exit 7") == 4
        assert ended(h, 4)["exit_code"] == 7 and output(h, 4) == "new\n"
        os.kill(pid, 0)  # the old one goes on
        said = wait_for("a line in the log", lambda: [x for x in h.log_text().split("\n") if f"pid {pid}" in x])
        assert "4.1" in said[0] and "left running" in said[0], said
        doctor = h.berth("doctor", check=False).stdout
        assert f"pid {pid}" in doctor, doctor
        open(os.path.join(h.dir, "go"), "w").close()
        wait_for("the old run ends", lambda: not os.path.exists(f"/proc/{pid}"))
        assert h.api("GET", "/v1/jobs/4")["exit_code"] == 7 and output(h, 4) == "new\n"
        assert sorted(open(p).read() for p in glob.glob(os.path.join(h.home, "runs/0/4.1*.log"))) == ["new\n", "old\nold ends\n"]
        wait_for("doctor has nothing to say", lambda: f"pid {pid}" not in h.berth("doctor", check=False).stdout)


def test_the_token_of_a_forgotten_job_opens_nothing():
    with Restored() as h:
        assert sh(h, "printf %s $BERTH_JOB_TOKEN; exit 44") == 4
        ended(h, 4)
        token = output(h, 4)
        mine = {"Authorization": f"Bearer {token}"}
        assert h.request("GET", "/v1/jobs/4", headers=mine)[0] == 200
        h.restore()
        assert h.request("GET", "/v1/jobs/4", headers=mine)[0] == 401, "no job 4 is there"
        assert sh(h, "printf %s $BERTH_JOB_TOKEN; while [ ! -e go ]; do sleep 0.02; done", cwd=h.dir) == 4
        fresh = wait_for("its token", lambda: output(h, 4))
        for path in ("/v1/jobs/4", "/v1/jobs/4/logs", "/v1/jobs/4/control"):
            assert h.request("GET", path, headers=mine)[0] == 401, path
            assert h.request("GET", path, headers={"Authorization": f"Bearer {fresh}"})[0] == 200, path
        assert h.request("POST", "/v1/jobs/4/reports?run=1&offset=0", b'{"tag":"x"}\n', mine)[0] == 401
        open(os.path.join(h.dir, "go"), "w").close()
        ended(h, 4)
        assert h.request("GET", "/v1/jobs/4", headers=mine)[0] == 401
        assert h.request("GET", "/v1/jobs/4", headers={"Authorization": f"Bearer {fresh}"})[0] == 200


OLD = "echo old; while [ ! -e {go} ]; do sleep 0.02; done; echo old ends; exit 44"


def test_another_machine_does_not_answer_for_a_forgotten_job():
    with Far() as h:
        h.add("a", "--slots", "4")
        go, copy = os.path.join(h.dir, "go"), os.path.join(h.dir, "copy.db")
        assert h.ended(h.sh("echo one", ["a"]))["number"] == 1
        copy_database(h, copy)
        assert h.ended(h.sh("echo old; exit 44", ["a"], params={"secret": "of the old job"}))["exit_code"] == 44
        assert h.sh(OLD.format(go=go), ["a"]) == 3
        pid = h.wait("job 3 runs", lambda: h.out(3) == "old\n" and h.job(3)["runs"][0]["pid"])
        h.stop()
        put_back(h, copy)
        h.start()
        for n, code in ((2, 6), (3, 7)):
            assert h.sh(f"echo new {n}; cat $BERTH_RUN_DIR/params.json; exit {code}", ["a"]) == n
            assert h.ended(n)["exit_code"] == code, h.job(n)
            text = h.out(n)
            assert text.startswith(f"new {n}\n") and "of the old" not in text, text
        os.kill(pid, 0)
        said = h.wait("a line in the log", lambda: [x for x in h.log_text().split("\n") if f"pid {pid} there" in x])
        assert "run 3.1-" in said[0] and "left running" in said[0], said
        open(go, "w").close()
        wait_for("the old run ends", lambda: not os.path.exists(f"/proc/{pid}"))
        assert h.ended(h.sh("echo four; exit 4", ["a"]))["exit_code"] == 4
        assert h.job(3)["exit_code"] == 7 and "old" not in h.out(3)


def test_two_copies_of_a_home_use_one_account():
    """One after the other, as each connection ends the one before; both have jobs 2 and 3 there."""
    with Far() as h:
        h.add("a", "--slots", "4")
        assert h.ended(h.sh("echo one", ["a"]))["number"] == 1
        h.stop()
        other = Home(**{k: v for k, v in h.env.items() if k in ("BERTH_SSH", "BERTH_FAR", "BERTH_PYTHON")})
        try:
            shutil.copytree(h.home, other.home, ignore=shutil.ignore_patterns("sock"))
            h.start()
            go = os.path.join(h.dir, "go")
            assert h.ended(h.sh("echo first; exit 22", ["a"]))["exit_code"] == 22
            assert h.sh(OLD.format(go=go), ["a"]) == 3
            h.wait("job 3 of the first home", lambda: h.out(3) == "old\n")
            h.stop()
            other.start()
            for n, code in ((2, 5), (3, 6)):
                assert sh(other, f"echo second {n}; exit {code}", nodes=["a"]) == n
                assert ended(other, n)["exit_code"] == code and output(other, n) == f"second {n}\n"
            other.stop()
            open(go, "w").close()
            h.start()
            assert h.ended(3)["exit_code"] == 44 and h.out(3) == "old\nold ends\n", h.out(3)
            assert h.job(2)["exit_code"] == 22 and h.out(2) == "first\n"
        finally:
            other.close()


if __name__ == "__main__":
    harness.main(__name__)
