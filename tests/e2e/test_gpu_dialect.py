"""The words of the GPU scheduler: commands, errors, tables, endpoints, ports, mounts, ranks.

What the planner does with the jobs is tested in test_gpu_scenarios.py; here two GPUs of which nothing is
known but their number are enough.
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import harness
from harness import ApiError, Home, Skip, free_port, wait_for

COMMANDS = ("run-scheduler", "scheduler-state", "scheduler-situation", "scheduler-cancel-job", "scheduler-get-logs")


class Scheduler(Home):
    def __init__(self, *serve, **env):
        super().__init__(**env)
        self.serve = serve or ("--gpus", "2", "--slots", "8", "--gpu-replan", "50ms")
        self.code = os.path.join(self.dir, "code")
        self.bin = os.path.join(self.dir, "bin")
        os.mkdir(self.code)
        os.mkdir(self.bin)
        for name in COMMANDS:
            os.symlink(harness.BERTH, os.path.join(self.bin, name))
        self.env["PATH"] = self.bin + ":/usr/local/bin:/usr/bin:/bin"

    def __enter__(self):
        return self.start(*self.serve)

    def __exit__(self, kind, value, trace):
        if kind:
            print("# the daemon's log:\n# " + self.log_text().replace("\n", "\n# "), flush=True)
        self.close()

    def call(self, name, *args, timeout=120, **env):
        return subprocess.run([os.path.join(self.bin, name), *args], env={**self.env, **env}, capture_output=True,
                              text=True, timeout=timeout, cwd=self.dir)

    def script(self, text, name="t.py"):
        with open(os.path.join(self.code, name), "w") as f:
            f.write(text)
        return ("--custom_dir", self.code, "--script_path", "/custom/" + name)

    def submit(self, *args, name="a", **env):
        p = self.call("run-scheduler", *args, name, **env)
        assert p.returncode == 0, (p.returncode, p.stdout, p.stderr)
        return p.stdout.splitlines()[-1]

    def rows(self):
        p = self.call("scheduler-state", "--json", "--nlast", "1000")
        assert p.returncode == 0, p.stderr
        return {r["id"]: r for r in json.loads(p.stdout)}

    def wait_state(self, job, *states):
        wait_for(f"{job} in {states}", lambda: self.rows()[job]["state"] in states)
        return self.rows()[job]

    def logs(self, job, *args):
        p = self.call("scheduler-get-logs", job, *args)
        assert p.returncode == 0, p.stderr
        return p.stdout

    def library(self):
        with open(os.path.join(self.home, "library-port")) as f:
            return int(f.read())

    def tell(self, method, path, body=None, token=None):
        """On the library port: status and text."""
        conn = http.client.HTTPConnection("127.0.0.1", self.library(), timeout=120)
        headers = {"Authorization": "Bearer " + token} if token else {}
        conn.request(method, path, body, headers)
        r = conn.getresponse()
        text = r.read().decode()
        conn.close()
        return r.status, text


SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"
TRAINING = ("--batch_size", "10", "--training_set_size", "100", "--max_epochs", "5")


# ---- run-scheduler ----

def test_wrong_arguments():
    wrong = [
        (["--est_nhours", "1"], "--est_nhours '1'"),
        (["--est_nhours", "soon"], "--est_nhours 'soon'"),
        (["--batch_size", "0"], "--batch_size '0'"),
        (["--batch_size", "3"], "--max_epochs is missing"),
        (["--max_epochs", "3"], "--batch_size is missing"),
        (["--is_single_gpu", "perhaps"], "--is_single_gpu 'perhaps'"),
        (["--disable_gpu_sharing", "2"], "--disable_gpu_sharing '2'"),
        (["--estimated_memory", "-5"], "--estimated_memory '-5'"),
        (["--port_mapping", "31346"], "--port_mapping '31346'"),
        (["--port_mapping", "1:2,1:3"], "--port_mapping '1:2,1:3'"),
        (["--priority", "9"], "--priority '9'"),
        (["--deadline", "whenever"], "--deadline 'whenever'"),
        (["--max_retries", "x"], "--max_retries 'x'"),
        (["--launch", "both"], "--launch 'both'"),
        (["--env", "RANK=1"], "RANK"),
        (["--env", "novalue"], "--env"),
        (["--custom_dir", "/does/not/exist"], "--custom_dir '/does/not/exist'"),
        (["--snapshots_dir", "/etc/passwd"], "--snapshots_dir '/etc/passwd'"),
        (["--no_such_option", "1"], "no_such_option"),
        (["--batch_sise", "1"], "did you mean --batch_size?"),
    ]
    with Scheduler() as h:
        for args, words in wrong:
            p = h.call("run-scheduler", "--script_path", "/custom/t.py", *args, "job")
            assert p.returncode == 2 and p.stdout == "", (args, p.returncode, p.stdout, p.stderr)
            assert words in p.stderr and p.stderr.count("\n") == 1, (args, p.stderr)
        for args in ([], ["--script_path", "x"], ["a", "b"], ["--image_name", "i", "a/b"], ["job"]):
            p = h.call("run-scheduler", *args)
            assert p.returncode == 2 and p.stderr.count("\n") == 1, (args, p.returncode, p.stderr)
        assert h.rows() == {}


def test_unreachable_and_refused():
    h = Scheduler()
    try:
        for name, args in (("run-scheduler", ("--script_path", "x", "a")), ("scheduler-state", ()),
                           ("scheduler-cancel-job", ("abcd",)), ("scheduler-get-logs", ("abcd",))):
            p = h.call(name, "--no-start", *args)
            assert p.returncode == 3 and name in p.stderr, (name, p.returncode, p.stderr)
        h.start(*h.serve)
        with socket.create_server(("0.0.0.0", 0)) as taken:
            port = taken.getsockname()[1]
            p = h.call("run-scheduler", "--script_path", "x", "--port_mapping", f"{port}:80", "a")
            assert p.returncode == 4 and str(port) in p.stderr, (p.returncode, p.stderr)
        assert h.rows() == {}
    finally:
        h.close()


def test_starts_a_daemon():
    h = Scheduler()
    try:
        p = h.call("run-scheduler", *h.script("print('hi')"), "a")
        assert p.returncode == 0, p.stderr
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", p.stdout.strip()), p.stdout
    finally:
        h.call("scheduler-state")
        try:
            h.api("POST", "/v1/shutdown")
        except (ApiError, OSError):
            pass
        h.close()


def test_host_path_is_warned_of():
    with Scheduler() as h:
        h.script("print('hi')")
        p = h.call("run-scheduler", "--custom_dir", h.code, "--script_path", h.code + "/t.py", "a")
        assert p.returncode == 0 and "/custom/t.py" in p.stderr, p.stderr


def test_wait():
    with Scheduler() as h:
        good, bad = h.script("print('hi')"), h.script("raise SystemExit(3)", "bad.py")
        assert h.call("run-scheduler", *good, "--wait", "a").returncode == 0
        p = h.call("run-scheduler", *bad, "--wait", "b")
        assert p.returncode == 1 and "exit status 3" in p.stderr, (p.returncode, p.stderr)


def test_image_is_kept_and_refused_at_start():
    with Scheduler(DOCKER_HOST="unix:///nonexistent/engine.sock") as h:
        job = h.submit("--image_name", "registry.example/x:1")
        row = h.wait_state(job, "failed")
        assert row["image"] == "registry.example/x:1" and "container engine" in row["reason"], row


# ---- scheduler-state ----

def test_tables():
    with Scheduler() as h:
        script = h.script("print('hi')")
        jobs = [h.submit(*script, name=f"job {i}") for i in range(12)]
        for job in jobs:
            h.wait_state(job, "finished")
        out = h.call("scheduler-state").stdout.splitlines()
        assert out[0].split() == ["JOBID", "NAME", "USER", "STATE", "EPOCHS", "GPUS", "NODE", "SUBMITTED", "RUNTIME",
                                  "LEFT"], out[0]
        assert [line.split()[0] for line in out[1:]] == jobs[2:], out
        assert h.call("scheduler-situation", "--all").stdout.splitlines()[1:] == out[1:]
        assert h.call("scheduler-state", "--nlast", "3").stdout.splitlines()[1].startswith(jobs[9])
        wide = h.call("scheduler-state", "--extended", "--nlast", "1").stdout.splitlines()
        for column in ("IMAGE SCRIPT CUSTOM_DIR SNAPSHOTS_DIR BATCH TRAIN_SIZE SINGLE_GPU NO_SHARING EST_MEM MEAS_MEM "
                       "RESERVED PORTS EST_H EST_NOW OVERRUN ATTEMPTS PREEMPTIONS EPOCH_S STEP_S SHARES_WITH WAIT_REASON "
                       "EXIT").split():
            assert column in wide[0].split(), (column, wide[0])
        assert h.code in wide[1], wide
        p = h.call("scheduler-state", "--nlast", "0")
        assert p.returncode == 2 and "--nlast '0'" in p.stderr, p.stderr


def test_states():
    with Scheduler() as h:
        sleep, quick = h.script(SLEEP, "sleep.py"), h.script("print('hi')")
        run = [h.submit(*sleep, "--disable_gpu_sharing", "true", name="run") for _ in range(2)]
        for job in run:
            assert h.wait_state(job, "running")["gpus"] == "1"
        waits = h.submit(*quick, "--disable_gpu_sharing", "true", name="waits")
        row = wait_for("a reason", lambda: h.rows()[waits]["wait_reason"] and h.rows()[waits])
        assert row["state"] == "pending" and row["left_s"], row
        table = h.call("scheduler-state").stdout
        assert re.search(r"waits +\S+ +pending \(", table), table
        assert h.call("scheduler-cancel-job", run[0]).returncode == 0
        h.wait_state(run[0], "cancelled")
        h.wait_state(waits, "finished")
        assert h.call("scheduler-cancel-job", run[1][:8]).returncode == 0
        h.wait_state(run[1], "cancelled")


# ---- scheduler-cancel-job, scheduler-get-logs ----

def test_cancel_says_no():
    with Scheduler() as h:
        job = h.submit(*h.script("print('hi')"))
        h.wait_state(job, "finished")
        for ref, words in ((job, "ended already"), ("ffffffff", "no job"), ("abc", "at least"), ("zzzz", "no job"),
                           ("00000000-0000-0000-0000-000000000000", "no job")):
            p = h.call("scheduler-cancel-job", ref)
            assert p.returncode == 1 and words in p.stderr, (ref, p.returncode, p.stderr)
        assert h.call("scheduler-cancel-job").returncode == 2
        assert h.call("scheduler-get-logs", "ffffffff").returncode == 1


def test_logs():
    with Scheduler() as h:
        job = h.submit(*h.script("import os\nfor i in range(100): print('line', i)\n"
                                 "raise SystemExit(1 if os.environ['BERTH_RUN'].endswith('.1') else 0)"),
                       "--max_retries", "1")
        follow = subprocess.Popen([os.path.join(h.bin, "scheduler-get-logs"), job, "--follow"], env=h.env,
                                  stdout=subprocess.PIPE, text=True)
        h.wait_state(job, "finished")
        text = h.logs(job)
        marks = re.findall(r"^---- attempt (\d), \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, GPU \d ----$", text, re.M)
        assert marks == ["1", "2"], text
        assert text.count("line 99\n") == 2, text
        assert follow.communicate(timeout=120)[0] == text
        assert h.logs(job, "--tail", "3") == "line 97\nline 98\nline 99\n"
        tail = h.logs(job, "--tail", "102")
        assert tail.startswith("line 98\nline 99\n---- attempt 2") and tail.count("\n") == 103, tail[:200]


def test_logs_while_it_runs():
    with Scheduler() as h:
        job = h.submit(*h.script(SLEEP))
        wait_for("output", lambda: "up\n" in h.logs(job))
        assert h.call("scheduler-cancel-job", job).returncode == 0
        assert h.wait_state(job, "cancelled")["attempts"] == 1


CHATTER = """
import time
for i in range(60000):
    print('line %07d' % i, '.' * 50)
    if i % 6000 == 0:
        time.sleep(0.25)
