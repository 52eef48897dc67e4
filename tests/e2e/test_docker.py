"""Jobs in containers, with real engines: Docker and, where it says so, Podman as well.

Every story is told with the daemon, the command line and an engine started here; only what a real engine
cannot show without a registry or a GPU (pulling, device requests) is asked of a stand-in (fake_engine.py).
"""
import atexit
import http.client
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import harness
from engine_rig import BUSYBOX, PYTHON_IMAGE, Engine, busybox_tree, python_tree
from fake_engine import FakeEngine
from gpu_rig import FINAL, GpuHome, wait_for
from harness import Home, Skip, free_port

PYTHON_PATH = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "python"))
_engines = {}


def engine(kind):
    """One of each for the whole file."""
    if kind not in _engines:
        try:
            g = Engine(kind)
            atexit.register(g.close)
            g.load(BUSYBOX, busybox_tree())
            _engines[kind] = g
        except Skip as e:
            _engines[kind] = e
    if isinstance(_engines[kind], Skip):
        raise _engines[kind]
    return _engines[kind]


class ContainerHome(Home):
    def __init__(self, url, *args, **env):
        super().__init__(BERTH_PYTHON=PYTHON_PATH, **env)
        self.serve = ("--slots", "8", "--engine", url, *args)

    def __enter__(self):
        try:
            self.start(*self.serve)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            print("# the daemon's log:\n# " + self.log_text().replace("\n", "\n# "), flush=True)
        self.close()

    def run_image(self, *command, image=BUSYBOX, **spec):
        spec.setdefault("cwd", None)
        return self.submit(*command, image=image, **spec)["number"]

    def sh(self, script, **spec):
        return self.run_image("sh", "-c", script, **spec)

    def job(self, number):
        return self.api("GET", f"/v1/jobs/{number}")

    def output(self, number):
        return self.request("GET", f"/v1/jobs/{number}/logs")[2]

    def ended(self, number, timeout=90):
        def look():
            j = self.job(number)
            return j if j["state"] in ("succeeded", "failed", "cancelled", "lost") else None
        return wait_for(f"the end of job {number}", look, timeout)

    def says(self, number, text, timeout=120):
        return wait_for(f"{text!r} in the log", lambda: text.encode() in self.output(number), timeout)


def ours(g, home=None):
    return [c for c in g.containers() if "berth.home" in (c.get("Labels") or {})]


def nothing_left(g):
    wait_for("removal of all containers", lambda: not ours(g), 60)


# ---- what a job sees ----

def see_inside(kind):
    g = engine(kind)
    with ContainerHome(g.url) as h:
        data = os.path.join(h.dir, "data")
        os.mkdir(data)
        script = ("echo to-out; echo to-err >&2; echo $COLOUR $PATH; pwd; id -u; id -g; "
                  "touch /data/made && touch /fixed/x; echo ro=$?; exit 3")
        a = h.sh(script, env={"COLOUR": "blue"}, mounts=[f"{data}:/data", f"{data}:/fixed:ro"],
                 container={"workdir": "/tmp", "user": "1234:5678"})
        os.chmod(data, 0o777)
        b = h.run_image("one", "two words", container={"entrypoint": ["echo", "-n", "before"]})
        c = h.sh("sh -c 'kill -9 $$'; exit $?")
        d = h.sh("exit 0", container={"network": "none", "hostname": "inside", "shm_size": "1M"})
        e = h.run_image("nosuchprogram", container={"init": False})
        job = h.ended(a)
        text = h.output(a).decode()
        assert job["state"] == "failed" and job["exit_code"] == 3 and job["reason"] == "exit status 3", job
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        out = [line for line in text.splitlines() if line not in ("to-out", "to-err") and "touch" not in line]
        assert out == [f"blue {path}", "/tmp", "1234", "5678", "ro=1"], text
        assert "to-out\n" in text and "to-err\n" in text, text
        made = os.stat(os.path.join(data, "made"))
        assert (made.st_uid, made.st_gid) == (1234, 5678), made
        assert h.ended(b)["state"] == "succeeded"
        assert h.output(b) == b"before one two words", h.output(b)
        killed = h.ended(c)
        assert killed["exit_code"] == 137 and "signal 9" in killed["reason"], killed
        assert h.ended(d)["state"] == "succeeded", h.output(d)
        missing = h.ended(e)
        assert missing["exit_code"] == 127 and missing["reason"] == "command not found: nosuchprogram", missing
        nothing_left(g)


def test_inside_docker():
    see_inside("docker")


def test_inside_podman():
    see_inside("podman")


