"""Files are touched with the rights of whom they belong to: a daemon of root, two users, and nodes over SSH.

The users are uids 65533 and 65534 through setpriv, which needs root; without root the tests are skipped.
"""
import gzip
import http.client
import os
import pwd
import shutil
import signal
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
        h.add("far", "--slots", "2", "--as", f"{A}=root")
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
        h.add("far", "--slots", "2", "--as", f"{A}=root")
        script = "echo out; echo err >&2; mkdir -p $BERTH_RUN_DIR/artifacts; echo kept > $BERTH_RUN_DIR/artifacts/x; " \
                 """echo '{"k":"p","n":"seen","x":1}' >> $BERTH_RUN_DIR/spool.jsonl"""
        n = submit_as(A, h, "sh", "-c", script, nodes=["far"], split_output=True)
        mine = h.sh(script, ["far"], split_output=True)
        for number, uid in ((n, A), (mine, 0)):
            assert end_of(h, number)["state"] == "succeeded", h.api("GET", f"/v1/jobs/{number}")
            run = h.run_path(number)
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
            ln -s {secret} $BERTH_RUN_DIR.log; rm -f $BERTH_RUN_DIR.err
            until [ -e hard ]; do sleep 0.05; done; echo end"""
        n = submit_as(A, h, "sh", "-c", script, split_output=True)
        run = h.run_path(n)
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
            run = h.run_path(n)
            if "until" in make:
                harness.wait_for("the directory", lambda: os.path.exists(run))
                os.link(secret, run + "/spool.jsonl")
            job = end_of(h, n)
            assert job["state"] == "succeeded" and job["logged_params"] == {}, (make, job)


def test_a_snapshot_is_read_with_the_rights_of_its_user():
    """The store of a user's snapshots is that user's: its directories may be links by now."""
    with Users() as h:
        tree = os.path.join(h.dir, "tree")
        os.mkdir(tree)
        with open(os.path.join(tree, "code"), "w") as f:
            f.write("harmless\n" * 100)
        os.chown(tree, A, A)
        took = subprocess.run(["setpriv", f"--reuid={A}", f"--regid={A}", "--clear-groups", harness.BERTH, "submit", "--snapshot", "--", "true"],
                              env=h.env, cwd=tree, capture_output=True, text=True, timeout=120)
        assert took.returncode == 0, took
        end_of(h, 1)
        status, _, data = h.request("GET", "/v1/jobs/1/snapshot")
        assert status == 200 and b"harmless" in gzip.decompress(data)
        blobs = os.path.join(h.home, "snapshots", str(A), "blobs")
        trap = os.path.join(h.dir, "trap")
        os.mkdir(trap, 0o711)
        os.chmod(trap, 0o711)
        for shard in os.listdir(blobs):
            for name in os.listdir(os.path.join(blobs, shard)):
                with open(os.path.join(trap, name), "w") as f:
                    f.write("stolen!!\n" * 100)
                os.chmod(os.path.join(trap, name), 0o600)
            p = run_as(A, f"cd {blobs} && mv {shard} ../{shard} && ln -s {trap} {shard}")
            assert p.returncode == 0, p
        try:
            status, _, data = h.request("GET", "/v1/jobs/1/snapshot")
            text = gzip.decompress(data) if status == 200 else data
        except (OSError, EOFError, http.client.HTTPException):
            text = b""  # cut short, so that nobody takes it for a whole one
        assert b"stolen" not in text, text


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


# -- the home --

def test_nothing_of_a_home_can_be_listed_or_read():
    """Every directory and file that a daemon makes, after jobs of every kind that makes files."""
    with FarUsers() as h:
        h.add("far", "--slots", "2", "--as", f"{A}=root")
        tree = os.path.join(h.dir, "tree")
        os.mkdir(tree)
        with open(os.path.join(tree, "code"), "w") as f:
            f.write("code\n")
        os.chown(tree, A, A)
        keep = "mkdir -p $BERTH_RUN_DIR/artifacts; echo x > $BERTH_RUN_DIR/artifacts/x; echo '{}' >> $BERTH_RUN_DIR/spool.jsonl; cat code"
        took = subprocess.run(["setpriv", f"--reuid={A}", f"--regid={A}", "--clear-groups", harness.BERTH, "submit", "--snapshot",
                               "--", "sh", "-c", keep], env=h.env, cwd=tree, capture_output=True, text=True, timeout=120)
        assert took.returncode == 0, took
        numbers = [1, submit_as(A, h, "sh", "-c", keep, nodes=["far"], split_output=True, assets=[tree + "/code"]),
                   submit_as(A, h, "true", params={"lr": 1}, mounts=["/tmp:/custom"]),
                   h.sh(keep, ["far"], split_output=True), h.submit("sh", "-c", keep, params={"lr": 1})["number"]]
        for n in numbers:
            end_of(h, n)
        assert end_of(h, 1)["state"] == "succeeded", log_of(h, 1)
        seen = [os.path.join(root, name) for root, dirs, files in os.walk(h.home) for name in [""] + dirs + files]
        assert any("/snapshots/" in p for p in seen) and any("/artifacts/x" in p for p in seen), seen
        assert os.lstat(h.home).st_mode & 0o077 == 0o011
        # Every name is known to B, as if all could be guessed.
        script = 'for p; do [ -S "$p" ] || { [ -r "$p" ] && echo "read $p"; [ -w "$p" ] && echo "write $p"; }; done'
        p = run_as(B, script, "sh", *seen)
        assert p.stdout == "", p.stdout


def test_a_home_of_one_user_is_closed_to_others():
    with Users() as h:
        n = submit_as(A, h, "true")
        end_of(h, n)
        h.stop()
        runs = os.path.join(h.home, "runs", "0")
        os.chmod(runs, 0o755)
        h.start("--multi-user")
        assert os.stat(runs).st_mode & 0o777 == 0o711
        n = submit_as(A, h, "sh", "-c", "cd $BERTH_RUN_DIR && pwd")
        assert end_of(h, n)["state"] == "succeeded" and run_as(B, "ls $0 $0/*", runs).stdout == ""


# -- accounts on nodes --

class Accounts(FarUsers):
    """Users with a name, who can log in to the nodes as well; gone afterwards."""

    def __init__(self, *names):
        super().__init__()
        if not shutil.which("useradd"):
            raise Skip("useradd is not installed")
        self.users, self.homes = {}, os.path.join(self.dir, "homes")
        os.mkdir(self.homes)
        os.chmod(self.rig.dir, 0o711)
        for name in names:
            login = f"b{name}{os.getpid()}"
            subprocess.run(["useradd", "-m", "-d", os.path.join(self.homes, name), "-s", "/bin/sh", "-p", "*", login], check=True,
                           capture_output=True)
            self.users[name] = pwd.getpwnam(login)

    def __exit__(self, *args):
        super().__exit__(*args)
        for name in self.users.values():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    if os.stat(f"/proc/{pid}").st_uid == name.pw_uid:
                        os.kill(int(pid), signal.SIGKILL)
                except OSError:
                    continue
            subprocess.run(["userdel", "-f", name.pw_name], capture_output=True)

    def add_with(self, name, *options):
        """A node on which each user has their own HOME."""
        match = [line for u in self.users.values() for line in (f"Match User {u.pw_name}", f'  SetEnv "HOME={u.pw_dir}"')]
        return self.add(name, "--slots", "4", *options, options=match)

    def submit(self, name, *argv, **spec):
        u = self.users.get(name)
        return submit_as(u.pw_uid, self, *argv, **spec) if u else \
            self.api("POST", "/v1/jobs", {"command": list(argv), "cwd": "/", **spec})["number"]

    def explain(self, number):
        return self.api("GET", f"/v1/jobs/{number}/explain")


def test_a_user_runs_on_a_node_under_their_own_account_only():
    with Accounts("alice", "bob", "carol") as h:
        alice, bob, carol = (h.users[n] for n in ("alice", "bob", "carol"))
        h.add_with("far", "--as", f"{alice.pw_name}={alice.pw_name}", "--as", f"{bob.pw_uid}={carol.pw_name}@far")
        who = ("sh", "-c", "id -un; cat $HOME/.ssh-home 2>/dev/null; pwd")
        root = h.submit("root", *who, nodes=["far"])
        one = h.submit("alice", *who, nodes=["far"])
        two = h.submit("bob", *who, nodes=["far"])  # under the account that was named for them
        none = h.submit("carol", *who, nodes=["far"])
        for number, login in ((root, "root"), (one, alice.pw_name), (two, carol.pw_name)):
            assert end_of(h, number)["state"] == "succeeded", (h.api("GET", f"/v1/jobs/{number}"), h.log_text())
            assert log_of(h, number)[1].splitlines()[0] == login, log_of(h, number)
        why = h.explain(none)
        assert why["kind"] == "no_account", why
        assert f"node far has no account for user {carol.pw_name}; the owner can add one" in why["text"], why
        # Where another node will do, the job runs there.
        here = h.submit("carol", "id", "-un")
        assert end_of(h, here)["runs"][0]["node"] != "far" and log_of(h, here)[1].strip() == carol.pw_name
        h.api("POST", "/v1/jobs/cancel", {"jobs": [str(none)]})
        # A file is read as the user here and belongs to the account there.
        path = os.path.join(alice.pw_dir, "data")
        with open(path, "w") as f:
            f.write("of alice\n")
        os.chmod(path, 0o600)
        os.chown(path, alice.pw_uid, alice.pw_gid)
        n = h.submit("alice", "sh", "-c", "cat data; stat -c %U data", nodes=["far"], assets=[path])
        assert end_of(h, n)["state"] == "succeeded" and log_of(h, n)[1] == f"of alice\n{alice.pw_name}\n", log_of(h, n)
        n = h.submit("bob", "cat", "data", nodes=["far"], assets=[path])
        assert end_of(h, n)["state"] == "failed" and f"asset {path} cannot be read" in h.api("GET", f"/v1/jobs/{n}")["reason"]


def test_runs_of_accounts_survive_the_daemon():
    with Accounts("alice", "bob") as h:
        h.add_with("far", "--as", "%u")
        go = os.path.join(h.dir, "go")
        script = f"id -un; echo begun; until [ -e {go} ]; do sleep 0.05; done; echo over; exit 7"
        numbers = {h.submit(n, "sh", "-c", script, nodes=["far"]): n for n in ("alice", "bob", "root")}
        for n in numbers:
            harness.wait_for("its first line", lambda: "begun" in log_of(h, n)[1])
        h.kill()
        h.start("--multi-user", "--slots", "1")
        open(go, "w").close()
        for n, name in numbers.items():
            job = end_of(h, n)
            login = h.users[name].pw_name if name != "root" else "root"
            assert (job["exit_code"], job["attempt"]) == (7, 1) and log_of(h, n)[1] == f"{login}\nbegun\nover\n", (job, log_of(h, n))
        # A stop reaches the run of another account too.
        n = h.submit("bob", "sleep", "600", nodes=["far"])
        harness.wait_for("its start", lambda: h.api("GET", f"/v1/jobs/{n}")["state"] == "running")
        h.api("POST", "/v1/jobs/cancel", {"jobs": [str(n)]})
        assert end_of(h, n)["state"] == "cancelled"


def test_without_accounts_a_node_is_the_owners():
    with Accounts("alice") as h:
        h.add_with("far")
        n = h.submit("alice", "id", "-un", nodes=["far"])
        why = harness.wait_for("the reason", lambda: (w := h.explain(n))["kind"] == "no_account" and w)
        assert "has no account for user" in why["text"]
        assert end_of(h, h.submit("root", "true", nodes=["far"]))["state"] == "succeeded"
        h.api("POST", "/v1/jobs/cancel", {"jobs": [str(n)]})
        # An account that refuses the login fails its own jobs and leaves the node to others.
        h.berth("node", "rm", "far")
        nobody = f"nobody{os.getpid()}"
        for bad, word in ((f"{nobody}=x", f"there is no user '{nobody}'"), ("alice", "is not USER=LOGIN"), ("%u@-x", "is not USER=LOGIN"), ("0=-oProxyCommand=x", "is not USER=LOGIN")):
            p = h.berth("node", "add", "ssh://far", "--as", bad, check=False)
            assert p.returncode != 0 and word in p.stderr, (bad, p)
        h.berth("node", "add", "ssh://far", "--as", f"{h.users['alice'].pw_name}={nobody}", "--wait", "2m", timeout=150)
        n = h.submit("alice", "true", nodes=["far"])
        job = end_of(h, n)
        assert job["state"] == "failed" and f"node far cannot be used as ssh://{nobody}@far" in job["reason"], job
        assert end_of(h, h.submit("root", "true", nodes=["far"]))["state"] == "succeeded"


if __name__ == "__main__":
    harness.main(__name__)