"""
NOTICE = re.compile(r"^\[berth: [0-9.]+[KM] of output were dropped here to keep the log under 512K\]", re.M)


def numbers(text):
    """Of the lines that are whole; the notice stands over a few."""
    return [int(n) for n in re.findall(r"^line (\d{7}) \.{50}$", text, re.M)]


def chatter(h, log):
    """A job that prints 4 MiB, followed from the start: the follower has it all, the file its ends."""
    job = h.submit(*h.script(CHATTER))
    follow = subprocess.Popen([os.path.join(h.bin, "scheduler-get-logs"), job, "--follow"], env=h.env,
                              stdout=subprocess.PIPE, text=True)
    live = follow.communicate(timeout=120)[0]
    h.wait_state(job, "finished")
    text = h.logs(job)
    assert len(text) < (512 << 10) + 200 and "\0" not in text, len(text)
    assert len(NOTICE.findall(text)) == 1, text[:200]
    kept = numbers(text)
    assert kept[0] == 0 and kept[-1] == 59999 and kept == sorted(set(kept))
    gaps = [b for a, b in zip(kept, kept[1:]) if b != a + 1]
    assert len(gaps) == 1 and 1000 < len(kept) < 9000, (gaps, len(kept))
    seen = numbers(live)
    assert seen == sorted(set(seen)) and seen[-1] == 59999, "a follower saw lines twice or in disorder"
    assert len(seen) > len(kept), (len(seen), len(kept))
    assert h.logs(job, "--tail", "2").splitlines()[-1].startswith("line 0059999")
    assert os.stat(log(h, job)).st_blocks * 512 <= 512 << 10


def log_path(h, job):
    number = h.rows()[job]["number"]
    found = [os.path.join(d, f) for d, _, files in os.walk(h.home) for f in files if f.startswith(f"{number}.1-")]
    return max(found, key=os.path.getsize)


LIMITED = ("--gpus", "2", "--slots", "8", "--gpu-replan", "50ms", "--gpu-log-limit", "512K")


def test_log_limit():
    with Scheduler(*LIMITED) as h:
        chatter(h, log_path)


def test_log_limit_without_collapsing():
    """A tmpfs cannot take blocks out of a file: there it has a hole that no reader sees."""
    if not os.path.isdir("/dev/shm"):
        raise Skip("no tmpfs at /dev/shm")
    home = tempfile.mkdtemp(prefix="berth-e2e-", dir="/dev/shm")
    h = Scheduler(*LIMITED)
    h.home = h.env["BERTH_HOME"] = home
    h.sock = os.path.join(home, "sock")
    try:
        with h:
            chatter(h, log_path)
    finally:
        shutil.rmtree(home, ignore_errors=True)


# ---- POST /submit ----

def test_legacy_submit():
    port = free_port()
    with Scheduler("--gpus", "2", "--listen", f"127.0.0.1:{port}") as h:
        h.script("print('hi')")
        body = {"jobName": "legacy", "scriptPath": "/custom/t.py", "directoryToMount": h.code, "batchSize": "8",
                "trainingSetSize": 64, "maxEpochs": 2, "isSingleGPU": "true", "disableGPUSharing": False,
                "estimatedMemory": 2000}
        job = h.api("POST", "/submit", body)["id"]
        row = h.wait_state(job, "finished")
        assert row["batch_size"] == 8 and row["estimated_memory"] == 2000 and row["early"], row
        for wrong, words in (({"estNHours": 1}, "estNHours"), ({"jobname": "x"}, "jobName"), ({"username": "nobody_"}, "username"),
                             ({"directoryToMount": "/does/not/exist"}, "directoryToMount")):
            try:
                h.api("POST", "/submit", {**body, **wrong})
                raise AssertionError(f"{wrong} was accepted")
            except ApiError as e:
                assert e.status in (400, 403) and words in str(e), e
        with open(os.path.join(h.home, "token")) as f:
            token = f.read().strip()
        for given, status in ((None, 401), ("wrong", 401), (token, 201)):
            conn = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            conn.request("POST", "/submit", json.dumps(body), {"Authorization": "Bearer " + given} if given else {})
            assert conn.getresponse().status == status, (given, status)
            conn.close()


def test_same_key_same_job():
    with Scheduler() as h:
        h.script("print('hi')")
        body = json.dumps({"jobName": "once", "scriptPath": "/custom/t.py", "directoryToMount": h.code})
        ids = set()
        for _ in range(3):
            conn = harness.UnixHTTP(h.sock)
            conn.request("POST", "/submit", body, {"Idempotency-Key": "k1"})
            ids.add(json.loads(conn.getresponse().read())["id"])
        assert len(ids) == 1 and len(h.rows()) == 1, ids


# ---- the library's endpoints ----

def test_library_rules():
    with Scheduler() as h:
        job = h.submit(*h.script(SLEEP), *TRAINING)
        other = h.submit(*h.script(SLEEP), *TRAINING)
        h.wait_state(job, "running")
        h.wait_state(other, "running")
        assert h.tell("GET", f"/has_to_stop/{job}") == (200, "0")
        assert h.tell("POST", f"/end_epoch/{job}", '{"done": 2}')[0] == 200
        assert h.tell("POST", f"/end_epoch/{job}", '{"done": 1}')[0] == 200  # an echo of another rank
        assert h.rows()[job]["epochs"] == "2/5"
        assert h.tell("POST", f"/profiling/{job}", '{"meandur": 0.25, "gpumem": 0}')[0] == 200
        assert h.tell("POST", f"/signal_end_profiling/{job}/7", "")[0] == 200
        for method, path, body, status in (
                ("GET", "/has_to_stop/ffffffff-0000-0000-0000-000000000000", None, 404),
                ("GET", "/has_to_stop/nonsense", None, 404),
                ("GET", "/elsewhere", None, 404),
                ("POST", f"/has_to_stop/{job}", "", 405),
                ("POST", f"/end_epoch/{job}", '{"done": 7}', 400),
                ("POST", f"/end_epoch/{job}", '{"done": -1}', 400),
                ("POST", f"/end_epoch/{job}", "{}", 400),
                ("POST", f"/profiling/{job}", '{"meandur": NaN}', 400),
                ("POST", f"/profiling/{job}", '{"meandur": -1}', 400),
                ("POST", f"/profiling/{job}", '{"pad": "' + "x" * 70000 + '"}', 400)):
            got = h.tell(method, path, body)
            assert got[0] == status and len(got[1]) < 200, (method, path, got)
        assert h.rows()[job]["epochs"] == "2/5"
        status, _, text = h.request("GET", f"/has_to_stop/{job}")  # on the home's own socket too
        assert (status, text) == (200, b"0"), (status, text)
        with open(f"/proc/{pid_of(h, job)}/environ") as f:
            env = dict(v.split("=", 1) for v in f.read().split("\0") if "=" in v)
        assert env["SCHED_ENDPOINT"] == f"127.0.0.1:{h.library()}"
        assert h.tell("GET", f"/has_to_stop/{job}", token=env["SCHED_TOKEN"]) == (200, "0")
        assert h.tell("GET", f"/has_to_stop/{other}", token=env["SCHED_TOKEN"])[0] == 403
        assert h.tell("GET", f"/has_to_stop/{job}", token="7.1.abc")[0] == 401
        assert h.tell("POST", f"/signal_end/{job}")[0] == 200


TELL = """
import http.client, sys
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=120)
c.request("GET", "/has_to_stop/" + sys.argv[2])
print(c.getresponse().status)
"""


def test_library_port_of_several_users():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv to be several users")

    def status_of(uid, job):
        p = subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "/usr/bin/python3", "-c", TELL,
                            str(h.library()), job], capture_output=True, text=True, timeout=120, cwd="/")
        assert p.returncode == 0, p.stderr
        return int(p.stdout)

    with Scheduler("--gpus", "2", "--gpu-replan", "50ms", "--multi-user") as h:
        roots = h.submit(*h.script(SLEEP), *TRAINING, name="roots")
        body = {"command": ["sleep", "600"], "cwd": "/", "gpus": 1, "epochs": 5, "env": {"PATH": "/usr/bin:/bin"}}
        theirs = submit_as(65534, h, body)
        h.wait_state(roots, "running")
        wait_for("the other's job", lambda: h.api("GET", f"/v1/jobs/{theirs}")["state"] == "running")
        for job in (roots, theirs):
            assert status_of(0, job) == 200  # root may speak for everybody
        assert status_of(65534, theirs) == 200
        assert status_of(65534, roots) == 404
        assert status_of(65533, theirs) == 404
        with open(f"/proc/{pid_of(h, roots)}/environ") as f:
            env = dict(v.split("=", 1) for v in f.read().split("\0") if "=" in v)
        assert h.tell("GET", f"/has_to_stop/{roots}", token=env["SCHED_TOKEN"]) == (200, "0")


SUBMIT = """
import http.client, json, socket, sys
c = http.client.HTTPConnection("x")
c.sock = socket.socket(socket.AF_UNIX)
c.sock.connect(sys.argv[1])
c.request("POST", "/v1/jobs", sys.argv[2])
print(json.loads(c.getresponse().read())["id"])
"""


def submit_as(uid, h, body):
    for d in (h.dir, h.home):
        os.chmod(d, 0o755)
    p = subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "/usr/bin/python3", "-c", SUBMIT,
                        h.sock, json.dumps(body)], capture_output=True, text=True, timeout=120, cwd="/")
    assert p.returncode == 0, p.stderr
    return p.stdout.strip()


def pid_of(h, job):
    number = h.rows()[job]["number"]
    return h.api("GET", f"/v1/jobs/{number}")["runs"][-1]["pid"]


def test_logs_of_somebody_else():
    """scheduler-state lists the jobs of all users; their output is theirs."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv to be several users")

    def logs_as(uid, job, *args):
        return subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
                               os.path.join(h.bin, "scheduler-get-logs"), job, *args], env=h.env, capture_output=True, text=True,
                              timeout=120, cwd="/")

    with Scheduler("--gpus", "2", "--gpu-replan", "50ms", "--multi-user") as h:
        job = h.submit(*h.script("print('of root', flush=True)\n" + SLEEP), name="roots")
        wait_for("the output", lambda: "of root" in h.logs(job))
        for d in (h.dir, h.home):
            os.chmod(d, 0o755)
        for args in ((), ("--tail", "5"), ("--follow",)):
            p = logs_as(65534, job, *args)
            assert p.returncode == 1 and p.stdout == "", (args, p.returncode, p.stdout, p.stderr)
            assert p.stderr.startswith("scheduler-get-logs: ") and "there is no job" in p.stderr, p.stderr
        assert "of root" in logs_as(0, job).stdout


