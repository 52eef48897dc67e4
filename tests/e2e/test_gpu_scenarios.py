"""GPU scheduling end to end: what the people who submit training jobs see.

Each test is a story with the real daemon, the four commands, fake devices and stand-in training loops
(training/).  "Correct" always means: epochs 0 … max-1 appear exactly once over all attempts, in order.
Ranks that stop together and a planner that is slow have files of their own (test_gpu_ranks.py,
test_gpu_slow_planner.py); long streams of jobs are simulated (tests/prop).
"""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time

import harness
from gpu_rig import TRAINING, GpuHome, wait_for
from harness import Skip


# ---- 1: alone ----

def words_of(path):
    """The recorded messages in the words of the protocol."""
    words, keys = [], []
    with open(path) as f:
        for line in f:
            method, where, body = line.rstrip("\n").split(" ", 2)
            kind = where.split("/")[1]
            value = json.loads(body) if body else {}
            if kind == "profiling":
                words.append(("record " if "epochDur" in value else "beat ") + str(value["iternum"]))
                keys.append(set(value))
            else:
                words.append("done %d" % value["done"] if kind == "end_epoch" else f"{method} {kind}")
    return words, keys


def expected_words(epochs, steps, every):
    words, count = [], -1
    for epoch in range(epochs):
        words.append("GET has_to_stop")
        for _ in range(steps):
            count += 1
            if count and count % every == 0:
                words.append(f"beat {count}")
        words += [f"record {count}", f"done {epoch + 1}"]
    return words


def alone(h, script, library=""):
    record = os.path.join(h.dir, f"messages-{script}{library}")
    env = {"STANDIN_RECORD": record, "STANDIN_LIBRARY": library, "STANDIN_SETUP_MS": 300}
    job = h.train(f"alone-{script}", script=script, epochs=3, steps=20, env=env)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", job), job
    h.wait_state(job, "running")
    row = h.finish(job, 3)
    assert row["epochs"] == "3/3", row
    assert row["attempts"] == 1 and not row["early"], row
    return h.output(job), record


def test_1_alone():
    with GpuHome() as h:
        for script in "LTP":
            output, record = alone(h, script)
            assert output.count("start attempt 1 restarted FALSE done 0 gpus 1") == 1, output
            every = int(re.search(r"heartbeat (\d+)", output).group(1))
            words, keys = words_of(record)
            assert words == expected_words(3, 20, every), words
            assert all({"jobid", "timestamp", "iternum", "numgpu", "rank", "meandur", "gpumem", "epoch"} <= k for k in keys)
        table = h.command("scheduler-state").stdout
        assert table.count("3/3") == 3 and "finished" in table, table


# ---- 2: preempt and resume ----

def preempted(h, script, **env):
    """A job makes room for an urgent one and goes on; the row of the first at its end."""
    job = h.train(f"long-{script}", script=script, epochs=6, steps=20, step_ms=20, est=20, disable_gpu_sharing=True, env=env)
    h.wait_epochs(job, 2)
    urgent = h.train("urgent", epochs=2, steps=20, step_ms=10, priority=5, disable_gpu_sharing=True)
    had = h.epochs_so_far(job)
    row = h.wait_state(job, "preempted")
    stopped = h.epochs_so_far(job)
    assert stopped <= had + 2, f"it had {had} epochs and stopped after {stopped}"
    assert row["epochs"] == f"{stopped}/6", row
    h.finish(urgent, 2)
    row = h.finish(job, 6)
    assert row["attempts"] == 2 and row["preemptions"] == 1, row
    first, second = h.starts(job)
    assert (first["restarted"], first["done"]) == ("FALSE", "0"), first
    assert (second["restarted"], second["done"]) == ("TRUE", str(stopped)), second
    urgent_attempts = {a for _, a, _ in h.epochs(urgent)}
    assert urgent_attempts == {1}, "the urgent job was stopped for the other"
    return job


