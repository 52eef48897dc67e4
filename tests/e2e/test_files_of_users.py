"""Files are touched with the rights of whom they belong to: a daemon of root, two users, and nodes over SSH.

The users are uids 65533 and 65534 through setpriv, which needs root; without root the tests are skipped.
"""
import os
import shutil
import subprocess
import tempfile

import harness
from fake_engine import FakeEngine
from harness import Skip
from test_security import as_user
from test_ssh_node import Far

A, B = 65533, 65534


def need_root():
    if os.getuid() != 0:
        raise Skip("needs root to be two users")


class Users(harness.Home):
    """A daemon of root for several users."""

    def __init__(self, *args):
        need_root()
        super().__init__()
        os.chmod(self.dir, 0o755)
        self.start("--multi-user", "--slots", "4", *args)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class FarUsers(Far):
    """The same, with nodes over SSH."""

    def __init__(self):
        need_root()
        super().__init__()
        os.chmod(self.dir, 0o755)

    def __enter__(self):
        return self.start("--multi-user", "--slots", "1")


def run_as(uid, script, *args):
    """What a shell of that user prints."""
    return subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "sh", "-c", script, *args],
                          capture_output=True, text=True, timeout=120, cwd="/")


def submit_as(uid, h, *argv, **spec):
    """Number of a job of that user."""
    status, said = as_user(uid, h, ("POST", "/v1/jobs", {"command": list(argv), "cwd": "/", **spec}))
    assert status == 201, said
    return said["number"]


def end_of(h, number):
    return harness.wait_for(f"the end of job {number}", lambda: (j := h.api("GET", f"/v1/jobs/{number}"))["ended"] and j)


def log_of(h, number, uid=None, more=""):
    status, text = as_user(uid, h, ("GET", f"/v1/jobs/{number}/logs{more}")) if uid else \
        (lambda r: (r[0], r[2].decode()))(h.request("GET", f"/v1/jobs/{number}/logs{more}"))
    return status, text


# -- assets of nodes over SSH --

def test_assets_are_read_with_the_rights_of_the_submitter():
    with FarUsers() as h:
        h.add("far", "--slots", "2")
        files = tempfile.mkdtemp(prefix="assets-", dir=h.dir)
        os.chmod(files, 0o755)
        for name, uid, mode in (("mine", A, 0o600), ("theirs", B, 0o600), ("roots", 0, 0o600), ("everybodys", 0, 0o644)):
            path = os.path.join(files, name)
            with open(path, "w") as f:
                f.write(f"content of {name}\n")
            os.chown(path, uid, uid)
            os.chmod(path, mode)
        closed = os.path.join(files, "closed")
        os.mkdir(closed, 0o700)
        shutil.copy(os.path.join(files, "everybodys"), os.path.join(closed, "inside"))
        os.symlink("/etc/shadow", os.path.join(files, "link"))
        for bad in ("/etc/shadow", os.path.join(h.home, "token"), os.path.join(h.home, "berth.db"), files + "/theirs", files + "/roots",
                    files + "/link:x", closed, closed + "/inside", "/proc/self/maps:x", "/proc/self/environ:x", "/proc/self/fd:x", files):
            n = submit_as(A, h, "sh", "-c", "ls -R; cat *", nodes=["far"], assets=[bad])
            job = end_of(h, n)
            assert job["state"] == "failed", (bad, job, log_of(h, n))
            assert f"asset {bad.split(':')[0]}" in job["reason"] and "cannot be read" in job["reason"], (bad, job["reason"])
        for good in (files + "/mine", files + "/everybodys"):
            n = submit_as(A, h, "sh", "-c", "cat *", nodes=["far"], assets=[good])
            assert end_of(h, n)["state"] == "succeeded", h.api("GET", f"/v1/jobs/{n}")
            assert log_of(h, n, A) == (200, f"content of {os.path.basename(good)}\n")
        # The owner's own jobs may read what the owner may.
        n = h.sh("cat roots", ["far"], assets=[files + "/roots"])
        assert end_of(h, n)["state"] == "succeeded" and log_of(h, n)[1] == "content of roots\n"


def test_copies_of_output_belong_to_the_submitter():
    with FarUsers() as h:
        h.add("far", "--slots", "2")
        script = "echo out; echo err >&2; mkdir -p $BERTH_RUN_DIR/artifacts; echo kept > $BERTH_RUN_DIR/artifacts/x; " \
                 """echo '{"k":"p","n":"seen","x":1}' >> $BERTH_RUN_DIR/spool.jsonl"""
        n = submit_as(A, h, "sh", "-c", script, nodes=["far"], split_output=True)
        mine = h.sh(script, ["far"], split_output=True)
        for number, uid in ((n, A), (mine, 0)):
            assert end_of(h, number)["state"] == "succeeded", h.api("GET", f"/v1/jobs/{number}")
            run = os.path.join(h.home, "runs", "0", f"{number}.1")
            for path in (run + ".log", run + ".err", run, run + "/spool.jsonl"):
                st = os.stat(path)
                assert (st.st_uid, st.st_mode & 0o077) == (uid, 0), (path, st.st_uid, oct(st.st_mode))
            assert run_as(B, "cat $0.log $0.err $0/*; ls $0", run).stdout == ""
        assert log_of(h, n, A) == (200, "out\n") and log_of(h, n, A, "?stream=err") == (200, "err\n")


# -- what the API returns --

def make_secret(h):
    """A file in the home's file system that only root can read."""
    path = os.path.join(h.dir, "secret-of-root")
    with open(path, "w") as f:
        f.write('{"k":"p","n":"stolen","x":"yes"}\n' * 3)
    os.chmod(path, 0o600)
    return path