def test_library_port_outlives_the_daemon():
    with Scheduler() as h:
        job = h.submit(*h.script(SLEEP), *TRAINING)
        h.wait_state(job, "running")
        port = h.library()
        assert h.tell("POST", f"/end_epoch/{job}", '{"done": 1}')[0] == 200
        h.daemon.send_signal(signal.SIGKILL)
        h.daemon.wait()
        h.start(*h.serve)
        assert h.library() == port
        wait_for("the job again", lambda: h.tell("GET", f"/has_to_stop/{job}")[0] == 200)
        assert h.rows()[job]["epochs"] == "1/5"


# ---- the job's surroundings ----

SHOW = """
import json, os
print(json.dumps({"env": dict(os.environ), "custom": sorted(os.listdir(os.environ.get("SCHED_ROOT_CUSTOM", "/custom"))),
                  "cwd": os.getcwd(), "data": os.path.isdir(os.environ.get("SCHED_ROOT_DATA", "/data")), "file": __file__}))
open(os.environ.get("SCHED_ROOT_SNAPSHOTS", "/snapshots") + "/written", "w").close()
"""


def show(h, *args, **env):
    job = h.submit(*h.script(SHOW), *args, **env)
    row = h.wait_state(job, "finished", "failed")
    text = h.logs(job)
    assert row["state"] == "finished", (row, text)
    return job, json.loads(text.splitlines()[-1])