def test_2_preempt_and_resume():
    for script in "PLT":
        with GpuHome() as h:
            job = preempted(h, script)
            root = os.path.join(h.snapshots, job)
            if script == "L":
                assert sorted(os.listdir(os.path.join(root, "lightning_logs"))) == ["version_0", "version_1"]


def test_2_separator_between_attempts():
    """One log for all attempts; a line tells where each begins."""
    with GpuHome() as h:
        job = preempted(h, "P")
        output = h.output(job)
        marks = [line for line in output.splitlines() if "attempt" in line and not line.startswith(("epoch", "start"))]
        assert len(marks) >= 2 and "attempt 1" in marks[0] and "attempt 2" in marks[-1], output


# ---- 3: the last epoch, the first epoch ----

def test_3_last_epoch_is_finished():
    with GpuHome() as h:
        job = h.train("short", epochs=2, steps=20, step_ms=40, disable_gpu_sharing=True)
        h.wait_epochs(job, 1)
        urgent = h.train("urgent", epochs=1, steps=5, priority=5, disable_gpu_sharing=True)
        row = h.finish(job, 2)
        assert row["attempts"] == 1, row
        h.finish(urgent, 1)


def test_3_cancel_before_the_first_epoch_ends():
    with GpuHome() as h:
        job = h.train("hopeless", epochs=3, steps=100000, step_ms=20)
        wait_for("the first step", lambda: h.state_of(job) == "running")
        h.command("scheduler-cancel-job", job[:13])
        h.wait_state(job, "cancelled", timeout=120)
        assert h.command("scheduler-cancel-job", job, check=False).returncode == 1
        assert h.command("scheduler-cancel-job", "ffffffff", check=False).returncode == 1


def kill_supervisor(h, job):
    """As if its node had failed: the shepherd's child that watches the run."""
    n = h.number(job)
    shepherd = h.shepherd_pid()
    mark = f"BERTH_JOB_NUMBER={n}".encode()
    processes = h.processes()
    for pid, (_, parent) in processes.items():
        with open(f"/proc/{pid}/environ", "rb") as f:
            if mark in f.read().split(b"\0"):
                while parent in processes and processes[parent][1] != shepherd:
                    parent = processes[parent][1]
                os.kill(parent, signal.SIGKILL)
                return
    raise AssertionError(f"job {n} has no process")


def test_3_lost_before_the_first_epoch_ends():
    with GpuHome() as h:
        job = h.train("unlucky", epochs=2, steps=20, step_ms=30)
        wait_for("the first step", lambda: "start attempt 1" in h.output(job))
        kill_supervisor(h, job)
        row = h.finish(job, 2)
        assert row["attempts"] == 2, row
        assert [s["restarted"] for s in h.starts(job)] == ["FALSE", "FALSE"]


# ---- 5: the original library ----

def nvidia_smi(h):
    os.symlink(os.path.join(TRAINING, "bin", "nvidia-smi"), os.path.join(h.bin, "nvidia-smi"))


def test_5_original_library():
    with GpuHome() as h:
        nvidia_smi(h)
        for script in "LTP":
            output, record = alone(h, script, library="original")
            words, _ = words_of(record)
            every = int(re.search(r"heartbeat (\d+)", output).group(1))
            # Its heartbeats come from threads: they may overtake, so only the rest has an order.
            assert [w for w in words if not w.startswith("beat")] == \
                [w for w in expected_words(3, 20, every) if not w.startswith("beat")], words
    for script in "PLT":
        with GpuHome() as h:
            nvidia_smi(h)
            preempted(h, script, STANDIN_LIBRARY="original")


def test_5_memory_not_measured():
    """gpumem 0 means nothing: the reservation stays."""
    with GpuHome(scale=1) as h:
        nvidia_smi(h)
        job = h.train("unseen", epochs=3, steps=10, estimated_memory=5000, env={"STANDIN_LIBRARY": "original"})
        row = h.finish(job, 3)
        assert row["reserved"] == 5000 and not row["measured_memory"], row


