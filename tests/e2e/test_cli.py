"""The command line as people type it: every command, embedded and with a daemon."""
import csv
import io
import json
import os
import pty
import pwd
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import fcntl

from harness import BERTH, Home, Skip, find_program, main, wait_for

ID = re.compile(r"^[0-9a-z]{26}$")
STATES = {"queued", "held", "starting", "running", "stopping", "succeeded", "failed", "cancelled", "lost"}


class home:
    """with home() as h: a home that is cleaned up; no daemon runs in it unless asked."""

    def __init__(self, serve=None):
        self.serve = serve

    def __enter__(self):
        self.h = Home()
        if self.serve is not None:
            self.h.start(*self.serve)
        return self.h

    def __exit__(self, *exc):
        self.h.close()


def write(h, name, text):
    path = os.path.join(h.dir, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def popen(h, *args, **kw):
    return subprocess.Popen([BERTH, *args], env=h.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **kw)


# ---- run: one command ----

def test_run_is_the_command():
    with home() as h:
        p = h.berth("run", "--", "echo", "hello  world")
        assert (p.stdout, p.stderr) == ("hello  world\n", ""), p
        assert h.berth("run", "-j", "4", "--", "sh", "-c", "exit 7", check=False).returncode == 7
        p = h.berth("run", "--", "sh", "-c", "kill -SEGV $$", check=False)
        assert p.returncode == 128 + signal.SIGSEGV and "SEGV" in p.stderr, p
        p = h.berth("run", "--", "/no/such/program", check=False)
        assert p.returncode == 127 and "/no/such/program" in p.stderr, p
        p = h.berth("run", "--timeout", "300ms", "--", "sleep", "20", check=False)
        assert p.returncode == 143 and "limit" in p.stderr, p
        assert h.berth("run", "echo a | tr a b").stdout == "b\n"
        assert h.berth("run", "echo", "-n", "--name", "x").stdout == "--name x"
        # Nothing is left behind: no daemon, and the home is free for the next.
        assert not os.path.exists(os.path.join(h.home, "sock")) or h.berth("run", "--", "true")


def test_run_output_is_whole_and_streams_split():
    with home() as h:
        p = h.berth("run", "--", "sh", "-c", "seq 1 200000")
        assert p.stdout == "".join(f"{i}\n" for i in range(1, 200001))
        p = h.berth("run", "--split-output", "--", "sh", "-c", "echo out; echo err >&2")
        assert (p.stdout, p.stderr) == ("out\n", "err\n"), p
        p = h.berth("run", "--retries", "2", "--backoff", "50ms", "--", "sh", "-c",
                    "echo try $BERTH_ATTEMPT; test $BERTH_ATTEMPT = 3")
        assert p.stdout == "try 1\ntry 2\ntry 3\n", p


def test_run_environment_and_directory():
    with home() as h:
        d = os.path.join(h.dir, "work dir")
        os.mkdir(d)
        p = h.berth("run", "-C", d, "--env", "K=V=W", "--param", "lr=0.1", "--", "sh", "-c",
                    "pwd; echo $K $MINE $BERTH_PARAMS {lr}", MINE="yes")
        assert p.stdout.splitlines() == [d, 'V=W yes {"lr":0.1} 0.1'], p


def test_run_interrupted():
    with home() as h:
        p = popen(h, "run", "--", "sh", "-c", "echo on; sleep 30")
        assert p.stdout.readline() == "on\n"
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=120)
        assert p.returncode == 130 and "cancelling job 1" in err, (p.returncode, err)
        # The second leaves at once; the job is still told to stop, and somebody records that.
        end = os.path.join(h.dir, "end")
        p = popen(h, "run", "--grace", "1h", "--", "sh", "-c", f"trap '' TERM; echo on; until test -e {end}; do sleep 0.1; done")
        assert p.stdout.readline() == "on\n"
        p.send_signal(signal.SIGINT)
        assert "cancelling job 2" in p.stderr.readline()
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=120)
        assert p.returncode == 130 and state(h, 2) == "stopping"
        open(end, "w").close()
        wait_for("job 2 is cancelled", lambda: state(h, 2) == "cancelled")


def state(h, job):
    return json.loads(h.berth("show", str(job), "-o", "json").stdout)[0]["state"]


def test_run_uses_the_daemon_and_takes_over():
    with home(["--slots", "2"]) as h:
        assert h.berth("run", "--", "echo", "hi").stdout == "hi\n"
        p = popen(h, "run", "--", "sh", "-c", "echo first; sleep 2; echo second; exit 3")
        assert p.stdout.readline() == "first\n"
        h.kill()
        out, err = p.communicate(timeout=120)
        assert (p.returncode, out) == (3, "second\n"), (p.returncode, out, err)


def test_run_leaves_no_job_stranded():
    with home() as h:
        first = popen(h, "run", "-j", "2", "--", "sh", "-c", "echo on; sleep 1.5")
        assert first.stdout.readline() == "on\n"
        number = h.berth("submit", "--", "sh", "-c", "sleep 2; exit 9").stdout.strip()
        out, err = first.communicate(timeout=120)
        assert first.returncode == 0 and "background daemon" in err, err
        # Nobody else starts one here.
        wait_for("it ended under that daemon",
              lambda: h.berth("wait", "--no-start", number, check=False).returncode == 9)