def test_variables():
    with Scheduler() as h:
        job, seen = show(h, *TRAINING, "--env", "MINE=1", "--launch", "node", OUTER="2", RANK="9")
        env = seen["env"]
        want = {"JOB_UUID": job, "JOB_RESTARTED": "FALSE", "EPOCHS_DONE": "0", "EPOCHS_TO_BE_DONE": "5", "BATCH_SIZE": "10",
                "TRAINING_SET_SIZE": "100", "NUM_GPUS": "1", "NUM_NODES": "1", "WORLD_SIZE": "1", "NODE_RANK": "0",
                "MASTER_ADDR": "127.0.0.1", "PL_TORCH_DISTRIBUTED_BACKEND": "gloo", "HEARTBEAT_FREQ": "10",
                "NODELIST": socket.gethostname(), "MINE": "1", "OUTER": "2", "SCHED_ATTEMPT": "1"}
        for key, value in want.items():
            assert env.get(key) == value, (key, env.get(key), value)
        assert "RANK" not in env and "LOCAL_RANK" not in env
        assert env["RESERVED_MEM"].isdigit() and env["MASTER_PORT"].isdigit() and env["CUDA_VISIBLE_DEVICES"]
        tf = json.loads(env["TF_CONFIG"])
        assert tf["task"] == {"type": "worker", "index": 0} and len(tf["cluster"]["worker"]) == 1, tf