def test_command_line():
    g = engine("docker")
    with ContainerHome(g.url) as h:
        p = h.berth("run", "--image", BUSYBOX, "--", "echo", "hi", DOCKER_HOST=g.url)
        assert p.stdout == "hi\n", p
        p = h.berth("run", "--image", BUSYBOX, "--container", "workdir=/etc", "--env", "X=1", "--",
                    "sh", "-c", "pwd; echo $X $HOME")
        assert p.stdout.splitlines()[0] == "/etc" and p.stdout.splitlines()[1].startswith("1 /"), p
        p = h.berth("submit", "--image", BUSYBOX, "--container", "netwrok=host", "true", check=False)
        assert p.returncode == 2 and 'container.netwrok: unknown key; did you mean "network"?' in p.stderr, p.stderr
        p = h.berth("doctor", check=False, DOCKER_HOST=g.url)
        assert f"Docker " in p.stdout and f"answers at {g.sock}" in p.stdout, p.stdout


def test_reports_from_inside():
    """The library reaches the daemon over its socket, also a daemon that came later."""
    g = engine("docker")
    python_image(g)
    script = ("import berth, os, time\n"
              "berth.log(loss=3.0, step=1); berth.flush() if hasattr(berth, 'flush') else None\n"
              "print('params', berth.params(), flush=True)\n"
              "while not os.path.exists('/data/go'): time.sleep(0.05)\n"
              "berth.log(loss=1.0, step=2)\n"
              "while not os.path.exists('/data/end'): time.sleep(0.05)\n")
    with ContainerHome(g.url) as h:
        data = os.path.join(h.dir, "data")
        os.mkdir(data)
        with open(os.path.join(data, "job.py"), "w") as f:
            f.write(script)
        job = h.run_image("python", "/data/job.py", image=PYTHON_IMAGE, mounts=[f"{data}:/data"], params={"lr": 0.1})
        h.says(job, "params {'lr': 0.1}")
        wait_for("the first metric", lambda: metric(h, job) == 3.0)
        h.kill()
        h.start(*h.serve)
        open(os.path.join(data, "go"), "w").close()
        wait_for("the second metric, from the same container", lambda: metric(h, job) == 1.0)
        open(os.path.join(data, "end"), "w").close()
        assert h.ended(job)["state"] == "succeeded", h.output(job)


def metric(h, job):
    loss = h.job(job)["metrics"].get("loss")
    return loss.get("value") if isinstance(loss, dict) else loss


def python_image(g):
    if PYTHON_IMAGE not in _engines:
        _engines[PYTHON_IMAGE] = g.load(PYTHON_IMAGE, python_tree())
    return PYTHON_IMAGE


# ---- limits, ports, ends ----

def run_out_of_memory(kind):
    g = engine(kind)
    with ContainerHome(g.url) as h:
        job = h.ended(h.sh("dd if=/dev/zero of=/dev/null bs=200M count=1; exit $?", resources={"mem": "32M", "cpus": 1}))
        assert job["state"] == "failed" and job["reason"] == "out of memory (limit 32M)", (job, h.output(job["number"]))


def test_memory_docker():
    run_out_of_memory("docker")


def test_memory_podman():
    run_out_of_memory("podman")


def get(port, path="/"):
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        conn.request("GET", path)
        return conn.getresponse().read()
    finally:
        conn.close()


def answers(port, path):
    try:
        return get(port, path)
    except (OSError, http.client.HTTPException):
        return None


def test_ports_and_busy_port():
    g = engine("docker")
    with ContainerHome(g.url) as h:
        data, port = os.path.join(h.dir, "data"), free_port()
        os.mkdir(data)
        with open(os.path.join(data, "x"), "w") as f:
            f.write("from inside")
        job = h.run_image("httpd", "-f", "-p", "8080", "-h", "/data", mounts=[f"{data}:/data:ro"], ports=[f"{port}:8080"])
        assert wait_for("an answer", lambda: answers(port, "/x"), 60) == b"from inside"
        second = h.ended(h.sh("true", ports=[f"{port}:9"]))
        assert second["state"] == "failed" and "could not be started" in second["reason"], second
        assert re.search(rb"allocated|in use", h.output(second["number"])), h.output(second["number"])
        h.api("POST", f"/v1/jobs/{job}/cancel")
        assert h.ended(job)["state"] == "cancelled"
        nothing_left(g)