REPLAY = (
    ("GET", "/has_to_stop/{id}", None, b"0"),
    ("POST", "/profiling/{id}", '{{"jobid": "{id}", "timestamp": "2023-04-11T10:21:08.123456", "iternum": 4, '
     '"nodelist": "node1", "numgpu": 1, "rank": 0, "meandur": 0.2512, "gpumem": 0}}', None),
    ("POST", "/profiling/{id}", '{{"jobid": "{id}", "timestamp": "2023-04-11T10:21:09.5", "iternum": 5, '
     '"nodelist": "node1", "numgpu": 1, "rank": 0, "meandur": 0.2512, "gpumem": 0, "epochDur": 1.507}}', None),
    ("POST", "/end_epoch/{id}", '{{"done": 1}}', None),
    ("GET", "/has_to_stop/{id}", None, b"0"),
    ("POST", "/end_epoch/{id}", '{{"done": 1}}', None),  # another rank
    ("POST", "/signal_end_profiling/{id}/1x1", "", None),
    ("POST", "/signal_end/{id}", "", None),
)


def raw(where, data):
    """(status, body) of one request as bytes, on a connection of its own."""
    with socket.create_connection(where, 10) as s:
        s.sendall(data)
        reply = http.client.HTTPResponse(s)
        reply.begin()
        return reply.status, reply.read()


def test_5_replay_of_its_bytes():
    """The requests byte by byte as the HTTP package under the original sends them."""
    with GpuHome() as h:
        job = h.train("replayed", epochs=3, steps=1000, step_ms=50)
        where = h.endpoint(job)
        for method, path, body, answer in REPLAY:
            head = (f"{method} {path.format(id=job)} HTTP/1.1\r\nHost: {where[0]}:{where[1]}\r\n"
                    "User-Agent: python-requests/2.28.2\r\nAccept-Encoding: gzip, deflate\r\nAccept: */*\r\n"
                    "Connection: keep-alive\r\n")
            data = (body or "").format(id=job).encode()
            if method == "POST":
                head += f"Content-Length: {len(data)}\r\n"
            if data:
                head += "Content-Type: application/json\r\n"
            status, reply = raw(where, head.encode() + b"\r\n" + data)
            assert status == 200, (path, status, reply)
            assert answer is None or reply == answer, (path, reply)
        assert h.row(job)["epochs"] == "1/3"


def test_5_nonsense_changes_nothing():
    with GpuHome() as h:
        job = h.train("pestered", epochs=3, steps=1000, step_ms=50, estimated_memory=2000)
        where = h.endpoint(job)

        def post(path, body, more=""):
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{more}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            return raw(where, head.encode() + body)[0]

        unknown = "00000000-0000-4000-8000-000000000000"
        assert post(f"/end_epoch/{unknown}", b'{"done": 1}') == 404
        for body in (b'{"done": 5}', b'{"done": -1}', b'{"done": "x"}', b"{", b"[]"):
            assert post(f"/end_epoch/{job}", body) == 400, body
        for body in (b'{"meandur": -1}', b'{"meandur": 1e999}', b'{"gpumem": -5}', b'{"epochDur": NaN}', b"x" * 70000):
            assert post(f"/profiling/{job}", body) in (400, 413), body[:40]
        other = h.train("other", epochs=3, steps=1000, step_ms=50, estimated_memory=2000, env={"STANDIN_SHOW": "SCHED_TOKEN"})
        h.endpoint(other)
        token = re.search(r"^SCHED_TOKEN (\S+)$", h.output(other), re.M).group(1)
        for word in ("nonsense", token):
            assert post(f"/end_epoch/{job}", b'{"done": 1}', f"Authorization: Bearer {word}\r\n") in (401, 403), word
        assert post(f"/end_epoch/{other}", b'{"done": 1}', f"Authorization: Bearer {token}\r\n") == 200
        row = h.row(job)
        assert row["epochs"] == "0/3" and row["state"] == "running", row