def test_variables_of_the_daemon():
    port = free_port()
    serve = ("--gpus", "2", "--gpu-replan", "50ms", "--torch-backend", "gloo")
    with Scheduler(*serve, "--master-ports", f"{port}-{port}") as h:
        _, seen = show(h)
        env = seen["env"]
        assert (env["PL_TORCH_DISTRIBUTED_BACKEND"], env["MASTER_PORT"]) == ("gloo", str(port)), env
        for wrong in (("--master-ports", "9-7"), ("--master-ports", "80-90"), ("--master-ports", "x"),
                      ("--torch-backend", ""), ("--gpu-log-limit", "1K")):
            p = subprocess.run([harness.BERTH, "serve", *wrong], env=h.env, capture_output=True, text=True, timeout=120)
            assert p.returncode == 2 and wrong[0] in p.stderr, (wrong, p)


def may_mount():
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


def test_mounts():
    if not may_mount():
        raise Skip("mount namespaces cannot be made here")
    before = set(os.listdir("/"))
    with Scheduler() as h:
        snapshots = os.path.join(h.dir, "snap")
        home = os.path.join(h.dir, "user")
        os.mkdir(snapshots)
        os.makedirs(home + "/datasets")
        _, seen = show(h, "--snapshots_dir", snapshots, HOME=home)
        assert seen["custom"] == ["t.py"] and seen["data"] and seen["file"] == "/custom/t.py", seen
        assert not any(k.startswith("SCHED_ROOT") for k in seen["env"])
        assert os.listdir(snapshots) == ["written"]
        show(h)  # without --snapshots_dir: one that is kept for the user
        assert os.listdir(os.path.join(h.home, "snapshots"))
    assert set(os.listdir("/")) == before