def test_run_says_why_it_waits():
    with home() as h:
        p = popen(h, "run", "--mem", "900T", "--", "true")
        line = p.stderr.readline()
        assert "job 1 waits" in line and "900T" in line, line
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=120)
        assert p.returncode == 130


# ---- run: a file ----

SWEEP = """
name: mnist
command: echo lr {lr} depth {depth} >> %s; sleep 0.2
params: {lr: [0.1, 0.01], depth: [3, 5]}
resources: {cpus: 0.1, mem: 20M, gpus: 0}
slots: 4
"""


def test_run_sweep():
    with home() as h:
        log = os.path.join(h.dir, "ran")
        path = write(h, "sweep.yaml", SWEEP % log)
        p = h.berth("run", path)
        assert "4 succeeded" in p.stdout and "lr=0.01 depth=5" in p.stdout, p.stdout
        assert sorted(open(log)) == sorted(f"lr {a} depth {b}\n" for a in ("0.1", "0.01") for b in (3, 5))
        p = h.berth("run", path)
        assert "--again" in p.stderr and len(open(log).readlines()) == 4, p.stderr
        h.berth("run", path, "--again")
        assert len(open(log).readlines()) == 8
        rows = json.loads(h.berth("run", path, "-o", "json").stdout)
        assert [r["number"] for r in rows] == [5, 6, 7, 8] and rows[0]["params"] == {"lr": 0.1, "depth": 3}
        # A changed file is another batch.
        write(h, "sweep.yaml", SWEEP % log + "priority: 1\n")
        h.berth("run", path)
        assert len(open(log).readlines()) == 12


def test_run_sweep_failures():
    with home() as h:
        flag = os.path.join(h.dir, "fixed")
        path = write(h, "s.json", json.dumps({"command": f"test {{i}} != 2 || test -e {flag}",
                                              "params": {"i": [1, 2, 3]}}))
        p = h.berth("run", path, check=False)
        assert p.returncode == 1 and "1 failed, 2 succeeded" in p.stdout, p
        assert h.berth("run", path, check=False).returncode == 1
        open(flag, "w").close()
        p = h.berth("run", path, "--retry-failed")
        assert "resuming: 2 of 3" in p.stderr and "3 succeeded" in p.stdout, p
        runs = json.loads(h.berth("show", "1", "2", "-o", "json").stdout)
        assert [len(r["runs"]) for r in runs] == [1, 2]


def test_run_sweep_is_resumable():
    with home() as h:
        log = os.path.join(h.dir, "ran")
        path = write(h, "s.yaml", f"command: 'echo {{index}} >> {log}; sleep 0.3'\narray: 12\nslots: 4\n")
        p = popen(h, "run", path)
        wait_for("three jobs ran", lambda: os.path.exists(log) and len(open(log).readlines()) > 3)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=120)
        assert p.returncode == 130 and "resumes" in err, err
        began = len(open(log).readlines())
        assert began < 12, "interrupted too late to tell"
        p = popen(h, "run", path)
        wait_for("more ran", lambda: len(open(log).readlines()) > began + 1)
        p.kill()
        p.wait()
        p = h.berth("run", path)
        assert "12 succeeded" in p.stdout, p.stdout
        # Whatever had succeeded before was not run again: only what Ctrl-C cancelled ran twice.
        ran = [int(x) for x in open(log)]
        assert set(ran) == set(range(12)) and len(ran) <= 12 + 4, ran


def test_run_sweep_wide():
    with home() as h:
        path = write(h, "s.yaml", "command: ['true']\narray: 400\n")
        p = h.berth("run", path, "-j", "8")
        assert "400 jobs in" in p.stdout and "Slowest" in p.stdout, p.stdout
        assert h.berth("run", path, "-q").stdout == ""


def test_run_file_with_one_job():
    with home() as h:
        path = write(h, "one.yaml", "command: echo one; exit 4\n")
        p = h.berth("run", path, check=False)
        assert (p.returncode, p.stdout) == (4, "one\n"), p
        p = h.berth("run", path, check=False)
        assert p.returncode == 4 and p.stdout == "" and "--again" in p.stderr, p
        assert h.berth("run", path, "--retry-failed", check=False).stdout == "one\none\n"


# ---- submit and the daemon that comes by itself ----

def test_submit_as_in_the_manual():
    with home() as h:
        first = h.berth("submit", "--", "true").stdout
        assert ID.match(first.strip()) and first.endswith("\n"), first
        p = h.berth("submit", "--name", "a", "--cpus", "2", "--mem", "4G", "--timeout", "2h", "--priority",
                    "5", "--after", "1", "--retries", "2", "--env", "K=V", "--project", "p", "--", "sh",
                    "-c", "echo $K")
        assert p.stderr == "" and ID.match(p.stdout.strip()), p
        job = json.loads(h.berth("show", p.stdout.strip(), "-o", "json").stdout)[0]
        for key, want in dict(name="a", cpus=2, mem_bytes=4 << 30, priority=5, project="p", number=2,
                              after=[1]).items():
            assert job[key] == want, (key, job[key])
        assert job["spec"]["timeout"] == 7200 and job["spec"]["retries"] == 2, job["spec"]
        if job["state"] == "queued":  # the host may be too small for it
            h.berth("cancel", "2")


