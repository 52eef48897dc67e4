"""`berth node add ssh://…` with real OpenSSH servers: jobs elsewhere, and what happens to them when anything dies."""
import os
import signal
import time

import harness
from harness import Home, Skip
from ssh_rig import SshMissing, SshRig


class Far(Home):
    """A home with a daemon, and hosts of a rig as its nodes."""

    def __init__(self, **env):
        try:
            self.rig = SshRig()
        except SshMissing as x:
            raise Skip(str(x)) from x
        packages = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "python"))
        super().__init__(BERTH_SSH=self.rig.ssh, BERTH_FAR=harness.find_program("berth-far"), BERTH_PYTHON=packages, **env)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        try:
            self.close()
        finally:
            self.end_runs()
            self.rig.close()

    def end_runs(self):
        """Whatever a failed test left on the hosts."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    if f"HOME={self.rig.dir}".encode() in f.read() and int(pid) != os.getpid():
                        os.kill(int(pid), signal.SIGKILL)
            except OSError:
                continue

    def add(self, name, *options, **how):
        try:
            host = self.rig.host(name, **how)
        except SshMissing as x:
            raise Skip(str(x)) from x
        self.berth("node", "add", f"ssh://{name}", "--wait", "2m", *options, timeout=150)
        return host

    def node(self, name):
        return next(n for n in self.api("GET", "/v1/nodes")["items"] if n["name"] == name)

    def sh(self, script, nodes, **spec):
        return self.submit("sh", "-c", script, nodes=nodes, **spec)["number"]

    def job(self, number):
        return self.api("GET", f"/v1/jobs/{number}")

    def wait(self, what, cond, timeout=120):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            got = cond()
            if got:
                return got
            time.sleep(0.05)
        raise AssertionError(f"{what}: not within {timeout} s\n{self.log_text()}")

    def wait_state(self, number, *states):
        return self.wait(f"job {number} {states}", lambda: (j := self.job(number))["state"] in states and j)

    def ended(self, number):
        return self.wait_state(number, "succeeded", "failed", "cancelled", "lost")

    def out(self, number):
        return self.request("GET", f"/v1/jobs/{number}/logs")[2].decode()


def test_a_job_elsewhere():
    with Far() as h:
        a = h.add("a", "--slots", "2")
        node = h.node("a")
        assert node["slots"] == 2 and node["cpus"] and not node.get("trouble"), node
        n = h.sh("echo at $HOME; echo oops >&2; exit 3", ["a"])
        j = h.ended(n)
        assert (j["state"], j["exit_code"]) == ("failed", 3) and j["runs"][0]["node"] == "a", j
        assert h.out(n) == f"at {a.home}\noops\n"
        n = h.sh("python3 -c 'import berth; berth.log(loss=0.5, step=1); print(berth.params()); "
                 "open(\"kept.txt\", \"w\").write(\"keep me\"); berth.save_artifact(\"kept.txt\")'", ["a"],
                 params={"lr": 0.1}, cwd=a.home)
        assert h.ended(n)["state"] == "succeeded", h.out(n)
        assert "0.1" in h.out(n)
        assert h.job(n)["metrics"], h.job(n)
        assert h.request("GET", f"/v1/jobs/{n}/artifact?name=kept.txt")[2] == b"keep me"
        files = os.path.join(h.dir, "files")
        os.makedirs(os.path.join(files, "data", "empty"))
        with open(os.path.join(files, "data", "x"), "w") as f:
            f.write("payload\n")
        n = h.sh("pwd; cat data/x; ls data", ["a"], assets=[files + "/data"], stage_dir="stage/one")
        assert h.ended(n)["state"] == "succeeded", h.out(n)
        assert h.out(n) == f"{a.home}/stage/one\npayload\nempty\nx\n", h.out(n)


def test_calls():
    """A job asks its daemon through the connection; without its token it is nobody."""
    with Far() as h:
        h.add("a")
        ask = ("import http.client,os,socket\n"
               "def ask(path, **headers):\n"
               " c=http.client.HTTPConnection('x'); c.sock=socket.socket(1); c.sock.connect(os.environ['BERTH_SOCKET'])\n"
               " c.request('GET', path, headers=headers); r=c.getresponse(); r.read(); return r.status\n"
               "me='/v1/jobs/'+os.environ['BERTH_JOB_ID']; token='Bearer '+os.environ['BERTH_JOB_TOKEN']\n"
               "print(ask(me, Authorization=token), ask(me), ask('/v1/jobs'), ask('/v1/jobs', Authorization=token))\n")
        n = h.submit("python3", "-c", ask, nodes=["a"])["number"]
        assert h.ended(n)["state"] == "succeeded", h.out(n)
        assert h.out(n).split() == ["200", "401", "401", "403"], h.out(n)


TICKS = "echo begun; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; echo tick $i; done; echo over"
WHOLE = "begun\n" + "".join(f"tick {i}\n" for i in range(1, 11)) + "over\n"


def test_cut_connections():
    """Runs go on, nothing twice, every byte arrives."""
    with Far() as h:
        a = h.add("a", "--slots", "8")
        jobs = [h.sh(TICKS, ["a"]) for _ in range(8)]
        h.wait_state(jobs[0], "running")
        for _ in range(3):
            a.cut()
            h.wait("the node is back", lambda: not h.node("a").get("trouble") and a.sessions())
            jobs.append(h.sh(TICKS, ["a"]))
        for n in jobs:
            j = h.ended(n)
            assert j["state"] == "succeeded" and len(j["runs"]) == 1, j
            assert h.out(n) == WHOLE, (n, h.out(n))


def test_daemon_dies():
    with Far() as h:
        h.add("a", "--slots", "4")
        jobs = [h.sh(TICKS + "; exit 5", ["a"]) for _ in range(3)]
        for n in jobs:
            h.wait_state(n, "running")
        h.kill()
        time.sleep(1)
        h.start()
        for n in jobs:
            j = h.ended(n)
            assert j["exit_code"] == 5 and len(j["runs"]) == 1, j
            assert h.out(n) == WHOLE, (n, h.out(n))


def test_kill_a_tree():
    with Far() as h:
        h.add("a")
        n = h.sh("sleep 4567 & setsid sleep 4567 & echo $$; wait", ["a"], grace="1s")
        h.wait_state(n, "running")
        h.wait("its words", lambda: h.out(n))
        h.berth("cancel", str(n))
        assert h.ended(n)["state"] == "cancelled"
        left = [p for p in filter(str.isdigit, os.listdir("/proc")) if b"4567" in cmdline(p)]
        assert not left, left  # confirmed: the end was told when they were gone


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read()
    except OSError:
        return b""


def test_server_goes_and_comes():
    """A host without its server is away with a reason; what ran there is not lost."""
    with Far() as h:
        a = h.add("a")
        n = h.sh(TICKS, ["a"])
        h.wait_state(n, "running")
        a.cut()
        a.stop()
        trouble = h.wait("trouble", lambda: h.node("a").get("trouble"))
        h.wait("the reason", lambda: "refuses connections" in (h.node("a").get("trouble") or ""))
        assert trouble
        waiting = h.sh("echo later", ["a"])
        time.sleep(0.5)
        assert h.job(waiting)["state"] == "queued"
        a.start()
        assert h.ended(n)["state"] == "succeeded" and h.out(n) == WHOLE
        assert h.ended(waiting)["state"] == "succeeded"


if __name__ == "__main__":
    harness.main(__name__)