def test_without_mounts():
    with Scheduler(BERTH_NO_MOUNTS="1") as h:
        snapshots = os.path.join(h.dir, "snap")
        os.mkdir(snapshots)
        _, seen = show(h, "--snapshots_dir", snapshots)
        assert seen["env"]["SCHED_ROOT_CUSTOM"] == h.code and seen["env"]["SCHED_ROOT_SNAPSHOTS"] == snapshots, seen
        assert seen["file"] == h.code + "/t.py" and seen["custom"] == ["t.py"], seen


RANKS = """
import os, sys, time
rank = int(os.environ["RANK"])
print("rank", rank, "local", os.environ["LOCAL_RANK"], "of", os.environ["WORLD_SIZE"], os.environ["LOCAL_WORLD_SIZE"], flush=True)
if os.environ.get("FAILS") == str(rank): sys.exit(7)
if "FAILS" in os.environ: time.sleep(600)
sys.stdout.write("no newline")
"""


def test_one_process_per_gpu():
    with Scheduler() as h:
        job = h.submit(*h.script(RANKS), "--launch", "gpu", "--is_single_gpu", "false", "--disable_gpu_sharing", "true",
                       "--est_nhours", "20")
        assert h.wait_state(job, "finished", "failed")["state"] == "finished", h.logs(job)
        lines = sorted(h.logs(job).splitlines()[1:])
        n = len(lines) // 2
        assert lines == sorted([f"[{r}] rank {r} local {r} of {n} {n}" for r in range(n)] +
                               [f"[{r}] no newline" for r in range(n)]), lines