def end_in_time(kind):
    g = engine(kind)
    with ContainerHome(g.url) as h:
        kind_one = h.sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done", grace="30s")
        deaf = h.sh("trap '' TERM; echo up; while :; do sleep 0.1; done", grace="1s")
        late = h.sh("echo up; sleep 1000", timeout="1s", grace="1s")
        for job in (kind_one, deaf):
            h.says(job, "up")
            h.api("POST", f"/v1/jobs/{job}/cancel")
        assert h.ended(kind_one)["state"] == "cancelled" and b"bye" in h.output(kind_one), h.output(kind_one)
        assert h.ended(deaf)["state"] == "cancelled"
        over = h.ended(late)
        assert over["state"] == "failed" and over["reason"] == "ran longer than its limit of 1s", over
        nothing_left(g)


def test_stop_docker():
    end_in_time("docker")


def test_stop_podman():
    end_in_time("podman")


# ---- output ----

def whole_output(kind, size):
    g = engine(kind)
    with ContainerHome(g.url) as h:
        data = os.path.join(h.dir, "data")
        os.mkdir(data)
        blob = os.urandom(1 << 20) * (size >> 20) + b"no newline at the end"
        with open(os.path.join(data, "blob"), "wb") as f:
            f.write(blob)
        job = h.run_image("cat", "/data/blob", mounts=[f"{data}:/data:ro"])
        assert h.ended(job, 180)["state"] == "succeeded", h.output(job)[-300:]
        out = h.output(job)
        assert out == blob, f"{len(out)} bytes of {len(blob)}, first difference at " + str(
            next((i for i, (a, b) in enumerate(zip(out, blob)) if a != b), min(len(out), len(blob))))


def test_log_docker():
    whole_output("docker", 20 << 20)


def test_log_podman():
    whole_output("podman", 20 << 20)


WAITING = "echo up $(hostname); i=0; while [ ! -f /data/go ]; do echo line $i; i=$((i+1)); usleep 20000; done; echo done $i"


class Counter:
    """A job that counts, until told to end."""

    def __init__(self, h):
        self.h, self.data = h, os.path.join(h.dir, "data")
        os.mkdir(self.data)
        self.job = h.sh(WAITING, mounts=[f"{self.data}:/data"], grace="2s")

    def reach(self, n):
        self.h.says(self.job, f"line {n}\n", 90)
        return self

    def last(self):
        return int(re.findall(rb"line (\d+)", self.h.output(self.job))[-1])

    def finish(self):
        open(os.path.join(self.data, "go"), "w").close()
        return self.h.ended(self.job)

    def check(self):
        """Every line once, in order, from one start."""
        text = self.h.output(self.job).decode()
        end = int(re.search(r"done (\d+)", text).group(1))
        want = ["line %d" % i for i in range(end)] + [f"done {end}"]
        lines = text.splitlines()
        assert lines[0].startswith("up ") and lines[1:] == want, text[-500:]


# ---- what dies ----

def test_daemon_killed():
    g = engine("docker")
    with ContainerHome(g.url) as h:
        c = Counter(h).reach(5)
        h.kill()
        before = [x["Id"] for x in ours(g)]
        time.sleep(0.3)
        h.start(*h.serve)
        c.reach(c.last() + 5)
        assert [x["Id"] for x in ours(g)] == before and len(before) == 1, before
        job = c.finish()
        assert job["state"] == "succeeded" and job["attempt"] == 1, job
        c.check()
        nothing_left(g)


def runner_pid(h):
    return next(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_runner(h, pid))