def test_links_in_the_directory_of_a_run_lead_nowhere():
    """A job may put what it likes into its directory; the daemon opens none of it that its user could not open."""
    with Users() as h:
        secret = make_secret(h)
        script = f"""cd $BERTH_RUN_DIR; mkdir artifacts; cd artifacts
            echo fine > good; ln -s {secret} link; ln -s {h.dir} dir; ln -s .. up; mkfifo pipe; ln -s good near
            for name in good link dir/secret-of-root up/artifacts/good pipe near hard ../../../../secret-of-root; do
                echo '{{"k":"a","n":"'$name'","x":"'$BERTH_RUN_DIR/artifacts/$name'"}}' >> ../spool.jsonl
            done
            ln -s {secret} $BERTH_HOME/runs/0/$BERTH_RUN.log; rm -f $BERTH_HOME/runs/0/$BERTH_RUN.err
            until [ -e hard ]; do sleep 0.05; done; echo end"""
        n = submit_as(A, h, "sh", "-c", script, split_output=True)
        run = os.path.join(h.home, "runs", "0", f"{n}.1")
        harness.wait_for("the artifacts", lambda: os.path.exists(run + "/artifacts/near"))
        # As a user could where fs.protected_hardlinks is 0: a second name of a file of root.
        os.link(secret, run + "/artifacts/hard")
        assert end_of(h, n)["state"] == "succeeded"
        listed = {x["name"]: x["bytes"] for x in as_user(A, h, ("GET", f"/v1/jobs/{n}/artifacts"))[1]["items"]}
        assert listed.pop("good") == 5 and len(listed) == 7 and set(listed.values()) == {None}, listed
        assert as_user(A, h, ("GET", f"/v1/jobs/{n}/artifact?name=good")) == (200, "fine\n")
        for name in listed:
            status, said = as_user(A, h, ("GET", f"/v1/jobs/{n}/artifact?name={name}"))
            assert status == 404 and "stolen" not in str(said), (name, status, said)
        assert log_of(h, n, A) == (200, "end\n") and "stolen" not in str(log_of(h, n, A, "?stream=err"))
        assert "stolen" not in str(log_of(h, n, A, "?follow=1"))


def test_a_spool_that_is_something_else_is_not_read():
    with Users() as h:
        secret = make_secret(h)
        for make in (f"ln -s {secret} spool.jsonl", "mkfifo spool.jsonl", "mkdir spool.jsonl", "until [ -e spool.jsonl ]; do sleep 0.05; done"):
            n = submit_as(A, h, "sh", "-c", f"cd $BERTH_RUN_DIR; {make}; echo made")
            run = os.path.join(h.home, "runs", "0", f"{n}.1")
            if "until" in make:
                harness.wait_for("the directory", lambda: os.path.exists(run))
                os.link(secret, run + "/spool.jsonl")
            job = end_of(h, n)
            assert job["state"] == "succeeded" and job["logged_params"] == {}, (make, job)


# -- mounts --

def test_mounts_are_made_with_the_rights_of_the_submitter():
    with Users() as h:
        secret = os.path.join(h.dir, "closed")
        os.makedirs(secret + "/open")
        os.chmod(secret, 0o700)
        mine = os.path.join(h.dir, "mine")
        os.mkdir(mine)
        os.chown(mine, A, A)
        run_as(A, f"echo kept > {mine}/file; ln -s {secret}/open {mine}/link; ln -s {mine} {mine}/self")
        for source, target in ((secret + "/open", "/custom"), (mine + "/link", "/custom"),
                               ("/proc/self/cwd", "/custom"), ("/tmp", secret + "/open"), ("/tmp", mine + "/link")):
            n = submit_as(A, h, "ls", "-la", target, mounts=[f"{source}:{target}", f"{mine}:/other"])
            job = end_of(h, n)
            assert job["state"] == "failed" and "cannot mount" in job["reason"], (source, target, job, log_of(h, n))
        n = submit_as(A, h, "cat", "/custom/file", "/custom/self/file", mounts=[mine + ":/custom"])
        assert end_of(h, n)["state"] == "succeeded" and log_of(h, n, A) == (200, "kept\n" * 2), log_of(h, n)
        assert not os.path.exists("/custom")


def test_volumes_of_containers_are_checked_as_the_submitter():
    need_root()
    with FakeEngine() as g, Users("--engine", g.url) as h:
        os.chmod(g.dir, 0o755)
        os.chmod(g.sock, 0o666)
        g.images.add("x:1")
        secret = os.path.join(h.dir, "closed")
        os.makedirs(secret + "/open")
        os.chmod(secret, 0o700)
        mine = os.path.join(h.dir, "mine")
        os.mkdir(mine)
        os.chown(mine, A, A)
        run_as(A, f"mkdir {mine}/data; ln -s {secret}/open {mine}/link; ln -s data {mine}/near")
        for bad in (secret, secret + "/open", mine + "/link", mine + "/missing", "/proc/1/root", "/etc/shadow"):
            n = submit_as(A, h, "true", image="x:1", mounts=[bad + ":/data"])
            assert end_of(h, n)["state"] == "failed", bad
            assert f"user {A} cannot mount {bad}: " in log_of(h, n, A)[1], (bad, log_of(h, n, A))
        assert not g.created and not os.path.exists(mine + "/missing")
        n = submit_as(A, h, "true", image="x:1", mounts=[mine + "/near:/data:ro"])
        assert end_of(h, n)["state"] == "succeeded", log_of(h, n)
        assert g.created[0]["HostConfig"]["Binds"][0] == mine + "/data:/data:ro", g.created


if __name__ == "__main__":
    harness.main(__name__)