# Every rank listens on its own port of TF_CONFIG, waits until all do, and connects to the others, as TensorFlow's
# workers do.
CLUSTER = """
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
workers, index = config["cluster"]["worker"], config["task"]["index"]
own = socket.create_server(("127.0.0.1", int(workers[index].split(":")[1])))
for worker in workers:
    host, port = worker.split(":")
    for _ in range(6000):
        try:
            socket.create_connection((host, int(port))).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
print("cluster", index, os.environ.get("RANK", "-"), os.environ["MASTER_PORT"], *workers, flush=True)
while os.path.exists(os.environ.get("HOLD", "")): time.sleep(0.02)
"""


def cluster_lines(h, job):
    """(index, rank, MASTER_PORT, ports) of each process that has found all others."""
    found = [line.split("cluster ")[1].split() for line in h.logs(job).splitlines() if "cluster " in line]
    return sorted((int(w[0]), w[1], int(w[2]), [int(at.split(":")[1]) for at in w[3:]]) for w in found)


def test_every_rank_has_its_place_in_the_cluster():
    """Two jobs at once, one of them with two ranks: each has an index and a port, and no port is named twice."""
    with Scheduler("--gpus", "3", "--slots", "8", "--gpu-replan", "50ms") as h:
        gate = os.path.join(h.dir, "gate")
        open(gate, "w").close()
        one = h.submit(*h.script(CLUSTER), "--env", f"HOLD={gate}", "--disable_gpu_sharing", "true")
        wait_for("one process", lambda: len(cluster_lines(h, one)) == 1)
        body = {"name": "two", "command": ["python3", h.code + "/t.py"], "dialect": "gpu-scheduler", "launch": "gpu",
                "env": {"PATH": h.env["PATH"], "HOLD": gate}, "resources": {"gpus": 2, "gpu_share": False}}
        number = h.api("POST", "/v1/jobs", body)["number"]
        two = next(job for job, row in h.rows().items() if row["number"] == number)
        wait_for("two ranks, or their end", lambda: len(cluster_lines(h, two)) == 2 or h.rows()[two]["state"] == "failed")
        os.unlink(gate)
        (index, rank, master, ports), = cluster_lines(h, one)
        assert (index, rank, ports) == (0, "-", [master]), (index, rank, master, ports)
        lines = cluster_lines(h, two)
        assert [(index, rank) for index, rank, _, _ in lines] == [(0, "0"), (1, "1")], lines
        assert len({tuple(p) for _, _, _, p in lines}) == 1 and len(set(lines[0][3] + ports)) == 3, (lines, ports)
        assert lines[0][3][0] == lines[0][2], "rank 0 is at MASTER_PORT"
        assert [h.wait_state(j, "finished", "failed")["state"] for j in (one, two)] == ["finished"] * 2