def is_runner(h, pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read().split(b"\0")
        with open(f"/proc/{pid}/environ", "rb") as f:
            return b"__container" in words and h.home.encode() in f.read()
    except OSError:
        return False


def test_runner_killed():
    """Its run ends, its container does not stay; those of others do."""
    g = engine("docker")
    with ContainerHome(g.url) as h:
        other = g.call("POST", "/containers/create?name=stranger", {"Image": BUSYBOX, "Cmd": ["sleep", "1000"]})["Id"]
        g.call("POST", f"/containers/{other}/start")
        Counter(h).reach(3)
        os.kill(runner_pid(h), signal.SIGKILL)
        job = h.ended(1)
        assert job["state"] == "failed" and "signal 9" in job["reason"], job
        nothing_left(g)
        assert [c["State"] for c in g.containers() if c["Id"] == other] == ["running"]
        g.call("DELETE", f"/containers/{other}?force=1")


def test_left_behind_while_nobody_was_there():
    g = engine("docker")
    with ContainerHome(g.url) as h:
        Counter(h).reach(3)
        shepherd = h.shepherd_pid()
        h.kill()
        for pid in [shepherd] + [p for p in h.processes() if p != shepherd] + [runner_pid(h)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        assert len(ours(g)) == 1
        h.start(*h.serve)
        assert h.ended(1)["state"] == "lost"
        nothing_left(g)


def engine_again(kind, hard):
    """Containers live on while their engine restarts; no line is lost and none comes twice."""
    g = engine(kind)
    with ContainerHome(g.url) as h:
        c = Counter(h).reach(5)
        (g.kill if hard else g.stop)()
        time.sleep(0.5)
        g.start()
        c.reach(c.last() + 10)
        job = c.finish()
        assert job["state"] == "succeeded", (job, h.output(c.job)[-500:])
        c.check()
        nothing_left(g)


def test_engine_killed_docker():
    engine_again("docker", hard=True)


def test_engine_restarted_docker():
    engine_again("docker", hard=False)


def test_engine_killed_podman():
    engine_again("podman", hard=True)


def test_engine_that_takes_containers_along():
    """Without live-restore a stopping dockerd ends its containers: the run says so."""
    g = engine("docker")
    g.stop()
    g.live_restore = False
    g.start()
    try:
        with ContainerHome(g.url) as h:
            c = Counter(h).reach(3)
            g.stop()
            g.live_restore = True
            g.start()
            job = h.ended(c.job, 120)
            assert job["state"] == "failed" and job["exit_code"] in (137, 143), job
            nothing_left(g)
    finally:
        g.live_restore = True


# ---- what is missing ----

def test_image_missing():
    g = engine("docker")
    with ContainerHome(g.url) as h:
        job = h.ended(h.run_image("true", image="registry.invalid/no/such:1"), 120)
        text = h.output(job["number"]).decode()
        assert job["state"] == "failed" and job["exit_code"] == 127, job
        assert job["reason"] == "image registry.invalid/no/such:1 is not here and could not be pulled; see its log", job
        assert "image registry.invalid/no/such:1 is not on this machine and cannot be pulled" in text, text
        never = h.ended(h.run_image("true", image="no/such:1", container={"pull": "never"}))
        assert 'container.pull is "never"' in h.output(never["number"]).decode(), never


def test_engine_absent():
    with ContainerHome("unix:///nonexistent/engine.sock") as h:
        job = h.ended(h.sh("true"))
        text = h.output(job["number"]).decode()
        assert job["state"] == "failed" and "no container engine is reachable" in job["reason"], job
        assert "does not answer at /nonexistent/engine.sock" in text and BUSYBOX in text, text


# ---- the GPU scheduler ----

def test_training_in_a_container():
    """Its mounts, a port, epochs over the network of the container, and a preemption between two."""
    g = engine("docker")
    python_image(g)
    port = free_port()
    with GpuHome(serve=("--engine", g.url, "--engine-gpus", "env"), BERTH_PYTHON=PYTHON_PATH) as h:
        slow = h.train("slow", epochs=8, steps=20, step_ms=40, image_name=PYTHON_IMAGE, disable_gpu_sharing=True,
                       port_mapping=f"{port}:6006")
        h.wait_state(slow, "running")
        wait_for("its first epoch", lambda: "epoch 0" in h.output(slow), 60)
        urgent = h.train("urgent", epochs=2, steps=5, image_name=PYTHON_IMAGE, disable_gpu_sharing=True, priority=5)
        h.finish(urgent, 2)
        row = h.finish(slow, 8)
        assert row["attempts"] == 2 and row["epochs"] == "8/8", (row, h.output(slow))
        nothing_left(g)


SERVING = """
import http.server, os, threading, time
with open("/data/set") as f, open("/snapshots/copy", "w") as to:
    to.write(f.read())
os.chdir("/custom")
server = http.server.ThreadingHTTPServer(("", 6006), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
while not os.path.exists("/snapshots/end"):
    time.sleep(0.05)
"""


def test_directories_and_ports_of_the_gpu_scheduler():
    g = engine("docker")
    python_image(g)
    port = free_port()
    with GpuHome(serve=("--engine", g.url, "--engine-gpus", "env"), BERTH_PYTHON=PYTHON_PATH) as h:
        custom, datasets = os.path.join(h.dir, "custom"), os.path.join(h.dir, "datasets")
        os.mkdir(custom)
        os.mkdir(datasets)
        h.env["HOME"] = h.dir
        for path, text in ((custom + "/serve.py", SERVING), (custom + "/page", "of the user"), (datasets + "/set", "data")):
            with open(path, "w") as f:
                f.write(text)
        options = dict(script="serve.py", custom_dir=custom, image_name=PYTHON_IMAGE, port_mapping=f"{port}:6006")
        job = h.train("serve", **options)
        wait_for("an answer", lambda: answers(port, "/page") == b"of the user" or h.state_of(job) in FINAL, 90)
        assert answers(port, "/page") == b"of the user", (h.row(job), h.output(job))
        with open(os.path.join(h.snapshots, "copy")) as f:
            assert f.read() == "data"
        p = h.command("run-scheduler", *h.options(**options), "again", check=False)
        assert p.returncode == 4 and f"nodePort {port}" in p.stderr, p.stderr
        open(os.path.join(h.snapshots, "end"), "w").close()
        h.wait_state(job, "finished")
        wait_for("the port to be free", lambda: answers(port, "/page") is None)


def test_files_of_root_are_removed():
    """What a container left behind as root goes, though the process that wants it gone is nobody's."""
    g = engine("docker")
    probe = harness.find_program("e2e-clean-probe")
    base = tempfile.mkdtemp(prefix="berth-clean-")
    try:
        os.chmod(base, 0o777)
        left = os.path.join(base, "work")
        os.makedirs(os.path.join(left, "deep", ".hidden"))
        with open(os.path.join(left, "deep", "file"), "w") as f:
            f.write("root's")
        os.chmod(g.sock, 0o666)
        os.chmod(g.dir, 0o711)
        copy = shutil.copy(probe, base)
        p = subprocess.run([copy, g.url, BUSYBOX, left], user=65534, group=65534, extra_groups=[], capture_output=True,
                           text=True, timeout=120)
        assert p.returncode == 0 and not os.path.exists(left), p
        assert not [c for c in g.containers() if c["Mounts"] and c["Mounts"][0].get("Source") == left]
    finally:
        shutil.rmtree(base)


# ---- what only a stand-in can show ----

def test_pull_says_how_far_it_is():
    with FakeEngine() as g, ContainerHome(g.url) as h:
        g.layers = {"aaaa": 3000000, "bbbb": 5000000}
        job = h.ended(h.run_image("true", image="example/model:2"))
        text = h.output(job["number"]).decode()
        assert job["state"] == "succeeded", (job, text)
        assert "berth: pulling image example/model:2\n" in text, text
        assert re.search(r"berth: pulling image example/model:2: \d of 2 layers, [\d.]+[KM] of 7.6M", text), text
        assert re.search(r"berth: pulled image example/model:2: 2 of 2 layers, 7.6M of 7.6M in ", text), text
        assert g.asked("POST", "/images/create") == ["fromImage=example%2Fmodel&tag=2"], g.requests


def test_pull_that_fails_on_the_way():
    with FakeEngine() as g, ContainerHome(g.url) as h:
        g.pull_error = "toomanyrequests: you have reached your limit"
        job = h.ended(h.run_image("true", image="example/model"))
        assert job["state"] == "failed", job
        assert "toomanyrequests: you have reached your limit" in h.output(job["number"]).decode()
        assert g.asked("POST", "/images/create") == ["fromImage=example%2Fmodel&tag=latest"], g.requests


def test_device_requests():
    with FakeEngine() as g, GpuHome(gpus=2, serve=("--engine", g.url)) as h:
        g.images.add("torch:2")
        spec = {"command": ["python", "x.py"], "image": "torch:2", "resources": {"gpus": 2, "mem": "1G", "cpus": 0.5},
                "container": {"runtime": "nvidia", "labels": {"team": "vision"}, "image_command": True}}
        number = h.api("POST", "/v1/jobs", spec)["number"]
        wait_for("its end", lambda: h.api("GET", f"/v1/jobs/{number}")["state"] == "succeeded", 60)
        body = g.created[0]
        host = body["HostConfig"]
        ids = body["Env"][[e.split("=")[0] for e in body["Env"]].index("NVIDIA_VISIBLE_DEVICES")].split("=")[1].split(",")
        assert host["DeviceRequests"] == [{"DeviceIDs": ids, "Capabilities": [["gpu"]]}] and len(ids) == 2, host
        assert host["Memory"] == 1 << 30 and host["NanoCpus"] == 500000000 and host["Runtime"] == "nvidia", host
        assert "Cmd" not in body and body["Labels"]["team"] == "vision" and body["Labels"]["berth.run"] == "1", body


def test_rootless_engine_and_missing_init():
    """Root inside is the submitter outside; an engine without its own first process is done without it."""
    with FakeEngine() as g, ContainerHome(g.url) as h:
        g.rootless, g.no_init = True, True
        g.images.add("x:1")
        job = h.ended(h.run_image("true", image="x:1"))
        assert job["state"] == "succeeded", (job, h.output(job["number"]))
        assert [b["User"] for b in g.created] == ["0:0", "0:0"], g.created
        assert [b["HostConfig"]["Init"] for b in g.created] == [True, False]


if __name__ == "__main__":
    harness.main(__name__)