def test_submit_forms():
    with home(["--slots", "4"]) as h:
        assert h.berth("submit", "--wait", "--", "sh", "-c", "exit 6", check=False).returncode == 6
        batch = h.berth("submit", "--array", "5", "--", "sh", "-c", "echo {index} $BERTH_INDEX").stdout.strip()
        assert h.berth("wait", "--batch", batch).returncode == 0
        rows = json.loads(h.berth("ls", "--batch", batch, "--sort", "id", "-o", "json").stdout)
        assert [r["index"] for r in rows] == list(range(5))
        assert h.berth("logs", str(rows[3]["number"])).stdout == "3 3\n"
        h.berth("submit", "--wait", "--param", "lr=[0.1,0.2]", "--name", "sweep", "--", "true")
        assert len(json.loads(h.berth("ls", "name:sweep", "-o", "json").stdout)) == 2
        spec = write(h, "job.yaml", "name: file\ncommand: [echo, from file]\ncwd: sub\n")
        os.mkdir(os.path.join(h.dir, "sub"))
        job = h.berth("submit", "--file", spec, "--wait", "--name", "renamed").stdout.strip()
        record = json.loads(h.berth("show", job, "-o", "json").stdout)[0]
        assert record["name"] == "renamed" and record["spec"]["cwd"] == os.path.join(h.dir, "sub")
        p = h.berth("submit", "--file", "-", input='{"command": "echo stdin"}')
        assert ID.match(p.stdout.strip())
        one = h.berth("submit", "--idempotency-key", "k", "--", "true").stdout
        assert h.berth("submit", "--idempotency-key", "k", "--", "true").stdout == one
        reply = json.loads(h.berth("submit", "-o", "json", "--", "true").stdout)
        assert {"id", "number", "name", "state"} <= set(reply)


def test_daemon_starts_by_itself_and_leaves():
    with home() as h:
        p = h.berth("ls", "--no-start", check=False)
        assert p.returncode == 69 and "no daemon" in p.stderr, p
        assert not h.processes()
        assert h.berth("ls").stdout == ""
        daemon = [pid for pid, (name, _) in h.processes().items() if name == "berth"]
        assert len(daemon) == 1, h.processes()
        os.kill(daemon[0], signal.SIGTERM)
        wait_for("it left", lambda: not os.path.exists(f"/proc/{daemon[0]}") or
              open(f"/proc/{daemon[0]}/stat").read().rsplit(")", 1)[1].split()[0] == "Z")
        # One that finds nothing to do leaves by itself, but not while a job runs.
        h.start("--auto", "--idle", "300ms")
        h.berth("submit", "--", "sleep", "1.5")
        h.disconnect()
        began = time.monotonic()
        h.daemon.wait(120)
        assert h.daemon.returncode == 0 and time.monotonic() - began > 1.4
        # Two at once: the second leaves without a word of blame.
        h.start()
        assert subprocess.run([BERTH, "serve", "--auto"], env=h.env, timeout=120).returncode == 0
        p = h.berth("serve", check=False)
        assert p.returncode == 75 and "another berth" in p.stderr, p


def test_many_commands_start_one_daemon():
    with home() as h:
        ps = [popen(h, "submit", "--", "true") for _ in range(6)]
        ids = {p.communicate(timeout=120)[0] for p in ps}
        assert len(ids) == 6 and all(p.returncode == 0 for p in ps)
        wait_for("one daemon", lambda: len([1 for n, _ in h.processes().values() if n == "berth"]) == 1)


# ---- looking ----

def fill(h):
    h.berth("submit", "--wait", "--name", "cnn-good", "--project", "vision", "--param", "lr=0.01", "--", "true")
    h.berth("submit", "--wait", "--name", "cnn-bad", "--project", "vision", "--param", "lr=0.05", "--", "false",
            check=False)
    h.berth("submit", "--wait", "--name", "cnn-high", "--param", "lr=0.5", "--", "false", check=False)
    h.berth("submit", "--name", "long", "--", "sleep", "60")
    h.berth("submit", "--name", "next", "--", "sleep", "60")
    wait_for("long runs", lambda: state(h, 4) == "running")
    wait_for("next waits", lambda: state(h, 5) == "queued")


def test_ls():
    with home(["--slots", "1"]) as h:
        fill(h)
        rows = json.loads(h.berth("ls", "-o", "json").stdout)
        assert len(rows) == 5
        for r in rows:
            assert {"id", "name", "state", "exit_code", "project", "params", "created", "started",
                    "ended"} <= set(r) and r["state"] in STATES
        names = lambda *a: [r["name"] for r in json.loads(h.berth("ls", "-o", "json", *a).stdout)]
        assert names("state:failed and name~cnn and lr<0.1") == ["cnn-bad"]
        assert names("state:failed", "name~CNN", "lr<0.1") == ["cnn-bad"]
        assert sorted(names("--project", "vision")) == ["cnn-bad", "cnn-good"]
        assert sorted(names("--state", "active")) == sorted(names("state:active")) == ["long", "next"]
        assert sorted(names("--state", "finished")) == sorted(names("state!=active"))
        assert len(h.api("GET", "/v1/jobs?state=active")["items"]) == 2
        assert names("--state", "failed", "--sort", "name") == ["cnn-bad", "cnn-high"]
        assert names("--sort", "-name", "-n", "2") == ["next", "long"]
        assert names("--user", "nobody-here") == []
        table = h.berth("ls").stdout.splitlines()
        assert table[0].split()[:3] == ["JOB", "NAME", "STATE"] and len(table) == 6
        assert "long" in table[1] and "next" in table[2]
        assert "\033" not in "".join(table)
        rows = list(csv.DictReader(io.StringIO(h.berth("ls", "-o", "csv", "--sort", "id").stdout)))
        assert [r["name"] for r in rows][:2] == ["cnn-good", "cnn-bad"] and rows[1]["exit_code"] == "1"
        assert json.loads(rows[0]["params"]) == {"lr": 0.01}
        p = h.berth("ls", "state:failed and", check=False)
        assert p.returncode == 2 and p.stderr.startswith("berth: "), p
        p = h.berth("ls", "--stat", "failed", check=False)
        assert p.returncode == 2 and "--state" in p.stderr, p