def test_a_cluster_of_the_job_itself_stays():
    """TF_CONFIG is changed for ranks only if it names as many workers."""
    config = json.dumps({"cluster": {"worker": ["a:1", "b:2", "c:3"], "ps": ["d:4"]}, "task": {"type": "ps", "index": 0}})
    show_it = [sys.executable, "-c", "import os; print(os.environ['TF_CONFIG'])"]
    for ranks, want in ((2, lambda rank: json.loads(config)),
                        (3, lambda rank: {**json.loads(config), "task": {"type": "worker", "index": rank}})):
        p = subprocess.run([harness.BERTH, "__ranks", str(ranks), "--", *show_it], env={**os.environ, "TF_CONFIG": config},
                           capture_output=True, text=True, timeout=120)
        said = dict(line[1:].split("] ", 1) for line in p.stdout.splitlines())
        assert {int(r): json.loads(text) for r, text in said.items()} == {r: want(r) for r in range(ranks)}, p.stdout


def test_ranks_end_together():
    """The launcher by itself: four ranks on a machine without GPUs."""
    h = Scheduler()
    try:
        h.script(RANKS)
        command = [harness.BERTH, "__ranks", "4", "--", sys.executable, h.code + "/t.py"]
        env = {**h.env, "NUM_NODES": "2", "NODE_RANK": "1"}
        p = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert p.returncode == 0 and "[7] rank 7 local 3 of 8 4\n" in p.stdout, (p.stdout, p.stderr)
        # The other ranks would sleep for ten minutes.
        p = subprocess.run(command, env={**env, "FAILS": "6"}, capture_output=True, text=True, timeout=120)
        assert p.returncode == 7, (p.returncode, p.stdout, p.stderr)
        q = subprocess.Popen(command, env={**env, "FAILS": "none"}, stdout=subprocess.PIPE, text=True)
        for _ in range(4):
            q.stdout.readline()
        q.send_signal(signal.SIGTERM)
        assert q.wait(timeout=120) == 128 + signal.SIGTERM
        q.stdout.close()
        p = subprocess.run([harness.BERTH, "__ranks", "2", "--", "/no/such/program"], env=env, capture_output=True, text=True)
        assert p.returncode == 127 and "/no/such/program" in p.stderr, (p.returncode, p.stderr)
    finally:
        h.close()


# ---- ports ----

SERVE = """
import os, socket
s = socket.create_server(("127.0.0.1", int(os.environ["LISTEN"])))
print("listening", flush=True)
while True:
    c, _ = s.accept()
    c.sendall(os.environ["BERTH_RUN"].encode())
    c.close()
"""


def ask(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as s:
            return s.recv(100).decode()
    except OSError:
        return ""


def test_ports():
    with Scheduler() as h:
        door, inner, second = free_port(), free_port(), free_port()
        args = (*h.script(SERVE), "--port_mapping", f"{door}:{inner},{second}:{second}", "--env", f"LISTEN={inner}")
        job = h.submit(*args)
        number = h.rows()[job]["number"]
        wait_for("the port", lambda: ask(door) == f"{number}.1")
        p = h.call("run-scheduler", *args, "again")
        assert p.returncode == 4 and str(door) in p.stderr, p.stderr
        h.daemon.send_signal(signal.SIGKILL)  # it comes back with the daemon
        h.daemon.wait()
        assert ask(door) == ""
        h.start(*h.serve)
        wait_for("the port again", lambda: ask(door) == f"{number}.1")
        assert h.call("scheduler-cancel-job", job).returncode == 0
        h.wait_state(job, "cancelled")
        wait_for("the port to be free", lambda: h.call("run-scheduler", *args, "next").returncode == 0)


def test_ports_of_other_jobs():
    with Scheduler() as h:
        door, inner = free_port(), free_port()
        h.script(SERVE)
        number = h.api("POST", "/v1/jobs", {"command": [sys.executable, h.code + "/t.py"], "ports": [f"{door}:{inner}"],
                                            "env": {"LISTEN": str(inner)}})["number"]
        wait_for("the port", lambda: ask(door) == f"{number}.1")


if __name__ == "__main__":
    harness.main(__name__)