# ---- 6: sharing ----

def overlap(h, *jobs):
    """Were they ever seen running at once?"""
    states = h.rows()
    return all(states[j]["state"] == "running" for j in jobs)


def test_6_two_share_a_third_waits_for_memory():
    with GpuHome(scale=1) as h:
        jobs = [h.train(f"half-{i}", epochs=1000, steps=20, estimated_memory=5000) for i in range(2)]
        wait_for("both run on one GPU", lambda: overlap(h, *jobs))
        for name, mib in (("third", 5000), ("large", 12000)):
            waits = h.train(name, epochs=3, steps=20, estimated_memory=mib)
            row = wait_for(f"{name} waits for memory", lambda: (r := h.row(waits))["wait_reason"].startswith("memory:") and r)
            assert row["state"] == "pending", row
        a, b = (h.row(j) for j in jobs)
        assert a["gpus"] == b["gpus"] == "1s", (a, b)
        assert a["shares_with"] and b["shares_with"], (a, b)
        wait_for("both said what they see", lambda: all(h.starts(j) for j in jobs))
        devices = {h.starts(j)[0]["devices"] for j in jobs}
        assert len(devices) == 1, "two jobs on one GPU see the same UUID"


def test_6_no_sharing_one_after_the_other():
    with GpuHome() as h:
        jobs = [h.train(f"alone-{i}", epochs=2, steps=20, estimated_memory=5000, disable_gpu_sharing=True) for i in range(3)]
        seen = 0

        def all_done():
            nonlocal seen
            states = [r["state"] for r in h.rows().values()]
            seen = max(seen, sum(s in ("running", "stopping") for s in states))
            return all(s == "finished" for s in states)

        wait_for("all three", all_done, 60)
        assert seen == 1, f"{seen} ran at once"
        for job in jobs:
            h.finish(job, 2)


def test_6_measured_more_than_estimated():
    with GpuHome(scale=1) as h:
        big = h.train("big", epochs=1000, steps=20, estimated_memory=2000, env={"STANDIN_MEM_MIB": 9000})
        row = wait_for("a new reservation", lambda: (r := h.row(big))["reserved"] > 2000 and r, 30)
        assert row["measured_memory"] == 9000, row
        assert row["reserved"] == 9920, row  # 9000 * 1.1, rounded up to 64
        other = h.train("other", epochs=3, steps=20, estimated_memory=6000)
        row = wait_for("a reason to wait", lambda: (r := h.row(other))["wait_reason"] and r)
        assert row["state"] == "pending" and "memory" in row["wait_reason"], row
        small = h.train("small", epochs=3, steps=20, estimated_memory=4000)
        h.finish(small, 3)


# ---- 7: elastic ----

def test_7_elastic():
    with GpuHome(gpus=4) as h:
        job = h.train("elastic", script="P", epochs=60, steps=40, step_ms=5, est=30, is_single_gpu=False, disable_gpu_sharing=True)
        h.wait_epochs(job, 3)
        assert max(g for _, _, g in h.epochs(job)) > 1, h.output(job)
        others = [h.train(f"one-{i}", epochs=6, steps=20, step_ms=5, disable_gpu_sharing=True) for i in range(3)]
        for other in others:
            h.finish(other, 6)
        h.finish(job, 60)
        counts = [int(s["gpus"]) for s in h.starts(job)]
        assert counts[0] > 1 and min(counts) < counts[0], counts
        for other in others:
            assert {g for _, _, g in h.epochs(other)} == {1}


def test_7_single_gpu_stays_single():
    with GpuHome(gpus=4) as h:
        job = h.train("single", epochs=8, steps=20, is_single_gpu=True)
        h.finish(job, 8)
        assert {g for _, _, g in h.epochs(job)} == {1}


# ---- 8: estimates ----