def test_a_bad_filter_is_named_once():
    with home() as h:
        p = h.berth("ls", "state:faild", check=False)
        assert p.returncode == 2, p
        assert p.stderr == 'berth: filter, column 7: "faild" is not a state; did you mean "failed"?\n', p


def test_show_logs_explain():
    with home(["--slots", "1"]) as h:
        fill(h)
        page = h.berth("show", "2").stdout
        assert page.startswith("job 2  cnn-bad  failed") and "lr=0.05" in page and "RUN" in page, page
        some = json.loads(h.berth("show", "2", "-o", "json").stdout)[0]
        assert h.berth("show", some["id"][:22]).stdout.startswith("job 2 ")
        p = h.berth("show", "99", check=False)
        assert p.returncode == 66 and "99" in p.stderr, p
        p = h.berth("explain", "5")
        assert p.stdout.startswith("job 5 is queued: ") and "slot" in p.stdout, p.stdout
        assert json.loads(h.berth("explain", "5", "-o", "json").stdout)[0]["waiting"] is True
        assert "running" in h.berth("explain", "4").stdout
        p = h.berth("logs", "5", check=False)
        assert p.returncode == 66 and "job 5" in p.stderr, p
        assert h.berth("nodes").stdout.splitlines()[1].split()[1:3] == ["1", "1/1"]
        assert json.loads(h.berth("nodes", "-o", "json").stdout)[0]["slots"] == 1
        assert "vision" in h.berth("projects").stdout


def test_no_daemon_from_inside_a_job():
    h = Home()
    try:
        p = h.berth("submit", "--", "true", check=False, BERTH_RUN="7.1")
        assert p.returncode == 69 and "inside a job" in p.stderr, p
        assert not h.processes()
    finally:
        h.close()


