"""hyperctl on other machines while `berth serve` runs: the batch is visible there, whoever is killed; key agents."""
import json
import os
import re
import shutil
import subprocess
import time

import harness
from harness import BERTH, Skip
from hyper_rig import job
from test_hyperctl_ssh import Far
from test_hyperctl_ssh_logins import everything_below


class Served(Far):
    """A user with a daemon, which was started where nothing of the later logins is known."""

    def __init__(self):
        super().__init__()
        self.sock = os.path.join(self.dir, "berth", "sock")
        self.serve()

    def serve(self):
        env = {k: v for k, v in self.env.items() if k != "SSH_AUTH_SOCK"}
        self.daemon = subprocess.Popen([BERTH, "serve"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.started.append(self.daemon)
        self.wait_until(lambda: self.berth("ls").returncode == 0, "the daemon")

    def berth(self, *args):
        return subprocess.run([BERTH, *args, "--no-start"], env=self.env, capture_output=True, text=True, timeout=120)

    def listed(self, what, *args):
        p = self.berth(what, *args, "-o", "json")
        assert p.returncode == 0, p.stderr
        return json.loads(p.stdout)

    def far_nodes(self):
        return {n["name"]: n for n in self.listed("nodes") if n["name"].startswith("hyperctl.")}

    @staticmethod
    def wait_until(true, what, seconds=120):
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, what
            time.sleep(0.05)


def once(host, name):
    """A job that notes that it started and waits for a file."""
    return job(name, f"echo {name} >> {host.home}/started; while [ ! -e {host.home}/go ]; do sleep 0.05; done; echo done {name}")


def started(host):
    try:
        with open(os.path.join(host.home, "started")) as f:
            return f.read().split()
    except FileNotFoundError:
        return []


def let_go(host):
    open(os.path.join(host.home, "go"), "w").close()


def test_the_daemon_shows_it():
    with Served() as at:
        a, b = at.host("a"), at.host("b", password="word of b $(x)")
        config = at.far_batch("seen", [once(a, "j1"), once(a, "j2"), job("j3", "echo three")], at.machine(a, slots=2),
                              at.machine(b, ssh_rsa_file=None, password=b.password))
        os.chmod(config, 0o600)
        notes = os.path.join(a.home, "started")
        open(notes, "w").close()
        os.chmod(notes, 0o666)  # both logins write there
        p = at.start(config)
        at.wait_until(lambda: at.exists("seen", "j1.running") and at.exists("seen", "j2.running"), "two running jobs")
        jobs = {j["name"]: j for j in at.listed("ls", "--project", "hyperctl")}
        assert jobs["j1"]["state"] == jobs["j2"]["state"] == "running" and jobs["j1"]["batch_name"] == "seen", jobs
        nodes = at.far_nodes()
        assert len(nodes) == 2 and all(n["reserved"] and n["state"] == "up" for n in nodes.values()), nodes
        assert sum(n["running"] for n in nodes.values()) >= 2
        # What others submit stays away from machines that are not theirs.
        assert at.berth("run", "--", "true").returncode == 0
        mine = at.listed("ls", "--state", "succeeded")
        assert not any(n["node"].startswith("hyperctl.") for n in mine if n["project"] != "hyperctl" and n.get("node")), mine
        for path, text in everything_below(os.path.join(at.dir, "berth")):
            assert b.password not in text, path
        let_go(a)
        assert p.wait(120) == 0, p.stdout.read()
        assert at.ended("seen") == {"j1": "succeed", "j2": "succeed", "j3": "succeed"}
        assert at.read("seen", "j1", "stdout") == "done j1\n" and at.read("seen", "j3", "stdout") == "three\n"
        assert sorted(started(a)) == ["j1", "j2"] and at.far_nodes() == {}, (started(a), at.far_nodes())
        assert "all jobs finished" in at.ok("run", "-c", config)
        at.ok("run", "--no-daemon", "-c", at.far_batch("own", [job("x")], at.machine(a)))
        assert len(at.listed("ls", "--project", "hyperctl")) == 3


def test_the_daemon_is_killed():
    with Served() as at:
        a = at.host("a")
        names = [f"j{i}" for i in range(4)]
        p = at.start(at.far_batch("fall", [once(a, n) for n in names], at.machine(a, slots=2)))
        at.wait_until(lambda: len(started(a)) == 2, "two started jobs")
        at.daemon.kill()
        at.daemon.wait()
        let_go(a)
        assert p.wait(90) == 0, p.stdout.read()
        assert sorted(started(a)) == names and at.ended("fall") == dict.fromkeys(names, "succeed")
        assert [at.read("fall", n, "stdout") for n in names] == [f"done {n}\n" for n in names]


def test_another_daemon_takes_over():
    with Served() as at:
        a = at.host("a")
        names = [f"j{i}" for i in range(3)]
        config = at.far_batch("next", [once(a, n) for n in names], at.machine(a, slots=2))
        p = at.start(config)
        at.wait_until(lambda: len(started(a)) == 2, "two started jobs")
        p.kill()
        at.daemon.kill()
        p.wait()
        at.daemon.wait()
        at.serve()
        # Nobody has told this one how to reach the machine: its runs wait, and it says so.
        why = at.listed("ls", "--project", "hyperctl", "--state", "queued")
        assert len(why) == 1, why
        said = at.berth("explain", str(why[0]["number"])).stdout
        assert "no connection to it is open" in said, said
        p = at.start(config)
        at.wait_until(lambda: any(n["state"] == "up" for n in at.far_nodes().values()), "the machine")
        let_go(a)
        assert p.wait(90) == 0, p.stdout.read()
        assert sorted(started(a)) == names and at.ended("next") == dict.fromkeys(names, "succeed")
        assert at.far_nodes() == {}


def test_key_agent():
    with Served() as at:
        if not shutil.which("ssh-agent"):
            raise Skip("ssh-agent is not installed")
        said = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
        found = dict(re.findall(r"(SSH_\w+)=([^;]+);", said))
        try:
            subprocess.run(["ssh-add", "-q", at.rig.key], env={**at.env, **found}, check=True, capture_output=True)
            a = at.host("a")
            os.rename(at.rig.key, at.rig.key + ".away")
            no_key = at.machine(a, ssh_rsa_file=None)
            p = at.call("run", "-c", at.far_batch("without", [job("j")], no_key))
            assert p.returncode == 1 and "test connection failed" in p.stderr, (p.stdout, p.stderr)
            for name, how in (("lent", ()), ("own", ("--no-daemon",))):
                at.ok("run", *how, "-c", at.far_batch(name, [job("j", "echo in")], no_key), **found)
                assert at.read(name, "j", "stdout") == "in\n"
        finally:
            os.kill(int(found["SSH_AGENT_PID"]), 15)


if __name__ == "__main__":
    harness.main("__main__")