def test_8_estimate():
    with GpuHome(scale=1) as h:
        args = h.options(est=1)
        p = h.command("run-scheduler", *args, "short", check=False)
        assert p.returncode == 2 and "est_nhours" in p.stderr and p.stdout == "", (p.returncode, p.stderr)
        assert h.rows() == {}
        job = h.train("long", epochs=100, steps=20, est=10)
        assert abs(h.row(job)["estimate_hours"] - 10) < 0.01
        h.wait_epochs(job, 2)
        row = h.row(job)
        assert 0 < row["estimate_now_hours"] < 0.5, row  # 100 epochs of 0.1 s
        assert abs(row["estimate_hours"] - 10) < 0.01, row
        h.train("accepted", est=1.01)


def left_is_right(row, epochs, epoch_s):
    """LEFT against the work that is left, of epochs that each take as long."""
    real = epoch_s * (epochs - row["epochs_done"])
    assert real / 1.5 < row["left_s"] < real * 1.5, (real, row)


def test_8_families_scale_with_the_training_set():
    """A trial with few samples, then the same script with forty times as many.  The clock of the scripts is that of their
    steps: how busy the machine is makes no difference."""
    with GpuHome(scale=1) as h:
        few = {"epochs": 3, "steps": 3, "step_ms": 20, "est": None, "estimated_memory": 4000, "env": {"STANDIN_CLOCK": "steps"}}
        epoch_s = 120 * 0.02
        h.finish(h.train("trial", **few), 3)
        job = h.train("real", **{**few, "epochs": 300, "steps": 120})
        h.wait_state(job, "running")
        left_is_right(h.row(job), 300, epoch_s)  # of the family, scaled
        other = h.train("other", script="L", **{**few, "epochs": 3000, "steps": 20})
        wait_for("both on one GPU", lambda: h.row(job)["shares_with"] == [other])  # decided by the same figures
        wait_for("an epoch", lambda: h.row(job)["epochs_done"] >= 1)
        left_is_right(h.row(job), 300, epoch_s)
        assert abs(h.row(job)["epoch_s"] - epoch_s) < 0.01, h.row(job)
        urgent = h.train("urgent", **{**few, "step_ms": 800}, priority=5, disable_gpu_sharing=True)
        left_is_right(h.wait_state(job, "preempted"), 300, epoch_s)
        h.finish(urgent, 3)
        h.wait_state(job, "running")
        left_is_right(h.row(job), 300, epoch_s)


def test_8_overrun_gives_way_and_finishes():
    """The job says one hour and takes many: a normal one gets its GPU, and yet it ends."""
    with GpuHome() as h:
        late = h.train("late", epochs=40, steps=20, step_ms=10, est=1.01, disable_gpu_sharing=True)
        h.wait_epochs(late, 3)
        normal = h.train("normal", epochs=3, steps=20, step_ms=5, est=1.5, disable_gpu_sharing=True)
        h.finish(normal, 3)
        assert h.epochs_so_far(late) < 40
        row = h.finish(late, 40, timeout=90)
        assert row["preemptions"] >= 1, row


# ---- 9: ports and mounts ----

PORTS = """
import os, socket, sys, threading, time
from kubernetesdlprofile import kubeprofiler
print("custom", sorted(os.listdir("/custom")), flush=True)
open("/snapshots/written", "a").write("x")
open("/data/written", "a").write("x")
def serve(port):
    s = socket.create_server(("127.0.0.1", port))
    while True:
        c, _ = s.accept()
        c.sendall(b"port %d attempt %s" % (port, os.environ["BERTH_RUN"].split(".")[1].encode()))
        c.close()
for port in (6006, 7007):
    threading.Thread(target=serve, args=(port,), daemon=True).start()
prof = kubeprofiler.KubeProfiler()
for epoch in range(prof.EPOCHS_DONE, prof.EPOCHS):
    prof.start_epoch()
    for _ in range(20):
        time.sleep(0.01)
        prof.measure()
    print("epoch %d attempt %s gpus 1" % (epoch, os.environ["BERTH_RUN"].split(".")[1]), flush=True)
    prof.end_epoch()
"""