def test_logs():
    with home(["--slots", "2"]) as h:
        h.berth("submit", "--wait", "--retries", "1", "--backoff", "20ms", "--", "sh", "-c",
                "for i in 1 2 3; do echo run $BERTH_ATTEMPT line $i; done; exit 1", check=False)
        assert h.berth("logs", "1").stdout == "run 2 line 1\nrun 2 line 2\nrun 2 line 3\n"
        assert h.berth("logs", "--run", "1", "1").stdout.startswith("run 1 line 1\n")
        assert h.berth("logs", "-n", "2", "1").stdout == "run 2 line 2\nrun 2 line 3\n"
        assert h.berth("logs", "-n", "0", "1").stdout == ""
        assert h.berth("logs", "-n", "99", "1").stdout.count("\n") == 3
        h.berth("submit", "--wait", "--split-output", "--", "sh", "-c", "echo o; echo e >&2")
        assert h.berth("logs", "2").stdout == "o\n" and h.berth("logs", "--stderr", "2").stdout == "e\n"
        h.berth("submit", "--", "sh", "-c", "echo a; echo b; sleep 1; echo c; printf d")
        wait_for("two lines", lambda: h.berth("logs", "3", check=False).stdout == "a\nb\n")
        assert h.berth("logs", "-f", "3").stdout == "a\nb\nc\nd"
        h.berth("submit", "--", "sh", "-c", "echo a; echo b; sleep 1; echo c")
        wait_for("two lines", lambda: h.berth("logs", "4", check=False).stdout == "a\nb\n")
        assert h.berth("logs", "-f", "-n", "1", "4").stdout == "b\nc\n"
        h.berth("submit", "--wait", "--name", "silent", "--", "true")
        assert h.berth("logs", "-n", "3", "5").stdout == h.berth("logs", "5").stdout == ""
        # Following from before it starts to its end, across the death of the daemon: the follower calls the next one.
        h.berth("submit", "--after", "7", "--", "true", check=False)
        h.berth("submit", "--", "sh", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.4; done")
        number = json.loads(h.berth("ls", "-n", "1", "-o", "json").stdout)[0]["number"]
        p = popen(h, "logs", "-f", str(number))
        assert p.stdout.readline() == "1\n"
        h.kill()
        assert p.communicate(timeout=120)[0] == "2\n3\n4\n5\n6\n"


def test_wait_and_watch():
    with home(["--slots", "4"]) as h:
        watcher = popen(h, "watch")
        events = popen(h, "watch", "--since", "0", "-o", "json")
        wait_for("both watch", lambda: b"berth_http_streams 2\n" in h.request("GET", "/metrics")[2])
        for code in (0, 5, 3):
            h.berth("submit", "--name", f"exits-{code}", "--", "sh", "-c", f"sleep 0.3; exit {code}")
        assert h.berth("wait", "1", "2", "3", check=False).returncode == 5
        assert h.berth("wait", "1").returncode == 0
        h.berth("submit", "--", "sleep", "600")
        p = h.berth("wait", "--timeout", "300ms", "4", check=False)
        assert p.returncode == 124, p
        waiter = popen(h, "wait", "4")
        time.sleep(0.3)
        h.berth("cancel", "4")
        assert waiter.wait(120) == 143
        p = h.berth("wait", "77", check=False)
        assert p.returncode == 66, p
        text = ""
        for line in watcher.stdout:
            text += line
            if re.search(r"cancelled +job 4\b", line):
                break
        watcher.terminate()
        events.terminate()
        watcher.communicate()
        assert re.search(r"succeeded +job 1\b", text) and re.search(r"failed +job 2\b", text), text
        seqs = [json.loads(line)["seq"] for line in events.communicate()[0].splitlines()]
        assert seqs == sorted(set(seqs)) and seqs[0] == 1, seqs


# ---- changing ----

def test_cancel_retry_rm():
    with home(["--slots", "2"]) as h:
        h.berth("submit", "--array", "6", "--name", "many", "--", "sleep", "60")
        wait_for("job 1 runs", lambda: state(h, 1) == "running")
        h.berth("cancel", "1")
        assert h.berth("wait", "1", check=False).returncode == 143
        p = h.berth("cancel", "1")
        assert "already ended" in p.stderr, p
        p = h.berth("cancel", "--filter", "name:many", check=False)
        assert p.returncode == 2 and "--yes" in p.stderr and "5 jobs" in p.stderr, p
        h.berth("cancel", "--filter", "name:many", "--yes")
        wait_for("all cancelled", lambda: h.berth("ls", "--state", "active", "-o", "json").stdout == "[]\n")
        h.berth("retry", "2", "3")
        assert {state(h, 2), state(h, 3)} <= {"queued", "starting", "running"}
        p = h.berth("retry", "2", check=False)
        assert p.returncode == 75, p
        p = h.berth("rm", "2", check=False)
        assert p.returncode == 75 and "cancel" in p.stderr, p
        h.berth("rm", "1")
        assert h.berth("show", "1", check=False).returncode == 66
        p = h.berth("cancel", check=False)
        assert p.returncode == 2 and "--filter" in p.stderr, p
        p = h.berth("rm", "2", "--all", check=False)
        assert p.returncode == 2, p
        h.berth("cancel", "--all", "--yes")
        wait_for("all over", lambda: h.berth("ls", "--state", "active", "-o", "json").stdout == "[]\n")
        h.berth("rm", "--all", "--yes")
        assert h.berth("ls", "-o", "json").stdout == "[]\n"


def test_queue_and_drain():
    with home(["--slots", "2"]) as h:
        h.berth("queue", "pause")
        h.berth("submit", "--", "true")
        h.berth("submit", "--queue", "other", "--wait", "--", "true")
        assert state(h, 1) == "queued" and "paused" in h.berth("explain", "1").stdout
        queues = {q["name"]: q["paused"] for q in json.loads(h.berth("queue", "-o", "json").stdout)}
        assert queues == {"default": True, "other": False}, queues
        h.berth("queue", "resume")
        assert h.berth("wait", "1").returncode == 0
        assert h.berth("queue", "stop", check=False).returncode == 2
        node = json.loads(h.berth("nodes", "-o", "json").stdout)[0]["name"]
        h.berth("nodes", "--drain", node)
        h.berth("submit", "--", "true")
        time.sleep(0.3)
        assert state(h, 3) == "queued"
        h.berth("nodes", "--undrain", node)
        assert h.berth("wait", "3").returncode == 0


def quick_then_long(h, n):
    """Forty very short jobs, then n that last until the file `go` is there: Berth still takes those for short and sends
    them ahead to the shepherd.  Returns a function that tells how the n are."""
    h.berth("submit", "--array", "40", "--wait", "--", "true")
    h.berth("submit", "--array", str(n), "--", "sh", "-c", f"until test -e {h.dir}/go; do sleep 0.02; done")

    def long_jobs():
        jobs = [j for j in h.jobs() if j["number"] > 40]
        return sorted((j["number"], j["state"], j["attempt"], j["reason"]) for j in jobs)
    return long_jobs


def assert_each_ran_once(h):
    write(h, "go", "")
    assert h.wait_all()["succeeded"] == h.api("GET", "/v1/jobs/summary")["total"]
    assert h.berth("ls", "--all", "attempt>1", "-o", "json").stdout == "[]\n"
    assert {len(h.api("GET", f"/v1/jobs/{j['number']}")["runs"]) for j in h.jobs()} == {1}


def test_starts_sent_ahead_leave_no_trace():
    with home(["--slots", "2"]) as h:
        long_jobs = quick_then_long(h, 10)
        running = [(n, "running", 1, None) for n in (41, 42)]
        wait_for("two run, the others wait", lambda: [s for _, s, _, _ in long_jobs()].count("running") == 2)
        wait_for("the others wait", lambda: {s for _, s, _, _ in long_jobs()} == {"running", "queued"})
        waiting = [(n, "queued", 0, None) for n in range(43, 51)]
        assert long_jobs() == running + waiting, long_jobs()
        h.berth("hold", *map(str, range(43, 51)))  # answered when all were taken back
        assert long_jobs() == running + [(n, "held", 0, "held by " + pwd.getpwuid(os.getuid()).pw_name) for n in range(43, 51)]
        assert h.api("GET", "/v1/jobs/43")["runs"] == []
        h.berth("release", *map(str, range(43, 51)))
        assert long_jobs() == running + waiting, long_jobs()
        assert_each_ran_once(h)


def test_a_job_sent_ahead_is_held_and_cancelled_like_any_that_waits():
    with home(["--slots", "2"]) as h:
        long_jobs = quick_then_long(h, 8)
        h.berth("hold", "44", "46", "48")
        h.berth("cancel", "45")
        wait_for("two run", lambda: [s for _, s, _, _ in long_jobs()].count("running") == 2)
        states = {n: (s, a) for n, s, a, _ in long_jobs()}
        assert states == {41: ("running", 1), 42: ("running", 1), 43: ("queued", 0), 44: ("held", 0), 45: ("cancelled", 0),
                          46: ("held", 0), 47: ("queued", 0), 48: ("held", 0)}, states
        assert h.api("GET", "/v1/jobs/45")["runs"] == []
        h.berth("release", "44", "46", "48")
        h.berth("rm", "45")
        assert_each_ran_once(h)


def test_starts_sent_ahead_survive_the_daemon_unseen():
    with home(["--slots", "2"]) as h:
        long_jobs = quick_then_long(h, 10)
        h.kill()
        h.start("--slots", "2")
        wait_for("two run, the others wait", lambda: sorted(s for _, s, _, _ in long_jobs()) == ["queued"] * 8 + ["running"] * 2)
        assert [(a, r) for _, s, a, r in long_jobs() if s == "queued"] == [(0, None)] * 8, long_jobs()
        assert_each_ran_once(h)
        assert "no fault found" in h.berth("doctor", check=False).stdout


def test_hold_and_release():
    with home(["--slots", "1"]) as h:
        h.berth("submit", "--", "sleep", "60")
        wait_for("it runs", lambda: state(h, 1) == "running")
        h.berth("submit", "--", "true")
        h.berth("submit", "--hold", "--", "true")
        h.berth("submit", "--after", "3", "--", "true")
        h.berth("hold", "2")
        assert [state(h, n) for n in (2, 3, 4)] == ["held", "held", "queued"]
        assert "is held" in h.berth("explain", "2").stdout
        held = json.loads(h.berth("ls", "state:held", "-o", "json").stdout)
        assert {j["number"] for j in held} == {2, 3} and held[0]["state"] == "held", held
        p = h.berth("hold", "1", check=False)
        assert p.returncode == 75 and "no longer queued" in p.stderr, (p.returncode, p.stderr)
        try:
            h.api("POST", "/v1/jobs/1/hold")
            raise AssertionError("a running job was held")
        except Exception as e:  # noqa: BLE001
            assert "only waiting jobs can be held" in str(e), e
        h.kill()
        h.start("--slots", "1")
        h.berth("cancel", "1")
        wait_for("it ended", lambda: state(h, 1) == "cancelled")
        assert [state(h, n) for n in (2, 3, 4)] == ["held", "held", "queued"]
        h.berth("cancel", "2")
        assert state(h, 2) == "cancelled"
        h.berth("release", "3")
        assert h.berth("wait", "3", "4").returncode == 0
        assert h.berth("release", "3").returncode == 0  # nothing to do
        kinds = [e["kind"] for e in h.api("GET", "/v1/jobs/3/events")["items"]]
        assert kinds[:2] == ["job.held", "job.queued"], kinds


def test_user_limit():
    with home(["--slots", "4", "--user-limit", "2"]) as h:
        h.berth("submit", "--array", "3", "--", "sleep", "30")
        wait_for("two run", lambda: [state(h, n) for n in (1, 2)] == ["running", "running"])
        said = h.berth("explain", "3").stdout
        assert f"user {pwd.getpwuid(os.getuid()).pw_name} is limited to 2 running jobs" in said, said
        assert json.loads(h.berth("explain", "3", "-o", "json").stdout)[0]["kind"] == "user_slots"
        h.kill()
        h.start("--slots", "4", "--user-limit", "2")  # what ran before still counts
        assert state(h, 3) == "queued"
        h.berth("cancel", "1")
        wait_for("the third runs", lambda: state(h, 3) == "running")
        h.berth("cancel", "--all", "--yes")
    with home() as h:
        p = h.berth("serve", "--user-limit", "0", check=False)
        assert p.returncode == 2 and "--user-limit must be between 1 and 100000" in p.stderr, p.stderr


# ---- daemon and data ----

def test_doctor_and_backup():
    with home() as h:
        rows = json.loads(h.berth("doctor", "-o", "json").stdout)
        assert {"home", "disk", "daemon", "shepherd", "store", "cgroups", "clock", "libraries",
                "python"} <= {r["check"] for r in rows}
        text = next(r["finding"] for r in rows if r["check"] == "libraries")
        assert re.fullmatch(r"libcurl.so.4 (found|missing), libssl.so.3 (found|missing), libarchive.so.13 (found|missing)", text), text
        assert not h.processes(), "doctor started something"
        h.berth("run", "--", "true")
        h.start()
        assert "no fault found" in h.berth("doctor").stdout
        copy = os.path.join(h.dir, "copy.db")
        h.berth("backup", copy)
        assert os.path.getsize(copy) > 10000
        h.stop()
        os.chmod(h.home, 0o777)
        p = h.berth("doctor", check=False)
        assert p.returncode == 1 and "chmod" in p.stdout, p
        os.chmod(h.home, 0o700)
        with open(os.path.join(h.home, "berth.db"), "r+b") as f:
            f.seek(4096)
            f.write(b"\xff" * 8192)
        p = h.berth("doctor", check=False)
        assert p.returncode == 1 and re.search(r"^fail  store", p.stdout, re.M), p.stdout


def test_tcp_with_a_token():
    with home(["--listen", ":0"]) as h:
        url = wait_for("the address", lambda: re.search(r"http://127\.0\.0\.1:\d+", h.log_text()))[0]
        try:
            import ctypes
            ctypes.CDLL("libcurl.so.4")
        except OSError:
            raise Skip("libcurl is not installed")
        assert h.berth("ls", "--server", url, "-o", "json").stdout == "[]\n"
        other = os.path.join(h.dir, "elsewhere")
        p = h.berth("ls", check=False, BERTH_HOME=other, BERTH_URL=url)
        assert p.returncode == 77, p
        token = open(os.path.join(h.home, "token")).read().strip()
        assert h.berth("ls", "-o", "json", BERTH_HOME=other, BERTH_URL=url, BERTH_TOKEN=token).returncode == 0
        p = h.berth("submit", "--token-file", os.path.join(h.home, "token"), "--wait", "--", "true",
                    BERTH_HOME=other, BERTH_URL=url)
        assert not os.path.exists(other)


def test_help_man_completion():
    with home() as h:
        names = re.findall(r"^  ([a-z]+) +\S", h.berth("help").stdout.split("Start here")[0], re.M)
        assert len(names) >= 22, names
        for name in names:
            p = h.berth(name, "--help")
            assert p.stdout.startswith(f"Usage: berth {name}") and p.stderr == "", name
            assert h.berth("help", name).stdout == p.stdout
            assert h.berth("man", name).stdout.startswith('.\\"'), name
        assert h.berth("--version").stdout == h.berth("version").stdout
        assert h.berth(check=False).returncode == 2
        p = h.berth("sumbit", check=False)
        assert p.returncode == 2 and "'submit'" in p.stderr, p
        for shell in ("bash", "zsh", "fish"):
            assert "berth" in h.berth("completion", shell).stdout
        assert json.loads(h.berth("schema", "job").stdout)["properties"]["command"]
        assert json.loads(h.berth("schema", "sweep").stdout)
        assert not h.processes()
        assert h.berth("complete-words", "job", check=False).stdout == "" and not h.processes()
        h.berth("submit", "--wait", "--", "true")
        assert h.berth("complete-words", "job").stdout == "1\n"
        # A full disk or a closed pipe is not a success.
        with open("/dev/full", "w") as full:
            p = subprocess.run([BERTH, "help"], env=h.env, stdout=full, stderr=subprocess.PIPE)
        assert p.returncode == 74, p


def test_many_calls_read_a_whole_list():
    with home(["--slots", "1"]) as h:
        h.berth("queue", "pause")
        h.berth("submit", "--array", "3000", "--", "true")
        rows = json.loads(h.berth("ls", "-o", "json").stdout)
        assert sorted(r["number"] for r in rows) == list(range(1, 3001))
        assert len(h.berth("ls").stdout.splitlines()) == 21
        assert len(h.berth("ls", "-n", "1500").stdout.splitlines()) == 1501
        h.berth("cancel", "--all", "--yes")
        counts = [r["state"] for r in json.loads(h.berth("ls", "-a", "-o", "json").stdout)]
        assert counts == ["cancelled"] * 3000


# ---- the small client and the full program ----

def test_both_programs_say_the_same():
    full = find_program("berth-full")
    with home(["--slots", "1"]) as h:
        def by(program, *args):
            p = subprocess.run([program, *args], env=h.env, capture_output=True, text=True, timeout=120)
            return p.returncode, p.stdout, p.stderr

        def at_rest(args):
            """Both answers, the full program's taken while the other's did not change: ages count on."""
            for _ in range(50):
                before, other, after = by(BERTH, *args), by(full, *args), by(BERTH, *args)
                if before == after:
                    return before, other
            raise AssertionError(f"{args} never gives the same answer twice: {before} and {after}")

        h.berth("submit", "--wait", "--name", "first", "--param", "lr=0.1", "--", "echo", "hello")
        h.berth("submit", "--", "sleep", "300")
        h.berth("submit", "--after", "2", "--", "true")
        for line in ("ls -o csv", "ls -o json", "ls name:first", "show 1 -o json", "logs 1", "wait 1", "explain 3",
                     "projects", "queue list", "nodes", "ls --stat failed", "show 99", "cancel", "retry 2", "rm 2",
                     "submit", "submit --cpus many -- true", "submit --file /nonexistent.yaml"):
            ours, others = at_rest(line.split())
            assert ours == others, f"{line}: {ours} and {others}"
        h.berth("cancel", "2", "3")


def test_the_client_alone():
    with home(["--slots", "1"]) as h:
        alone = os.path.join(h.dir, "alone")
        os.mkdir(alone)
        shutil.copy(BERTH, alone)
        small = os.path.join(alone, "berth")
        p = subprocess.run([small, "submit", "--", "true"], env=h.env, capture_output=True, text=True)
        assert p.returncode == 0 and len(p.stdout) == 27, p
        p = subprocess.run([small, "version"], env=h.env, capture_output=True, text=True)
        assert p.returncode == 127 and "berth-full" in p.stderr and alone in p.stderr, p
        # Installed as a package has it, and called by another name through a link.
        os.makedirs(os.path.join(h.dir, "libexec/berth"))
        os.symlink(find_program("berth-full"), os.path.join(h.dir, "libexec/berth/berth-full"))
        os.symlink(small, os.path.join(h.dir, "berthd"))
        p = subprocess.run([os.path.join(h.dir, "berthd"), "--help"], env=h.env, capture_output=True, text=True)
        assert p.stdout.startswith("Usage: berth serve"), p


# ---- the full screen ----

class Screen:
    """A terminal of a given size with a command in it; text as it was sent, escapes and all."""

    def __init__(self, h, args, rows=24, cols=100, **env):
        try:
            self.pid, self.fd = pty.fork()
        except OSError as e:
            raise Skip(f"no terminal to be had: {e}")
        if self.pid == 0:
            self.fd = 0
            self.resize(rows, cols)
            os.execve(BERTH, ["berth", *args], {**h.env, "TERM": "xterm-256color", **env})
        self.text = ""

    def resize(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and select.select([self.fd], [], [], 0.05)[0]:
            try:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                break

    def expect(self, what, timeout=120):
        def look():
            self.read(0.2)
            return re.search(what, self.text)
        return wait_for(f"{what!r} on the screen, which shows {self.text[-1500:]!r}", look, timeout)

    def keys(self, text):
        self.text = ""
        os.write(self.fd, text.encode())

    def end(self, timeout=120):
        for _ in range(int(timeout / 0.05)):
            self.read(0.1)
            time.sleep(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.read(0.5)  # what it said last
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("it did not leave")


def test_top():
    with home(["--slots", "1"]) as h:
        h.berth("submit", "--name", "talks", "--", "sh", "-c", "echo some output; sleep 60")
        h.berth("submit", "--array", "3", "--name", "waits", "--", "true")
        s = Screen(h, ["top"])
        s.expect(r"slots .* 1/1")
        s.expect(r"1 running, 3 queued")
        assert "\033[?1049h" in s.text
        s.keys("l")
        s.expect("some output")
        s.keys("q")
        s.expect("STATE")
        s.keys("\033[B")
        s.expect("STATE")
        s.keys("l")
        s.expect("no output yet")
        s.keys("\033")
        s.expect("STATE")
        s.keys("c")
        s.expect(r"cancel job 2\? y/n")
        s.keys("y")
        s.expect("job 2: stopping")
        wait_for("job 2 is cancelled", lambda: state(h, 2) == "cancelled")
        s.keys("/")
        s.expect("filter: _")
        s.keys("name:talks")
        s.expect("filter: name:talks_")
        s.keys("\r")
        s.expect(r"1 running.*filter: name:talks")
        s.resize(12, 60)
        s.keys("s")
        s.expect("sorted by -created")
        frame = s.text[s.text.rindex("\033[H"):]
        assert frame.count("\r\n") == 11, frame
        s.keys("q")
        assert s.end() == 0 and "\033[?1049l" in s.text
        p = h.berth("top", check=False)
        assert p.returncode == 2 and "terminal" in p.stderr, p


def test_terminal_tables_and_questions():
    with home(["--slots", "1"]) as h:
        h.berth("submit", "--name", "x" * 150, "--param", "text=" + "long " * 40, "--", "sleep", "60")
        h.berth("submit", "--", "true")
        colour = dict(NO_COLOR="")
        s = Screen(h, ["ls"], cols=70, **colour)
        s.end()
        assert "\033[" in s.text and "…" in s.text, s.text
        plain = re.sub(r"\033\[[0-9;]*m", "", s.text)
        assert all(len(line) <= 70 for line in plain.splitlines()), plain
        s = Screen(h, ["ls"], cols=70)
        s.end()
        assert "\033" not in s.text, s.text
        s = Screen(h, ["cancel", "--all"])
        s.expect(r"cancel 2 jobs\? \[y/N\]")
        s.keys("n\n")
        assert s.end() == 1 and state(h, 2) == "queued"
        s = Screen(h, ["cancel", "--all"])
        s.expect(r"\[y/N\]")
        s.keys("y\n")
        assert s.end() == 0
        wait_for("all over", lambda: h.berth("ls", "--state", "active", "-o", "json").stdout == "[]\n")


def test_progress_bar():
    with home() as h:
        path = write(h, "s.yaml", "name: bar\ncommand: sleep 0.5\narray: 8\nslots: 2\n")
        s = Screen(h, ["run", path], cols=90)
        s.expect(r"bar [█░]+ \d/8")
        s.expect("8 succeeded")
        assert s.end() == 0


if __name__ == "__main__":
    main(__name__)