def may_mount():
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0


def ask(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as s:
            s.settimeout(2)
            return s.recv(100).decode()
    except OSError:
        return ""


def test_9_ports_and_mounts():
    if not may_mount():
        raise Skip("mount namespaces cannot be made here; SCHED_ROOT_* takes their place")
    with GpuHome() as h:
        custom = os.path.join(h.dir, "tests")
        home = os.path.join(h.dir, "user")
        os.makedirs(os.path.join(home, "datasets"))
        os.mkdir(custom)
        h.env["HOME"] = home
        with open(os.path.join(custom, "test1.py"), "w") as f:
            f.write(PORTS)
        options = {"script": "test1.py", "custom_dir": custom, "epochs": 10, "steps": 20, "disable_gpu_sharing": True,
                   "port_mapping": "31346:6006,31347:7007", "est": 20}
        job = h.train("served", **options)
        wait_for("both ports", lambda: ask(31346) == "port 6006 attempt 1" and ask(31347) == "port 7007 attempt 1")
        p = h.command("run-scheduler", *h.options(**options), "second", check=False)
        assert p.returncode in (2, 4) and "31346" in p.stderr, (p.returncode, p.stdout, p.stderr)
        h.wait_epochs(job, 2)
        urgent = h.train("urgent", epochs=2, steps=20, priority=5, disable_gpu_sharing=True)
        h.wait_state(job, "preempted")
        assert ask(31346) == "", "the port answers without a job behind it"
        h.finish(urgent, 2)
        wait_for("the ports again", lambda: ask(31346) == "port 6006 attempt 2" and ask(31347) == "port 7007 attempt 2")
        h.finish(job, 10)
        assert "custom ['test1.py']" in h.output(job), h.output(job)
        assert os.path.exists(os.path.join(h.snapshots, "written"))


def test_9_busy_port():
    with GpuHome() as h, socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        p = h.command("run-scheduler", *h.options(port_mapping=f"{port}:6006"), "busy", check=False)
        assert p.returncode in (2, 4) and str(port) in p.stderr, (p.returncode, p.stderr)
        for wrong in ("31346", "0:1", "31346:70000", "31346:1,31346:2", "31346 : 6006"):
            p = h.command("run-scheduler", *h.options(port_mapping=wrong), "wrong", check=False)
            assert p.returncode == 2 and "port_mapping" in p.stderr, (wrong, p.returncode, p.stderr)


# ---- 10: failure ----

def test_10_failure():
    with GpuHome() as h:
        job = h.train("bad", epochs=4, env={"STANDIN_EXIT": "1:3"})
        row = h.wait_state(job, "failed")
        assert row["exit"] == 3 and row["epochs"] == "1/4", row
        assert "told to fail" in h.output(job)


def test_10_supervisor_killed():
    with GpuHome() as h:
        job = h.train("survivor", epochs=6, steps=20, step_ms=40)
        wait_for("two epochs that are saved", lambda: h.api("GET", f"/v1/jobs/{job}")["training"]["confirmed"] == 2)
        kill_supervisor(h, job)  # in the 800 ms until the next is said to be done
        row = h.finish(job, 6)
        assert row["attempts"] == 2, row
        assert h.starts(job)[1]["restarted"] == "TRUE"


def test_10_server_killed():
    with GpuHome() as h:
        job = h.train("steady", script="L", epochs=8, steps=20, step_ms=10)
        # Far longer than the other, so that nothing is gained by letting it go first.
        other = h.train("waiting", epochs=2, steps=20, est=100, disable_gpu_sharing=True)
        for done in (2, 4, 6):
            h.wait_epochs(job, done)
            h.kill()
            time.sleep(0.3)
            h.serve_again()
        row = h.finish(job, 8)
        assert row["attempts"] == 1, row
        h.finish(other, 2)


if __name__ == "__main__":
    harness.main(__name__)
